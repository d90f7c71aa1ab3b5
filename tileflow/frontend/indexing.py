"""``x[tile_m, :, None, idx + 1]``: which elements of a tensor a tile of indices names, and in which dimensions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..errors import ShapeError, TraceError
from ..expr import Expr
from ..ir.graph import ExprIndex, IndexItem, Operand, SliceIndex, TileIndex, ValueIndex
from ..ir.types import ONE, Dim, TileType, Value
from .trace import Tracer, show
from .values import SymInt, TensorRef, TileProxy, TileValue


@dataclass(slots=True)
class Resolved:
    """An index over a tensor: one item a tensor dimension, the dims of the result, the axes to insert afterwards."""

    items: list[IndexItem] = field(default_factory=list)
    dims: list[Dim] = field(default_factory=list)
    inputs: list[Operand] = field(default_factory=list)
    new_axes: list[int] = field(default_factory=list)
    tensors: list[tuple[tuple[Dim, ...], tuple[int, ...]]] = field(default_factory=list)


def load(
    tracer: Tracer, ref: TensorRef, index: Any, extra_mask: Any = None, eviction_policy: str | None = None
) -> TileValue:
    """Record ``ref[index]``."""
    resolved = resolve(tracer, ref, index)
    attrs = {"tensor": ref.path, "index": tuple(resolved.items), "site": tracer.names.numbered(f"load:{ref.path}"),
             "other": 0.0, "has_mask": extra_mask is not None, "eviction": eviction_policy}  # fmt: skip
    inputs = list(resolved.inputs)
    if extra_mask is not None:
        inputs.append(tracer.expand(extra_mask, tuple(resolved.dims)).value)
    result = tracer.emit("load", tuple(inputs), TileType(ref.dtype_name, tuple(resolved.dims)), **attrs)
    for axis in resolved.new_axes:
        result = result.unsqueeze(axis)
    return result


def store(tracer: Tracer, ref: TensorRef, index: Any, value: Any, extra_mask: Any = None) -> None:
    """Record ``ref[index] = value``; the value is broadcast and converted to the tensor's dtype."""
    resolved = resolve(tracer, ref, index)
    dims = tuple(resolved.dims)
    operand = tracer.operand(value)
    tile = tracer.wrap(operand) if isinstance(operand, Value) else tracer.full((), operand, ref.dtype_name)
    for axis in reversed(resolved.new_axes):
        tile = tile.squeeze(axis)
    if len(tile.value.dims) > len(dims):
        raise ShapeError("a stored tile must broadcast to the index", got=f"{show(tile.value.dims)} for {show(dims)}",
                         where=tracer.location())  # fmt: skip
    # lanes that the value does not have are not stored, also where the index is a slice over the bare block size
    merged = tracer.broadcast([dims, tile.value.dims])
    if tuple(d.extent for d in merged) == tuple(d.extent for d in dims):
        dims = merged
    tile = tracer.expand(tile, dims)
    inputs: list[Operand] = [tile.value, *resolved.inputs]
    if extra_mask is not None:
        inputs.append(tracer.expand(extra_mask, dims).value)
    from ..ir.graph import Op

    items = tuple(ValueIndex(i.input + 1, i.axes) if isinstance(i, ValueIndex) else i for i in resolved.items)
    attrs = {"tensor": ref.path, "index": items, "site": tracer.names.numbered(f"store:{ref.path}"),
             "has_mask": extra_mask is not None}  # fmt: skip
    tracer.builder.append(Op("store", tuple(inputs), (), attrs, (), tracer.location()))


def resolve(tracer: Tracer, ref: TensorRef, index: Any) -> Resolved:
    """Work out every item of an index. Raises TraceError, ShapeError."""
    resolved = Resolved()
    items = _flatten(index)
    axis = 0
    for item in _with_ellipsis(tracer, ref, items):
        if item is None:
            resolved.new_axes.append(len(resolved.dims) + len(resolved.new_axes))
            continue
        _resolve_item(tracer, ref, resolved, item, axis)
        axis += 1
    return resolved


def _flatten(index: Any) -> list[Any]:
    """An index as a flat list; a tuple of tiles inside counts as its tiles."""
    flat: list[Any] = []
    for item in index if isinstance(index, tuple) else (index,):
        if isinstance(item, (tuple, list)) and all(isinstance(i, (TileProxy, SymInt, TileValue)) for i in item):
            flat.extend(item)
        else:
            flat.append(item)
    return flat


def _with_ellipsis(tracer: Tracer, ref: TensorRef, items: list[Any]) -> list[Any]:
    used = sum(1 for i in items if i is not None and i is not Ellipsis)
    if used > ref.ndim:
        raise ShapeError(f"an index of {ref.path} has at most {ref.ndim} items", got=used, where=tracer.location())
    missing = [slice(None)] * (ref.ndim - used)
    for position, item in enumerate(items):
        if item is Ellipsis:
            return items[:position] + missing + items[position + 1 :]
    return items + missing


