"""Reshaping register tiles: the same elements in the same order, under dimensions that know their lanes.

A dimension keeps its tile where the elements before it are as many as before. Where a tile's dimension is merged with
others, or such a dimension is taken apart again, the new one knows by its ``step`` which lanes are the tile's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from math import gcd, lcm
from operator import add, mul
from typing import Any

from ...errors import ShapeError, TraceError
from ...expr import Expr, is_knob
from ...ir.attributes import ReshapeAttrs
from ...ir.kinds import OpKind
from ...ir.types import ONE, Dim, TileType, Value, fills_registers
from ..dimensions import show
from ..loaded_parts import remember_shape
from ..torch_registry import register_torch
from ..trace import Tracer
from ..values import TileValue
from .extents import count, known, runs
from .padded import reshaped

_LARGE = 1 << 16  # in place of a block size


def value_of(t: Tracer, x: Any) -> Value:
    """The IR value of a tile. Raises TraceError for numbers."""
    value = t.operand(x)
    if not isinstance(value, Value):
        raise TraceError("a view takes a tile", got=value, where=t.location())
    return value


def axis_of(t: Tracer, axis: int, rank: int) -> int:
    """``axis`` counted from the front. Raises ShapeError."""
    if rank == 0:
        raise ShapeError(
            "a dimension is one that the tile has",
            got=f"{axis} of a tile without dimensions",
            where=t.location(),
            hint="x[None] is a tile of one element",
        )
    if not -rank <= axis < rank:
        raise ShapeError(
            f"a dimension must lie in [{-rank}, {rank - 1}]",
            got=axis,
            where=t.location(),
            hint="count dimensions from 0, or from -1 at the end",
        )
    return axis % rank


def is_scalar(t: Tracer, x: Any, *axes: int) -> bool:
    """Whether a tile has no dimensions. As in torch the first and the last one are those of one element then. Raises
    ShapeError for others."""
    if value_of(t, x).dims:
        return False
    for axis in axes:
        axis_of(t, axis, 1)
    return True


def shape_of(sizes: tuple[Any, ...]) -> Sequence[Any]:
    """``f(2, 3)`` and ``f((2, 3))`` alike."""
    return sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (list, tuple)) else sizes


@register_torch("reshape")
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
    halves = _halves((*value.dims, *dims))
    old, new = ([_cut(d, halves) for d in shape] for shape in (value.dims, dims))
    if not _same_count(t, old, new):
        raise ShapeError(
            "a reshape keeps the number of elements",
            got=f"{show(value.dims)} as {show(tuple(dims))}",
            where=t.location(),
            hint="write sizes with the same product; one may be -1",
        )
    homes, torn = _identified(t, old, new, halves)
    found = tuple(_whole(d, home, value.dims, old, halves) for d, home in zip(dims, homes, strict=True))
    if found == value.dims:
        return t.wrap(value)
    if not value.dims:  # Triton reshapes blocks only
        return t.full(found, t.wrap(value), value.type.dtype)
    if any(known(t, d.extent).constant == 0 for d in value.dims):  # which has no element to take from anywhere
        return t.full(found, 0, value.type.dtype)
    for d in value.dims:
        if d not in found:
            _no_lengths(t, d, value.dims)
    if not _keeps_lanes(t, value.dims, found):
        return remember_shape(t, reshaped(t, value, found), value)
    result = tuple(d if d in value.dims else _with_known_sizes(t, d) for d in found)
    conditions = [*(_has_whole_tiles(t, name) for name in torn), *((Expr.sym(s) % n).eq(0) for s, n in halves.items())]
    needs = tuple(need for need in conditions if need.constant is None)
    made = t.emit(OpKind.RESHAPE, (value,), TileType(value.type.dtype, result), ReshapeAttrs(needs or None))
    return remember_shape(t, made, value)


def _no_lengths(t: Tracer, d: Dim, dims: Sequence[Dim]) -> None:
    """A jagged dimension is masked by its parent's lanes: neither may be merged or taken apart."""
    lengths = {other: t.tiles[other.tile].lengths for other in dims if other.tile is not None}
    parents = [found.dims[0] for found in lengths.values() if found is not None]
    if lengths.get(d) is not None or d in parents:
        raise TraceError(
            "a reshape keeps a jagged tile's dimension and its parent's",
            got=show(tuple(dims)),
            where=t.location(),
            hint="reduce over the jagged dimension first",
        )


