"""The traced meaning of random numbers.

``tfl.rand``, ``tfl.randint`` and torch's own functions are one op ``random`` that knows each dimension's place; numbers
by seed and offset are Triton's text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from ...errors import ShapeError, TraceError
from ...expr import Expr
from ...ir.attributes import ArangeAttrs, RandomAttrs
from ...ir.kinds import OpKind
from ...ir.ops import LARGEST_SPAN
from ...ir.types import Dim, TileType, Value, is_float
from ...language.streams import NAMES, TORCH, stream_at
from ...runtime.ambient import TORCH_SEED
from ..language_registry import register_language
from ..promotion import dtype_name
from ..torch_registry import FACTORIES, register_torch
from ..trace import Tracer
from ..values import TileProxy, TileValue
from .escapes import foreign
from .triton_text import ARGUMENT


@register_language("rand")
def rand(t: Tracer, shape: Any, seed: Any, *, whole: Any = None) -> TileValue:
    """float32 in [0, 1) by seed and by each element's place in the whole of the size ``whole``."""
    return _random(t, "float32", shape, (seed,), whole)


@register_language("randint")
def randint(t: Tracer, shape: Any, low: Any, high: Any, seed: Any, *, whole: Any = None) -> TileValue:
    """int32 in [low, high) by seed and place. Raises TraceError where the range is empty or holds 2**31 numbers or
    more."""
    if isinstance(low, int) and isinstance(high, int) and not 0 < high - low <= LARGEST_SPAN:
        raise TraceError("randint's range holds 1 to 2**31 - 1 ints", got=f"[{low}, {high})", where=t.location())
    return _random(t, "int32", shape, (seed, low, high), whole)


def _random(t: Tracer, dtype: str, shape: Any, scalars: tuple[Any, ...], whole: Any) -> TileValue:
    items = list(shape) if isinstance(shape, (list, tuple)) else [shape]
    return _drawn(t, dtype, items, scalars, _sizes(t, items, whole), _stream(t, NAMES))


def _stream(t: Tracer, names: frozenset[str]) -> tuple[int, int]:
    place = t.location()
    assert place is not None and t.kernel is not None  # device code stands in a file of the user's
    stream = stream_at(place.file, place.line, place.column, t.kernel, names)
    return stream.call, stream.function


def _drawn(
    t: Tracer,
    dtype: str,
    items: Sequence[Any],
    scalars: tuple[Any, ...],
    sizes: tuple[Expr | None, ...],
    stream: tuple[int, int],
) -> TileValue:
    dims = t.dims_of(items)
    attrs = RandomAttrs(stream, sizes, tuple(s.offset if isinstance(s, TileProxy) else Expr.of(0) for s in items))
    return t.emit(OpKind.RANDOM, tuple(_scalar(t, s) for s in scalars), TileType(dtype, dims), attrs)


def _sizes(t: Tracer, items: Sequence[Any], whole: Any) -> tuple[Expr | None, ...]:
    """The size of the whole in each dimension; None for the first where only the kernel knows it: nobody asks."""
    if whole is not None:
        sizes = tuple(t.as_expr(s, "a size of the whole") for s in whole)
        if len(sizes) != len(items):
            raise ShapeError(
                "the whole has a size for each dimension", got=f"{len(sizes)} for {len(items)}", where=t.location()
            )
        return sizes
    found = tuple(_size(t, s) for s in items)
    if None in found[1:]:
        raise TraceError(
            "the positions of random elements are counted in a whole of known size",
            got=f"{items[found.index(None, 1)]!r}, whose loop ends where the kernel says",
            where=t.location(),
            hint="give the sizes of the whole: tfl.rand(shape, seed, whole=[m, n])",
        )
    return found


def _size(t: Tracer, item: Any) -> Expr | None:
    if not isinstance(item, TileProxy):
        return t.as_expr(item, "a register tile's size")
    end = t.tiles[item.name].end
    return None if isinstance(end, Value) else end


def _lengths(t: Tracer, items: Sequence[Any]) -> tuple[Expr | None, ...]:
    """The length of each tile's loop, and the size of the others; None for the first where only the kernel knows it.
    Raises TraceError where that is another one."""
    found = tuple(_length(t, item) for item in items)
    if None in found[1:]:
        raise TraceError(
            "the positions of random elements are counted by the lengths of their loops",
            got=f"{items[found.index(None, 1)]!r}, whose bounds the kernel computes",
            where=t.location(),
            hint="number the elements yourself: tfl.rand(shape, seed, offsets=numbers)",
        )
    return found


def _length(t: Tracer, item: Any) -> Expr | None:
    begin, end = (t.tiles[item.name].begin if isinstance(item, TileProxy) else Expr.of(0)), _size(t, item)
    return None if end is None or isinstance(begin, Value) else end - begin


def _scalar(t: Tracer, x: Any) -> Any:
    value = t.operand(x)
    if isinstance(value, float) or (isinstance(value, Value) and (value.dims or is_float(value.type.dtype))):
        raise TraceError(
            "a seed and a bound of random ints are integer scalars",
            got=repr(x),
            where=t.location(),
            hint="pass an int argument, or load one number: seeds[0]",
        )
    return value


