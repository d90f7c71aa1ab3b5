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
from .marks import device

Tiles = torch.Tensor | tuple[torch.Tensor, ...]


@device
def associative_scan(fn: Callable[..., Any], tile: Tiles, dim: int, reverse: bool = False) -> Tiles:
    """Element i is ``fn`` over the elements 0 .. i of ``dim``; with ``reverse`` over those from the last down to i, the
    later ones as first arguments. Tiles of a tuple are broadcast to one shape."""
    parts = _broadcast(tile)
    slices = [p.unbind(dim) for p in parts]
    carry: tuple[torch.Tensor, ...] | None = None
    found = []
    for items in reversed(list(zip(*slices, strict=True))) if reverse else zip(*slices, strict=True):
        carry = items if carry is None else _combined(fn, tile, carry, items)
        found.append(carry)
    ordered = found[::-1] if reverse else found
    results = tuple(torch.stack(column, dim) for column in zip(*ordered, strict=True)) if ordered else parts
    return results if isinstance(tile, (tuple, list)) else results[0]


@device
def reduce(
    fn: Callable[..., Any], tile: Tiles, dim: int | None = None, keep_dims: bool = False, other: Any = None
) -> Tiles:
    """``fn`` over the elements of ``dim``, or of all dimensions. ``other``: a number (for a tuple of tiles, one for
    each) beside which ``fn`` leaves its other argument unchanged; lanes past a tile's end are then filled with it.
    Without it a flag for each lane is carried along, which costs a little more."""
    parts = _broadcast(tile)
    rank = parts[0].ndim
    axes = range(rank) if dim is None else [dim % rank]
    for axis in reversed(axes):
        first, *rest = zip(*(p.unbind(axis) for p in parts), strict=True)
        for items in rest:
            first = _combined(fn, tile, first, items)
        parts = tuple(p.unsqueeze(axis) for p in first) if keep_dims else first
    return parts if isinstance(tile, (tuple, list)) else parts[0]


@device
def cumsum(tile: torch.Tensor, dim: int, reverse: bool = False) -> torch.Tensor:
    """``torch.cumsum``, or from the last element down."""
    return tile.flip(dim).cumsum(dim).flip(dim) if reverse else tile.cumsum(dim)


@device
def cumprod(tile: torch.Tensor, dim: int, reverse: bool = False) -> torch.Tensor:
    """``torch.cumprod``, or from the last element down."""
    return tile.flip(dim).cumprod(dim).flip(dim) if reverse else tile.cumprod(dim)


def arguments(fn: Callable[..., Any], is_tuple: bool, a: Sequence[Any], b: Sequence[Any]) -> tuple[Any, ...]:
    """What ``fn`` is called with: two elements, two tuples of them, or all items one after the other."""
    if not is_tuple or _parameters(fn) != 2:
        return (*a, *b)
    return tuple(a), tuple(b)


def results(fn: Callable[..., Any], is_tuple: bool, result: Any, count: int, where: Location | None = None) -> Any:
    """The items of what ``fn`` gave. Raises TraceError where there are not ``count``."""
    items = tuple(result) if is_tuple and isinstance(result, (tuple, list)) else (result,)
    if len(items) != count or isinstance(items[0], (tuple, list)):
        raise TraceError(f"a combining function gives {'a tuple of ' if is_tuple else ''}{count} item(s)",
                         got=f"{result!r}"[:200], where=where)  # fmt: skip
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


def _broadcast(tile: Tiles) -> tuple[torch.Tensor, ...]:
    if not isinstance(tile, (tuple, list)):
        return (tile,)
    return tuple(torch.broadcast_tensors(*tile))  # type: ignore[no-untyped-call]


def _combined(
    fn: Callable[..., Any], tile: Tiles, a: tuple[torch.Tensor, ...], b: tuple[torch.Tensor, ...]
) -> tuple[torch.Tensor, ...]:
    is_tuple = isinstance(tile, (tuple, list))
    items = results(fn, is_tuple, fn(*arguments(fn, is_tuple, a, b)), len(a))
    return tuple(torch.as_tensor(i, device=x.device).to(x.dtype).expand(x.shape) for i, x in zip(items, a, strict=True))