def _resolve_item(tracer: Tracer, ref: TensorRef, resolved: Resolved, item: Any, axis: int) -> None:
    size = ref.dims[axis]
    if isinstance(item, TileProxy):
        if item.offset == Expr.of(0):
            _add_tile(tracer, ref, resolved, item, size)
            return
        item = item.index
    if isinstance(item, slice):
        _add_slice(tracer, resolved, item, size)
    elif isinstance(item, (int, SymInt)) and not isinstance(item, bool):
        value = tracer.as_expr(item, "an index")
        if value.constant is not None and value.constant < 0:
            value = value + size
        resolved.items.append(ExprIndex(value))
    elif isinstance(item, TensorRef) and not item.dims:
        _add_value(tracer, resolved, item[()])
    elif isinstance(item, TileValue):
        _add_value(tracer, resolved, item)
    else:
        raise TraceError("an index is a tile, a slice, an int, a size or a tile of ints", got=f"{item!r}"[:200],
                         where=tracer.location())  # fmt: skip


def _add_tile(tracer: Tracer, ref: TensorRef, resolved: Resolved, tile: TileProxy, size: Expr) -> None:
    if tile.scope not in tracer.scopes:
        raise TraceError("a tile is used only inside its loop", got=tile.name, where=tracer.location())
    end = tracer.tiles[tile.name].end
    if isinstance(end, Expr):
        inside = end.le(size)
        if inside.symbols() <= tracer.hints.keys() and not inside.evaluate(tracer.hints):
            raise ShapeError(f"a tile must not run past the end of {ref.path}", where=tracer.location(),
                             got=f"tile {tile.name} up to {end} in a dimension of {size}")  # fmt: skip
        tracer.guard(inside)
    resolved.items.append(TileIndex(tile.name, len(resolved.dims)))
    resolved.dims.append(tile.dim)


def _add_slice(tracer: Tracer, resolved: Resolved, item: slice, size: Expr) -> None:
    if item.step not in (None, 1):
        raise TraceError("a slice in device code has step 1", got=item.step, where=tracer.location())
    start = Expr.of(0) if item.start is None else tracer.as_expr(item.start, "a slice's start")
    stop = size if item.stop is None else tracer.as_expr(item.stop, "a slice's end")
    start, stop = (e + size if e.constant is not None and e.constant < 0 else e for e in (start, stop))
    dim = Dim(tracer.extent(stop - start))
    resolved.items.append(SliceIndex(start, dim, len(resolved.dims)))
    resolved.dims.append(dim)


def _add_value(tracer: Tracer, resolved: Resolved, item: TileValue) -> None:
    """Index tensors of different identity form an outer product; of the same, they go together as in torch."""
    value = tracer.operand(item)
    assert isinstance(value, Value)
    if value.type.dtype == "bool" or value.type.dtype.startswith("float"):
        raise TraceError("a tile of indices holds ints", got=value.type.dtype, where=tracer.location(),
                         hint="boolean masks select with torch.where or extra_mask=")  # fmt: skip
    resolved.inputs.append(value)
    position = len(resolved.inputs) - 1
    if not value.dims:
        resolved.items.append(ValueIndex(position, ()))
        return
    for dims, axes in resolved.tensors:
        if dims == value.dims:
            resolved.items.append(ValueIndex(position, axes))
            return
        if len(dims) > 1 or len(value.dims) > 1:
            _join(tracer, resolved, value, position)
            return
    axes = tuple(range(len(resolved.dims), len(resolved.dims) + len(value.dims)))
    resolved.dims.extend(value.dims)
    resolved.tensors.append((value.dims, axes))
    resolved.items.append(ValueIndex(position, axes))


def _join(tracer: Tracer, resolved: Resolved, value: Value, position: int) -> None:
    """Index tensors of several dimensions broadcast against each other, as in torch."""
    dims, axes = resolved.tensors[0]
    merged = tracer.broadcast([dims, value.dims])
    if len(merged) != len(axes):
        raise ShapeError("index tiles that are used together have the same rank", where=tracer.location(),
                         got=f"{show(dims)} and {show(value.dims)}", hint="insert dimensions with None")  # fmt: skip
    for axis, dim in zip(axes, merged, strict=True):
        resolved.dims[axis] = dim
    resolved.tensors[0] = (merged, axes)
    skipped = len(merged) - len(value.dims)
    kept = [a for a, d in zip(axes[skipped:], value.dims, strict=True) if d != ONE]
    if len(kept) != len(value.dims):
        value = tracer.expand(tracer.wrap(value), merged).value
        resolved.inputs[position] = value
        kept = list(axes)
    resolved.items.append(ValueIndex(position, tuple(kept)))
