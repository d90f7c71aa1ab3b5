"""Sorting a dimension: the op ``sort`` orders 64-bit ints, so a key and its place are packed into one.

Places in the low half make every key another, and the order stable. NaN is the largest, and -0.0 equals 0.0, as in
torch; what comes back is 0.0.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from ...errors import ShapeError, TraceError
from ...expr import is_knob
from ...ir.attributes import AxisAttrs
from ...ir.kinds import OpKind
from ...ir.signs import is_nonnegative
from ...ir.types import INT32_MAX, ONE, TileType, is_float, itemsize
from ...language.rules import along_a_row, takes_a_dim
from ..dimensions import show
from ..intervals import interval
from ..torch_registry import named, register_torch
from ..trace import Tracer
from ..values import TileValue
from .extents import known
from .reductions import any_, reduce
from .reshape import axis_of, is_scalar
from .slices import part, size_of
from .statistics import lanes
from .tile_index import nearest
from .views import movedim, view

_ALL_BITS = 0x7FFFFFFF  # but the sign's; as a float a NaN
_PLACE = 0x7FFFFFFF
_WHOLE = (
    "take a whole dimension, x[tile, :], or a slice of an int's length, x[t.begin : t.begin + 64], and mask its tail"
)


def _places(t: Tracer, x: TileValue, axis: int, descending: bool, count: int | None = None) -> TileValue:
    """Packed ints along the last dimension, in the order of ``x`` along ``axis``: the places are their low halves.

    All of them, or the first ``count``."""
    _check_whole(t, x, axis)
    key: Any = t.cast(_key(t, x), "int64")
    packed = ((~key if descending else key) << 32) | t.cast(lanes(t, x, axis), "int64")
    last = movedim(t, packed, axis, -1).value
    dims = last.dims if count is None else (*last.dims[:-1], *t.dims_of([count]))
    return t.emit(OpKind.SORT, (last,), TileType(last.type.dtype, dims), AxisAttrs(len(dims) - 1))


def _check_whole(t: Tracer, x: TileValue, axis: int) -> None:
    """Raises ShapeError for a loop's tile whose size the config chooses: the order would be that of each block. The
    rows of a jagged tile are whole."""
    name = x.value.dims[axis].tile
    tile = None if name is None else t.tiles[name]
    if tile is not None and tile.lengths is None and any(map(is_knob, tile.block.symbols())):
        raise ShapeError(
            "a sort takes a dimension in one piece",
            got=f"{show(x.value.dims)}, of which a block of the loop {name} is at hand",
            where=t.location(),
            hint=_WHOLE,
        )


def _key(t: Tracer, x: TileValue) -> TileValue:
    """An int in the order of ``x``. Raises TraceError where it has no room for it."""
    dtype = x.value.type.dtype
    if dtype == "int64" and _fits(t, x):
        return t.cast(x, "int32")
    if itemsize(dtype) > 4 or dtype == "uint32":
        raise TraceError("a tile is sorted by keys of 32 bits", got=dtype, where=t.location(), hint=_narrower(dtype))
    if not is_float(dtype):
        return x
    bits: Any = view(t, t.cast(x, "float32") + 0.0, torch.int32)  # -0.0 + 0.0 is 0.0
    ordered = t.pointwise("where", bits < 0, bits ^ _ALL_BITS, bits)
    return t.pointwise("where", t.pointwise("isnan", x), _ALL_BITS, ordered)


def _narrower(dtype: str) -> str:
    """How to sort what has no key, and what that loses."""
    if is_float(dtype):
        return (
            "x.float() is sorted, with a loss: it rounds to 24 bits, elements that are equal then keep their order, "
            "and what is sorted is rounded; torch.sort in host code loses nothing"
        )
    most = "of 2**31 and more" if dtype == "uint32" else "beyond 32 bits"
    return f"x.int() is sorted, where all elements fit: those {most} wrap around; torch.sort in host code takes any"


def _fits(t: Tracer, x: TileValue) -> bool:
    """Whether integers have 31 bits, as places of sorted elements have."""
    found = interval(t, x.value)
    if found.least is None or found.most is None:
        return False
    return is_nonnegative(found.least) and is_nonnegative(INT32_MAX - found.most)


def _alone(t: Tracer, x: TileValue) -> tuple[TileValue, TileValue]:
    """A tile without dimensions, sorted: itself, in the first place."""
    return x, t.full((), 0, "int64")


def _back(t: Tracer, packed: Any, axis: int) -> TileValue:
    return movedim(t, packed & _PLACE, -1, axis)


def _pair(t: Tracer, x: TileValue, packed: Any, axis: int, descending: bool) -> tuple[TileValue, TileValue]:
    """The elements, out of their keys, and their places. Gathering as many elements as registers hold costs more, and
    some of Triton's versions take minutes to compile it."""
    key: Any = t.cast(packed >> 32, "int32")
    key = ~key if descending else key
    dtype = x.value.type.dtype
    if is_float(dtype):
        key = view(t, t.pointwise("where", key < 0, key ^ _ALL_BITS, key), torch.float32)
    return movedim(t, t.cast(key, dtype), -1, axis), _back(t, packed, axis)


