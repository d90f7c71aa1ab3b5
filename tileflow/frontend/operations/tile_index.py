"""``tile[...]`` and ``torch.gather`` on tiles in registers: whole dimensions, new ones, one element of one."""

from __future__ import annotations

from typing import Any

from ...errors import ShapeError, TraceError
from ...expr import Expr
from ...ir.attributes import ArangeAttrs, AxisAttrs
from ...ir.kinds import OpKind
from ...ir.signs import is_nonnegative
from ...ir.types import INT32_MAX, ONE, Dim, TileType, Value, is_float, itemsize
from ..affine import between
from ..dimensions import show
from ..intervals import are_longer, interval, is_of_tiles, without_lanes
from ..resolve import from_the_end
from ..torch_registry import register_torch
from ..trace import Tracer
from ..values import SymInt, TileValue
from .along import spread
from .reductions import reduce
from .reshape import axis_of, is_scalar, value_of
from .views import unsqueeze


def pick(t: Tracer, x: TileValue, axis: int, index: Any) -> TileValue:
    """One element of a dimension: a sum whose other terms are 0 (so that -0.0 comes out as 0.0)."""
    axis = axis_of(t, axis, len(x.value.dims))
    dim = x.value.dims[axis]
    index = 0 if _is_of_longer_loops(t, dim, index) else index
    chosen = t.pointwise("where", t.pointwise("eq", _lanes(t, x, axis), _position(t, dim, index)), x, 0)
    dtype = x.value.type.dtype
    return reduce(t, "any" if dtype == "bool" else "sum", t.cast(chosen, dtype), axis, keepdim=False)


def _is_of_longer_loops(t: Tracer, dim: Dim, index: Any) -> bool:
    """Whether a dimension of 1 is read as one: by what is computed from tiles of longer loops, as of a tensor."""
    if dim != ONE or not isinstance(index, TileValue):
        return False
    return is_of_tiles(t, index.value) and are_longer(t, index.value)


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
    if isinstance(index, TileValue) and not index.value.dims:
        return t.wrap(from_the_end(t, index.value, lambda: _length(t, dim)))
    if isinstance(index, SymInt) and index.expr.symbols() <= t.hints.keys() and t.decide(index.expr.lt(0)):
        index = t.specialize(index.expr)
    if isinstance(index, (int, SymInt)) and dim.tile is None:
        _check_inside(t, dim, t.as_expr(index, "an index"))
    if not isinstance(index, int) or index >= 0:
        return index
    return index + _length(t, dim)


def _length(t: Tracer, dim: Dim) -> Any:
    """How many elements a dimension has inside its loop's bounds."""
    return t.size(dim.extent) if dim.tile is None else t.valid_lanes(dim.tile)


def _check_inside(t: Tracer, dim: Dim, index: Expr) -> None:
    """Raise ShapeError for an int outside a dimension, which counts from the end where it is negative."""
    inside = (-dim.extent).le(index).and_(index.lt(dim.extent))
    if inside.symbols() <= t.hints.keys() and not t.decide(inside):
        raise ShapeError(
            "an index lies inside its dimension",
            got=f"{index} of {dim.extent}",
            where=t.location(),
            hint="count from 0, or from -1 at the end",
        )


@register_torch("gather")
def gather(t: Tracer, x: Any, dim: int, index: Any) -> TileValue:
    """``result[i][j] = x[index[i][j]][j]`` for ``dim`` 0; other dimensions are those of ``x``. What lies outside ``x``
    is 0, as of a tensor in memory."""
    if is_scalar(t, index) and is_scalar(t, x, dim):
        return gather(t, unsqueeze(t, x, 0), 0, unsqueeze(t, index, 0)).squeeze(0)  # type: ignore[no-any-return]
    value, places = value_of(t, x), value_of(t, index)
    axis = axis_of(t, dim, len(value.dims))
    _check_places(t, value, axis, places)
    own = _in_registers(t, places)
    clamped = _between_ends(t, value.dims[axis], own)  # in 32 bits, which an index inside keeps
    found = _at(t, value, axis, clamped)
    if _is_inside(t, value.dims[axis], places):
        return found
    inside = t.pointwise("eq", own, clamped)
    dtype = value.type.dtype
    return t.cast(t.pointwise("where", inside, found, False if dtype == "bool" else 0), dtype)


