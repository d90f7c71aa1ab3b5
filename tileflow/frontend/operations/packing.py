"""Packing: several tiles as one, and one as several, without going through memory.

Registers join two tiles in a new last dimension and split one of extent 2. All else is joins, splits and reshapes: the
even and the odd members of a longer sequence are joined each, then with each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import ShapeError, TraceError
from ...expr import Expr
from ...ir.attributes import NO_ATTRS
from ...ir.graph import Op
from ...ir.kinds import OpKind
from ...ir.types import ONE, Dim, TileType, Value, fills_registers
from ..dimensions import show
from ..language_registry import register_language
from ..loaded_parts import cut_of_loaded, remember_cut
from ..promotion import promote
from ..side_by_side import columns_apart, remember
from ..torch_registry import register_torch
from ..trace import Tracer
from ..values import TileValue
from .along import first, narrow, run, taken
from .extents import known
from .reshape import axis_of, part_of_block, to_dims, value_of
from .tile_index import nearest, pick
from .views import movedim, unsqueeze

_TWO = Dim(Expr.of(2))


@register_language("join")
def join(t: Tracer, a: Any, b: Any) -> TileValue:
    """Two tiles, broadcast to each other, in a new last dimension of 2."""
    given = t.facing([t.wrap(value_of(t, x)) for x in (a, b)])
    dims = t.broadcast([x.value.dims for x in given])
    left, right = _alike(t, [t.expand(x, dims) for x in given])
    type_ = TileType(left.value.type.dtype, (*left.value.dims, _TWO))
    return t.emit(OpKind.JOIN, (left.value, right.value), type_)


@register_language("split")
def split(t: Tracer, x: Any) -> tuple[TileValue, TileValue]:
    """The two halves of a last dimension of 2."""
    value = value_of(t, x)
    if not value.dims or known(t, value.dims[-1].extent).constant != 2 or value.dims[-1].tile is not None:
        raise ShapeError(
            "tfl.split takes a tile whose last dimension is 2",
            got=show(value.dims),
            where=t.location(),
            hint="reshape or permute it first; torch.chunk cuts other dimensions",
        )
    halves = tuple(t.builder.value(TileType(value.type.dtype, value.dims[:-1]), t.location()) for _ in range(2))
    t.builder.append(Op(OpKind.SPLIT, (value,), halves, NO_ATTRS, (), t.location()))
    return t.wrap(halves[0]), t.wrap(halves[1])


@register_torch("stack")
def stack(t: Tracer, tensors: Any, dim: int = 0) -> TileValue:
    """A new dimension out of any number of tiles."""
    tiles = _alike(t, _sequence(t, tensors))
    axis = axis_of(t, dim, tiles[0].ndim + 1)
    return movedim(t, _stacked(t, tiles), -1, axis)


@register_torch("cat", "concat", "concatenate")
def cat(t: Tracer, tensors: Any, dim: int = 0) -> TileValue:
    """Tiles side by side; of other sizes along ``dim`` where those are constants."""
    values = [value_of(t, x) for x in _sequence(t, tensors)]
    axis = axis_of(t, dim, len(values[0].dims))
    sizes = [known(t, v.dims[axis].extent) if len(v.dims) == len(values[0].dims) else None for v in values]
    if len(set(sizes)) == 1 and (len(values) == 1 or _is_joined(t, values[0].dims[axis], len(values))):
        return remember(t, _cat_alike(t, values, axis), axis, values)
    if any(s is None or s.constant is None or v.dims[axis].tile for s, v in zip(sizes, values, strict=True)):
        raise ShapeError(
            "tiles side by side have constant sizes, or are a power of two of a loop's",
            got=" and ".join(show(v.dims) for v in values),
            where=t.location(),
            hint="store each into a slice of a tensor",
        )
    found = _cat_by_lanes(t, values, axis, [s.constant or 0 for s in sizes if s is not None])
    return remember(t, found, axis, values)


@register_torch("hstack")
def hstack(t: Tracer, tensors: Any) -> TileValue:
    """Tiles side by side along dimension 1; vectors one after the other."""
    tiles = _with_dimensions(t, tensors)
    return cat(t, tiles, 0 if tiles[0].ndim == 1 else 1)


@register_torch("vstack", "row_stack")
def vstack(t: Tracer, tensors: Any) -> TileValue:
    """Tiles below each other along dimension 0, vectors as rows."""
    tiles = _with_dimensions(t, tensors)
    return cat(t, [unsqueeze(t, x, 0) if x.ndim == 1 else x for x in tiles], 0)


@register_torch("column_stack")
def column_stack(t: Tracer, tensors: Any) -> TileValue:
    """Tiles side by side along dimension 1, vectors as columns."""
    tiles = _with_dimensions(t, tensors)
    return cat(t, [unsqueeze(t, x, 1) if x.ndim == 1 else x for x in tiles], 1)


@register_torch("dstack")
def dstack(t: Tracer, tensors: Any) -> TileValue:
    """Tiles behind each other along dimension 2, which matrices lack."""
    tiles = _with_dimensions(t, tensors)
    tiles = [unsqueeze(t, x, 0) if x.ndim == 1 else x for x in tiles]
    return stack(t, tiles, 2) if tiles[0].ndim == 2 else cat(t, tiles, 2)


def _with_dimensions(t: Tracer, tensors: Any) -> list[TileValue]:
    """The tiles, those without dimensions as vectors of one element."""
    tiles = [t.wrap(value_of(t, x)) for x in _sequence(t, tensors)]
    return [x if x.ndim else unsqueeze(t, x, 0) for x in tiles]


def _is_joined(t: Tracer, d: Dim, count: int) -> bool:
    """Whether registers are joined: no lanes are padded, or none between two parts."""
    size = known(t, d.extent).constant
    return size is None or (fills_registers(size) and (d.tile is None or fills_registers(count)))


def _cat_alike(t: Tracer, values: Sequence[Value], axis: int) -> TileValue:
    """Tiles of one size by joins; more than there are where they are no power of two."""
    tiles = _alike(t, [t.wrap(v) for v in values])
    if len(tiles) == 1:
        return tiles[0]
    padded = [*tiles, *[tiles[-1]] * (_pow2(len(tiles)) - len(tiles))]
    apart = movedim(t, _stacked(t, padded), -1, axis)
    dims, one = apart.value.dims, tiles[0].value.dims[axis]
    merged = to_dims(t, apart.value, (*dims[:axis], Dim(one.extent * len(padded)), *dims[axis + 2 :]))
    if len(padded) == len(tiles):
        return merged
    if one.tile is not None:
        raise TraceError(
            "tiles of a loop are concatenated in powers of two",
            got=len(tiles),
            where=t.location(),
            hint="store each into a slice of a tensor",
        )
    return narrow(t, merged, axis, Dim(one.extent * len(tiles)))


def _cat_by_lanes(t: Tracer, values: Sequence[Value], axis: int, sizes: Sequence[int]) -> TileValue:
    """Each lane takes its element from the tile that has it."""
    rows = [(*v.dims[:axis], ONE, *v.dims[axis + 1 :]) for v in values]
    dims, dtype = _common(t, values, rows)
    lanes = run(t, 0, sum(sizes))
    found, begin = None, 0
    for value, size in zip(values, sizes, strict=True):
        own = (*dims[:axis], Dim(Expr.of(size)), *dims[axis + 1 :])
        whole = t.expand(t.cast(t.wrap(value), dtype), own)
        as_it_lies = None if begin else first(t, whole, axis, sum(sizes))
        own_lanes = lanes - begin if begin else lanes
        part = nearest(t, whole, axis, own_lanes) if as_it_lies is None else as_it_lies
        place = lanes
        for _ in range(len(dims) - axis - 1):
            place = unsqueeze(t, place, -1)
        found = part if found is None else t.cast(t.pointwise("where", place >= begin, part, found), dtype)
        begin += size
    assert found is not None
    return found


@register_torch("unbind")
def unbind(t: Tracer, x: Any, dim: int = 0) -> tuple[TileValue, ...]:
    """The tiles along a dimension of a constant size."""
    value = value_of(t, x)
    axis = axis_of(t, dim, len(value.dims))
    size = known(t, value.dims[axis].extent).constant
    if size is None or value.dims[axis].tile is not None:
        raise ShapeError("unbind takes a dimension of a constant size", got=show(value.dims), where=t.location())
    if size & (size - 1):
        return tuple(pick(t, x, axis, n) for n in range(size))
    return _apart(t, movedim(t, x, axis, -1))


@register_torch("chunk")
def chunk(t: Tracer, x: Any, chunks: int, dim: int = 0) -> tuple[TileValue, ...]:
    """A dimension cut into ``chunks`` parts: equal ones, or as in torch the last ones shorter."""
    value = value_of(t, x)
    axis = axis_of(t, dim, len(value.dims))
    d = value.dims[axis]
    if not isinstance(chunks, int) or chunks < 1:
        raise TraceError("a tile is cut into a number of parts", got=repr(chunks)[:100], where=t.location())
    size = known(t, d.extent).constant if d.tile is None else None
    if size == 0:
        return (t.wrap(value),) * chunks
    apart = columns_apart(t, value, axis, _in_steps(size, -(-size // chunks))) if size else []
    if apart:
        return tuple(map(t.wrap, apart))
    part = known(t, d.extent).quotient(chunks) or part_of_block(known(t, d.extent), Expr.of(chunks))
    if part is not None and fills_registers(chunks) and (size is None or fills_registers(size)):
        cut = to_dims(t, value, (*value.dims[:axis], Dim(Expr.of(chunks)), Dim(part), *value.dims[axis + 1 :]))
        found = unbind(t, cut, axis)
        if size is None:
            return found
        return tuple(remember_cut(t, x, t.wrap(value), axis, n * (size // chunks)) for n, x in enumerate(found))
    if size is None:
        raise ShapeError(
            "a tile of a loop is cut into a power of two of equal parts",
            got=f"{d} in {chunks}",
            where=t.location(),
            hint="load the parts from the tensor by slices",
        )
    return _parts(t, value, axis, _in_steps(size, -(-size // chunks)))


@register_torch("split", "split_with_sizes")
def torch_split(t: Tracer, x: Any, split_size_or_sections: Any, dim: int = 0) -> tuple[TileValue, ...]:
    """A dimension cut into parts of one size, the last one shorter, or of the sizes that are given."""
    value = value_of(t, x)
    axis = axis_of(t, dim, len(value.dims))
    whole, sizes = known(t, value.dims[axis].extent), split_size_or_sections
    if not isinstance(sizes, (list, tuple)):
        one = known(t, t.as_expr(sizes, "a part's size"))
        parts = whole.quotient(one)
        if parts is not None and parts.constant is not None:
            return chunk(t, x, parts.constant, dim)
        sizes = _in_steps(whole.constant, one.constant) if whole.constant and one.constant else ()
    found = [known(t, t.as_expr(s, "a part's size")) for s in sizes]
    if found and len(set(found)) == 1 and whole.quotient(found[0]) == Expr.of(len(found)):
        return chunk(t, x, len(found), dim)
    if sum(found, start=Expr.of(0)) != whole or whole.constant is None or value.dims[axis].tile is not None:
        raise ShapeError(
            "the parts of a tile make up a dimension of a constant size",
            where=t.location(),
            got=f"{whole} by {split_size_or_sections!r}",
            hint="load the parts from the tensor by slices",
        )
    lengths = [size.constant or 0 for size in found]
    apart = columns_apart(t, value, axis, lengths)
    return tuple(map(t.wrap, apart)) if apart else _parts(t, value, axis, lengths)


@register_torch("tensor_split")
def tensor_split(t: Tracer, x: Any, indices_or_sections: Any, dim: int = 0) -> tuple[TileValue, ...]:
    """A dimension cut before each of the places that are given, or into so many parts, the first ones longer by 1."""
    value = value_of(t, x)
    axis = axis_of(t, dim, len(value.dims))
    whole, where = known(t, value.dims[axis].extent), indices_or_sections
    if whole.constant is None or value.dims[axis].tile is not None:
        raise ShapeError(
            "tensor_split takes a dimension of a constant size",
            got=show(value.dims),
            where=t.location(),
            hint="load the parts from the tensor by slices; torch.chunk cuts a loop's tile",
        )
    size = whole.constant
    if isinstance(where, (list, tuple)):
        ends = [min(max(int(n) + (size if n < 0 else 0), 0), size) for n in where]
        sizes = [b - a for a, b in zip((0, *ends), (*ends, size), strict=True)]
    else:
        sizes = [size // int(where) + (n < size % int(where)) for n in range(int(where))]
    if min(sizes, default=0) < 1:
        raise ShapeError(
            "the parts of a tile have elements", got=f"{size} cut to {sizes}", where=t.location(), hint="fewer parts"
        )
    return torch_split(t, x, sizes, axis)


@register_torch("hsplit")
def hsplit(t: Tracer, x: Any, indices_or_sections: Any) -> tuple[TileValue, ...]:
    """``tensor_split`` of dimension 1, of a vector's only one."""
    return _split_evenly(t, x, indices_or_sections, 0 if len(value_of(t, x).dims) == 1 else 1)


