"""How a region goes through memory: the blocks along which it reads and writes whole runs, and what it gathers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from ..expr import Expr
from ..ir.analysis import follows_a_load, likely_length, stepped_tiles
from ..ir.attributes import AccessAttrs, AxisAttrs
from ..ir.graph import KernelIR, Op, SliceIndex, TileIndex, ValueIndex
from ..ir.kinds import OpKind
from ..ir.op_table import ACCESSES
from ..ir.types import itemsize

SECTOR = 32  # bytes that memory moves at least
WORD = 4  # bytes of a register
TRANSACTION = 128  # bytes of a warp's narrowest whole one
RARE = 256  # times as many bytes has a tensor beside which the runs of others do not count
AS_LONG = 4  # runs count as equal up to this ratio


@dataclass(frozen=True, slots=True)
class Block:
    """A block symbol. ``length``: how far its loops run. ``run``: bytes of the tensors whose neighbours it takes.
    ``stride``: in the largest tensor that it indexes, between its lanes."""

    symbol: str
    length: int
    run: int
    stride: int


def blocks_along_memory(ir: KernelIR) -> list[Block]:
    """Those along which most bytes lie next to each other first, then those of short strides."""
    lengths: dict[str, int] = {}
    for name, tile in ir.tiles.items():
        if tile.block.op == "sym":
            symbol = tile.block.args[0]
            lengths[symbol] = max(lengths.get(symbol, 1), likely_length(ir, name))
    runs, strides = runs_along(ir), dict[str, tuple[int, int]]()
    for symbol, size, stride in _accesses(ir):
        strides[symbol] = min(strides.get(symbol, (0, 0)), (-size, ir.hint(stride)))
    longest = max((runs[symbol] for symbol in lengths), default=0)
    if RARE * longest < _woven_bytes(ir):
        runs, longest = Counter(), 0
    found = [Block(s, n, runs[s], strides.get(s, (0, 0))[1]) for s, n in lengths.items()]
    return sorted(found, key=lambda b: (-b.run if AS_LONG * b.run >= longest else 0, b.stride))


def _woven_bytes(ir: KernelIR) -> int:
    """Those of the largest tensor, where a block's neighbours share its sectors though they are some elements apart, as
    rows of a last dimension of few bytes are; 0 for others. A vector beside it, as of a number for each picture, has
    next to no bytes that lie side by side: of 4096 x 4096 pixels of three bytes, times a number for each row, a program
    took one pixel of 1024 rows, by 126 registers and 615 instructions, where it takes 1024 of one row by 48 and 396
    (sm_90a, Triton 3.6)."""
    found = [(size, ir.hint(stride) * bytes_of) for symbol, size, stride, bytes_of in _indexed(ir) if symbol]
    largest = max((size for size, _ in found), default=0)
    return largest if any(size == largest and 0 < apart < SECTOR for size, apart in found) else 0


def runs_along(ir: KernelIR) -> Counter[str]:
    """Bytes of the tensors whose neighbours each block takes; under no name, slices. Elements count as words: where a
    block takes none of its neighbours each one is a sector of its own, of whatever dtype (a gradient in float8 beside
    its transpose 1752 us by a row, 640 by four; H100, 2026-11-28)."""
    runs: Counter[str] = Counter()
    for symbol, size, stride, bytes_of in _indexed(ir):
        runs[symbol] += size // bytes_of * WORD * (stride.constant == 1)
    return runs


def _accesses(ir: KernelIR) -> Iterator[tuple[str, int, Expr]]:
    """The block symbol of each dimension that a tile or a slice indexes, the tensor's bytes, the stride."""
    return ((symbol, size, stride) for symbol, size, stride, _ in _indexed(ir))


def _indexed(ir: KernelIR) -> Iterator[tuple[str, int, Expr, int]]:
    """The same with the bytes of an element."""
    for op in ir.walk():
        if op.kind not in ACCESSES:
            continue
        tensor = ir.tensor(AccessAttrs.of(op).tensor)
        size = prod(ir.hint(n) for n in tensor.shape) * itemsize(tensor.dtype)
        for item, stride in zip(AccessAttrs.of(op).index, tensor.strides, strict=True):
            for tile in sorted(stepped_tiles(ir, op, item)):
                if (block := ir.tiles[tile].block).op == "sym":
                    yield block.args[0], size, stride, itemsize(tensor.dtype)
            if isinstance(item, SliceIndex):
                yield "", size, stride, itemsize(tensor.dtype)


def element_bytes(ir: KernelIR) -> int:
    """Bytes of an element of what most of the loads of tiles read."""
    sizes = [itemsize(op.output.type.dtype) for op in ir.walk() if op.kind is OpKind.LOAD and op.output.dims]
    return max(set(sizes), key=sizes.count, default=4)


def runs_per_transaction(ir: KernelIR) -> int:
    """How many contiguous runs a warp's narrowest transaction of memory is made of: 1 as a rule, more where an author's
    own block takes a shorter run of each row. A thread then loads as many times fewer elements at once."""
    runs = [1]
    for op in ir.walk():
        if op.kind is not OpKind.LOAD:
            continue
        access = AccessAttrs.of(op)
        tensor = ir.tensor(access.tensor)
        for item, size, stride in zip(access.index, tensor.shape, tensor.strides, strict=True):
            if isinstance(item, TileIndex) and stride.constant == 1 and (block := ir.tiles[item.tile].block.constant):
                is_whole = ir.hint(size) <= block  # then rows follow one another
                runs.append(1 if is_whole else TRANSACTION // (block * itemsize(tensor.dtype)))
    return max(runs)


def reduces_runs(ir: KernelIR) -> bool:
    """Whether the author's own loops reduce rows, a block of neighbours at a time."""
    runs = runs_along(ir)
    reduced = (op.values[0].dims[AxisAttrs.of(op).axis] for op in ir.walk() if op.kind is OpKind.REDUCE)
    longest = max(runs.values(), default=0)
    return any(AS_LONG * runs[symbol] >= longest > 0 for dim in reduced for symbol in dim.extent.symbols())


def gathers(ir: KernelIR) -> int:
    """How many loads take elements along memory by an index that was loaded itself."""
    return sum(_is_gather(ir, op) for op in ir.walk() if op.kind is OpKind.LOAD)


def _is_gather(ir: KernelIR, load: Op) -> bool:
    access = AccessAttrs.of(load)
    items = zip(access.index, ir.tensor(access.tensor).strides, strict=True)
    return any(
        isinstance(item, ValueIndex)
        and item.axes
        and stride.constant == 1
        and follows_a_load(ir, load.inputs[item.input])
        for item, stride in items
    )
