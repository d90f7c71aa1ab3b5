"""Unsigned ints of 16 and 32 bits, which torch computes little of on a CPU: in 64 bits there, wrapped around after."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ..errors import TraceError

_SHORT = (torch.uint16, torch.uint32)  # what int64 holds


def computed(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The result of ``func``, as a GPU gives it, of arguments that torch may have no implementation for."""
    try:
        return func(*args, **kwargs)
    except NotImplementedError as error:
        dtypes = {a.dtype for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor)}
        if torch.uint64 in dtypes:
            raise TraceError(
                "torch has no such operation of uint64 on a CPU, where the kernel runs as plain Python",
                got=str(error),
                hint="x.view(torch.int64) has the same sums, products and bits; on a GPU the kernel is compiled",
            ) from error
        if dtypes.isdisjoint(_SHORT):
            raise
    found = func(*map(_wide, wrapped(func, args)), **{name: _wide(value) for name, value in kwargs.items()})
    like = func(*map(_empty, args), **{name: _empty(value) for name, value in kwargs.items()})
    if isinstance(found, torch.Tensor):
        return found.to(like.dtype)
    return type(found)(part.to(of.dtype) for part, of in zip(found, like, strict=True))


# what does not compute modulo 2**bits, of two operands
_COMPARING = frozenset({
    "floor_divide", "__floordiv__", "__rfloordiv__", "floordiv", "remainder", "__mod__", "__rmod__", "mod", "fmod",
    "div", "eq", "ne", "lt", "le", "gt", "ge", "clamp", "clamp_min", "clamp_max", "maximum", "minimum",
})  # fmt: skip


def wrapped(func: Callable[..., Any], args: Sequence[Any]) -> Sequence[Any]:
    """The arguments, the numbers among them as the tensor's dtype has them: -1 as 65535 beside uint16."""
    dtype = next((a.dtype for a in args if isinstance(a, torch.Tensor) and a.dtype in _SHORT), None)
    if dtype is None or getattr(func, "__name__", "") not in _COMPARING:
        return args
    count = torch.iinfo(dtype).max + 1
    return [a % count if isinstance(a, int) and not isinstance(a, bool) else a for a in args]


def _wide(value: Any) -> Any:
    return value.long() if isinstance(value, torch.Tensor) and value.dtype in _SHORT else value


def _empty(value: Any) -> Any:
    """A tensor without data, of which torch says what dtype a result has."""
    return value.to("meta") if isinstance(value, torch.Tensor) else value