def nearest(t: Tracer, x: TileValue, axis: int, places: TileValue) -> TileValue:
    """:func:`gather`, of the first or the last element in place of what lies outside. A 1-D tile names elements for all
    of the other dimensions."""
    wide = spread(t, x, axis, places) if places.ndim == 1 else places
    clamped = _between_ends(t, x.value.dims[axis], _in_registers(t, wide.value))
    return _at(t, x.value, axis, clamped)


def _check_places(t: Tracer, value: Value, axis: int, places: Value) -> None:
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
    if is_float(places.type.dtype) or places.type.dtype == "bool":
        raise TraceError(
            "a tile of indices holds ints",
            got=places.type.dtype,
            where=t.location(),
            hint="boolean masks select with torch.where",
        )


def _at(t: Tracer, value: Value, axis: int, clamped: TileValue) -> TileValue:
    """The elements at places inside: lanes past a tile's end may hold any number, so that all are clamped."""
    places = t.cast(clamped, "int32").value
    maker = t.builder.definitions.get(value)
    if maker is not None and maker.kind is OpKind.FULL:  # Triton 3.6 and 3.7 fail over gathers out of a constant
        number = maker.inputs[0]
        return t.full(places.dims, t.wrap(number) if isinstance(number, Value) else number, value.type.dtype)
    x = t.wrap(value)
    # Triton finds no layout for a gather out of one lane, or into one
    if value.dims[axis].extent.constant == 1:
        return t.expand(x, places.dims)
    if places.dims[axis].extent.constant == 1:
        return _element_of_each(t, x, axis, t.wrap(places))
    return t.emit(OpKind.GATHER, (value, places), TileType(value.type.dtype, places.dims), AxisAttrs(axis))


def _in_registers(t: Tracer, places: Value) -> TileValue:
    """Indices as int32, whose range they must not leave: 64 bits where they may be more."""
    found = interval(t, places)
    ends = (found.least, None if found.most is None else INT32_MAX - found.most)
    is_short = itemsize(places.type.dtype) < 4 or places.type.dtype == "int32"
    is_short = is_short or all(end is not None and is_nonnegative(end) for end in ends)
    return t.cast(t.wrap(places), "int32" if is_short else "int64")


def _between_ends(t: Tracer, dim: Dim, places: TileValue) -> TileValue:
    return t.pointwise("minimum", t.pointwise("maximum", t.cast(places, "int32"), 0), _last(t, dim))


def _last(t: Tracer, dim: Dim) -> Any:
    """The last place of a dimension; of a loop's tile the last lane inside the loop's bounds."""
    if dim.tile is None or t.tiles[dim.tile].lengths is not None:
        return t.size(dim.extent - 1)
    times = dim.extent.quotient(t.tiles[dim.tile].block)
    if times is None or times != dim.step:  # lanes of other places lie between the tile's
        return t.size(dim.extent - 1)
    lanes = t.valid_lanes(dim.tile)
    return lanes - 1 if times.constant == 1 else lanes * t.size(times) - 1


def _is_inside(t: Tracer, dim: Dim, places: Value) -> bool:
    """Whether indices are known to lie inside a dimension. A loop's tile is known to have one element: the last one may
    be as short."""
    found = interval(t, places)
    end = None if found.most is None else found.most + 1
    size = dim.extent if dim.tile is None else Expr.of(1)
    inside = between(t, found.least, end, size, without_lanes(t, places))
    return inside.below.constant == 1 and inside.above.constant == 1
