"""Loads and stores: ``x[...]`` and ``x[...] = value`` recorded. What an index names is worked out in :mod:`resolve`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from ..errors import TraceError
from ..ir.attributes import AccessAttrs, LoadAttrs, PointwiseAttrs, StoreAttrs
from ..ir.graph import IndexItem, Op, Operand, SliceIndex, ValueIndex
from ..ir.kinds import OpKind
from ..ir.types import Dim, TileType, Value, is_float
from .held_numbers import check_number
from .intervals import check_widened
from .loaded_parts import remember
from .part_views import INSIDE, PartRef, view_items
from .promotion import promote
from .resolve import Resolved, check_once, resolve, written
from .side_by_side import parts_of
from .syntax_registry import SYNTAX, register_syntax
from .taken import Taken
from .trace import Tracer
from .values import TensorRef, TileValue


@register_syntax("load")
def load(
    tracer: Tracer,
    ref: TensorRef,
    index: Any,
    extra_mask: Any = None,
    eviction_policy: str | None = None,
    other: Any = 0,
    taken: Taken | None = None,
) -> TileValue:
    """Record ``ref[index]``; ``other`` is what lanes hold that are not loaded: outside the tensor, or masked.
    ``taken``: where brackets say it."""
    if isinstance(ref, PartRef):
        joined = ref.index_of(index, extra_mask is not None)
        if joined is None:
            return _of_registers(tracer, ref, index, (eviction_policy, other))
        ref, index = ref.part.ref, joined
    if not isinstance(other, (bool, int, float)):
        return _filled(tracer, ref, index, extra_mask, eviction_policy, other)
    resolved = resolve(tracer, ref, index, reads=True, masked=extra_mask is not None)
    site = tracer.names.numbered(f"load:{ref.path}")
    attrs = LoadAttrs(
        ref.path, tuple(resolved.items), site, extra_mask is not None, _fill(tracer, ref, other), eviction_policy
    )
    inputs = list(resolved.inputs)
    if extra_mask is not None:
        inputs.append(
            tracer.expand(_tile(tracer, resolved, extra_mask, "bool", is_mask=True), tuple(resolved.dims)).value
        )
    result = tracer.emit(OpKind.LOAD, tuple(inputs), TileType(ref.dtype_name, tuple(resolved.dims)), attrs)
    given = [item for item in resolved.given if item is not None]
    if extra_mask is None and eviction_policy is None and other == 0:
        remember(tracer, result, ref, given, resolved.items)
    else:
        tracer.loaded.pop(result.value, None)
    if taken is not None and view_items(ref, resolved) is not None:
        result.taken = taken
    for axis in resolved.new_axes:
        result = result.unsqueeze(axis)
    return result


def _of_registers(tracer: Tracer, ref: PartRef, index: Any, asked: tuple[Any, ...]) -> TileValue:
    """What an index names of a part whose ends it may pass: lanes outside are 0, which is beside others in memory."""
    if asked != (None, 0):
        raise TraceError(INSIDE, got=f"{index!r} of {ref!r}"[:200], where=tracer.location(), hint="give extra_mask=")
    found: TileValue = SYNTAX["index_tile"](tracer, ref.all(), index)
    return found


def _fill(tracer: Tracer, ref: TensorRef, other: float) -> float:
    """The number that a load fills with, which the tensor's dtype holds."""
    if not is_float(ref.dtype_name) and other != 0:
        limits = (0, 1) if ref.dtype_name == "bool" else (torch.iinfo(ref.dtype).min, torch.iinfo(ref.dtype).max)
        if other != other or not limits[0] <= other <= limits[1] or other != int(other):
            raise TraceError(
                f"other is a number of {ref.path}'s dtype, {ref.dtype_name}",
                got=repr(other),
                where=tracer.location(),
                hint="torch.where(mask, x, other) promotes both",
            )
        return int(other)
    return float(other)


def _filled(tracer: Tracer, ref: TensorRef, index: Any, mask: Any, eviction: str | None, other: Any) -> TileValue:
    """A load that a tile fills where ``mask`` is false."""
    if mask is None:
        raise TraceError(
            "a tile fills where extra_mask says",
            got="other= alone",
            where=tracer.location(),
            hint="give a number, or extra_mask=index < n",
        )
    loaded = load(tracer, ref, index, mask, eviction)
    return tracer.cast(tracer.pointwise("where", mask, loaded, other), ref.dtype_name)


@register_syntax("store")
def store(tracer: Tracer, ref: TensorRef, index: Any, value: Any, extra_mask: Any = None) -> None:
    """Record ``ref[index] = value``; the value is broadcast and converted to the tensor's dtype."""
    place = destination(tracer, ref, index, (value,), extra_mask)
    kept = None if extra_mask is not None else _kept(tracer, ref, place, value)
    if kept is not None:
        value, extra_mask = kept
        place = destination(tracer, ref, index, (value,), extra_mask, is_inside=False)
    places = [place] if extra_mask is not None else _apart(tracer, place)
    for place in places:
        check_widened(tracer, place.inputs[0], ref.dtype_name)
        attrs = StoreAttrs(ref.path, place.items, tracer.names.numbered(f"store:{ref.path}"), extra_mask is not None)
        tracer.builder.append(Op(OpKind.STORE, place.inputs, (), attrs, (), tracer.location()))


