"""Sorts of plain Python as the language has them: equal elements keep their order, which torch's need not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Compute = Callable[[Any, Any, Any], Any]


def _sort(compute: Compute, x: Any, dim: int = -1, descending: bool = False, stable: bool = True) -> Any:
    return compute(torch.sort, (x,), {"dim": dim, "descending": descending, "stable": True})


def _argsort(compute: Compute, x: Any, dim: int = -1, descending: bool = False, stable: bool = True) -> Any:
    return compute(torch.argsort, (x,), {"dim": dim, "descending": descending, "stable": True})


def _topk(compute: Compute, x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    if not x.ndim:
        return compute(torch.topk, (x, k, dim), {})
    values, order = _sort(compute, x, dim, descending=largest)
    return torch.return_types.topk((values.narrow(dim, 0, k), order.narrow(dim, 0, k)))


_STABLE: dict[str, Callable[..., Any]] = {"sort": _sort, "argsort": _argsort, "topk": _topk}


def is_sort(func: Any) -> bool:
    """Whether a function or method of torch's gives places by an order of elements that may be equal."""
    return func in (torch.sort, torch.argsort, torch.topk, torch.Tensor.sort, torch.Tensor.argsort, torch.Tensor.topk)


def sorted_stably(compute: Compute, func: Any, args: Any, kwargs: Any) -> Any:
    """What ``func`` gives, of equal elements those first that come first. ``compute``: calls a function of torch's."""
    named = dict(kwargs)
    tensor = (named.pop("input"),) if "input" in named else ()
    if "axis" in named:
        named["dim"] = named.pop("axis")
    return _STABLE[func.__name__](compute, *tensor, *args, **named)
