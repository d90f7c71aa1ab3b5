"""Block sizes for a kernel's text as plain Python: as large as its values allow, since each turn of a loop takes
Python's time, whatever it computes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..expr import Expr
from .analysis import tile_length
from .graph import KernelIR, Tile
from .kinds import OpKind
from .types import ONE

MOST_ELEMENTS = 1 << 24  # of a value: 128 MiB in float64
_LEAST = 16

Extents = tuple[Expr, ...]


def eager_blocks(regions: Sequence[KernelIR]) -> dict[str, int]:
    """The block size of each block symbol, under which no value has more than :data:`MOST_ELEMENTS`, or as few as it
    can. Powers of two within the author's bounds, and none longer than its loops. A block that the text reshapes
    divides its loops: their last tile would be shorter than it says."""
    found: dict[str, int] = {}
    for ir in regions:
        found |= _of_region(ir, found)
    return found


def _of_region(ir: KernelIR, known: dict[str, int]) -> dict[str, int]:
    values = {tuple(d.extent for d in v.dims if d != ONE) for op in ir.walk() for v in op.outputs}
    reshaped = _reshaped(ir)
    known = {**known, **{b.name: b.high for b in ir.blocks if b.is_cut}}
    longest = {b.name: (_divisor if b.name in reshaped else _longest)(ir, b.name) for b in ir.blocks}
    limits = {b.name: max(min(b.high, longest[b.name]), b.low) for b in ir.blocks if b.name not in known}
    sizes = {b.name: known.get(b.name, max(b.low, min(_LEAST, limits.get(b.name, _LEAST)))) for b in ir.blocks}
    growing = [name for name in sizes if name in limits]
    while growing:
        name = min(growing, key=sizes.__getitem__)
        larger = {**sizes, name: 2 * sizes[name]}
        if sizes[name] >= limits[name] or _most(ir, values, larger) > max(MOST_ELEMENTS, _most(ir, values, sizes)):
            growing.remove(name)
        else:
            sizes = larger
    return {name: size for name, size in sizes.items() if name not in known}


def _most(ir: KernelIR, values: set[Extents], sizes: dict[str, int]) -> int:
    """The elements of the largest value."""
    env = {**ir.hints, **sizes}
    return max((prod(_extent(e, env) for e in extents) for extents in values), default=1)


def _extent(extent: Expr, env: dict[str, int]) -> int:
    return max(extent.evaluate(env), 1) if extent.symbols() <= env.keys() else 1


def _longest(ir: KernelIR, block: str) -> int:
    """How many indices the longest loop of a block symbol runs over; one that is a row's, or bounds host code, may be
    as long as its author lets it."""
    loops = [tile_length(ir, name) for name, tile in ir.tiles.items() if _is_of(tile, block)]
    return max(loops, default=1 << 30)


def _divisor(ir: KernelIR, block: str) -> int:
    """The largest power of two that divides all loops of a block symbol."""
    lengths = [tile_length(ir, name) for name, tile in ir.tiles.items() if _is_of(tile, block)]
    return min((length & -length for length in lengths if length), default=_LEAST)


def _reshaped(ir: KernelIR) -> set[str]:
    """The symbols in the sizes that the text reshapes from or to."""
    values = (v for op in ir.walk() if op.kind is OpKind.RESHAPE for v in (*op.values, *op.outputs))
    return {symbol for v in values for d in v.dims for symbol in d.extent.symbols()}


def _is_of(tile: Tile, block: str) -> bool:
    return block in tile.block.symbols()