def _apart(tracer: Tracer, place: Destination) -> list[Destination]:
    """The places of the parts of a long tile that was put together, where a slice says where they lie."""
    value, *rest = place.inputs
    for item in place.items:
        if not isinstance(item, SliceIndex) or not isinstance(value, Value):
            continue
        parts, found, start = parts_of(tracer, value, item.axis), [], item.start
        for part in parts:
            own = part.dims[item.axis]
            items = tuple(SliceIndex(start, own, item.axis) if i is item else i for i in place.items)
            found.append(Destination((part, *rest), items, part.dims))
            start = start + own.extent
        if found:
            return found
    return [place]


def _kept(tracer: Tracer, ref: TensorRef, place: Destination, value: Any) -> tuple[TileValue, TileValue] | None:
    """What is stored of ``x[i] = torch.where(mask, value, x[i])``, and where: elements that stay are not written.

    Where lanes that are masked name an element of others, as those past the end of a ragged group do that were sent to
    its first row, a store of what they loaded would undo what the others store.
    """
    made = tracer.builder.definitions
    choice = made.get(value.value) if isinstance(value, TileValue) else None
    if choice is not None and choice.kind is OpKind.CAST and choice.output.type.dtype == ref.dtype_name:
        choice = made.get(choice.values[0]) if choice.values else None
    if choice is None or choice.kind is not OpKind.POINTWISE or PointwiseAttrs.of(choice).fn != "where":
        return None
    mask, chosen, old = choice.inputs
    load = made.get(old) if isinstance(old, Value) else None
    if load is not None and load.kind is OpKind.CAST and _holds(tracer, load.output.type.dtype, ref.dtype_name):
        load = made.get(load.values[0]) if load.values else None
    if load is None or not any(op is load for op in tracer.builder.ops) or not _loads(load, ref, place):
        return None
    written = {path for first, path in tracer.builder.writes if first > load.output.id}
    if written & tracer.sharing(ref.path) or not isinstance(mask, Value) or not isinstance(chosen, Value):
        return None
    return tracer.wrap(chosen), tracer.wrap(mask)


def _holds(tracer: Tracer, wide: str, narrow: str) -> bool:
    with tracer.plain_torch():
        return promote(((wide, True), (narrow, True))) == wide


def _loads(op: Op, ref: TensorRef, place: Destination) -> bool:
    """Whether an op loads just what ``place`` names."""
    if op.kind is not OpKind.LOAD or AccessAttrs.of(op).tensor != ref.path or AccessAttrs.of(op).has_mask:
        return False
    return _named(AccessAttrs.of(op).index, op.inputs) == _named(place.items, place.inputs)


def _named(items: tuple[IndexItem, ...], inputs: tuple[Operand, ...]) -> list[object]:
    return [(inputs[i.input], i.axes) if isinstance(i, ValueIndex) else i for i in items]


@dataclass(frozen=True, slots=True)
class Destination:
    """The place that an op writes to. ``inputs``: the values, broadcast to ``dims``; the index values; an explicit
    mask. ``items``: the index over those inputs."""

    inputs: tuple[Operand, ...]
    items: tuple[IndexItem, ...]
    dims: tuple[Dim, ...]


def destination(
    tracer: Tracer, ref: TensorRef, index: Any, values: tuple[Any, ...], extra_mask: Any = None, is_inside: bool = True
) -> Destination:
    """What writing ``values`` to ``ref[index]`` takes. ``is_inside``: the mask says which lanes lie in the tensor."""
    if isinstance(ref, PartRef):
        ref, index = ref.place(index, extra_mask is not None and is_inside)
    resolved = resolve(tracer, ref, index, reads=False, masked=extra_mask is not None and is_inside)
    dims = tuple(resolved.dims)
    tiles = [_tile(tracer, resolved, value, ref.dtype_name) for value in values]
    check_once(tracer, ref, resolved, tiles)
    tiles = [tracer.wrap(v) for v in tracer.opposite([tile.value for tile in tiles], dims) if isinstance(v, Value)]
    for tile in tiles:
        # lanes that a value does not have are not written, also where the index is a slice over the bare block size
        merged = tracer.broadcast([dims, tile.value.dims])
        if tuple(d.extent for d in merged) == tuple(d.extent for d in dims):
            dims = merged
    inputs: list[Operand] = [*(tracer.expand(tile, dims).value for tile in tiles), *resolved.inputs]
    if extra_mask is not None:
        inputs.append(tracer.expand(_tile(tracer, resolved, extra_mask, "bool", is_mask=True), dims).value)
    count = len(values)
    items = tuple(replace(i, input=i.input + count) if isinstance(i, ValueIndex) else i for i in resolved.items)
    return Destination(tuple(inputs), items, dims)


def _tile(tracer: Tracer, resolved: Resolved, value: Any, dtype: str, is_mask: bool = False) -> TileValue:
    """A value or a number as a tile without the dimensions that the index inserts. Raises TraceError for a mask of
    floats."""
    operand = tracer.operand(value)
    if not isinstance(operand, Value):
        check_number(tracer, operand, dtype)
    elif is_mask and is_float(operand.type.dtype):
        raise TraceError(
            "extra_mask is a tile of bool", got=repr(value), where=tracer.location(), hint="compare: extra_mask=x > 0"
        )
    tile = tracer.wrap(operand) if isinstance(operand, Value) else tracer.full((), operand, dtype)
    return written(tracer, resolved, tile)
