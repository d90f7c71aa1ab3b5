"""Numbers as tiles, and lists of numbers as tables that device code indexes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any

import torch

from ...errors import TraceError
from ...expr import Expr
from ...ir.types import Dim
from ..promotion import dtype_name
from ..torch_registry import FACTORIES, register_torch
from ..trace import Tracer
from ..values import SymInt, TensorRef, TileValue
from .along import run
from .packing import stack

_MOST = 64  # each is a comparison for every lane of the table


def constant(t: Tracer, data: Any, *, dtype: Any = None, device: Any = None, **unused: Any) -> Any:
    """A number as a 0-d tile, lists of numbers as a table, in torch's dtype for them. Raises TraceError for others."""
    if isinstance(data, TensorRef) and not data.dims:
        data = data[()]
    if isinstance(data, TileValue):
        return data if dtype is None else t.cast(data, dtype_name(dtype))
    numbers = [*_numbers(t, data)]
    if len(numbers) > _MOST:
        raise TraceError(
            f"a table of numbers in device code has at most {_MOST}",
            got=f"{len(numbers)} of them",
            where=t.location(),
            hint="make the tensor in host code, pass it to the kernel, and index it",
        )
    if dtype is None:
        with t.plain_torch():
            dtype = reduce(torch.promote_types, map(_dtype_of, numbers))
    return _table(t, data, dtype_name(dtype))


def _numbers(t: Tracer, data: Any) -> Iterator[Any]:
    """The numbers in nested lists, which are sizes and scalars of the kernel too."""
    if isinstance(data, (list, tuple)) and data:
        for part in data:
            yield from _numbers(t, part)
    elif isinstance(data, (bool, int, float, SymInt)) or (isinstance(data, TileValue) and not data.value.dims):
        yield data
    else:
        raise TraceError(
            "torch.tensor in device code takes numbers, and lists of them",
            got=repr(data)[:100],
            where=t.location(),
            hint="make the tensor in host code"
            + (", or of the array's .tolist()" if type(data).__module__ == "numpy" else ", or of tiles by torch.stack"),
        )


def _dtype_of(number: Any) -> torch.dtype:
    """What torch makes of a number: a scalar of the kernel has a dtype, unless it stands for a number of Python's."""
    if isinstance(number, bool) or (isinstance(number, TileValue) and not number.value.type.weak):
        return torch.bool if isinstance(number, bool) else number.dtype
    is_whole = isinstance(number, (int, SymInt)) or (isinstance(number, TileValue) and not number.is_floating_point())
    return torch.int64 if is_whole else torch.get_default_dtype()


def _table(t: Tracer, data: Any, dtype: str) -> TileValue:
    """Nested lists as a tile: each lane of a row chooses its number, as registers hold no tables."""
    if not isinstance(data, (list, tuple)):
        return t.full((), data, dtype) if not isinstance(data, TileValue) else t.cast(data, dtype)
    if any(isinstance(part, (list, tuple)) for part in data):
        return stack(t, [_table(t, part, dtype) for part in data])
    found, lanes = t.full((Dim(Expr.of(len(data))),), data[-1], dtype), run(t, 0, len(data))
    for place, number in reversed([*enumerate(data[:-1])]):
        found = t.cast(t.pointwise("where", lanes == place, number, found), dtype)
    return found


FACTORIES[torch.tensor] = FACTORIES[torch.as_tensor] = FACTORIES[torch.scalar_tensor] = constant


@register_torch("new_tensor")
def new_tensor(t: Tracer, x: Any, data: Any, *, dtype: Any = None, **unused: Any) -> Any:
    """The numbers in ``data`` as a tile; ``x`` says nothing about it."""
    return constant(t, data, dtype=dtype)
