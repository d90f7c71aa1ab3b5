"""Warps of programs whose tiles are all the author's own: no block to choose, a matrix or a row for each program.

What lanes exchange goes through shared memory and a barrier where warps are several, which a small tile pays for at
each sum, so that a program has as few warps as its registers and the machine allow. By hand on an H200
(docs/measurements/default-rules.md): 1.1 to 1.4 times the speed of four warps.
"""

from __future__ import annotations

from ..config import Choice
from ..ir.graph import Block, KernelIR, walk
from ..ir.kinds import OpKind
from ..ir.op_table import OPS
from ..ir.opdef import Trait
from ..space.knobs import NUM_WARPS
from ..target import Target
from .recurrences import SCHEDULERS
from .sizes import programs
from .small_tiles import held_elements

LANE_ELEMENTS = 64  # of a tile that turns exchange
LANE_LOADS = 16  # of one that a program loads, sums and stores
LONE = 2  # warps that one does the work of, without a barrier
RESIDENT = 2  # programs of a scheduler: one computes while the other waits


def whole_tile_warps(ir: KernelIR, target: Target, warps: int) -> dict[str, Choice]:
    """The warps of a region without blocks whose lanes exchange what they hold; empty for others. ``warps``: for moving
    bytes, which where no loop has exchanges are the most. In place of two warps there is one: rows of a tensor train
    took 498 us by two and 163 by one, lengths of runs 160 and 168 (H100, by hand, 2026-11-28)."""
    if not _exchanges(ir.body):
        return {}
    held = held_elements(ir)
    in_turns = any(_exchanges(region) for op in ir.walk() if op.kind is OpKind.FOR for region in op.regions)
    fewest = max(held // ((LANE_ELEMENTS if in_turns else LANE_LOADS) * target.warp_size), 1)
    fewest = 1 if fewest <= LONE else fewest
    while fewest * target.warp_size < held and fewest * programs(ir, {}) < RESIDENT * SCHEDULERS * target.sm_count:
        fewest *= 2
    return {NUM_WARPS.name(ir): min(fewest, 1024 // target.warp_size) if in_turns else min(fewest, warps)}


def _exchanges(block: Block) -> bool:
    """Whether lanes need what others hold: by a sum, a sort, or a place in a tile."""
    return any(OPS[op.kind].traits & Trait.COLLECTIVE or op.kind in (OpKind.GATHER, OpKind.SORT) for op in walk(block))
