"""Loops over tiles and over ints: outermost, a launch; inside, a loop of the GPU kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import torch

from ..errors import TraceError
from . import eager_session
from .bounds import axes
from .eager_indexing import DeviceInt
from .eager_tiles import EagerTile as Tile
from .marks import device, loop

Size = Any  # an int, a 0-d tensor, or a size of the kernel


@overload
def tile(begin_or_end: Size, end: Size | None = None, block_size: Size | None = None) -> Iterator[Tile]: ...
@overload
def tile(
    begin_or_end: Sequence[Size], end: Sequence[Size] | None = None, block_size: Sequence[Size] | None = None
) -> Iterator[tuple[Tile, ...]]: ...
@loop
def tile(begin_or_end: Any, end: Any = None, block_size: Any = None) -> Iterator[Any]:
    """Iterate over tiles of ``[begin, end)``, or of a box when sequences are given.

    Outermost, the iterations run in parallel as the grid of one launch; inside another tile loop they run in order
    within the GPU kernel. ``block_size`` fixes the size of a tile; without it the size is a knob ``block:<variable>``.
    """
    box = axes(begin_or_end, end, block_size)
    found = eager_session.tiles(
        [int(b) for b in box.begins], [*map(_end, box.ends)], [b and int(b) for b in box.blocks]
    )
    yield from found if box.several else (only for (only,) in found)


def _end(bound: Size) -> int:
    """The bound of a loop, which stays one that the kernel computes where it is that. Raises TraceError for a tile."""
    if isinstance(bound, torch.Tensor) and bound.ndim:
        raise TraceError(
            "a loop's bound is an integer scalar",
            got=f"a tensor of shape {tuple(bound.shape)}",
            hint="a size of it: x.size(0); of a tile of lengths the largest: lengths[tile].max()",
        )
    return DeviceInt(bound) if isinstance(bound, (torch.Tensor, DeviceInt)) else int(bound)


@loop
def jagged_tile(lengths: torch.Tensor, *, block_size: Any = None) -> Iterator[Tile]:
    """Iterate over tiles of ``[0, max(lengths))``, where each lane of a tile around has its own length.

    ``lengths``: a 1-D tile of ints over the parent, a tile of a loop around this one. In whatever has both dimensions,
    the parent's and the jagged tile's, a lane counts only if its index is less than its parent lane's length: others
    are not loaded or stored, and reductions and products pass over them.
    """
    yield from eager_session.jagged_tiles(lengths, block_size and int(block_size))


@loop
def grid(begin_or_end: Any, end: Any = None, step: Any = 1) -> Iterator[Any]:
    """Iterate over every ``step``-th int of ``[begin, end)``, or tuples of them; outermost, one program of the grid for
    each. ``step``: positive, a constant or a block size; a sequence of them for several axes."""
    box = axes(begin_or_end, end, step)
    found = eager_session.tiles([int(b) for b in box.begins], [int(e) for e in box.ends], [int(b) for b in box.blocks])
    for tiles in found:
        yield tuple(t.begin for t in tiles) if box.several else tiles[0].begin


@device
def static_range(begin_or_end: int, end: int | None = None, step: int = 1) -> range:
    """A ``range`` whose turns are written out one after the other, however many, with the variable a Python int.

    The bounds are ints; sizes become constants of the kernel, checked at each launch; a tunable counts as what the
    config chose. (A plain ``range`` in device code is written out up to 16 turns; longer ones are loops of the kernel.)
    """
    return range(0, begin_or_end, step) if end is None else range(begin_or_end, end, step)


@device
def barrier() -> None:
    """All that the tile loop before it stored is there for the one after it. Between outermost tile loops only, which
    are launches: those of one stream run one after the other, and nothing is left to do here."""
