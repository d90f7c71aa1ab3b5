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

from ..errors import TileflowError
from ..expr import Expr
from ..ir.attributes import ArangeAttrs, AxisAttrs, PermuteAttrs
from ..ir.graph import IndexItem, Op, Operand, SliceIndex
from ..ir.kinds import OpKind
from ..ir.types import ONE, Dim, TileType, Value
from .intervals import is_of_indices
from .loaded_tiles import Cut, Part, Run, Shaped, is_number
from .parts import TILE, clipped, is_places, is_simple, is_whole, joined, stays_inside, within
from .syntax_registry import SYNTAX
from .trace import Tracer
from .values import SymInt, TensorRef, TileProxy, TileValue

_LONG = 128  # elements of a dimension, up to which registers find one of them by comparing
_MANY = 1 << 15  # elements of a tile, up to which those that a tile of ints names are found through shared memory


def remember(t: Tracer, loaded: TileValue, ref: TensorRef, given: Sequence[Any], items: Sequence[IndexItem]) -> None:
    """Note what a tile was loaded by: ``given`` as it was written, an item for each of the tensor's dimensions, and
    what it means. Slices, whole dimensions and others, and some by tiles and ints; a tile of ints among them says rows.
    """
    slices = [item for wrote, item in zip(given, items, strict=True) if isinstance(wrote, slice)]
    are_plain = all(map(is_simple, given)) and all(isinstance(item, SliceIndex) for item in slices)
    t.loaded.pop(loaded.value, None)  # of a trace that went back, and gave its number to another
    if slices and are_plain and sum(map(is_places, given)) < 2:
        t.loaded[loaded.value] = Part.named(ref, given, items)


def remember_cut(t: Tracer, part: TileValue, source: TileValue, axis: int, start: int) -> TileValue:
    """``part``, which is known from here on to be cut out of a dimension of ``source``."""
    sizes = [x.value.dims[axis].extent for x in (part, source)]
    if part.value != source.value:
        maker = t.builder.definitions.get(part.value)
        t.cuts[part.value] = Cut(source, axis, Run(Expr.of(start), *sizes), maker)
    return part


def remember_shape(t: Tracer, shaped: TileValue, source: Value) -> TileValue:
    """``shaped``, which is known from here on to be ``source`` under other dimensions."""
    t.reshaped[shaped.value] = Shaped(source, t.builder.definitions.get(shaped.value))
    return shaped


def part_of_loaded(t: Tracer, x: TileValue, index: Sequence[Any]) -> TileValue | None:
    """``x[index]`` read from memory, where ``x`` was loaded whole, and the index names blocks of it, one element of
    many, or some of very many; None where registers give it."""
    items = [item for item in index if item is not None]
    rank = len(x.value.dims)
    if len(items) > rank or not all(map(is_simple, items)):
        return None
    items += [slice(None)] * (rank - len(items))
    items = [_from_the_front(item, dim.extent) for item, dim in zip(items, x.value.dims, strict=True)]
    if not any(_is_better_read(t, x.value.dims, axis, item) for axis, item in enumerate(items)):
        return None
    t.operand(x)  # a tile of another scope, or one that was changed in place, is refused
    part = _read(t, x.value, items)
    return None if part is None else _with_new_axes(part, index)


def _from_the_front(item: Any, size: Expr) -> Any:
    """An int that counts from the end of a known size, and lies inside, by its place."""
    if type(item) is not int or item >= 0 or size.constant is None or item < -size.constant:
        return item
    return item + size.constant


def cut_of_loaded(t: Tracer, x: TileValue, axis: int, start: int, size: int) -> TileValue | None:
    """``size`` elements of a dimension from ``start`` on, read from memory; None where registers have them alone."""
    items = [slice(None)] * len(x.value.dims)
    items[axis] = slice(start, start + size)
    return _read(t, x.value, items)


def _read(t: Tracer, value: Value, items: Sequence[Any]) -> TileValue | None:
    """A part of a value, without a trace where there is none."""
    mark = t.mark()
    part = _part(t, value, items)
    if part is None:
        t.rewind(mark)
    return part


def _part(t: Tracer, value: Value, items: Sequence[Any]) -> TileValue | None:
    """The same of what was loaded, seen through what is done with each element of it, and other dimensions."""
    if all(map(is_whole, items)):
        return t.wrap(value)
    op, cut, shaped = t.builder.definitions.get(value), t.cuts.get(value), t.reshaped.get(value)
    if cut is not None and cut.maker is op:
        item = within(t, cut.run, items[cut.axis])
        return None if item is None else _part(t, cut.source.value, _with(items, cut.axis, item))
    if shaped is not None and shaped.maker is op:
        return _of_reshaped(t, shaped.source, value, items)
    find = None if op is None else _PARTS.get(op.kind)
    return None if op is None or find is None else find(t, op, items)


