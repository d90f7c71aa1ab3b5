"""A function of torch's on tiles as plain Python: what it computes, and what the dimensions of that are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from .alignment import opposite
from .eager_session import current
from .jagged import followed
from .partial_tiles import fitted, keep_partial, widen
from .unsigned import computed


def tile_of(tensor: torch.Tensor, kept: tuple[bool, ...] = ()) -> torch.Tensor:
    """Say that a tensor is a tile in registers; returns it. ``kept``: of each dimension of the tensor in memory that it
    was just loaded from, whether the index left it."""
    if not hasattr(tensor, "tileflow_kept"):
        tensor.tileflow_kept = kept  # type: ignore[attr-defined]
    return tensor


def is_captured(tensor: torch.Tensor) -> bool:
    """Whether a tensor is one that host code made or was given, and no tile."""
    return not hasattr(tensor, "tileflow_kept")


def call(func: Any, args: Any, kwargs: Any) -> Any:
    """What ``func`` makes of tensors, those products among them whose operands torch wants of one dtype."""
    if func in (torch.addmm, torch.baddbmm) and not kwargs and args[0].dtype != args[1].dtype:
        acc, a, b = args
        return acc + (a.to(acc.dtype) @ b.to(acc.dtype))
    if func in (torch.mm, torch.bmm) and (len(args) > 2 or kwargs):  # a dtype, which torch takes on a GPU only
        return _product_in(*args, **kwargs)
    return computed(func, args, kwargs)


def _product_in(a: torch.Tensor, b: torch.Tensor, out_dtype: torch.dtype) -> torch.Tensor:
    return a.to(out_dtype) @ b.to(out_dtype)


def followed_call(func: Any, args: Sequence[Any], kwargs: Any, compute: Callable[..., Any]) -> Any:
    """``compute``, which does of the arguments what ``func`` does, its result tagged with what its dimensions are."""
    args, kwargs = opposite(func, args, kwargs)
    cut = fitted(func, args)
    out = followed(func, cut, kwargs, partial(compute, **kwargs))
    keep_partial(func, args, cut, out, current("tile").loops[-1])
    return out


def widened(value: Any) -> Any:
    """``value``, accumulators inside block-wide again once the iteration in which they met a tile is over."""
    return widen(value, current("tile").loops)


def elementwise(func: Any, compute: Callable[..., Any], *operands: Any) -> torch.Tensor:
    """What ``compute`` makes of tiles and numbers per element, as ``func`` of torch's does."""
    return tile_of(followed_call(func, widened(operands), {}, lambda *args: computed(compute, args, {})))


def product(compute: Callable[..., torch.Tensor], *operands: torch.Tensor) -> torch.Tensor:
    """``compute`` of the operands of a product, of an accumulator before them if there are three."""
    func = torch.matmul if len(operands) == 2 else torch.addmm
    found: torch.Tensor = followed_call(func, widened(operands), {}, compute)
    return found