@register_torch("vsplit")
def vsplit(t: Tracer, x: Any, indices_or_sections: Any) -> tuple[TileValue, ...]:
    """``tensor_split`` of dimension 0."""
    return _split_evenly(t, x, indices_or_sections, 0)


@register_torch("dsplit")
def dsplit(t: Tracer, x: Any, indices_or_sections: Any) -> tuple[TileValue, ...]:
    """``tensor_split`` of dimension 2."""
    return _split_evenly(t, x, indices_or_sections, 2)


def _split_evenly(t: Tracer, x: Any, where: Any, axis: int) -> tuple[TileValue, ...]:
    return chunk(t, x, where, axis) if _divides(t, x, where, axis) else tensor_split(t, x, where, axis)


def _divides(t: Tracer, x: Any, parts: Any, axis: int) -> bool:
    """Whether a dimension is cut into a number of equal parts. Raises ShapeError where the number leaves a rest."""
    if not isinstance(parts, int):
        return False
    extent = value_of(t, x).dims[axis].extent
    if known(t, extent).quotient(parts) is None and known(t, extent).constant is not None:
        raise ShapeError(
            "equal parts make up a dimension",
            got=f"{extent} in {parts}",
            where=t.location(),
            hint="torch.tensor_split(x, parts, dim) makes the first ones longer",
        )
    return True


