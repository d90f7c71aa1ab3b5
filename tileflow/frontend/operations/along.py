"""Elements along a dimension in another order: gathers in registers, which have no addresses, or as they lie."""

from __future__ import annotations

from ...expr import Expr
from ...ir.attributes import ArangeAttrs
from ...ir.kinds import OpKind
from ...ir.types import Dim, TileType
from ..trace import Tracer
from ..values import TileValue
from .extents import known


def run(t: Tracer, start: int, length: int, step: int = 1) -> TileValue:
    """``start + step * [0, length)``."""
    found = t.emit(OpKind.ARANGE, (), TileType("int32", (Dim(Expr.of(length)),)), ArangeAttrs(Expr.of(0)))
    found = found if step == 1 else found * step
    return found + start if start else found


def spread(t: Tracer, x: TileValue, axis: int, places: TileValue) -> TileValue:
    """A 1-D tile of ints in place of a dimension of ``x``, the same ones for all of the others."""
    dims = x.value.dims
    for _ in range(axis + 1, len(dims)):
        places = places.unsqueeze(-1)
    own = places.value.dims[0]
    return t.expand(places, (*dims[:axis], own, *dims[axis + 1 :]))


def taken(t: Tracer, x: TileValue, axis: int, places: TileValue) -> TileValue:
    """The elements of a dimension that a 1-D tile of ints names."""
    found: TileValue = x.gather(axis, spread(t, x, axis, places))
    return found


def named(t: Tracer, x: TileValue, axis: int, places: TileValue) -> TileValue:
    """The elements of a dimension that a tile of ints of any rank names, in whose place the tile's dimensions come."""
    if places.ndim == 1:
        return taken(t, x, axis, places)
    before, after = x.value.dims[:axis], x.value.dims[axis + 1 :]
    *outer, last = places.value.dims
    for _ in outer:
        x = x.unsqueeze(axis)
    table = t.expand(x, (*before, *outer, x.value.dims[axis + len(outer)], *after))
    for _ in after:
        places = places.unsqueeze(-1)
    found: TileValue = table.gather(axis + len(outer), t.expand(places, (*before, *outer, last, *after)))
    return found


def first(t: Tracer, x: TileValue, axis: int, length: int) -> TileValue | None:
    """A dimension of a constant size with ``length`` elements, the first ones its own and any others after them; None
    where registers hold more or fewer."""
    size = known(t, x.value.dims[axis].extent).constant
    if size is None or x.value.dims[axis].tile is not None or _registers(size) != _registers(length):
        return None
    return x if size == length else narrow(t, x, axis, Dim(Expr.of(length)))


def _registers(size: int) -> int | None:
    return Expr.of(size).next_pow2().constant


def narrow(t: Tracer, x: TileValue, axis: int, dim: Dim) -> TileValue:
    """The first ``dim.extent`` lanes of an axis; registers hold as many either way."""
    value = x.value
    dims = (*value.dims[:axis], dim, *value.dims[axis + 1 :])
    return t.emit(OpKind.NARROW, (value,), TileType(value.type.dtype, dims))
