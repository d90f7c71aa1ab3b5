"""Rows that the blocks of a cluster hold together by default: lengths at which that was measured to be faster.

A row that no multiprocessor holds is read in a loop, and once more where what is reduced of it is needed for each of
its elements: that second read is what a cluster saves. Measured for softmax (docs/measurements/performance.md, *Softmax
of long rows*): of 131072 float32 and of 65536 bfloat16, 8 blocks of 8 warps were the fastest. Of 131072 bfloat16
clusters gained 3 %, of 262144 they lost: those rows keep their loop, and so do all others, of which nothing was
measured.
"""

from __future__ import annotations

from ..config import Choice
from ..ir.graph import KernelIR
from ..ir.kinds import OpKind
from ..ir.pressure import live_tiles
from ..passes.clusters import Row, clustered_row
from ..passes.roll import roll
from ..space.clusters import cluster_refusal
from ..space.knobs import BLOCK, CTAS, NUM_WARPS
from ..target import Target
from .sizes import pow2

BLOCKS = 8
WARPS = 8
LANES = {"float32": 1 << 17, "bfloat16": 1 << 16, "float16": 1 << 16}  # of a row, by what is loaded
FULL = 0.75  # of the lanes, at least: 100000 of 131072 are. Of emptier ones blocks would have nothing to do
MOST_TILES = 3  # of the row, live at once: softmax has three; of four nothing was measured


def cluster_config(ir: KernelIR, target: Target) -> dict[str, Choice]:
    """The knobs of a region whose rows a cluster holds; empty where they are better held, or read, otherwise."""
    row = clustered_row(ir)
    if not isinstance(row, Row) or cluster_refusal(ir, target):
        return {}
    length = ir.hint(row.extent)
    lanes = pow2(length)
    loaded = {op.output.type.dtype for op in ir.walk() if op.kind is OpKind.LOAD and op.output.dims}
    if len(loaded) != 1 or LANES.get(loaded.pop()) != lanes or length < FULL * lanes:
        return {}
    if live_tiles(ir) > MOST_TILES:
        return {}
    if _loads(roll(ir, row.site)) <= _loads(ir):
        return {}  # a loop reads the row once as well
    rows = {block.name: 1 for block in ir.blocks if BLOCK.matches(block.name)}
    return {**rows, row.site: 0, CTAS.name(ir): BLOCKS, NUM_WARPS.name(ir): WARPS}


def _loads(ir: KernelIR) -> int:
    return sum(op.kind is OpKind.LOAD for op in ir.walk())
