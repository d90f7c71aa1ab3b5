"""The traced meaning of ``tfl.rand`` and ``tfl.randint``: one op ``random`` that knows each dimension's place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import ShapeError, TraceError
from ...expr import Expr
from ...ir.attributes import RandomAttrs
from ...ir.kinds import OpKind
from ...ir.ops import LARGEST_SPAN
from ...ir.types import TileType, Value, is_float
from ...language.streams import stream_at
from ..trace import Tracer
from ..values import TileProxy, TileValue
from .device_table import device_function


@device_function("rand")
def rand(t: Tracer, shape: Any, seed: Any, *, whole: Any = None) -> TileValue:
    return _random(t, "float32", shape, (seed,), whole)


@device_function("randint")
def randint(t: Tracer, shape: Any, low: Any, high: Any, seed: Any, *, whole: Any = None) -> TileValue:
    if isinstance(low, int) and isinstance(high, int) and not 0 < high - low <= LARGEST_SPAN:
        raise TraceError("randint's range holds 1 to 2**31 - 1 ints", got=f"[{low}, {high})", where=t.location())
    return _random(t, "int32", shape, (seed, low, high), whole)


def _random(t: Tracer, dtype: str, shape: Any, scalars: tuple[Any, ...], whole: Any) -> TileValue:
    items = list(shape) if isinstance(shape, (list, tuple)) else [shape]
    dims = t.dims_of(items)
    place = t.location()
    assert place is not None and t.kernel is not None  # device code stands in a file of the user's
    stream = stream_at(place.file, place.line, place.column, t.kernel)
    offsets = tuple(s.offset if isinstance(s, TileProxy) else Expr.of(0) for s in items)
    attrs = RandomAttrs((stream.call, stream.function), _sizes(t, items, whole), offsets)
    return t.emit(OpKind.RANDOM, tuple(_scalar(t, s) for s in scalars), TileType(dtype, dims), attrs)


def _sizes(t: Tracer, items: Sequence[Any], whole: Any) -> tuple[Expr | None, ...]:
    """The size of the whole in each dimension; None for the first where only the kernel knows it: nobody asks."""
    if whole is not None:
        sizes = tuple(t.as_expr(s, "a size of the whole") for s in whole)
        if len(sizes) != len(items):
            raise ShapeError("the whole has a size for each dimension", got=f"{len(sizes)} for {len(items)}",
                             where=t.location())  # fmt: skip
        return sizes
    found = tuple(_size(t, s) for s in items)
    if None in found[1:]:
        raise TraceError(
            "the positions of random elements are counted in a whole of known size",
            got=f"{items[found.index(None, 1)]!r}, whose loop ends where the kernel says", where=t.location(),
            hint="give the sizes of the whole: tfl.rand(shape, seed, whole=[m, n])",
        )  # fmt: skip
    return found


def _size(t: Tracer, item: Any) -> Expr | None:
    if not isinstance(item, TileProxy):
        return t.as_expr(item, "a register tile's size")
    end = t.tiles[item.name].end
    return None if isinstance(end, Value) else end


def _scalar(t: Tracer, x: Any) -> Any:
    value = t.operand(x)
    if isinstance(value, float) or (isinstance(value, Value) and (value.dims or is_float(value.type.dtype))):
        raise TraceError("a seed and a bound of random ints are integer scalars", got=repr(x), where=t.location(),
                         hint="pass an int argument, or load one number: seeds[0]")  # fmt: skip
    return value
