"""Where lanes lie: along memory where they exchange what lies across it, alone where each reads a row of its own.

An element that is chosen of a register tile is a sum along its dimension. If the lanes of several warps share that
dimension, each such sum is a way through shared memory with a barrier; if each lane has the whole of it, none is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from ..config import Choice
from ..ir.analysis import likely_length
from ..ir.attributes import AccessAttrs, AxisAttrs, TileAttrs
from ..ir.graph import KernelIR, Op, TileIndex, walk
from ..ir.kinds import OpKind
from ..ir.types import itemsize
from ..space.knobs import NUM_STAGES, NUM_WARPS
from ..target import Target
from .sizes import block_symbols, pow2, programs

VECTOR = 16  # bytes that a lane loads at once
EXCHANGES = 3  # sums across what lies side by side, from which on they decide
MOST_OF_A_LANE = 64  # elements of a tile
WARPS = 4
LEAST_TURNS = 16


def crossing_config(ir: KernelIR, sizes: Mapping[str, int], target: Target) -> dict[str, Choice]:
    """The block along memory, and warps, where whole dimensions lie across it and sums along those are many, as of
    pixels whose channels are chosen one by one: all warps lie along memory. Where a lane cannot hold the whole across
    it, one warp exchanges it without a barrier. By hand (H100, 2026-11-26): colours of 256 images 1306 us by four warps
    over 512 pixels, 181 by one, 97 by four over 2048; 85 channels of 32 cells 647 us by four warps, 548 by one.
    ``sizes``: of the blocks. Empty for others."""
    crossed = [op.values[0] for op in ir.walk() if op.kind is OpKind.REDUCE and _is_whole(ir, op)]
    matrices = [op for op in ir.walk() if op.kind is OpKind.LOAD and len(op.output.dims) > 1]
    found = {symbol for value in crossed for symbol in block_symbols(ir, value)} & _along_memory(ir, matrices)
    if len(crossed) < EXCHANGES or len(found) != 1:
        return {}
    (symbol,) = found
    beside = {s for op in ir.walk() for v in op.outputs if symbol in (own := block_symbols(ir, v)) for s in own}
    if any(sizes.get(s, 1) > 1 for s in beside - {symbol}):
        return {}
    narrowest = min((itemsize(ir.tensor(AccessAttrs.of(op).tensor).dtype) for op in _loads(ir, symbol)), default=4)
    vector = max(VECTOR // narrowest, 1)
    across = max(
        prod(pow2(ir.hint(d.extent)) for d in v.dims if d.extent.symbols() <= ir.hints.keys()) for v in crossed
    )
    if vector * across > MOST_OF_A_LANE:
        return {NUM_WARPS.name(ir): 1}
    length = max(likely_length(ir, name) for name, t in ir.tiles.items() if t.block.symbols() == {symbol})
    block = min(WARPS * target.warp_size * vector, pow2(length))
    return {symbol: block, NUM_WARPS.name(ir): max(block // (target.warp_size * vector), 1)}


def own_rows_config(ir: KernelIR, target: Target) -> dict[str, Choice]:
    """A row for each lane, where the turns of a loop read each lane's own row element by element: a second row only
    takes as much of the first-level cache again, which holds what the next turns read. By hand (H100, 2026-11-26): 252
    turns of 1048576 paths 1764 us by eight warps over 1024 rows, 668 over 256; 256 turns of 65536 rows of bytes 96 us
    by two warps over 128, 73 by four. Empty for others, as where a program holds rows beside the loop."""
    loops = [op for op in ir.walk() if op.kind is OpKind.FOR]
    if not all(is_long(ir, TileAttrs.of(op).tile) for op in loops):
        return {}
    turns = [op for loop in loops for op in walk(loop.regions[0])]
    loads = [op for op in turns if op.kind is OpKind.LOAD and op.output.dims]
    found = {symbol for op in loads for symbol in block_symbols(ir, op.output)}
    grid = {ir.tiles[name].block.args[0] for name in ir.grid if ir.tiles[name].block.op == "sym"}
    is_one_each = all(len(op.output.dims) == 1 for op in loads)
    if (
        _holds_rows(ir, target)
        or not is_one_each
        or len(found) != 1
        or found != grid
        or found & _along_memory(ir, loads)
    ):
        return {}
    (symbol,) = found
    warps = WARPS
    while warps > 1 and programs(ir, {symbol: warps * target.warp_size}) < target.sm_count:
        warps //= 2
    return {symbol: warps * target.warp_size, NUM_WARPS.name(ir): warps, NUM_STAGES.name(ir): 1}


def _holds_rows(ir: KernelIR, target: Target) -> bool:
    """Whether a program loads rows that a warp shares."""
    wholes = [d for op in ir.walk() if op.kind is OpKind.LOAD for d in op.output.dims]
    return any(d.extent.symbols() <= ir.hints.keys() and ir.hint(d.extent) > target.warp_size for d in wholes)


def is_long(ir: KernelIR, tile: str) -> bool:
    """Whether a loop goes step by step, and has so many turns that these decide how long a program takes."""
    return ir.tiles[tile].block.constant == 1 and likely_length(ir, tile) >= LEAST_TURNS


def _is_whole(ir: KernelIR, op: Op) -> bool:
    """Whether a reduction is along a whole dimension, and leaves others."""
    value = op.values[0]
    return len(value.dims) > 1 and value.dims[AxisAttrs.of(op).axis].extent.symbols() <= ir.hints.keys()


def _along_memory(ir: KernelIR, loads: Sequence[Op]) -> set[str]:
    """The block symbols of the tiles that loads take neighbours by."""
    return {
        ir.tiles[item.tile].block.args[0]
        for op in loads
        for item, stride in zip(AccessAttrs.of(op).index, ir.tensor(AccessAttrs.of(op).tensor).strides, strict=True)
        if isinstance(item, TileIndex) and stride.constant == 1 and ir.tiles[item.tile].block.op == "sym"
    }


def _loads(ir: KernelIR, symbol: str) -> list[Op]:
    """The loads whose tile has a block."""
    return [op for op in ir.walk() if op.kind is OpKind.LOAD and symbol in block_symbols(ir, op.output)]