@register_torch("flatten", "ravel")
def flatten(t: Tracer, x: Any, start_dim: int = 0, end_dim: int = -1) -> TileValue:
    """The dimensions from ``start_dim`` to ``end_dim`` merged into one."""
    value = value_of(t, x)
    if is_scalar(t, x, start_dim, end_dim):
        return to_dims(t, value, (ONE,))
    rank = len(value.dims)
    first, last = axis_of(t, start_dim, rank), axis_of(t, end_dim, rank)
    merged = Dim(count(value.dims[first : last + 1]))
    return to_dims(t, value, (*value.dims[:first], merged, *value.dims[last + 1 :]))


@register_torch("unflatten")
def unflatten(t: Tracer, x: Any, dim: int, sizes: Any) -> TileValue:
    """One dimension cut into ``sizes``, of which one may be -1."""
    value = value_of(t, x)
    axis = axis_of(t, dim, len(value.dims))
    inner = list(t.dims_of([1 if _is_rest(s) else s for s in sizes]))
    for n, s in enumerate(sizes):
        if _is_rest(s):
            inner[n] = Dim(_rest(t, value.dims[axis].extent, count(inner[:n] + inner[n + 1 :])))
    return to_dims(t, value, (*value.dims[:axis], *inner, *value.dims[axis + 1 :]))


@register_torch("view_as", "reshape_as")
def view_as(t: Tracer, x: Any, other: Any) -> TileValue:
    """``x`` with the dimensions of ``other``, in the same order of elements."""
    return to_dims(t, value_of(t, x), tuple(d.bare() for d in value_of(t, other).dims))


def _is_rest(size: Any) -> bool:
    return isinstance(size, int) and size == -1


def _rest(t: Tracer, total: Expr, named: Expr) -> Expr:
    found = total.quotient(named)
    if found is None:
        found = known(t, total).quotient(known(t, named))
    if found is None:
        found = part_of_block(known(t, total), known(t, named))
    if found is None:
        raise ShapeError("the -1 of a reshape must come out even", got=f"{total} / {named}", where=t.location())
    return found


