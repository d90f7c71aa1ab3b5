"""Views of register tiles: the same elements under other dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..errors import ShapeError, TraceError
from ..expr import Expr
from ..ir.types import ONE, Dim, TileType, Value, itemsize
from .promotion import dtype_name
from .trace import Tracer, show
from .values import TileValue


def _value(t: Tracer, x: Any) -> Value:
    value = t.operand(x)
    if not isinstance(value, Value):
        raise TraceError("a view takes a tile", got=value, where=t.location())
    return value


def _axis(t: Tracer, axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise ShapeError(f"a dimension must lie in [{-rank}, {rank - 1}]", got=axis, where=t.location())
    return axis % rank


def unsqueeze(t: Tracer, x: Any, dim: int) -> TileValue:
    value = _value(t, x)
    axis = _axis(t, dim, len(value.dims) + 1)
    if not value.dims:
        return t.full((ONE,), x, value.type.dtype)
    dims = (*value.dims[:axis], ONE, *value.dims[axis:])
    return t.emit("unsqueeze", (value,), TileType(value.type.dtype, dims), axis=axis)


def squeeze(t: Tracer, x: Any, dim: Any = None) -> TileValue:
    """Drop dimensions of the constant extent 1; a tile's dimension is never one, whatever its block size."""
    value = _value(t, x)
    rank = len(value.dims)
    axes = range(rank) if dim is None else [_axis(t, d, rank) for d in ([dim] if isinstance(dim, int) else dim)]
    for axis in sorted((a for a in axes if value.dims[a] == ONE), reverse=True):
        dims = value.dims[:axis] + value.dims[axis + 1 :]
        value = t.emit("squeeze", (value,), TileType(value.type.dtype, dims), axis=axis).value
    return t.wrap(value)


def permute(t: Tracer, x: Any, *dims: Any) -> TileValue:
    value = _value(t, x)
    order = dims[0] if len(dims) == 1 and isinstance(dims[0], (list, tuple)) else dims
    rank = len(value.dims)
    axes = tuple(_axis(t, d, rank) for d in order)
    if sorted(axes) != list(range(rank)):
        raise ShapeError(f"permute names each of {rank} dimensions once", got=order, where=t.location())
    if axes == tuple(range(rank)):
        return t.wrap(value)
    return t.emit("permute", (value,), TileType(value.type.dtype, tuple(value.dims[a] for a in axes)), order=axes)


def transpose(t: Tracer, x: Any, dim0: int, dim1: int) -> TileValue:
    rank = len(_value(t, x).dims)
    order = list(range(rank))
    a, b = _axis(t, dim0, rank), _axis(t, dim1, rank)
    order[a], order[b] = order[b], order[a]
    return permute(t, x, order)


def t_(t: Tracer, x: Any) -> TileValue:
    return x if len(_value(t, x).dims) < 2 else transpose(t, x, 0, 1)


def expand(t: Tracer, x: Any, *sizes: Any) -> TileValue:
    """``-1`` keeps a size."""
    value = _value(t, x)
    shape = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (list, tuple)) else sizes
    skipped = len(shape) - len(value.dims)
    dims = tuple(
        value.dims[n - skipped] if isinstance(s, int) and s == -1 else t.dims_of([s])[0] for n, s in enumerate(shape)
    )
    return t.expand(t.wrap(value), dims)


def expand_as(t: Tracer, x: Any, other: Any) -> TileValue:
    return t.expand(x, other.value.dims)


def reshape(t: Tracer, x: Any, *sizes: Any) -> TileValue:
    """Same elements, same order. A dimension keeps its tile where the elements before it are as many as before."""
    value = _value(t, x)
    shape = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (list, tuple)) else sizes
    dims = list(t.dims_of([1 if isinstance(s, int) and s == -1 else s for s in shape]))
    total = _count(value.dims)
    for n, s in enumerate(shape):
        if isinstance(s, int) and s == -1:
            rest = _count(tuple(dims[:n] + dims[n + 1 :]))
            dims[n] = Dim(_divide(t, total, rest))
    if not _same_count(t, value.dims, tuple(dims)):
        raise ShapeError("a reshape keeps the number of elements", got=f"{show(value.dims)} as {show(tuple(dims))}",
                         where=t.location())  # fmt: skip
    dims = _keep_identity(value.dims, dims)
    lost = tuple(d.tile for d in value.dims if d.tile and d not in dims)
    if lost:
        raise TraceError("a reshape may not merge or split a tile's dimension", got=f"{show(value.dims)}",
                         where=t.location(), hint="index the tensor with the shape that is needed")  # fmt: skip
    if tuple(dims) == value.dims:
        return t.wrap(value)
    for d in (*value.dims, *dims):
        if d not in value.dims or d not in dims:
            _whole_power(t, d)
    return t.emit("reshape", (value,), TileType(value.type.dtype, tuple(dims)))


