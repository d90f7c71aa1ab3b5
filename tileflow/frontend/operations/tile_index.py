"""``tile[...]`` and ``torch.gather`` on tiles in registers: whole dimensions, new ones, one element of one."""

from __future__ import annotations

from typing import Any

from ...errors import ShapeError, TraceError
from ...ir.attributes import ArangeAttrs, AxisAttrs
from ...ir.kinds import OpKind
from ...ir.types import Dim, TileType, Value
from ..torch_registry import register_torch
from ..trace import Tracer, show
from ..values import TileValue
from .reductions import reduce
from .reshape import axis_of, value_of
from .views import unsqueeze


def pick(t: Tracer, x: TileValue, axis: int, index: Any) -> TileValue:
    """One element of a dimension: a sum whose other terms are 0 (so that -0.0 comes out as 0.0)."""
    axis = axis_of(t, axis, len(x.value.dims))
    dim = x.value.dims[axis]
    chosen = t.pointwise("where", t.pointwise("eq", _lanes(t, x, axis), _position(t, dim, index)), x, 0)
    dtype = x.value.type.dtype
    return reduce(t, "any" if dtype == "bool" else "sum", t.cast(chosen, dtype), axis, keepdim=False)


def _element_of_each(t: Tracer, x: TileValue, axis: int, index: TileValue) -> TileValue:
    """The element of a dimension that ``index``, of one element there, names: a sum, as in :func:`pick`."""
    lanes = _lanes(t, x, axis)
    chosen = t.pointwise("where", t.pointwise("eq", lanes, index), x, 0)
    dtype = x.value.type.dtype
    return reduce(t, "any" if dtype == "bool" else "sum", t.cast(chosen, dtype), axis, keepdim=True)


def _lanes(t: Tracer, x: TileValue, axis: int) -> TileValue:
    """The numbers of the lanes of a dimension, beside the dimensions after it."""
    dim = x.value.dims[axis]
    lanes = t.emit(OpKind.ARANGE, (), TileType("int32", (dim.bare(),)), ArangeAttrs(dim.extent * 0))
    for _ in range(len(x.value.dims) - axis - 1):
        lanes = unsqueeze(t, lanes, lanes.ndim)
    return lanes


def _position(t: Tracer, dim: Dim, index: Any) -> Any:
    """An index from the front; -1 of a tile is its last lane inside the loop's bounds."""
    if not isinstance(index, int):
        return index
    size = dim.extent.constant
    if size is not None and dim.tile is None and not -size <= index < size:
        raise ShapeError("an index lies inside its dimension", got=f"{index} of {size}", where=t.location())
    if index >= 0:
        return index
    return index + (t.size(dim.extent) if dim.tile is None else t.valid_lanes(dim.tile))


@register_torch("gather")
def gather(t: Tracer, x: Any, dim: int, index: Any) -> TileValue:
    """``result[i][j] = x[index[i][j]][j]`` for ``dim`` 0; other dimensions are those of ``x``."""
    value, places = value_of(t, x), value_of(t, index)
    axis = axis_of(t, dim, len(value.dims))
    pairs = zip(value.dims, places.dims, strict=False)
    if len(value.dims) != len(places.dims) or any(
        n != axis and not t.same_size(a.extent, b.extent) for n, (a, b) in enumerate(pairs)
    ):
        raise ShapeError(
            "the indices of a gather have the tile's other dimensions",
            where=t.location(),
            got=f"{show(value.dims)} by {show(places.dims)}",
            hint="one element of each row: tile.gather(1, index[:, None])[:, 0]; columns for all rows: tile[:, index]",
        )
    if places.type.dtype.startswith("float") or places.type.dtype == "bool":
        raise TraceError(
            "a tile of indices holds ints",
            got=places.type.dtype,
            where=t.location(),
            hint="boolean masks select with torch.where",
        )
    maker = t.builder.definitions.get(value)
    if maker is not None and maker.kind is OpKind.FULL:  # Triton 3.6 and 3.7 fail over gathers out of a constant
        return t.full(places.dims, maker.inputs[0], value.type.dtype)
    # lanes past a tile's end may hold any number
    last = t.size(value.dims[axis].extent - 1)
    inside = t.pointwise("minimum", t.pointwise("maximum", t.cast(t.wrap(places), "int32"), 0), last)
    # Triton finds no layout for a gather out of one lane, or into one
    if value.dims[axis].extent.constant == 1:
        return t.expand(x, places.dims)
    if places.dims[axis].extent.constant == 1:
        return _element_of_each(t, x, axis, inside)
    inputs: tuple[Value, ...] = (value, inside.value)
    return t.emit(OpKind.GATHER, inputs, TileType(value.type.dtype, places.dims), AxisAttrs(axis))