def part_of_block(total: Expr, named: Expr) -> Expr | None:
    """The quotient where a block size must come out even: ``b // 2`` of ``b / 2``."""
    factor = named.args[0].constant if named.op == "prod" else named.constant
    whole = named.quotient(factor) if factor else None
    rest = None if whole is None else total.quotient(whole)
    if rest is None or not factor:
        return None
    for symbol in sorted(filter(is_knob, rest.symbols())):
        times = rest.quotient(Expr.sym(symbol))
        if times is not None and times.constant:
            shared = gcd(times.constant, factor)
            return (Expr.sym(symbol) // (factor // shared)) * (times.constant // shared)
    return None


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


def _identified(
    t: Tracer, old: Sequence[Dim], new: Sequence[Dim], halves: Mapping[str, int]
) -> tuple[tuple[Dim, ...], list[str]]:
    """``new`` with the tiles of ``old``, and the tiles whose lanes are no one dimension's any more: their loops must
    have whole tiles only."""
    found, torn = _by_prefix(old, new), []
    for n, d in enumerate(old):
        if d.tile is None or d in found or d.extent.constant == 1:
            continue
        step, block = d.step * count(old[n + 1 :]), _in_parts(t.tiles[d.tile].block, halves)
        home = next((m for m in range(len(found)) if _step(found, m, step, block) is not None), None)
        if home is None or found[home].tile not in (None, d.tile):
            torn.append(d.tile)
            continue
        inner = _step(found, home, step, block)
        assert inner is not None
        found[home] = Dim(found[home].extent, d.tile, inner)
    return tuple(found), torn


def _by_prefix(old: Sequence[Dim], new: Sequence[Dim]) -> list[Dim]:
    prefixes = {(count(old[:n]), d.extent): d for n, d in enumerate(old)}
    return [prefixes.get((count(new[:n]), d.extent), d) for n, d in enumerate(new)]


def _step(dims: Sequence[Dim], axis: int, step: Expr, block: Expr) -> Expr | None:
    """The step in dimension ``axis`` of lanes that are ``step`` elements apart, ``block`` of them; None where they lie
    across it."""
    inner = count(dims[axis + 1 :])
    covered = (inner * dims[axis].extent).quotient(step * block)
    return step.quotient(inner) if covered is not None else None


def _with_known_sizes(t: Tracer, d: Dim) -> Dim:
    return Dim(known(t, d.extent), d.tile, known(t, d.step))


# ---- sizes in registers ---------------------------------------------------------------------------------------------


def _keeps_lanes(t: Tracer, old: Sequence[Dim], new: Sequence[Dim]) -> bool:
    """Whether elements stay where they are. Registers hold a power of two of lanes, so that a dimension of another size
    is padded: only the first of those that are merged or taken apart may be."""
    for before, after in runs(old, new):
        if before == after:
            continue
        for dims in (before, after):
            wide = [d for d in dims if d.extent.constant != 1]
            if not all(_is_power(t, d) for d in wide[1:]):
                return False
            if wide and wide[0].tile is not None and not _is_power(t, wide[0]):
                return False
    return True


def _is_power(t: Tracer, d: Dim) -> bool:
    """Whether a size is a power of two for every config: block sizes are."""
    extent = known(t, d.extent)
    size = extent.substitute({s: _LARGE for s in extent.symbols() if not s.startswith("tunable:")}).constant
    return size is not None and fills_registers(size)


# ---- parts of blocks ------------------------------------------------------------------------------------------------


def _halves(dims: Sequence[Dim]) -> dict[str, int]:
    """The block sizes that extents divide, and by what: ``b // 2``. In such parts a block is a whole number of them."""
    found: dict[str, int] = {}
    for e in [part for d in dims for part in _nodes(d.extent)]:
        if e.op == "floordiv" and e.args[0].op == "sym" and e.args[1].constant and is_knob(e.args[0].args[0]):
            name = e.args[0].args[0]
            found[name] = lcm(found.get(name, 1), e.args[1].constant)
    return found


def _nodes(e: Expr) -> Iterator[Expr]:
    yield e
    for arg in e.args:
        if isinstance(arg, Expr):
            yield from _nodes(arg)


def _in_parts(e: Expr, halves: Mapping[str, int]) -> Expr:
    """``e`` with each block as so many parts, whose symbol is the block's."""
    if not halves:
        return e
    if e.op == "floordiv" and e.args[0].op == "sym" and e.args[0].args[0] in halves and e.args[1].constant:
        parts: int = halves[e.args[0].args[0]] // e.args[1].constant
        part: Expr = parts * e.args[0]
        return part
    if e.op == "sym":
        return e * halves.get(e.args[0], 1)
    if e.op not in ("sum", "prod"):
        return e
    whole: Expr = reduce(add if e.op == "sum" else mul, (_in_parts(a, halves) for a in e.args))
    return whole


def _cut(d: Dim, halves: Mapping[str, int]) -> Dim:
    return Dim(_in_parts(d.extent, halves), d.tile, _in_parts(d.step, halves))


def _whole(d: Dim, home: Dim, dims: Sequence[Dim], cut: Sequence[Dim], halves: Mapping[str, int]) -> Dim:
    """``d`` with the identity of ``home``, which counts in parts; a dimension that was there stays what it was."""
    if home in cut:
        same = dims[list(cut).index(home)]
        if same.extent == d.extent or home.tile is not None:
            return same
    step = home.step.substitute({name: Expr.sym(name) // n for name, n in halves.items()})
    return Dim(d.extent, home.tile, step)


def _has_whole_tiles(t: Tracer, name: str) -> Expr:
    """That a loop has whole tiles only. Raises TraceError where its bounds are the kernel's."""
    tile = t.tiles[name]
    if not isinstance(tile.begin, Expr) or not isinstance(tile.end, Expr):
        raise TraceError(
            "a tile that a reshape merges with another or cuts is of a loop between sizes",
            got=name,
            where=t.location(),
            hint="index the tensor with the shape that is needed",
        )
    need = ((tile.end - tile.begin) % tile.block).eq(0)
    if need.constant == 0:
        raise ShapeError(
            "a reshape merges or cuts tiles of a loop that has whole ones only",
            where=t.location(),
            got=f"{tile.end - tile.begin} in tiles of {tile.block}",
            hint="choose a block size that divides the loop",
        )
    return need
