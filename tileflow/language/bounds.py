"""The box that ``tile`` and ``grid`` iterate over, out of the forms in which they are called."""

from __future__ import annotations

from typing import Any

from ..errors import TraceError
from ..lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Box:
    """One entry an axis. ``several``: sequences were given, so that each iteration yields a tuple."""

    begins: tuple[Any, ...]
    ends: tuple[Any, ...]
    blocks: tuple[Any, ...]
    several: bool


def axes(begin_or_end: Any, end: Any = None, block_size: Any = None) -> Box:
    """``(end)`` or ``(begin, end)``; ints, or sequences of them. A single block size serves every axis."""
    several = isinstance(begin_or_end, (list, tuple))
    ends = _tuple(begin_or_end if end is None else end)
    begins = (0,) * len(ends) if end is None else _tuple(begin_or_end)
    blocks = _tuple(block_size) if isinstance(block_size, (list, tuple)) else (block_size,) * len(ends)
    if not len(begins) == len(ends) == len(blocks):
        raise TraceError(
            "a loop has a begin, an end and a block size for each axis",
            got=f"{len(begins)}, {len(ends)} and {len(blocks)} of them",
            hint="tfl.tile([a, b], [m, n], block_size=[16, 32]), with lists of one length",
        )
    for bound in (*begins, *ends):
        if bound is None or isinstance(bound, (list, tuple, str, float)):
            raise TraceError(
                "a loop's bound must be a size, a block size or an int",
                got=repr(bound)[:200],
                hint="divide sizes by //, or int(x)"
                if isinstance(bound, float)
                else "first the begin of each axis, then the ends: tfl.tile([0, 2], [m, n]); from 0: tfl.tile([m, n])",
            )
    return Box(begins, ends, blocks, several)


def _tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)
