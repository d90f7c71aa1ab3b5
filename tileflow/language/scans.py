"""Scans and reductions by a function of the author's.

``fn`` combines two elements into one, and must be associative; for :func:`reduce` also commutative. On a device it is
compiled for scalars: arithmetic, comparisons and torch's pointwise functions of its arguments and of constants, no
loads, no branches. Over a tuple of tiles it takes two tuples, ``fn((a1, a2), (b1, b2))``, or their items one after the
other, ``fn(a1, a2, b1, b2)``, and gives a tuple; each item is converted to its tile's dtype.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..errors import Location, TraceError
from . import eager_calls
from .alignment import facing
from .dim_identity import Identity, counted, lanes_of, tag
from .marks import device

Tiles = torch.Tensor | tuple[torch.Tensor, ...]
Items = tuple[torch.Tensor, ...]


@device
def associative_scan(fn: Callable[..., Any], tile: Tiles, dim: int, reverse: bool = False) -> Tiles:
    """Element i is ``fn`` over the elements 0 .. i of ``dim``; with ``reverse`` over those from the last down to i, the
    later ones as first arguments. Tiles of a tuple are broadcast to one shape."""
    parts, count, lanes = _operands(tile)
    found: list[Items] = []
    items = list(zip(*(p.unbind(dim) for p in parts), strict=True))
    for item in reversed(items) if reverse else items:
        found.append(_combined(fn, tile, count, found[-1], item) if found else item)
    ordered = found[::-1] if reverse else found
    columns = list(zip(*ordered, strict=True)) or [()] * count
    results = tuple(
        tag(torch.stack(column, dim), lanes) if column else part
        for column, part in zip(columns[:count], parts, strict=False)
    )
    return results if isinstance(tile, (tuple, list)) else results[0]


@device
def reduce(
    fn: Callable[..., Any], tile: Tiles, dim: int | None = None, keep_dims: bool = False, other: Any = None
) -> Tiles:
    """``fn`` over the elements of ``dim``, or of all dimensions. ``other``: a number (for a tuple of tiles, one for
    each) beside which ``fn`` leaves its other argument unchanged; lanes past a tile's end are then filled with it, and
    it is what no elements give. Without it a flag for each lane is carried along, which costs a little more, and what
    no elements give is not defined."""
    parts, count, lanes = _operands(tile, other)
    rank = parts[0].ndim
    axes = range(rank) if dim is None else [dim % rank]
    for axis in reversed(axes):
        first, *rest = zip(*(p.unbind(axis) for p in parts), strict=True)
        for item in rest:
            first = _combined(fn, tile, count, first, item)
        parts = tuple(p.unsqueeze(axis) for p in first) if keep_dims else first
        lanes = (*lanes[:axis], *((None,) if keep_dims else ()), *lanes[axis + 1 :])
    found = tuple(tag(p, lanes) for p in parts[:count])
    return found if isinstance(tile, (tuple, list)) else found[0]


@device
def cumsum(tile: torch.Tensor, dim: int, reverse: bool = False) -> torch.Tensor:
    """``torch.cumsum``, or from the last element down."""
    return _cumulative(torch.cumsum, 0, tile, dim, reverse)


@device
def cumprod(tile: torch.Tensor, dim: int, reverse: bool = False) -> torch.Tensor:
    """``torch.cumprod``, or from the last element down."""
    return _cumulative(torch.cumprod, 1, tile, dim, reverse)


def _cumulative(fn: Any, neutral: int, tile: torch.Tensor, dim: int, reverse: bool) -> torch.Tensor:
    (part,), _, lanes = _operands(tile, neutral)
    return tag(fn(part.flip(dim), dim).flip(dim) if reverse else fn(part, dim), lanes)


def arguments(fn: Callable[..., Any], is_tuple: bool, a: Sequence[Any], b: Sequence[Any]) -> tuple[Any, ...]:
    """What ``fn`` is called with: two elements, two tuples of them, or all items one after the other."""
    if not is_tuple or _parameters(fn) != 2:
        return (*a, *b)
    return tuple(a), tuple(b)


def results(fn: Callable[..., Any], is_tuple: bool, result: Any, count: int, where: Location | None = None) -> Any:
    """The items of what ``fn`` gave. Raises TraceError where there are not ``count``."""
    items = tuple(result) if is_tuple and isinstance(result, (tuple, list)) else (result,)
    if len(items) != count or isinstance(items[0], (tuple, list)):
        raise TraceError(
            f"a combining function gives {'a tuple of ' if is_tuple else ''}{count} item(s)",
            got=f"{result!r}"[:200],
            where=where,
            hint="one for each tile of the scan, in a tuple only where the tiles are in one",
        )
    return items


def _parameters(fn: Callable[..., Any]) -> int | None:
    """How many positional parameters a function has; None where it takes any number, or does not say."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):  # a built-in
        return None
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return None
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty for p in parameters)


def _operands(tile: Tiles, other: Any = None) -> tuple[Items, int, Identity]:
    """The tiles in one shape, with a flag for each lane after them where not all lanes of a jagged tile count and no
    ``other`` stands in for those; how many tiles there are, and what their dimensions are."""
    given = eager_calls.widened(tuple(tile) if isinstance(tile, (tuple, list)) else (tile,))
    parts: Items = tuple(torch.broadcast_tensors(*facing(given)))  # type: ignore[no-untyped-call]
    lanes: Identity = tuple(
        next((own for own in column if own is not None), None)
        for column in zip(*(lanes_of(p) for p in parts), strict=True)
    )
    counts = counted(lanes, parts[0].shape, parts[0].device)
    if counts is None:
        return parts, len(parts), lanes
    if other is None:
        return (*parts, counts.expand(parts[0].shape)), len(parts), lanes
    fills = other if isinstance(other, (tuple, list)) else (other,) * len(parts)
    return tuple(torch.where(counts, p, f).to(p.dtype) for p, f in zip(parts, fills, strict=True)), len(parts), lanes


def _combined(fn: Callable[..., Any], tile: Tiles, count: int, a: Items, b: Items) -> Items:
    """``fn`` of two elements; where a flag is carried along, the one that counts if the other does not."""
    is_tuple = isinstance(tile, (tuple, list))
    items = results(fn, is_tuple, fn(*arguments(fn, is_tuple, a[:count], b[:count])), count)
    both = [torch.as_tensor(i, device=x.device).to(x.dtype).expand(x.shape) for i, x in zip(items, a, strict=False)]
    if len(a) == count:
        return tuple(both)
    flag_a, flag_b = a[-1], b[-1]
    chosen = (torch.where(flag_a & flag_b, c, torch.where(flag_a, x, y)) for c, x, y in zip(both, a, b, strict=False))
    return (*chosen, flag_a | flag_b)
