"""Loops over tiles and over ints: outermost, a launch; inside, a loop of the GPU kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

from . import eager
from .bounds import axes
from .eager import EagerTile as Tile
from .marks import loop

Size = Any  # an int, a 0-d tensor, or a size of the kernel


@overload
def tile(begin_or_end: Size, end: Size | None = None, *, block_size: Size | None = None) -> Iterator[Tile]: ...
@overload
def tile(
    begin_or_end: Sequence[Size], end: Sequence[Size] | None = None, *, block_size: Sequence[Size] | None = None
) -> Iterator[tuple[Tile, ...]]: ...
@loop
def tile(begin_or_end: Any, end: Any = None, *, block_size: Any = None) -> Iterator[Any]:
    """Iterate over tiles of ``[begin, end)``, or of a box when sequences are given.

    Outermost, the iterations run in parallel as the grid of one launch; inside another tile loop they run in order
    within the GPU kernel. ``block_size`` fixes the size of a tile; without it the size is a knob ``block:<variable>``.
    """
    box = axes(begin_or_end, end, block_size)
    found = eager.tiles([int(b) for b in box.begins], [int(e) for e in box.ends], [b and int(b) for b in box.blocks])
    yield from found if box.several else (only for (only,) in found)


@loop
def grid(begin_or_end: Any, end: Any = None) -> Iterator[Any]:
    """Iterate over the ints of ``[begin, end)``, or tuples of them; outermost, one program of the grid for each."""
    box = axes(begin_or_end, end, 1)
    found = eager.tiles([int(b) for b in box.begins], [int(e) for e in box.ends], [1] * len(box.ends))
    for tiles in found:
        yield tuple(t.begin for t in tiles) if box.several else tiles[0].begin
