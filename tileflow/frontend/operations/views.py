"""Views of register tiles: the same elements under other dimensions, or as another dtype."""

from __future__ import annotations

from typing import Any

import torch

from ...errors import ShapeError, TraceError
from ...ir.attributes import AxisAttrs, PermuteAttrs
from ...ir.kinds import OpKind
from ...ir.types import ONE, TileType, Value, itemsize
from ...language.rules import AS_WIDE, CONVERTED
from ..promotion import dtype_name
from ..torch_registry import register_torch
from ..trace import Tracer
from ..values import TileValue
from .reshape import axis_of, is_scalar, reshape, shape_of, value_of


@register_torch("unsqueeze")
def unsqueeze(t: Tracer, x: Any, dim: int) -> TileValue:
    """``x`` with a new dimension of extent 1 at ``dim``; a scalar becomes a tile of one element."""
    value = value_of(t, x)
    axis = axis_of(t, dim, len(value.dims) + 1)
    if not value.dims:
        return t.full((ONE,), x, value.type.dtype)
    dims = (*value.dims[:axis], ONE, *value.dims[axis:])
    return t.emit(OpKind.UNSQUEEZE, (value,), TileType(value.type.dtype, dims), AxisAttrs(axis))


@register_torch("squeeze")
def squeeze(t: Tracer, x: Any, dim: Any = None) -> TileValue:
    """Drop dimensions of the constant extent 1; a tile's dimension is never one, whatever its block size.

    A dimension that ``unsqueeze`` or ``keepdim`` added is undone: a reshape would leave the value in a layout of its
    own, from which a broadcast goes through shared memory, lane by lane.
    """
    value = value_of(t, x)
    if is_scalar(t, x, *([] if dim is None else [dim] if isinstance(dim, int) else dim)):
        return t.wrap(value)
    rank = len(value.dims)
    axes = range(rank) if dim is None else [axis_of(t, d, rank) for d in ([dim] if isinstance(dim, int) else dim)]
    for axis in sorted((a for a in axes if value.dims[a] == ONE), reverse=True):
        maker = t.builder.definitions.get(value)
        if maker is not None and maker.kind is OpKind.UNSQUEEZE and AxisAttrs.of(maker).axis == axis:
            value = maker.values[0]
            continue
        dims = value.dims[:axis] + value.dims[axis + 1 :]
        value = t.emit(OpKind.SQUEEZE, (value,), TileType(value.type.dtype, dims), AxisAttrs(axis)).value
    return t.wrap(value)


@register_torch("permute")
def permute(t: Tracer, x: Any, *dims: Any) -> TileValue:
    """``x`` with its dimensions in another order. Raises ShapeError unless each is named once."""
    value = value_of(t, x)
    order = shape_of(dims)
    rank = len(value.dims)
    axes = tuple(axis_of(t, d, rank) for d in order)
    if sorted(axes) != list(range(rank)):
        raise ShapeError(
            f"permute names each of {rank} dimensions once",
            got=order,
            where=t.location(),
            hint="permute(1, 0) of two, (0, 2, 1) of three",
        )
    if axes == tuple(range(rank)):
        return t.wrap(value)
    return t.emit(
        OpKind.PERMUTE, (value,), TileType(value.type.dtype, tuple(value.dims[a] for a in axes)), PermuteAttrs(axes)
    )


@register_torch("transpose", "swapaxes", "swapdims")
def transpose(t: Tracer, x: Any, dim0: int, dim1: int) -> TileValue:
    """``x`` with two dimensions exchanged."""
    if is_scalar(t, x, dim0, dim1):
        return t.wrap(value_of(t, x))
    rank = len(value_of(t, x).dims)
    order = list(range(rank))
    a, b = axis_of(t, dim0, rank), axis_of(t, dim1, rank)
    order[a], order[b] = order[b], order[a]
    return permute(t, x, order)