@register_torch("sort")
def sort(t: Tracer, x: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """The elements in order along ``dim`` and their places, as torch's named pair; the order is always stable."""
    if is_scalar(t, x, dim):
        return named("sort", *_alone(t, x))
    axis = axis_of(t, dim, x.ndim)
    return named("sort", *_pair(t, x, _places(t, x, axis, descending), axis, descending))


@register_torch("argsort")
def argsort(t: Tracer, x: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """The places that put ``dim`` in order."""
    if is_scalar(t, x, dim):
        return _alone(t, x)[1]
    axis = axis_of(t, dim, x.ndim)
    return _back(t, _places(t, x, axis, descending), axis)


@register_torch("msort")
def msort(t: Tracer, x: Any) -> Any:
    """The elements in order along the first dimension."""
    return sort(t, x, 0)[0]


@register_torch("topk")
def topk(t: Tracer, x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """The ``k`` largest or smallest elements along ``dim``, in order, and their places."""
    axis = axis_of(t, dim, max(x.ndim, 1))
    size = size_of(t, x, axis, "topk", hint=_WHOLE) if x.ndim else 1
    count = int(k)
    if not 1 <= count <= size:
        raise TraceError(
            "topk takes 1 to all of the elements", got=f"{count} of {size}", where=t.location(), hint="a k of 1 or more"
        )
    if not x.ndim:
        return named("topk", *_alone(t, x))
    kept = max(count, 2)  # of one alone, and a block of one row, Triton's interpreter makes a scalar, which has no size
    packed = _places(t, x, axis, largest, kept if 2 * _registers(kept) <= _registers(size) else None)
    if packed.value.dims[-1].extent.constant != count:
        packed = part(t, packed, packed.ndim - 1, slice(0, count))
    return named("topk", *_pair(t, x, packed, axis, largest))


def _registers(size: int) -> int:
    """How many lanes a dimension has in registers."""
    return 1 << (size - 1).bit_length()


@register_torch("kthvalue")
def kthvalue(t: Tracer, x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """The ``k``-th smallest element along ``dim``, counted from 1, and its place. ``k``: an int, or the kernel's."""
    axis = axis_of(t, dim, max(x.ndim, 1))
    along = x.value.dims[axis] if x.ndim else ONE
    size = (
        known(t, along.extent).constant if along.tile is None else None
    )  # a loop's tile has as many as its config says
    if isinstance(k, int) and (k < 1 or (size is not None and k > size)):
        raise TraceError(
            "kthvalue takes a k from 1 to the number of elements",
            got=f"{k} of {along.extent if size is None else size}",
            where=t.location(),
            hint="the smallest is the first: k=1; a k of each call's own: min(max(k, 1), n)",
        )
    if not isinstance(k, int) and not (isinstance(k, TileValue) and not k.ndim and not is_float(k.value.type.dtype)):
        raise TraceError(
            "kthvalue takes one int as k",
            got=f"a tile of {k.ndim} dimensions, {k.dtype}" if isinstance(k, TileValue) else type(k).__name__,
            where=t.location(),
            hint="convert it: int(k); another k for each row: x.sort(dim)[0].gather(dim, k[:, None] - 1)",
        )
    return named("kthvalue", *_alone(t, x)) if not x.ndim else named("kthvalue", *_at(t, x, k - 1, axis, keepdim))


def _no_dim(t: Tracer, x: TileValue, name: str) -> TraceError:
    return TraceError(takes_a_dim(name), got=show(x.value.dims), where=t.location(), hint=along_a_row(name))


@register_torch("median")
def median(t: Tracer, x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower of two middle elements; NaN where there is one."""
    if is_scalar(t, x, dim or 0):
        return x if dim is None else named("median", *_alone(t, x))
    if dim is None and x.ndim != 1:
        raise _no_dim(t, x, "median")
    axis = axis_of(t, 0 if dim is None else dim, x.ndim)
    size = size_of(t, x, axis, "median")
    middle: Any = (size - 1) // 2
    if x.is_floating_point():
        middle = t.pointwise("where", any_(t, t.pointwise("isnan", x), axis, True), size - 1, middle)
    found = _at(t, x, middle, axis, keepdim)
    return found[0] if dim is None else named("median", *found)


@register_torch("nanmedian")
def nanmedian(t: Tracer, x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower of two middle elements among those that are no NaN."""
    if not x.is_floating_point():
        return median(t, x, dim, keepdim)
    if is_scalar(t, x, dim or 0):
        return x if dim is None else named("nanmedian", *_alone(t, x))
    if dim is None and x.ndim != 1:
        raise _no_dim(t, x, "nanmedian")
    axis = axis_of(t, 0 if dim is None else dim, x.ndim)
    size_of(t, x, axis, "nanmedian")
    numbers: Any = reduce(t, "sum", t.cast(x == x, "int32"), axis, True)
    found = _at(t, x, t.pointwise("maximum", numbers - 1, 0) // 2, axis, keepdim)
    return found[0] if dim is None else named("nanmedian", *found)


_BETWEEN = ("linear", "lower", "higher", "nearest", "midpoint")


@register_torch("quantile")
def quantile(
    t: Tracer, x: Any, q: float, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Any:
    """What a share ``q`` of the elements along ``dim`` lies below: between two of them as ``interpolation`` says. NaN
    where there is one."""
    if not isinstance(q, (int, float)) or not 0 <= q <= 1 or interpolation not in _BETWEEN:
        raise TraceError(
            f"quantile takes a number from 0 to 1, and an interpolation of {', '.join(_BETWEEN)}",
            got=f"{q!r}, {interpolation!r}"[:200],
            where=t.location(),
            hint="several by several calls: torch.quantile(x, 0.25, dim), torch.quantile(x, 0.75, dim)",
        )
    if is_scalar(t, x, dim or 0):
        return x
    if dim is None and x.ndim != 1:
        raise _no_dim(t, x, "quantile")
    axis = axis_of(t, 0 if dim is None else dim, x.ndim)
    last = size_of(t, x, axis, "quantile") - 1
    place = q * last
    low, high = math.floor(place), math.ceil(place)
    if interpolation == "nearest":
        low = high = round(place)
    low, high = (high if interpolation == "higher" else low), (low if interpolation == "lower" else high)
    ordered = sort(t, x, axis)[0]
    below, above = (part(t, ordered, axis, slice(n, n + 1)) for n in (low, high))
    weight = 0.5 if interpolation == "midpoint" else place - low
    found: Any = below if low == high else below + (above - below) * weight
    found = t.pointwise("where", any_(t, t.pointwise("isnan", x), axis, True), math.nan, found)
    return found if keepdim else found.squeeze(axis)


def _at(t: Tracer, x: TileValue, position: Any, dim: int, keepdim: bool) -> tuple[TileValue, TileValue]:
    """The element at a position of the sorted dimension, and its place in ``x``."""
    axis = axis_of(t, dim, x.ndim)
    packed = _back(t, _places(t, x, axis, descending=False), axis)
    if isinstance(position, int) or not position.ndim:
        first: Any = t.full((*packed.value.dims[:axis], *t.dims_of([1]), *packed.value.dims[axis + 1 :]), 0, "int32")
        position = t.cast(first + position, "int32")
    places = nearest(t, packed, axis, position)
    values = nearest(t, x, axis, places)
    return (values, places) if keepdim else (values.squeeze(axis), places.squeeze(axis))
