"""Every row of the table: factories here, the other families in their own modules."""

from __future__ import annotations

from typing import Any

import torch

from ...errors import TraceError
from ...expr import Expr
from ...ir.attributes import ArangeAttrs
from ...ir.kinds import OpKind
from ...ir.types import Dim, TileType
from ..promotion import dtype_name
from ..trace import Tracer
from ..values import TileValue
from . import activations as _activations
from . import einsum as _einsum
from . import matmul as _matmul
from . import norms as _norms
from . import packing as _packing
from . import pointwise as _pointwise
from . import pooling as _pooling
from . import reductions as _reductions
from . import slices as _slices
from . import sorting as _sorting
from . import special as _special
from . import statistics as _statistics
from . import tile_index as _tile_index
from .pointwise import binary
from .torch_table import FACTORIES, METHODS, TABLE, Handler, handler_for, nearest, row

__all__ = ["FACTORIES", "METHODS", "TABLE", "arange", "binary", "handler_for", "nearest"]

_FAMILIES = (
    _activations,
    _einsum,
    _matmul,
    _norms,
    _packing,
    _pooling,
    _pointwise,
    _reductions,
    _slices,
    _sorting,
    _special,
    _statistics,
    _tile_index,
)  # imported for the rows that they register


def _like(value: Any) -> Handler:
    def handler(t: Tracer, x: Any, *args: Any, dtype: Any = None, **unused: Any) -> Any:
        fill = args[0] if value is None else value
        name = x.value.type.dtype if dtype is None else dtype_name(dtype)
        return t.full(x.value.dims, fill, name)

    return handler


row("zeros_like", "empty_like")(_like(0))
row("ones_like")(_like(1))
row("full_like")(_like(None))


def _new(value: Any) -> Handler:
    def handler(t: Tracer, x: Any, *size: Any, dtype: Any = None, **unused: Any) -> Any:
        fill = value
        if value is None:
            size, fill = (size[0],), size[1] if len(size) > 1 else unused["fill_value"]
        shape = size[0] if len(size) == 1 and isinstance(size[0], (list, tuple)) else size
        return t.full(t.dims_of(shape), fill, dtype_name(x.dtype if dtype is None else dtype))

    return handler


row("new_zeros", "new_empty")(_new(0))
row("new_ones")(_new(1))
row("new_full")(_new(None))


def _factory(value: Any) -> Handler:
    def handler(t: Tracer, *size: Any, dtype: Any = None, device: Any = None, **unused: Any) -> Any:
        fill = value
        if value is None:
            size, fill = (size[0],), size[1] if len(size) > 1 else unused["fill_value"]
        shape = size[0] if len(size) == 1 and isinstance(size[0], (list, tuple)) else size
        name = dtype_name(dtype if dtype is not None else torch.get_default_dtype())
        return t.full(t.dims_of(shape), fill, name)

    return handler


FACTORIES[torch.zeros] = FACTORIES[torch.empty] = _factory(0)
FACTORIES[torch.ones] = _factory(1)
FACTORIES[torch.full] = _factory(None)


def constant(t: Tracer, data: Any, *, dtype: Any = None, device: Any = None, **unused: Any) -> Any:
    """A number as a 0-d tile, in torch's dtype for it. Raises TraceError for lists and tiles."""
    if isinstance(data, TileValue):
        return data if dtype is None else t.cast(data, dtype_name(dtype))
    if not isinstance(data, (bool, int, float)):
        raise TraceError("torch.tensor in device code takes a number", got=repr(data)[:100], where=t.location(),
                         hint="make the tensor in host code, or of tiles by torch.stack")  # fmt: skip
    with t.plain_torch():
        own = torch.tensor(data, device="cpu").dtype
    return t.full((), data, dtype_name(own if dtype is None else dtype))


FACTORIES[torch.tensor] = FACTORIES[torch.as_tensor] = FACTORIES[torch.scalar_tensor] = constant


@row("new_tensor")
def new_tensor(t: Tracer, x: Any, data: Any, *, dtype: Any = None, **unused: Any) -> Any:
    return constant(t, data, dtype=dtype)


def arange(t: Tracer, start: Any, end: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None,
           **unused: Any) -> Any:  # fmt: skip
    """``start + [0, n)`` in steps; n is a block size or a constant."""
    start, end = (0, start) if end is None else (start, end)
    first = t.as_expr(start, "arange's start")
    length = t.extent(t.as_expr(end, "arange's end") - first)
    if step != 1:
        length = length.cdiv(step)
    tile = t.emit(OpKind.ARANGE, (), TileType("int32", (Dim(length),)), ArangeAttrs(first if step == 1 else Expr.of(0)))
    if step != 1:
        tile = tile * step + start
    return tile if dtype is None else t.cast(tile, dtype_name(dtype))


FACTORIES[torch.arange] = arange
