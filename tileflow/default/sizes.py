"""How block symbols, tiles and programs go together."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ..config import Choice
from ..expr import Expr
from ..ir.analysis import tile_length
from ..ir.graph import KernelIR, once
from ..ir.types import Dim, Value


def pow2(n: int) -> int:
    """The power of two that covers ``n``."""
    return 1 << max(n - 1, 0).bit_length()


def symbol(dim: Dim) -> str:
    """The block symbol of a dimension, perhaps times a constant; empty where no knob changes it alone."""
    symbols = dim.extent.symbols()
    return next(iter(symbols)) if len(symbols) == 1 else ""


def block_symbols(ir: KernelIR, value: Value) -> frozenset[str]:
    """The block symbols of a tile's dimensions."""
    return frozenset(s for d in value.dims for s in d.extent.symbols() if s not in ir.hints)


def times(dim: Dim) -> int:
    """The constant that goes with the block symbol of a dimension: 2 where two halves were joined."""
    return max(dim.extent.evaluate({symbol(dim): 1}), 1) if symbol(dim) else 1


def known_ends(ir: KernelIR, *tiles: str) -> bool:
    """Whether the sizes of the call say where the loops over these tiles end, neither the config nor the device."""
    ends = [ir.tiles[name].end for name in tiles]
    return all(isinstance(end, Expr) and end.symbols() <= ir.hints.keys() for end in ends)


def programs(ir: KernelIR, wanted: Mapping[str, Choice]) -> int:
    """How many tiles the grid has under the chosen blocks."""
    return prod(tiles_of_axes(ir, wanted))


def programs_over(ir: KernelIR, wanted: Mapping[str, Choice]) -> Expr:
    """The same over the call's sizes; of a block that is not chosen, one of 1."""
    sizes = {name: size for name, size in wanted.items() if isinstance(size, int)}
    blocks = ((length_over(ir, name), ir.tiles[name].block) for name in ir.grid)
    counts = (length.cdiv(block.evaluate(sizes) if block.symbols() <= sizes.keys() else 1) for length, block in blocks)
    return prod(counts, start=Expr.of(1))


def length_over(ir: KernelIR, name: str) -> Expr:
    """How long a tile's loop is, over the call's sizes; as in the example where only the device knows."""
    begin, end = ir.tiles[name].begin, ir.tiles[name].end
    if isinstance(begin, Expr) and isinstance(end, Expr) and (end - begin).symbols() <= ir.hints.keys():
        return end - begin
    return Expr.of(tile_length(ir, name))


def tiles_of_axes(ir: KernelIR, wanted: Mapping[str, Choice]) -> tuple[int, ...]:
    """How many tiles each axis of the grid has under the chosen blocks; of a block that is not chosen, one of 1."""
    sizes = {name: size for name, size in wanted.items() if isinstance(size, int)}
    blocks = ((tile_length(ir, name), ir.tiles[name].block) for name in ir.grid)
    return tuple(
        -(-length // (block.evaluate(sizes) if block.symbols() <= sizes.keys() else 1)) for length, block in blocks
    )


def chosen_sizes(ir: KernelIR, wanted: Mapping[str, Choice]) -> dict[str, int]:
    """What each symbol of a region stands for under the chosen blocks; 1 for a block that is not chosen, and for a
    tunable of the author's that is a size."""
    chosen = {name: size for name, size in wanted.items() if isinstance(size, int)}
    return {**dict.fromkeys(_symbols(ir), 1), **ir.hints, **chosen}


def meetings(ir: KernelIR) -> list[frozenset[str]]:
    """The block symbols of each register tile: what two loops, one after the other, hold is never there together."""
    found = {block_symbols(ir, v) for op in ir.walk() for v in op.outputs}
    return sorted(found - {frozenset()}, key=sorted)


def extent_length(ir: KernelIR, tile: str | None, extent: Expr) -> int:
    """How far a dimension runs in the traced example; of a block, how far the loops over such blocks do."""
    if tile is not None:
        return tile_length(ir, tile)
    if extent.symbols() <= ir.hints.keys():
        return ir.hint(extent)
    return max((tile_length(ir, n) for n, t in ir.tiles.items() if t.block.symbols() & extent.symbols()), default=1)


@once
def _symbols(ir: KernelIR) -> frozenset[str]:
    """Those of blocks and of register tiles."""
    dims = {d for op in ir.walk() for v in (*op.values, *op.outputs) for d in v.dims}
    return frozenset(block.name for block in ir.blocks).union(*(d.extent.symbols() for d in dims))


def register_elements(value: Value, sizes: Mapping[str, int]) -> int:
    """Elements of a tile in registers, where each dimension is a power of two."""
    return prod(pow2(d.extent.evaluate(sizes)) for d in value.dims)
