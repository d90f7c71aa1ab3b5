"""Gathers of plain Python as the language has them: what lies outside is 0, where torch raises an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from .eager_indexing import IndexedElements

Compute = Callable[[Any, Any, Any], Any]


def _gather(compute: Compute, x: torch.Tensor, dim: int, index: torch.Tensor, **unused: Any) -> torch.Tensor:
    size = x.size(dim)
    return _or_zero(_is_inside(index, size), compute(torch.gather, (x, dim, _clamped(index, size)), {}))


def _take_along_dim(compute: Compute, x: torch.Tensor, indices: torch.Tensor, dim: int | None = None) -> torch.Tensor:
    size = x.numel() if dim is None else x.size(dim)
    found = compute(torch.take_along_dim, (x, _clamped(indices, size), dim), {})
    return _or_zero(_is_inside(indices, size), found)


def _index_select(compute: Compute, x: torch.Tensor, dim: int, index: torch.Tensor) -> torch.Tensor:
    size = x.size(dim)
    found = compute(torch.index_select, (x, dim, _clamped(index, size)), {})
    behind = x.ndim - 1 - dim % x.ndim
    return _or_zero(_is_inside(index, size).reshape(-1, *[1] * behind), found)


def _embedding(compute: Compute, index: torch.Tensor, weight: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
    size = weight.size(0)
    found = compute(F.embedding, (_clamped(index, size), weight, *args), options)
    return _or_zero(_is_inside(index, size)[..., None], found)


def _one_hot(compute: Compute, index: torch.Tensor, num_classes: int) -> torch.Tensor:
    """Also of the ints of 32 bits that a tile's index has, of which torch makes none."""
    found = compute(F.one_hot, (_clamped(index.long(), num_classes), num_classes), {})
    return _or_zero(_is_inside(index, num_classes)[..., None], found)


def _select(compute: Compute, x: torch.Tensor, dim: int, index: Any) -> torch.Tensor:
    return IndexedElements(x, (*[slice(None)] * (dim % x.ndim), index), reads=True).read()


_GATHERS: dict[Any, Callable[..., torch.Tensor]] = {
    torch.gather: _gather,
    torch.Tensor.gather: _gather,
    torch.take_along_dim: _take_along_dim,
    torch.Tensor.take_along_dim: _take_along_dim,
    torch.index_select: _index_select,
    torch.Tensor.index_select: _index_select,
    torch.select: _select,
    torch.Tensor.select: _select,
    F.embedding: _embedding,
    F.one_hot: _one_hot,
}


def is_gather(func: Any) -> bool:
    """Whether a function or method of torch's gives the elements that numbers of the kernel name."""
    return func in _GATHERS


def gathered(compute: Compute, func: Any, args: Any, kwargs: Any) -> Any:
    """What ``func`` gives of indices inside the tensor, and 0 for the others. ``compute``: calls a function of
    torch's."""
    named = dict(kwargs)
    tensor = (named.pop("input"),) if "input" in named else ()
    if "axis" in named:
        named["dim"] = named.pop("axis")
    if not (*tensor, *args)[0].ndim and func is not F.embedding:  # one element, which torch knows
        return compute(func, args, kwargs)
    return _GATHERS[func](compute, *tensor, *args, **named)


def _is_inside(index: torch.Tensor, size: int) -> torch.Tensor:
    return (index >= 0) & (index < size)


def _clamped(index: torch.Tensor, size: int) -> torch.Tensor:
    """Indices that torch takes, which has them in 64 bits, and inside."""
    return index.long().clamp(0, max(size - 1, 0))


def _or_zero(inside: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
    return found if bool(inside.all()) else torch.where(inside, found, torch.zeros((), dtype=found.dtype))
