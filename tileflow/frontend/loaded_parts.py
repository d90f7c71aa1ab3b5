"""Parts of what was loaded whole: ``batch = x[b]`` and then ``batch[rows, :]`` is one load, of ``x[b, rows, :]``.

An author who takes a batch, a head or a row out of a tensor by its number, and hands it to a function or to a loop over
its parts, has a view in torch. Here brackets on a tensor load what they name: all of it would lie in registers, or
would find no room there, for the blocks that are read of it. So brackets on a tile that was loaded whole are brackets
on its tensor, with the index of both.

What was loaded is a copy. A region that writes to the tensor is traced once more with the copy kept
(:class:`tileflow.frontend.lower._Lowering`): which loads a store comes between is known at the end alone, as a loop
comes back to its first line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..expr import Expr
from ..ir.attributes import AxisAttrs, PermuteAttrs
from ..ir.graph import Op, Operand
from ..ir.kinds import OpKind
from ..ir.types import ONE, Dim, TileType, Value, is_float
from .affine import between
from .intervals import interval, is_of_indices, without_lanes
from .syntax_registry import SYNTAX
from .trace import Tracer
from .values import SymInt, TensorRef, TileProxy, TileValue

_LONG = 128  # elements of a dimension, up to which registers find one of them by comparing
_MANY = 1 << 15  # elements of a tile, up to which those that a tile of ints names are found through shared memory


def remember(t: Tracer, loaded: TileValue, ref: TensorRef, items: Sequence[Any]) -> None:
    """Note what a tile was loaded by, an item for each of the tensor's dimensions: whole ones, and some by tiles and
    ints. A tile of ints among them says rows."""
    places = sum(map(_is_places, items))
    if any(map(_is_whole, items)) and places < 2 and all(map(_is_simple, items)):
        t.loaded[loaded.value] = ref, tuple(items)


def part_of_loaded(t: Tracer, x: TileValue, index: Sequence[Any]) -> TileValue | None:
    """``x[index]`` read from memory, where ``x`` was loaded whole, and the index names blocks of it, one element of
    many, or some of very many; None where registers give it."""
    items = [item for item in index if item is not None]
    rank = len(x.value.dims)
    if len(items) > rank or not all(map(_is_simple, items)):
        return None
    items += [slice(None)] * (rank - len(items))
    if not any(_is_better_read(t, x.value.dims, axis, item) for axis, item in enumerate(items)):
        return None
    t.operand(x)  # a tile of another scope, or one that was changed in place, is refused
    mark = t.mark()
    part = _part(t, x.value, items)
    if part is None:
        t.rewind(mark)
        return None
    return _with_new_axes(part, index)


def _part(t: Tracer, value: Value, items: Sequence[Any]) -> TileValue | None:
    """The same of what was loaded, seen through what is done with each element of it, and other dimensions."""
    if all(map(_is_whole, items)):
        return t.wrap(value)
    op = t.builder.definitions.get(value)
    find = None if op is None else _PARTS.get(op.kind)
    return None if op is None or find is None else find(t, op, items)


def _of_loaded(t: Tracer, op: Op, items: Sequence[Any]) -> TileValue | None:
    return _again(t, *t.loaded[op.output], items) if op.output in t.loaded else None


def _of_converted(t: Tracer, op: Op, items: Sequence[Any]) -> TileValue | None:
    part = _part(t, op.values[0], items)
    return None if part is None else t.cast(part, op.output.type.dtype)


def _of_computed(t: Tracer, op: Op, items: Sequence[Any]) -> TileValue | None:
    """Of what is computed element by element: computed again, of the parts of each operand. What lies outside the tile
    is 0, and not what would be computed of zeros."""
    if not all(_stays_inside(t, *pair) for pair in zip(items, op.output.dims, strict=True)):
        return None
    inputs: list[Operand] = []
    for operand in op.inputs:
        if not isinstance(operand, Value) or not operand.dims:
            inputs.append(operand)
            continue
        own = zip(items, operand.dims, op.output.dims, strict=True)
        part = _part(t, operand, [_of_one(item) if dim == ONE != wide else item for item, dim, wide in own])
        if part is None:
            return None
        inputs.append(part.value)
    dims = t.broadcast([v.dims for v in inputs if isinstance(v, Value)])
    return t.emit(op.kind, tuple(inputs), TileType(op.output.type.dtype, dims), op.attrs)


def _of_one(item: Any) -> Any:
    """An item of a dimension of 1, which lies beside a longer one that the item is of."""
    return 0 if _is_number(item) else slice(None)


def _of_permuted(t: Tracer, op: Op, items: Sequence[Any]) -> TileValue | None:
    order = PermuteAttrs.of(op).order
    part = _part(t, op.values[0], [items[order.index(axis)] for axis in range(len(order))])
    kept = [axis for axis, item in zip(order, items, strict=True) if not _is_number(item)]
    turned = [sorted(kept).index(axis) for axis in kept]
    return part if part is None or turned == sorted(turned) else part.permute(*turned)


def _of_unsqueezed(t: Tracer, op: Op, items: Sequence[Any]) -> TileValue | None:
    axis = AxisAttrs.of(op).axis % len(items)
    part = _part(t, op.values[0], [*items[:axis], *items[axis + 1 :]])
    if part is None or _is_number(items[axis]):
        return part
    return part.unsqueeze(sum(not _is_number(item) for item in items[:axis])) if _is_whole(items[axis]) else None


_PARTS: dict[OpKind, Callable[[Tracer, Op, Sequence[Any]], TileValue | None]] = {
    OpKind.LOAD: _of_loaded,
    OpKind.CAST: _of_converted,
    OpKind.POINTWISE: _of_computed,
    OpKind.PERMUTE: _of_permuted,
    OpKind.UNSQUEEZE: _of_unsqueezed,
}


def _again(t: Tracer, ref: TensorRef, first: Sequence[Any], second: Sequence[Any]) -> TileValue | None:
    """A load by two indices, one after the other; None where both name less than a whole dimension, or where it would
    be refused."""
    rest = list(second)
    items = [item if _is_number(item) else _joined(item, rest.pop(0)) for item in first]
    if any(item is None for item in items) or sum(map(_is_places, items)) > 1:
        return None
    if any(_runs_past(t, item, size) for item, size in zip(items, ref.dims, strict=True)):
        return None
    if not t.sharing(ref.path).isdisjoint(t.copied):
        return None
    t.read_again.add(ref.path)
    found: TileValue = SYNTAX["load"](t, ref, tuple(items))
    return found


def _joined(first: Any, second: Any) -> Any:
    return second if _is_whole(first) else first if _is_whole(second) else None


def _runs_past(t: Tracer, item: Any, size: Expr) -> bool:
    """Whether a loop leaves a dimension: a tensor refuses it, and lanes outside a tile are 0."""
    if not isinstance(item, TileProxy) or item.offset != Expr.of(0) or item.shift is not None:
        return False
    end = t.tiles[item.name].end
    if not isinstance(end, Expr) or not end.symbols() <= t.hints.keys() or size.constant == 1:
        return False
    return not t.decide(end.le(size))


def _stays_inside(t: Tracer, item: Any, dim: Dim) -> bool:
    """Whether all that an item names is known to lie inside a dimension."""
    if isinstance(item, TileProxy):
        return item.offset == Expr.of(0) and item.shift is None and not _runs_past(t, item, dim.extent)
    if not isinstance(item, TileValue):
        return True
    found = interval(t, item.value)
    end = None if found.most is None else found.most + 1
    inside = between(t, found.least, end, dim.extent, without_lanes(t, item.value))
    return inside.below.constant == 1 and inside.above.constant == 1


def _with_new_axes(part: TileValue, index: Sequence[Any]) -> TileValue:
    axis = 0
    for item in index:
        part = part.unsqueeze(axis) if item is None else part
        axis += item is None or not _is_number(item)
    return part


# ---- items of an index ----------------------------------------------------------------------------------------------


def _is_better_read(t: Tracer, dims: tuple[Dim, ...], axis: int, item: Any) -> bool:
    """Whether an item names less of a tile than is worth to be in registers: a block; one element, where comparing each
    lane's number would find it; some by their numbers, which would go through shared memory."""
    if isinstance(item, TileProxy):
        return True
    if _is_number(item):
        size = dims[axis].extent.constant
        return dims[axis].tile is None and (size is None or size > _LONG)
    if not _is_places(item):
        return False
    sizes = [d.extent.constant or 1 for d in dims if d.tile is None]
    return is_of_indices(t, item.value) or math.prod(sizes) > _MANY


def _is_simple(item: Any) -> bool:
    return isinstance(item, (slice, TileProxy)) or _is_number(item) or _is_places(item)


def _is_whole(item: Any) -> bool:
    return isinstance(item, slice) and item.start is item.stop is item.step is None


def _is_number(item: Any) -> bool:
    if isinstance(item, TileValue):
        return not item.value.dims and not is_float(item.value.type.dtype) and item.value.type.dtype != "bool"
    return isinstance(item, (int, SymInt)) and not isinstance(item, bool)


def _is_places(item: Any) -> bool:
    is_row = isinstance(item, TileValue) and item.ndim == 1
    return is_row and item.value.type.dtype != "bool" and not is_float(item.value.type.dtype)