def _same_count(t: Tracer, old: tuple[Dim, ...], new: tuple[Dim, ...]) -> bool:
    """Whether two shapes have as many elements; what they share may be sizes that only a config knows."""
    before, after = [d.extent for d in old], [d.extent for d in new]
    for extent in list(before):
        if extent in after:
            before.remove(extent)
            after.remove(extent)
    return t.same_size(_count(tuple(map(Dim, before))), _count(tuple(map(Dim, after))))


def _whole_power(t: Tracer, d: Dim) -> None:
    """Registers hold a power of two of lanes: another size would be padded, and a reshape would move its elements."""
    if d.extent.symbols() - t.hints.keys():
        return
    size = t.specialize(d.extent)
    if size & (size - 1):
        raise TraceError("a reshape in registers changes dimensions of a power of two only", got=size,
                         where=t.location(), hint="index the tensor with the shape that is needed")  # fmt: skip


def _count(dims: tuple[Dim, ...]) -> Expr:
    total = Expr.of(1)
    for d in dims:
        total = total * d.extent
    return total


def _divide(t: Tracer, total: Expr, rest: Expr) -> Expr:
    if rest.constant == 1:
        return total
    if total.constant is not None and rest.constant is not None and total.constant % rest.constant == 0:
        return Expr.of(total.constant // rest.constant)
    if total == rest:
        return Expr.of(1)
    # a product of block symbols: drop the factors that both have
    factors = list(total.args) if total.op == "prod" else [total]
    for factor in list(rest.args) if rest.op == "prod" else [rest]:
        if factor not in factors:
            raise ShapeError("the -1 of a reshape must come out even", got=f"{total} / {rest}", where=t.location())
        factors.remove(factor)
    result = Expr.of(1)
    for factor in factors:
        result = result * factor
    return result


def _keep_identity(old: tuple[Dim, ...], new: list[Dim]) -> list[Dim]:
    prefixes = {}
    before = Expr.of(1)
    for d in old:
        prefixes[before, d.extent] = d
        before = before * d.extent
    result = []
    before = Expr.of(1)
    for d in new:
        result.append(prefixes.get((before, d.extent), d))
        before = before * d.extent
    return result


def flatten(t: Tracer, x: Any, start_dim: int = 0, end_dim: int = -1) -> TileValue:
    value = _value(t, x)
    rank = len(value.dims)
    first, last = _axis(t, start_dim, rank), _axis(t, end_dim, rank)
    sizes = [t.size(d.extent) for d in value.dims]
    return reshape(t, x, [*sizes[:first], -1, *sizes[last + 1 :]])


def view(t: Tracer, x: Any, *sizes: Any) -> TileValue:
    """Other dimensions, or another dtype of the same width."""
    if len(sizes) == 1 and isinstance(sizes[0], torch.dtype):
        value = _value(t, x)
        if itemsize(dtype_name(sizes[0])) != itemsize(value.type.dtype):
            raise TraceError("a tile is reinterpreted as a dtype of the same width", where=t.location(),
                             got=f"{value.type.dtype} as {dtype_name(sizes[0])}")  # fmt: skip
        return t.emit("bitcast", (value,), TileType(dtype_name(sizes[0]), value.dims))
    return reshape(t, x, *sizes)


VIEWS: dict[str, Callable[..., Any]] = {
    "unsqueeze": unsqueeze,
    "squeeze": squeeze,
    "permute": permute,
    "transpose": transpose,
    "swapaxes": transpose,
    "t": t_,
    "expand": expand,
    "broadcast_to": expand,
    "expand_as": expand_as,
    "reshape": reshape,
    "view": view,
    "flatten": flatten,
}


def index_tile(t: Tracer, x: TileValue, index: Any) -> TileValue:
    """``tile[:, None]``: whole dimensions and new ones."""
    items = list(index) if isinstance(index, tuple) else [index]
    rank = len(x.value.dims)
    if Ellipsis in [i for i in items if i is Ellipsis]:
        at = next(n for n, i in enumerate(items) if i is Ellipsis)
        used = sum(1 for i in items if i is not None) - 1
        items[at : at + 1] = [slice(None)] * (rank - used)
    result = x
    for axis, item in enumerate(items):
        if item is None:
            result = unsqueeze(t, result, axis)
        elif not isinstance(item, slice) or item != slice(None):
            raise TraceError(
                "a tile in registers is indexed by : and None only",
                got=f"{item!r}"[:100],
                where=t.location(),
                hint="index the tensor instead, or use torch.where and a sum",
            )
    return result
