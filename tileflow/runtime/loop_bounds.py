"""The bounds of a tile loop, out of the arguments of ``tile``."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

from ..errors import CallError

Bounds = tuple[tuple[int, ...], tuple[int, ...]]


def bounds(begin_or_end: Any, end: Any = None, block_size: Any = None, *, step: Any = None) -> Bounds:
    """(begins, ends) of ``tile``'s arguments: ``tile(end)``, ``tile(begin, end)``, either with lists for several axes.

    ``block_size`` and a grid's ``step`` belong to the config and are not looked at. Raises CallError.
    """
    if end is None:
        if isinstance(begin_or_end, (list, tuple)):
            return (0,) * len(begin_or_end), _indices(begin_or_end)
        return (0,), _indices((begin_or_end,))
    if isinstance(begin_or_end, (list, tuple)) != isinstance(end, (list, tuple)):
        raise CallError(
            "a tile's begin and end must both be lists or both be ints", got=f"{begin_or_end!r} and {end!r}"
        )
    if not isinstance(begin_or_end, (list, tuple)):
        return _indices((begin_or_end,)), _indices((end,))
    if len(begin_or_end) != len(end):
        raise CallError("a tile's begins and ends must be as many", got=f"{len(begin_or_end)} and {len(end)}")
    return _indices(begin_or_end), _indices(end)


def _indices(values: Sequence[Any]) -> tuple[int, ...]:
    try:
        return tuple(map(index, values))
    except TypeError as error:
        raise CallError("a tile's bounds must be ints", got=repr(values), hint=str(error)) from error