def _of_loaded(t: Tracer, op: Op, items: Sequence[Any]) -> TileValue | None:
    return _from_memory(t, t.loaded[op.output], items) if op.output in t.loaded else None


def _from_memory(t: Tracer, part: Part, index: Sequence[Any]) -> TileValue | None:
    """A load by two indices, one after the other; None where both name less than a whole dimension, or where it would
    be refused."""
    items = joined(t, part, index, TILE)
    if items is None or not t.sharing(part.ref.path).isdisjoint(t.found.copied):
        return None
    t.read_again.add(part.ref.path)
    found: TileValue = SYNTAX["load"](t, part.ref, items)
    return found


def _of_reshaped(t: Tracer, loaded: Value, shaped: Value, items: Sequence[Any]) -> TileValue | None:
    """Of a whole dimension as several, or of several as one: of a view of the tensor."""
    if loaded not in t.loaded:
        return None
    ref, first, axes = t.loaded[loaded].ref, t.loaded[loaded].items, t.loaded[loaded].axes
    before, old, new = _changed(loaded.dims, shaped.dims)
    own = axes[before : before + len(old)]
    if not own or 1 not in (len(old), len(new)) or not all(_is_all(first[axis]) for axis in range(own[0], own[-1] + 1)):
        return None
    sizes = [d.extent for d in new]
    try:
        if len(new) == 1:
            ref = ref.viewed("flatten", own[0], own[-1])
        else:
            ref = ref.viewed("unflatten", own[0], tuple(map(t.size, sizes)))
    except TileflowError:  # no view of this tensor
        return None
    return _from_memory(t, Part(ref, (*first[: own[0]], *map(Run.all, sizes), *first[own[-1] + 1 :])), items)


def _changed(old: tuple[Dim, ...], new: tuple[Dim, ...]) -> tuple[int, tuple[Dim, ...], tuple[Dim, ...]]:
    """How many dimensions are the same in front, and those that are others, before and after."""
    front = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    most = min(len(old), len(new)) - front
    behind = next((n for n in range(most) if old[-1 - n] != new[-1 - n]), most)
    return front, old[front : len(old) - behind], new[front : len(new) - behind]


def _is_all(item: Any) -> bool:
    return isinstance(item, Run) and item.is_all


def _of_converted(t: Tracer, op: Op, items: Sequence[Any]) -> TileValue | None:
    """Of what was converted, to its own dtype too, which rounds."""
    part = _part(t, op.values[0], items)
    if part is None:
        return None
    return t.emit(op.kind, (part.value,), TileType(op.output.type.dtype, part.value.dims))


def _of_computed(t: Tracer, op: Op, items: Sequence[Any]) -> TileValue | None:
    """Of what is computed element by element: computed again, of the parts of each operand. What lies outside the tile
    is 0, and not what would be computed of zeros."""
    if not all(stays_inside(t, item, dim.extent) for item, dim in zip(items, op.output.dims, strict=True)):
        return None
    inputs: list[Operand] = []
    for operand in op.inputs:
        if not isinstance(operand, Value) or not operand.dims:
            inputs.append(operand)
            continue
        part = _part(t, operand, _beside(items, operand.dims, op.output.dims))
        if part is None:
            return None
        inputs.append(part.value)
    dims = t.broadcast([v.dims for v in inputs if isinstance(v, Value)])
    return t.emit(op.kind, tuple(inputs), TileType(op.output.type.dtype, dims), op.attrs)


def _beside(items: Sequence[Any], dims: tuple[Dim, ...], wide: tuple[Dim, ...]) -> list[Any]:
    """Items of longer dimensions as those of an operand that has a dimension of 1 beside some of them."""
    found = zip(items, dims, wide, strict=True)
    return [(0 if is_number(i) else slice(None)) if dim == ONE != longer else i for i, dim, longer in found]


def _of_expanded(t: Tracer, op: Op, items: Sequence[Any]) -> TileValue | None:
    (value,) = op.values
    dims = [_dim(item, dim) for item, dim in zip(items, op.output.dims, strict=True) if not is_number(item)]
    part = None if None in dims else _part(t, value, _beside(items, value.dims, op.output.dims))
    return None if part is None else t.expand(part, tuple(filter(None, dims)))


def _dim(item: Any, whole: Dim) -> Dim | None:
    """The dimension that an item leaves of a whole one; None where a launch says how long it is."""
    if isinstance(item, TileProxy):
        return item.dim
    if isinstance(item, TileValue):
        return item.value.dims[0]
    if is_whole(item):
        return whole
    part = clipped(item, whole.extent)
    return None if part is None else Dim(Expr.of(len(part)))


