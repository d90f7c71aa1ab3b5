"""Loads and stores: ``x[...]`` and ``x[...] = value`` recorded. What an index names is worked out in :mod:`resolve`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..ir.graph import IndexItem, Op, Operand, ValueIndex
from ..ir.types import Dim, TileType, Value
from .resolve import Resolved, resolve, written
from .trace import Tracer
from .values import TensorRef, TileValue


def load(
    tracer: Tracer, ref: TensorRef, index: Any, extra_mask: Any = None, eviction_policy: str | None = None
) -> TileValue:
    """Record ``ref[index]``."""
    resolved = resolve(tracer, ref, index, reads=True, masked=extra_mask is not None)
    attrs = {"tensor": ref.path, "index": tuple(resolved.items), "site": tracer.names.numbered(f"load:{ref.path}"),
             "other": 0.0, "has_mask": extra_mask is not None, "eviction": eviction_policy}  # fmt: skip
    inputs = list(resolved.inputs)
    if extra_mask is not None:
        inputs.append(tracer.expand(_tile(tracer, resolved, extra_mask, "bool"), tuple(resolved.dims)).value)
    result = tracer.emit("load", tuple(inputs), TileType(ref.dtype_name, tuple(resolved.dims)), **attrs)
    for axis in resolved.new_axes:
        result = result.unsqueeze(axis)
    return result


def store(tracer: Tracer, ref: TensorRef, index: Any, value: Any, extra_mask: Any = None) -> None:
    """Record ``ref[index] = value``; the value is broadcast and converted to the tensor's dtype."""
    place = destination(tracer, ref, index, (value,), extra_mask)
    attrs = {"tensor": ref.path, "index": place.items, "site": tracer.names.numbered(f"store:{ref.path}"),
             "has_mask": extra_mask is not None}  # fmt: skip
    tracer.builder.append(Op("store", place.inputs, (), attrs, (), tracer.location()))


@dataclass(frozen=True, slots=True)
class Destination:
    """Where an op writes. ``inputs``: the values, broadcast to ``dims``; the index values; an explicit mask.
    ``items``: the index over those inputs."""

    inputs: tuple[Operand, ...]
    items: tuple[IndexItem, ...]
    dims: tuple[Dim, ...]


def destination(
    tracer: Tracer, ref: TensorRef, index: Any, values: tuple[Any, ...], extra_mask: Any = None
) -> Destination:
    """What writing ``values`` to ``ref[index]`` takes."""
    resolved = resolve(tracer, ref, index, reads=False, masked=extra_mask is not None)
    dims = tuple(resolved.dims)
    tiles = [_tile(tracer, resolved, value, ref.dtype_name) for value in values]
    tiles = [tracer.wrap(v) for v in tracer.opposite([tile.value for tile in tiles], dims) if isinstance(v, Value)]
    for tile in tiles:
        # lanes that a value does not have are not written, also where the index is a slice over the bare block size
        merged = tracer.broadcast([dims, tile.value.dims])
        if tuple(d.extent for d in merged) == tuple(d.extent for d in dims):
            dims = merged
    inputs: list[Operand] = [*(tracer.expand(tile, dims).value for tile in tiles), *resolved.inputs]
    if extra_mask is not None:
        inputs.append(tracer.expand(_tile(tracer, resolved, extra_mask, "bool"), dims).value)
    count = len(values)
    items = tuple(replace(i, input=i.input + count) if isinstance(i, ValueIndex) else i for i in resolved.items)
    return Destination(tuple(inputs), items, dims)


def _tile(tracer: Tracer, resolved: Resolved, value: Any, dtype: str) -> TileValue:
    """A value or a number as a tile without the dimensions that the index inserts."""
    operand = tracer.operand(value)
    tile = tracer.wrap(operand) if isinstance(operand, Value) else tracer.full((), operand, dtype)
    return written(tracer, resolved, tile)
