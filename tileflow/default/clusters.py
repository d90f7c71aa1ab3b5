"""Rows that the blocks of a cluster hold together by default: lengths at which that was measured to be faster.

A row that no multiprocessor holds is read in a loop, and once more where what is reduced of it is needed for each of
its elements: that second read is what a cluster saves. Measured on an H200 (docs/measurements/performance.md, *Softmax
of long rows*): 8 blocks of 8 warps have 1.07 to 1.47 times the loop's speed for rows of 65536 and 131072 float32 or
bfloat16, of softmax, norms and a loss with its gradient. Rows that do not begin at multiples of 16 bytes had 0.75 to
1.13 times, 32768 elements 0.78, 262144 bfloat16 0.89: those keep their loop.

A row that a loop hands on from turn to turn, as the gradient of a norm's weights, or that is changed in place, is never
read in a loop, so that its blocks are as few as hold all rows that are alive at once (:func:`held_row_config`).

A row that lies across memory, a column, is one element of each sector that is read, which must wait in the second-level
cache for the programs of its neighbours: the variances of 8 columns of 65536 float32 took 8 us so and 20 by loops that
clusters share, those of 256 of 100000 230 us (H100, by hand, 2026-11-27).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ..config import Choice
from ..ir.attributes import AccessAttrs
from ..ir.graph import KernelIR
from ..ir.kinds import OpKind
from ..ir.pressure import live_rows, live_tiles
from ..ir.types import Dim, itemsize
from ..passes.clusters import Row, clustered_row
from ..passes.roll import roll
from ..space.clusters import cluster_refusal
from ..space.knobs import BLOCK, CTAS, NUM_WARPS
from ..target import Target
from .chunks import chunk_sizes
from .sizes import pow2

BLOCKS = 8
WARPS = 8
LANES = (1 << 16, 1 << 17)  # of a row
DTYPES = ("float32", "bfloat16", "float16")  # of what is loaded
FULL = 0.75  # of the lanes, at least: 100000 of 131072 are. Of emptier ones blocks would have nothing to do
ALIGNED = 16  # bytes that rows begin at multiples of
# Bytes of tensors whose rows lie across memory: of the two that were measured 2 MiB were faster so, 98 MiB were not.
KEPT = 1 << 23
# Rows that are alive at once, by the IR's count, for each register of a multiprocessor: the assembler makes some anew.
# Of LayerNorm's gradient (nine rows) two blocks hold 16384 lanes where one spills 520 bytes a thread; of RMSNorm's
# (seven) one takes 0.95 of what two take, and of 32768 lanes two take 0.21 of what one does (H200, bfloat16,
# 2026-11-30, docs/measurements/default-rules.md).
HELD = 2
UNEVEN = 4  # blocks from which on clusters leave multiprocessors idle, whose number four does not divide everywhere
MOST_TILES = 4  # of the row, live at once, as layer_norm has; of five nothing was measured


def cluster_config(ir: KernelIR, target: Target) -> dict[str, Choice]:
    """The knobs of a region whose rows a cluster holds; empty where they are better held, or read, otherwise."""
    row = clustered_row(ir)
    if not isinstance(row, Row) or not row.site or cluster_refusal(ir, target):
        return {}
    if any(op.kind is OpKind.FOR for op in ir.body.ops):
        return {}  # in a loop nothing was measured of rows that could be read in one
    length = ir.hint(row.dim.extent)
    lanes = pow2(length)
    loaded = {op.output.type.dtype for op in ir.walk() if op.kind is OpKind.LOAD and op.output.dims}
    if len(loaded) != 1 or lanes not in LANES or length < FULL * lanes:
        return {}
    (dtype,) = loaded
    if dtype not in DTYPES or length * itemsize(dtype) % ALIGNED:
        return {}
    if live_tiles(ir) > MOST_TILES or _lies_across(ir, row.dim):
        return {}
    if _loads(roll(ir, row.site)) <= _loads(ir):
        return {}  # a loop reads the row once as well
    rows = {block.name: 1 for block in ir.blocks if BLOCK.matches(block.name)}
    return {**rows, row.site: 0, CTAS.name(ir): BLOCKS, NUM_WARPS.name(ir): WARPS}


def held_row_config(ir: KernelIR, wanted: Mapping[str, Choice], target: Target) -> dict[str, Choice]:
    """The knobs of a region whose rows are never read in a loop, where no block holds all that are alive: the fewest
    blocks that do. ``wanted``: its knobs without."""
    row = clustered_row(ir)
    if not isinstance(row, Row) or row.site or cluster_refusal(ir, target):
        return {}
    lanes, live = pow2(ir.hint(row.dim.extent)), live_rows(ir, row.dim)
    fitting = (n for n in CTAS.choices if live * lanes // n <= HELD * target.regs_per_sm)
    blocks = next(fitting, max(CTAS.choices))
    if blocks == 1:
        return {}
    programs = target.sm_count * (1 if blocks < UNEVEN else 2) // blocks
    rows = {dim.extent.args[0]: 1 for dim in row.rows if dim.extent.op == "sym"}
    own = {**rows, CTAS.name(ir): blocks, NUM_WARPS.name(ir): WARPS}
    return own | chunk_sizes(ir, programs, {**wanted, **own})


def _lies_across(ir: KernelIR, dim: Dim) -> bool:
    """Whether rows lie across memory in tensors that are more than the second-level cache keeps for all programs."""
    across = 0
    for op in ir.walk():
        if op.kind is not OpKind.LOAD or dim not in op.output.dims:
            continue
        access = AccessAttrs.of(op)
        tensor, axis = ir.tensor(access.tensor), op.output.dims.index(dim)
        along = [i for i, item in enumerate(access.index) if getattr(item, "axis", None) == axis]
        if any(tensor.strides[i].constant != 1 for i in along):
            across += prod(ir.hint(extent) for extent in tensor.shape) * itemsize(tensor.dtype)
    return across > KEPT


def _loads(ir: KernelIR) -> int:
    return sum(op.kind is OpKind.LOAD for op in ir.walk())
