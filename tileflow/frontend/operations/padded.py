"""Reshapes of dimensions that are no power of two: their registers are padded, so that elements move to other lanes.

The padded lanes are merged as they lie, an element for each lane of the new dimensions is gathered from them, and that
is taken apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...errors import TraceError
from ...expr import Expr
from ...ir.attributes import NO_ATTRS, ReshapeAttrs
from ...ir.kinds import OpKind
from ...ir.types import Dim, TileType, Value
from ..dimensions import show
from ..trace import Tracer
from ..values import TileValue
from .along import run, taken
from .extents import known, runs


def reshaped(t: Tracer, value: Value, dims: Sequence[Dim]) -> TileValue:
    """``value`` under ``dims``, of as many elements. Raises TraceError where a loop's tile would move."""
    x, axis = t.wrap(value), 0
    for before, after in runs(value.dims, dims):
        if not before or not after:  # dimensions of 1 alone
            for _ in before:
                x = x.squeeze(axis)
            for _ in after:
                x = x.unsqueeze(axis)
        elif before != after:
            x = _moved(t, x, axis, _sizes(t, before, value.dims, dims), _sizes(t, after, value.dims, dims))
        axis += len(after)
    return x


def _sizes(t: Tracer, dims: Sequence[Dim], old: Sequence[Dim], new: Sequence[Dim]) -> list[int]:
    sizes = [known(t, d.extent).constant for d in dims]
    if None in sizes or any(d.tile is not None for d in dims):
        raise TraceError(
            "a reshape in registers changes dimensions of constant sizes, and a loop's of a power of two",
            got=f"{show(tuple(old))} as {show(tuple(new))}",
            where=t.location(),
            hint="index the tensor with the shape that is needed",
        )
    return [size for size in sizes if size is not None]


def _moved(t: Tracer, x: TileValue, axis: int, old: list[int], new: list[int]) -> TileValue:
    """The dimensions from ``axis`` on that have the sizes ``old`` as ``new``."""
    merged = _as(t, x, axis, len(old), OpKind.NARROW, [_padded(n) for n in old]) if len(old) > 1 else x
    merged = _as(t, merged, axis, len(old), OpKind.RESHAPE, [prod(map(_padded, old))]) if len(old) > 1 else x
    lanes = run(t, 0, prod(map(_padded, new)) if len(new) > 1 else new[0])
    number = _converted(t, lanes, [_padded(n) for n in new], new) if len(new) > 1 else lanes
    places = _converted(t, number, old, [_padded(n) for n in old]) if len(old) > 1 else number
    places = t.pointwise("minimum", places, prod(map(_padded, old)) - 1 if len(old) > 1 else old[0] - 1)
    found = taken(t, merged, axis, places)  # lanes that pad registers name any element
    if len(new) == 1:
        return found
    return _as(t, _as(t, found, axis, 1, OpKind.RESHAPE, [_padded(n) for n in new]), axis, len(new), OpKind.NARROW, new)


def _as(t: Tracer, x: TileValue, axis: int, count: int, kind: OpKind, sizes: list[int]) -> TileValue:
    """``count`` dimensions under other sizes, their registers as they are."""
    dims = x.value.dims
    made = (*dims[:axis], *(Dim(Expr.of(n)) for n in sizes), *dims[axis + count :])
    attrs = ReshapeAttrs() if kind is OpKind.RESHAPE else NO_ATTRS
    return x if made == dims else t.emit(kind, (x.value,), TileType(x.value.type.dtype, made), attrs)


def _converted(t: Tracer, number: TileValue, from_sizes: list[int], to_sizes: list[int]) -> TileValue:
    """Where the element of a row-major ``number`` in a box of ``from_sizes`` lies in one of ``to_sizes``."""
    total: TileValue | None = None
    for n, size in enumerate(from_sizes):
        inner, outer = prod(from_sizes[n + 1 :]), prod(to_sizes[n + 1 :])
        digit = number if inner == 1 else t.pointwise("truncdiv", number, inner)
        digit = digit if n == 0 else t.pointwise("fmod", digit, size)
        term = digit if outer == 1 else digit * outer
        total = term if total is None else total + term
    assert total is not None
    return total


def _padded(size: int) -> int:
    return 1 << (size - 1).bit_length()
