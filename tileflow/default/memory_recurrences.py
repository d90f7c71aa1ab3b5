"""Recurrences through memory: loops whose turns load what the turns before stored, as tables of dynamic programming."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ..config import Choice
from ..ir.attributes import AccessAttrs, TileAttrs
from ..ir.graph import Block, KernelIR, walk
from ..ir.kinds import OpKind
from ..ir.op_table import OPS
from ..ir.opdef import Trait
from ..space.knobs import NUM_WARPS
from ..target import Target
from .lanes import is_long
from .recurrences import NEARLY, SCHEDULERS
from .sizes import chosen_sizes, pow2, programs

LANE_ELEMENTS = 8  # of a turn's largest tile
MOST_OF_A_LANE = 32  # of that of the smallest blocks


def memory_recurrence_config(ir: KernelIR, blocks: Mapping[str, int], target: Target) -> dict[str, Choice]:
    """One warp and few elements a lane, where turns hand on through memory and lanes meet in them: each turn waits for
    what the one before stored, and other programs work meanwhile. Breaks of lines took 691 us by four warps over 8
    paragraphs, 353 by one; compound losses 1139 us by eight warps over 32 portfolios, 648 by one over 16, 341 over 8,
    227 over 4 (H200, 2026-11-29). ``blocks``: the sizes so far. Empty for others, and where programs are few."""
    turns = [op.regions[0] for op in ir.walk() if op.kind is OpKind.FOR and is_long(ir, TileAttrs.of(op).tile)]
    turns = [turn for turn in turns if _hands_on(ir, turn)]
    grid = {ir.tiles[name].block.args[0] for name in ir.grid if ir.tiles[name].block.op == "sym"} & blocks.keys()
    if not turns or target.vendor != "nvidia":
        return {}
    sizes = dict(blocks)
    while _largest(ir, turns, sizes) > LANE_ELEMENTS * target.warp_size:
        widest = max(grid, key=sizes.__getitem__, default="")
        if not widest or sizes[widest] == 1:
            break
        sizes[widest] //= 2
    is_small = _largest(ir, turns, sizes) <= MOST_OF_A_LANE * target.warp_size
    enough = programs(ir, sizes) >= NEARLY * SCHEDULERS * target.sm_count
    return {**sizes, NUM_WARPS.name(ir): 1} if is_small and enough else {}


def _hands_on(ir: KernelIR, turn: Block) -> bool:
    """Whether a turn loads from a tensor that turns store into, and its lanes exchange what they have."""
    ops = list(walk(turn))
    stored = {AccessAttrs.of(op).tensor for op in ops if op.kind is OpKind.STORE}
    loaded = {path for op in ops if op.kind is OpKind.LOAD for path in ir.sharing(AccessAttrs.of(op).tensor)}
    return bool(stored & loaded) and any(OPS[op.kind].traits & Trait.COLLECTIVE for op in ops)


def _largest(ir: KernelIR, turns: list[Block], sizes: Mapping[str, int]) -> int:
    """Elements of the largest tile of a turn."""
    known = chosen_sizes(ir, sizes)
    values = (v for turn in turns for op in walk(turn) for v in op.outputs)
    return max(prod(pow2(d.extent.evaluate(known)) for d in v.dims) for v in values)
