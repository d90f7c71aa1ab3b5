"""First blocks of loops that sum step by step what each lane loads for itself, as a correlation over channels does.

No turn waits for another, so that nothing need be copied ahead: many warps with few elements a lane hide their loads,
and copies of four bytes cost more than they hide. 336 us for 641 with three stages (9 x 9 displacements of 128 channels
of 96 x 128 pixels, H200, by hand, 2026-11-26; docs/measurements/default-rules.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ..config import Choice
from ..ir.attributes import TileAttrs
from ..ir.graph import KernelIR, Op, walk
from ..ir.kinds import OpKind
from ..ir.op_table import OPS
from ..ir.opdef import Trait
from ..space.knobs import NUM_STAGES, NUM_WARPS
from ..target import Target
from .lanes import is_long
from .recurrences import is_sum, loads_ahead
from .sizes import block_symbols, pow2, programs

LANE_ELEMENTS = 4
MOST_WARPS = 8
BUSY = 32  # warps of a multiprocessor, of 64, from which on they hide each other's loads


def step_sum_config(ir: KernelIR, blocks: Mapping[str, int], target: Target) -> dict[str, Choice]:
    """The knobs of a region of such loops alone; empty for others, and where programs are too few. ``blocks``: the
    sizes for moving bytes, which stay."""
    loops = [op for op in ir.walk() if op.kind is OpKind.FOR]
    if not loops or not all(_sums_lanes(ir, loop) for loop in loops):
        return {}
    tiles = (prod(blocks.get(s, 1) for s in block_symbols(ir, v)) for op in ir.walk() for v in op.outputs)
    warps = min(max(pow2(max(tiles)) // (LANE_ELEMENTS * target.warp_size), 1), MOST_WARPS)
    if programs(ir, blocks) * warps < BUSY * target.sm_count:
        return {}
    return {NUM_WARPS.name(ir): warps, NUM_STAGES.name(ir): 1}


def _sums_lanes(ir: KernelIR, loop: Op) -> bool:
    name = TileAttrs.of(loop).tile
    (turn,) = loop.regions
    if not is_long(ir, name) or not loads_ahead(turn, name):
        return False
    if any(op.kind is OpKind.FOR or OPS[op.kind].traits & Trait.COLLECTIVE for op in walk(turn)):
        return False
    carried = [(p, r) for p, r in zip(turn.params, turn.results, strict=True) if p.dims]
    loads = [block_symbols(ir, op.output) for op in walk(turn) if op.kind is OpKind.LOAD and op.output.dims]
    return bool(carried and loads) and all(
        is_sum(turn, p, r) and all(load == block_symbols(ir, p) for load in loads) for p, r in carried
    )