@register_torch("movedim", "moveaxis")
def movedim(t: Tracer, x: Any, source: Any, destination: Any) -> TileValue:
    """``x`` with the dimensions ``source`` moved to ``destination``, and the others in their order."""
    rank = max(len(value_of(t, x).dims), 1)
    sources, targets = ([d] if isinstance(d, int) else [*d] for d in (source, destination))
    if len(sources) != len(targets):
        raise ShapeError(
            "movedim takes a destination for each source",
            got=f"{source} to {destination}",
            where=t.location(),
            hint="x.movedim((0, 1), (1, 0))",
        )
    places = {axis_of(t, to, rank): axis_of(t, axis, rank) for axis, to in zip(sources, targets, strict=True)}
    if is_scalar(t, x):
        return t.wrap(value_of(t, x))
    rest = iter(a for a in range(rank) if a not in places.values())
    return permute(t, x, [places[n] if n in places else next(rest) for n in range(rank)])


@register_torch("t")
def t_(t: Tracer, x: Any) -> TileValue:
    """The transpose of a matrix; a tile with fewer dimensions as it is. Raises ShapeError for more."""
    rank = len(value_of(t, x).dims)
    if rank > 2:
        raise ShapeError(
            "t() and .T take a tile of at most two dimensions",
            got=rank,
            where=t.location(),
            hint="use .mT, transpose(...) or permute(...)",
        )
    return x if rank < 2 else transpose(t, x, 0, 1)


@register_torch("expand", "broadcast_to")
def expand(t: Tracer, x: Any, *sizes: Any) -> TileValue:
    """``-1`` keeps a size."""
    value = value_of(t, x)
    shape = shape_of(sizes)
    skipped = len(shape) - len(value.dims)
    dims = tuple(
        value.dims[n - skipped] if isinstance(s, int) and s == -1 else t.dims_of([s])[0] for n, s in enumerate(shape)
    )
    return t.expand(t.wrap(value), dims)


@register_torch("expand_as")
def expand_as(t: Tracer, x: Any, other: Any) -> TileValue:
    """``x`` broadcast to the dimensions of ``other``."""
    return t.expand(x, other.value.dims)


@register_torch("broadcast_tensors")
def broadcast_tensors(t: Tracer, *tiles: Any) -> tuple[TileValue, ...]:
    """All tiles broadcast to the dimensions that they have together."""
    given = shape_of(tiles)
    values = [value_of(t, x) for x in given]
    dims = t.broadcast([v.dims for v in values])
    found = [t.expand(t.wrap(v), dims) for v in values]
    pairs = zip(found, given, strict=True)
    return tuple(t.viewing(one, of) if isinstance(of, TileValue) else one for one, of in pairs)


def _as_bits(t: Tracer, value: Value, dtype: str) -> TileValue:
    """The same bits as another dtype of the same width. Of a bool registers hold one bit, memory a byte."""
    if value.type.dtype == dtype:
        return t.wrap(value)
    if value.type.dtype == "bool":
        value = t.cast(t.wrap(value), "uint8").value
    if dtype == "bool":
        return t.pointwise("ne", _as_bits(t, value, "uint8"), 0)
    return t.wrap(value) if value.type.dtype == dtype else t.emit(OpKind.BITCAST, (value,), TileType(dtype, value.dims))


@register_torch("view")
def view(t: Tracer, x: Any, *sizes: Any, dtype: torch.dtype | None = None) -> TileValue:
    """Other dimensions, or another dtype of the same width."""
    sizes = sizes if dtype is None else (dtype,)
    if len(sizes) == 1 and isinstance(sizes[0], torch.dtype):
        value = value_of(t, x)
        if itemsize(dtype_name(sizes[0])) != itemsize(value.type.dtype):
            raise TraceError(
                AS_WIDE,
                where=t.location(),
                got=f"{value.type.dtype} as {dtype_name(sizes[0])}",
                hint=CONVERTED,
            )
        return _as_bits(t, value, dtype_name(sizes[0]))
    return reshape(t, x, *sizes)
