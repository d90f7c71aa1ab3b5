"""Where a value's dimensions stand opposite those of one with more: at the right as in torch, or by their loops.

``a[t0, t1] + b[t0]`` means that each row has a number of its own, whatever the sizes: a tile's dimension meets the same
tile's. Torch would hold ``b`` against the columns, and refuse unless a block is as long as the other.
"""

from __future__ import annotations

from ..ir.types import Dim


def gaps(own: tuple[Dim, ...], wide: tuple[Dim, ...]) -> tuple[int, ...]:
    """The axes of ``wide`` that ``own`` lacks, where tiles say so; empty where dimensions align at the right.

    They do where every tile's dimension stands opposite itself or a size of 1 already, and where ``wide`` does not have
    all of ``own``'s dimensions, in order and each tile once.
    """
    if not 0 < len(own) < len(wide) or all(map(_meets, own, wide[len(wide) - len(own) :])):
        return ()
    places: list[int] = []
    last = len(wide)
    for dim in reversed(own):
        found = [axis for axis in range(last) if wide[axis] == dim]
        if not found or (dim.tile is not None and [d.tile for d in wide].count(dim.tile) > 1):
            return ()
        last = found[-1]
        places.append(last)
    return tuple(axis for axis in range(len(wide)) if axis not in places)


def are_turned(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> bool:
    """Whether one has the other's dimensions in another order."""
    return a != b and len(a) == len(b) and all(a.count(dim) == b.count(dim) for dim in a)


def _meets(own: Dim, other: Dim) -> bool:
    return own.tile is None or own.tile == other.tile or (other.tile is None and other.extent.constant == 1)