def _in_steps(size: int, step: int) -> list[int]:
    return [min(step, size - begin) for begin in range(0, size, step)]


def _parts(t: Tracer, value: Value, axis: int, sizes: Sequence[int]) -> tuple[TileValue, ...]:
    x, parts, begin = t.wrap(value), list[TileValue](), 0
    for size in sizes:
        part = None if begin else first(t, x, axis, size)
        part = cut_of_loaded(t, x, axis, begin, size) if part is None else part
        part = taken(t, x, axis, run(t, begin, size)) if part is None else part
        parts.append(remember_cut(t, part, x, axis, begin))
        begin += size
    return tuple(parts)


def _sequence(t: Tracer, tensors: Any) -> Sequence[Any]:
    if not isinstance(tensors, (list, tuple)) or not tensors:
        raise TraceError("tiles are joined from a list or a tuple", got=repr(tensors)[:100], where=t.location())
    return tensors


def _alike(t: Tracer, tiles: Sequence[Any]) -> list[TileValue]:
    """The tiles in their common dtype and dimensions; none is broadcast."""
    values = [value_of(t, x) for x in tiles]
    dims, dtype = _common(t, values, [v.dims for v in values])
    return [t.expand(t.cast(t.wrap(v), dtype), dims) for v in values]


def _common(t: Tracer, values: Sequence[Value], shapes: Sequence[tuple[Dim, ...]]) -> tuple[tuple[Dim, ...], str]:
    """The one shape of tiles that are joined, ``shapes`` being what must agree, and their common dtype."""
    dims, dtype = shapes[0], values[0].type.dtype
    for value, shape in zip(values, shapes, strict=True):
        if len(shape) != len(dims) or any(
            not t.same_size(a.extent, b.extent) for a, b in zip(dims, shape, strict=True)
        ):
            raise ShapeError(
                "tiles that are joined have one shape",
                got=f"{show(values[0].dims)} and {show(value.dims)}",
                where=t.location(),
                hint="expand the smaller one",
            )
        dims = t.broadcast([dims, shape])
        with t.plain_torch():
            dtype = promote(((dtype, True), (value.type.dtype, True)))
    return dims, dtype


