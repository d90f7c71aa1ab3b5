"""Tiles side by side as operands of products: ``torch.cat([a, b], 1) @ w[:, :]`` is a product of each of them with its
own rows of ``w``, added up. A tile that holds all of them could be no loop, and of two rows of 2048 elements there was
no config at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...expr import Expr
from ...ir.attributes import LoadAttrs, PermuteAttrs
from ...ir.graph import Op, SliceIndex
from ...ir.kinds import OpKind
from ...ir.types import Dim, TileType, Value
from ..trace import Tracer
from ..values import TileValue

_LEAST = 256  # elements up to which a product takes what lies side by side as one operand


def remember(t: Tracer, made: TileValue, axis: int, parts: Sequence[Value]) -> TileValue:
    """``made``, whose parts along ``axis`` are known from here on."""
    t.side_by_side[made.value] = axis, tuple(parts)
    return made


def summed_apart(t: Tracer, left: Value, right: Value) -> list[tuple[Value, Value]]:
    """The products that add up to the one of two tiles, of which one is long and of parts that lie side by side in what
    is summed over, and the other was loaded; none where they are not."""
    inner = len(left.dims) - 1, len(right.dims) - 2
    if left.dims[inner[0]].tile is not None or not _is_long(left.dims[inner[0]]):
        return []
    if parts := _parts(t, left, inner[0]):
        slices = list(_slices(t, right, inner[1], [v.dims[inner[0]] for v in parts]))
        return [*zip(parts, slices, strict=True)] if len(slices) == len(parts) else []
    parts = _parts(t, right, inner[1])
    slices = list(_slices(t, left, inner[0], [v.dims[inner[1]] for v in parts]))
    return [*zip(slices, parts, strict=True)] if parts and len(slices) == len(parts) else []


def _is_long(dim: Dim) -> bool:
    size = dim.extent.constant
    return size is not None and size > _LEAST


def _parts(t: Tracer, value: Value, axis: int) -> list[Value]:
    """The tiles that lie side by side along an axis, converted as ``value`` is."""
    known_axis, parts = t.side_by_side.get(value, (axis, ()))
    op = t.builder.definitions.get(value)
    if parts or op is None or op.kind is not OpKind.CAST:
        return list(parts) if known_axis == axis else []
    return [t.cast(t.wrap(part), value.type.dtype).value for part in _parts(t, op.values[0], axis)]


def _slices(t: Tracer, value: Value, axis: int, dims: Sequence[Dim]) -> Iterator[Value]:
    """What of a tile is as long as ``dims`` along an axis, one after the other, loaded apart; nothing where that is not
    what memory holds: where it was not loaded by a slice, or in another block, or was written since."""
    op = t.builder.definitions.get(value)
    if op is None or not _is_as_loaded(t, op):
        return
    if op.kind is OpKind.LOAD:
        start = Expr.of(0)
        for dim in dims:
            piece = _slice(t, op, axis, start, dim)
            if piece is None:
                return
            yield piece
            start = start + dim.extent
    elif op.kind is OpKind.CAST:
        for part in _slices(t, op.values[0], axis, dims):
            yield t.cast(t.wrap(part), value.type.dtype).value
    elif op.kind is OpKind.PERMUTE:
        order = PermuteAttrs.of(op).order
        for part in _slices(t, op.values[0], order[axis], dims):
            yield t.builder.add(OpKind.PERMUTE, (part,), _turned(part, order), op.attrs, t.location())


def _turned(part: Value, order: Sequence[int]) -> TileType:
    return replace(part.type, dims=tuple(part.dims[n] for n in order))


def _is_as_loaded(t: Tracer, op: Op) -> bool:
    if op.kind is not OpKind.LOAD:
        return True
    attrs = LoadAttrs.of(op)
    written = {path for first, path in t.builder.writes if first > op.output.id}
    return not attrs.has_mask and written.isdisjoint(t.sharing(attrs.tensor)) and any(op is o for o in t.builder.ops)


def _slice(t: Tracer, op: Op, axis: int, start: Expr, dim: Dim) -> Value | None:
    attrs = LoadAttrs.of(op)
    own = [item for item in attrs.index if isinstance(item, SliceIndex) and item.axis == axis]
    if len(own) != 1:
        return None
    (old,) = own
    new = SliceIndex(old.start + start, dim, axis)
    index = tuple(new if item is old else item for item in attrs.index)
    site = t.names.numbered(f"load:{attrs.tensor}")
    dims = (*op.output.dims[:axis], dim, *op.output.dims[axis + 1 :])
    attrs = replace(attrs, index=index, site=site)
    return t.builder.add(OpKind.LOAD, op.inputs, replace(op.output.type, dims=dims), attrs, t.location())
