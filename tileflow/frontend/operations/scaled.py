"""The traced meaning of ``tfl.dot_scaled``."""

from __future__ import annotations

from typing import Any

from ...errors import ShapeError, TraceError
from ...ir.attributes import DotScaledAttrs
from ...ir.graph import Operand
from ...ir.kinds import OpKind
from ...ir.types import TileType, Value
from ...language.scaled import DTYPES, GROUP, PACKED
from ..dimensions import show
from ..language_registry import register_language
from ..promotion import dtype_name
from ..trace import Tracer
from ..values import TileValue
from .reshape import value_of


@register_language("dot_scaled")
def dot_scaled(
    t: Tracer, a: Any, a_scale: Any, a_format: str, b: Any, b_scale: Any, b_format: str, acc: Any = None
) -> TileValue:
    """An op ``dot_scaled``: ``(m, k) @ (k, n)`` of packed numbers with one scale for each group along ``k``, plus
    ``acc``. Raises ShapeError where sizes or scales do not fit."""
    left, right = _side(t, a, a_format), _side(t, b, b_format)
    inner = [left.dims[-1].extent * PACKED.get(a_format, 1), right.dims[-2].extent * PACKED.get(b_format, 1)]
    if not t.same_size(*inner):
        raise ShapeError(
            "the inner dimensions of a scaled product agree",
            got=f"{inner[0]} and {inner[1]} numbers",
            where=t.location(),
        )
    dims = (left.dims[-2], right.dims[-1])
    inputs: list[Operand] = [left, right]
    for scale, outer in ((a_scale, dims[0]), (b_scale, dims[1])):
        if scale is not None:
            found = value_of(t, scale)
            wanted = (outer.extent, inner[0])
            have = (found.dims[0].extent, found.dims[1].extent * GROUP) if len(found.dims) == 2 else None
            if have is None or not all(t.same_size(x, y) for x, y in zip(have, wanted, strict=True)):
                raise ShapeError(
                    f"a scale stands for {GROUP} numbers: (m, k / {GROUP}) of a, (n, k / {GROUP}) of b",
                    got=show(found.dims),
                    where=t.location(),
                )
            _check(t, found, "a scale", ("uint8",))
            inputs.append(found)
    if acc is not None:
        inputs.append(t.expand(t.cast(acc, "float32"), dims).value)
    scaled = a_scale is not None, b_scale is not None
    attrs = DotScaledAttrs((a_format, b_format), scaled, t.names.numbered("dot"))
    result = t.emit(OpKind.DOT_SCALED, tuple(inputs), TileType("float32", dims), attrs)
    return result if acc is None else t.cast(result, value_of(t, acc).type.dtype)


def _side(t: Tracer, tile: Any, format: str) -> Value:
    value = value_of(t, tile)
    if format not in DTYPES:
        raise TraceError(
            "a scaled product takes known formats",
            got=format,
            where=t.location(),
            hint=f"there are: {', '.join(DTYPES)}",
        )
    if len(value.dims) != 2:
        raise ShapeError("a scaled product takes tiles of two dimensions", got=show(value.dims), where=t.location())
    _check(t, value, format, tuple(dtype_name(d) for d in DTYPES[format]))
    return value


def _check(t: Tracer, value: Value, what: str, dtypes: tuple[str, ...]) -> None:
    if value.type.dtype not in dtypes:
        raise TraceError(f"{what} is held in {' or '.join(dtypes)}", got=value.type.dtype, where=t.location())