# ---- by seed and offset -------------------------------------------------------------------------


@register_language("positions")
def positions(t: Tracer, shape: Any, *, whole: Any = None, by_length: bool = False) -> TileValue:
    """The place of each element in the whole, counted row by row, as int64."""
    items = list(shape) if isinstance(shape, (list, tuple)) else [shape]
    sizes = _lengths(t, items) if by_length else _sizes(t, items, whole)
    found = t.full((), 0, "int64")
    stride = Expr.of(1)
    for axis in reversed(range(len(items))):
        item = items[axis]
        index = item.index if isinstance(item, TileProxy) else _lanes(t, item)
        row_index = t.cast(index, "int64")[(slice(None), *[None] * (len(items) - axis - 1))]
        found = t.pointwise("add", t.pointwise("mul", row_index, t.size(stride)), found)
        if axis:
            size = sizes[axis]
            assert size is not None
            stride = stride * size
    return found


def _lanes(t: Tracer, size: Any) -> TileValue:
    return t.emit(OpKind.ARANGE, (), TileType("int32", t.dims_of([size])), ArangeAttrs(Expr.of(0)))


@register_language("random_words")
def random_words(t: Tracer, seed: Any, offsets: Any) -> Any:
    """Four tiles of int32, Triton's ``randint4x`` at ``seed`` and ``offsets``. Raises TraceError for offsets that are
    not ints."""
    value = t.operand(offsets)
    tile = t.wrap(value) if isinstance(value, Value) else t.full((), value, "int32")
    if is_float(tile.value.type.dtype):
        raise TraceError(
            "the offsets of random numbers are ints",
            got=repr(offsets),
            where=t.location(),
            hint="convert them: offsets.to(torch.int64)",
        )
    if tile.value.type.dtype not in ("int32", "int64"):
        tile = t.cast(tile, "int64")
    key = _scalar(t, seed)
    key = t.cast(t.wrap(key) if isinstance(key, Value) else key, "int64")
    word = t.full(tile.value.dims, 0, "int32")
    text = f"tl.randint4x({ARGUMENT.format('seed')}, {ARGUMENT.format('offset')})"
    return foreign(t, text, {"seed": key, "offset": tile}, (word,) * 4, ())


# ---- torch's own, by its generator --------------------------------------------------------------

_SECOND = 1 << 30  # the stream of a normal number's second half is its call's with this bit


def _of_torch(t: Tracer, items: Sequence[Any], dtype: str, is_normal: bool) -> TileValue:
    if not is_float(dtype):
        raise TraceError(
            "torch draws random floats",
            got=dtype,
            where=t.location(),
            hint="give a dtype: torch.rand_like(x, dtype=torch.float32)",
        )
    call, function = _stream(t, TORCH)
    t.hints.setdefault(TORCH_SEED, 1 << 62)  # a run-time argument of 64 bits
    seed = t.size(Expr.sym(TORCH_SEED))
    sizes = _sizes(t, items, None)
    first = _drawn(t, "float32", items, (seed,), sizes, (call, function))
    if is_normal:
        second = _drawn(t, "float32", items, (seed,), sizes, (call | _SECOND, function))
        radius = t.pointwise("sqrt", t.pointwise("mul", t.pointwise("log", t.pointwise("sub", 1.0, first)), -2.0))
        first = t.pointwise("mul", radius, t.pointwise("cos", t.pointwise("mul", second, 2 * math.pi)))
    return t.cast(first, dtype)


def _items(t: Tracer, dims: Sequence[Dim]) -> list[Any]:
    """What makes dimensions in a shape. Raises TraceError for those that a reshape merged of a tile's and others."""
    found: list[Any] = []
    for dim in dims:
        if dim.tile is None:
            found.append(t.size(dim.extent))
        elif dim == (proxy := TileProxy(dim.tile, t, t.scopes[-1], Expr.of(0))).dim:
            found.append(proxy)
        else:
            raise TraceError(
                "random numbers are drawn for tiles as a tensor holds them",
                got=str(dim),
                where=t.location(),
                hint="draw before the reshape",
            )
    return found


def _row(name: str, is_normal: bool) -> None:
    @register_torch(f"{name}_like")
    def like(t: Tracer, x: TileValue, *, dtype: Any = None, **unused: Any) -> TileValue:
        own = x.value.type.dtype if dtype is None else dtype_name(dtype)
        return _of_torch(t, _items(t, x.value.dims), own, is_normal)

    def factory(t: Tracer, *size: Any, dtype: Any = None, **unused: Any) -> TileValue:
        items = list(size[0]) if len(size) == 1 and isinstance(size[0], (list, tuple)) else list(size)
        return _of_torch(t, items, dtype_name(torch.get_default_dtype() if dtype is None else dtype), is_normal)

    FACTORIES[getattr(torch, name)] = factory


_row("rand", is_normal=False)
_row("randn", is_normal=True)
