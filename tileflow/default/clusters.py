"""Rows that the blocks of a cluster hold together by default: long ones of float32 that no multiprocessor holds.

Read in a loop such a row is read twice. Measured for softmax of 131072 float32 (docs/measurements/performance.md,
*Softmax of long rows*): 8 blocks of 8 warps were the fastest. Rows of half types gain less or lose: they keep their
loop.
"""

from __future__ import annotations

from ..config import Choice
from ..ir.graph import KernelIR
from ..ir.kinds import OpKind
from ..ir.pressure import live_tiles
from ..passes.clusters import Row, clustered_row
from ..space.clusters import cluster_refusal
from ..space.knobs import BLOCK, CTAS, NUM_WARPS
from ..target import Target
from .sizes import pow2

BLOCKS = 8
WARPS = 8
MOST_LIVE = 192  # of a thread, by the count of live tiles: softmax has three; of four nothing was measured


def cluster_config(ir: KernelIR, target: Target) -> dict[str, Choice]:
    """The knobs of a region whose rows a cluster holds; empty where they are better held, or read, otherwise."""
    row = clustered_row(ir)
    if not isinstance(row, Row) or cluster_refusal(ir, target):
        return {}
    size = pow2(ir.hint(row.extent))
    loaded = {op.output.type.dtype for op in ir.walk() if op.kind is OpKind.LOAD and op.output.dims}
    needed = size * max(live_tiles(ir), 1)
    if loaded != {"float32"} or size <= target.regs_per_sm:
        return {}
    if needed > MOST_LIVE * BLOCKS * WARPS * target.warp_size:
        return {}
    rows = {block.name: 1 for block in ir.blocks if BLOCK.matches(block.name)}
    return {**rows, row.site: 0, CTAS.name(ir): BLOCKS, NUM_WARPS.name(ir): WARPS}