def _stacked(t: Tracer, tiles: Sequence[TileValue]) -> TileValue:
    """The tiles in a new last dimension."""
    if len(tiles) == 1:
        return unsqueeze(t, tiles[0], -1)
    size = _pow2(len(tiles))
    full = [*tiles, *[tiles[-1]] * (size - len(tiles))]
    found = _joined(t, full)
    last = Dim(Expr.of(len(tiles)))
    return found if len(tiles) == size else narrow(t, found, found.ndim - 1, last)


def _joined(t: Tracer, tiles: Sequence[TileValue]) -> TileValue:
    """A power of two of tiles in a new last dimension."""
    if len(tiles) == 2:
        return join(t, tiles[0], tiles[1])
    both = join(t, _joined(t, tiles[::2]), _joined(t, tiles[1::2]))
    return to_dims(t, both.value, (*both.value.dims[:-2], Dim(Expr.of(len(tiles)))))


def _apart(t: Tracer, x: TileValue) -> tuple[TileValue, ...]:
    """The tiles along the last dimension, a power of two of them."""
    dims = x.value.dims
    size = known(t, dims[-1].extent).constant
    assert size is not None
    if size == 1:
        return (to_dims(t, x.value, dims[:-1]),)
    if size == 2:
        return split(t, x)
    pairs = to_dims(t, x.value, (*dims[:-1], Dim(Expr.of(size // 2)), _TWO))
    evens, odds = (_apart(t, half) for half in split(t, pairs))
    return tuple(part for pair in zip(evens, odds, strict=True) for part in pair)


def _pow2(n: int) -> int:
    return 1 << (n - 1).bit_length()
