"""Reshaping register tiles: the same elements in the same order, under dimensions that know their lanes.

A dimension keeps its tile where the elements before it are as many as before. Where a tile's dimension is merged with
others, or such a dimension is taken apart again, the new one knows by its ``step`` which lanes are the tile's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import ShapeError, TraceError
from ...expr import Expr
from ...ir.kinds import OpKind
from ...ir.types import Dim, TileType, Value
from ..trace import Tracer, show
from ..values import TileValue
from .torch_table import row


def value_of(t: Tracer, x: Any) -> Value:
    """The IR value of a tile. Raises TraceError for numbers."""
    value = t.operand(x)
    if not isinstance(value, Value):
        raise TraceError("a view takes a tile", got=value, where=t.location())
    return value


def axis_of(t: Tracer, axis: int, rank: int) -> int:
    """``axis`` counted from the front. Raises ShapeError."""
    if not -rank <= axis < rank:
        raise ShapeError(f"a dimension must lie in [{-rank}, {rank - 1}]", got=axis, where=t.location(),
                         hint="count dimensions from 0, or from -1 at the end")  # fmt: skip
    return axis % rank


def shape_of(sizes: tuple[Any, ...]) -> Sequence[Any]:
    """``f(2, 3)`` and ``f((2, 3))`` alike."""
    return sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (list, tuple)) else sizes


@row("reshape")
def reshape(t: Tracer, x: Any, *sizes: Any) -> TileValue:
    """Same elements, same order; a single -1 is what is left."""
    value = value_of(t, x)
    shape = shape_of(sizes)
    dims = list(t.dims_of([1 if _is_rest(s) else s for s in shape]))
    for n, s in enumerate(shape):
        if _is_rest(s):
            dims[n] = Dim(_rest(t, count(value.dims), count(dims[:n] + dims[n + 1 :])))
    return to_dims(t, value, dims)


def to_dims(t: Tracer, value: Value, dims: Sequence[Dim]) -> TileValue:
    """``value`` under ``dims``, whose tiles are worked out."""
    if not _same_count(t, value.dims, dims):
        raise ShapeError("a reshape keeps the number of elements", got=f"{show(value.dims)} as {show(tuple(dims))}",
                         where=t.location(), hint="write sizes with the same product; one may be -1")  # fmt: skip
    found = _identified(t, value.dims, dims)
    if found == value.dims:
        return t.wrap(value)
    for d in value.dims:
        if d not in found:
            _no_lengths(t, d, value.dims)
            _whole_power(t, d)
    settled = tuple(d if d in value.dims else _whole_power(t, d) for d in found)
    return t.emit(OpKind.RESHAPE, (value,), TileType(value.type.dtype, settled))


def _no_lengths(t: Tracer, d: Dim, dims: Sequence[Dim]) -> None:
    """A jagged dimension is masked by its parent's lanes: neither may be merged or taken apart."""
    lengths = {other: t.tiles[other.tile].lengths for other in dims if other.tile is not None}
    parents = [found.dims[0] for found in lengths.values() if found is not None]
    if lengths.get(d) is not None or d in parents:
        raise TraceError("a reshape keeps a jagged tile's dimension and its parent's", got=show(tuple(dims)),
                         where=t.location(), hint="reduce over the jagged dimension first")  # fmt: skip


@row("flatten", "ravel")
def flatten(t: Tracer, x: Any, start_dim: int = 0, end_dim: int = -1) -> TileValue:
    value = value_of(t, x)
    rank = len(value.dims)
    first, last = axis_of(t, start_dim, rank), axis_of(t, end_dim, rank)
    merged = Dim(count(value.dims[first : last + 1]))
    return to_dims(t, value, (*value.dims[:first], merged, *value.dims[last + 1 :]))


@row("unflatten")
def unflatten(t: Tracer, x: Any, dim: int, sizes: Any) -> TileValue:
    value = value_of(t, x)
    axis = axis_of(t, dim, len(value.dims))
    inner = list(t.dims_of([1 if _is_rest(s) else s for s in sizes]))
    for n, s in enumerate(sizes):
        if _is_rest(s):
            inner[n] = Dim(_rest(t, value.dims[axis].extent, count(inner[:n] + inner[n + 1 :])))
    return to_dims(t, value, (*value.dims[:axis], *inner, *value.dims[axis + 1 :]))