def _of_consecutive(t: Tracer, op: Op, items: Sequence[Any]) -> TileValue | None:
    """Of consecutive ints: those of the indices."""
    (item,) = items
    if isinstance(item, (slice, SymInt)) or (isinstance(item, int) and item < 0):
        return None
    lanes = item.index if isinstance(item, TileProxy) else item
    places = lanes if isinstance(lanes, TileValue) else t.full((), lanes, "int32")
    start = ArangeAttrs.of(op).start
    return t.cast(places if start == Expr.of(0) else places + t.size(start), op.output.type.dtype)


def _of_gathered(t: Tracer, op: Op, items: Sequence[Any]) -> TileValue | None:
    """Of elements that the same ints name for all of the other dimensions."""
    source, places = op.values
    axis = AxisAttrs.of(op).axis
    if any(_varies(t, places, other) for other in range(len(places.dims)) if other != axis):
        return None
    named = _part(t, places, [item if n == axis else 0 for n, item in enumerate(items)])
    if named is None:
        return None
    if not is_whole(items[axis]):
        return _part(t, source, _with(items, axis, named))
    part = _part(t, source, items)
    return None if part is None else _gathered(t, part, sum(not is_number(item) for item in items[:axis]), named)


def _gathered(t: Tracer, x: TileValue, axis: int, places: TileValue) -> TileValue:
    dims = _with(x.value.dims, axis, places.value.dims[0])
    for _ in range(axis + 1, x.ndim):
        places = places.unsqueeze(-1)
    found: TileValue = x.gather(axis, t.expand(places, tuple(dims)))
    return found


def _with(items: Sequence[Any], axis: int, item: Any) -> list[Any]:
    return [*items[:axis], item, *items[axis + 1 :]]


def _varies(t: Tracer, value: Value, axis: int) -> bool:
    """Whether a tile is not known to be the same all along a dimension."""
    op = t.builder.definitions.get(value)
    if value.dims[axis] == ONE or op is None or op.kind not in (OpKind.EXPAND, OpKind.POINTWISE, OpKind.CAST):
        return value.dims[axis] != ONE
    return any(_varies(t, v, axis) for v in op.values if v.dims)


def _of_permuted(t: Tracer, op: Op, items: Sequence[Any]) -> TileValue | None:
    order = PermuteAttrs.of(op).order
    part = _part(t, op.values[0], [items[order.index(axis)] for axis in range(len(order))])
    kept = [axis for axis, item in zip(order, items, strict=True) if not is_number(item)]
    turned = [sorted(kept).index(axis) for axis in kept]
    return part if part is None or turned == sorted(turned) else part.permute(*turned)


def _of_unsqueezed(t: Tracer, op: Op, items: Sequence[Any]) -> TileValue | None:
    axis = AxisAttrs.of(op).axis % len(items)
    part = _part(t, op.values[0], [*items[:axis], *items[axis + 1 :]])
    if part is None or is_number(items[axis]):
        return part
    return part.unsqueeze(sum(not is_number(item) for item in items[:axis])) if is_whole(items[axis]) else None


_PARTS: dict[OpKind, Callable[[Tracer, Op, Sequence[Any]], TileValue | None]] = {
    OpKind.LOAD: _of_loaded,
    OpKind.CAST: _of_converted,
    OpKind.POINTWISE: _of_computed,
    OpKind.EXPAND: _of_expanded,
    OpKind.ARANGE: _of_consecutive,
    OpKind.GATHER: _of_gathered,
    OpKind.PERMUTE: _of_permuted,
    OpKind.UNSQUEEZE: _of_unsqueezed,
}


def _with_new_axes(part: TileValue, index: Sequence[Any]) -> TileValue:
    axis = 0
    for item in index:
        part = part.unsqueeze(axis) if item is None else part
        axis += item is None or not is_number(item)
    return part


# ---- items of an index ----------------------------------------------------------------------------------------------


def _is_better_read(t: Tracer, dims: tuple[Dim, ...], axis: int, item: Any) -> bool:
    """Whether an item names so little of a tile that loading it again costs less than finding it in registers: a block;
    one element of many, which is found by comparing each lane's number; some of very many, found through shared
    memory."""
    if isinstance(item, TileProxy):
        return True
    if is_number(item):
        size = dims[axis].extent.constant
        return dims[axis].tile is None and (size is None or size > _LONG)
    if not is_places(item):
        return False
    known = (d.extent for d in dims if d.tile is None and d.extent.symbols() <= t.hints.keys())
    return is_of_indices(t, item.value) or math.prod(size.evaluate(t.hints) for size in known) > _MANY