@row("view_as", "reshape_as")
def view_as(t: Tracer, x: Any, other: Any) -> TileValue:
    return to_dims(t, value_of(t, x), tuple(d.bare() for d in other.value.dims))


def count(dims: Sequence[Dim]) -> Expr:
    """How many elements."""
    total = Expr.of(1)
    for d in dims:
        total = total * d.extent
    return total


def _is_rest(size: Any) -> bool:
    return isinstance(size, int) and size == -1


def _rest(t: Tracer, total: Expr, named: Expr) -> Expr:
    found = total.quotient(named)
    if found is None:
        found = known(t, total).quotient(known(t, named))
    if found is None:
        raise ShapeError("the -1 of a reshape must come out even", got=f"{total} / {named}", where=t.location())
    return found


def _same_count(t: Tracer, old: Sequence[Dim], new: Sequence[Dim]) -> bool:
    """Whether two shapes have as many elements; what they share may be sizes that only a config knows."""
    before, after = count(old), count(new)
    if before == after:
        return True
    for d in old:
        shared = after.quotient(d.extent)
        rest = before.quotient(d.extent)
        if shared is not None and rest is not None:
            before, after = rest, shared
    return t.same_size(before, after)


def _identified(t: Tracer, old: Sequence[Dim], new: Sequence[Dim]) -> tuple[Dim, ...]:
    """``new`` with the tiles of ``old``. Raises TraceError where a tile's lanes are no dimension's any more."""
    found = _by_prefix(old, new)
    for n, d in enumerate(old):
        if d.tile is None or d in found or d.extent.constant == 1:
            continue
        step, block = d.step * count(old[n + 1 :]), t.tiles[d.tile].block
        home = next((m for m in range(len(found)) if _step(found, m, step, block) is not None), None)
        if home is None or found[home].tile not in (None, d.tile):
            raise TraceError("a reshape may not merge the dimensions of two tiles, nor cut through one",
                             got=f"{show(tuple(old))} as {show(tuple(new))}", where=t.location(),
                             hint="index the tensor with the shape that is needed")  # fmt: skip
        inner = _step(found, home, step, block)
        assert inner is not None
        found[home] = Dim(found[home].extent, d.tile, inner)
    return tuple(found)


def _by_prefix(old: Sequence[Dim], new: Sequence[Dim]) -> list[Dim]:
    prefixes = {(count(old[:n]), d.extent): d for n, d in enumerate(old)}
    return [prefixes.get((count(new[:n]), d.extent), d) for n, d in enumerate(new)]


def _step(dims: Sequence[Dim], axis: int, step: Expr, block: Expr) -> Expr | None:
    """The step in dimension ``axis`` of lanes that are ``step`` elements apart, ``block`` of them; None where they lie
    across it."""
    inner = count(dims[axis + 1 :])
    covered = (inner * dims[axis].extent).quotient(step * block)
    return step.quotient(inner) if covered is not None else None


def _whole_power(t: Tracer, d: Dim) -> Dim:
    """Registers hold a power of two of lanes: another size would be padded, and a reshape would move its elements."""
    extent = known(t, d.extent)
    blocks = {s: 1 for s in extent.symbols() if not s.startswith("tunable:")}
    size = extent.substitute(blocks).constant
    if size is None or size & (size - 1):
        raise TraceError("a reshape in registers changes dimensions of a power of two only", got=d.extent,
                         where=t.location(), hint="index the tensor with the shape that is needed")  # fmt: skip
    return Dim(extent, d.tile, known(t, d.step))


def known(t: Tracer, e: Expr) -> Expr:
    """``e`` with the sizes in it as numbers, guarded; block sizes stay."""
    return e.substitute({s: t.specialize(Expr.sym(s)) for s in sorted(e.symbols() & t.hints.keys())})
