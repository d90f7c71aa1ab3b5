"""Half types, which are computed in float32: where the author's conversions round them.

A conversion to the dtype that a tile has already is torch's way to say nothing, and here the way to round. What becomes
an int or a bool is rounded first, since a bit less would choose another one. Another float dtype is rounded to once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.attributes import PointwiseAttrs
from ..ir.graph import Operand
from ..ir.kinds import OpKind
from ..ir.types import TileType, Value, is_float, itemsize
from .values import TileValue

if TYPE_CHECKING:
    from .trace import Tracer

_REARRANGED = frozenset(
    {OpKind.UNSQUEEZE, OpKind.SQUEEZE, OpKind.EXPAND, OpKind.RESHAPE, OpKind.PERMUTE, OpKind.JOIN, OpKind.SPLIT}
)
_CHOSEN = frozenset({"where", "maximum", "minimum", "neg", "abs", "relu"})  # of numbers of a dtype others of it


def converted(t: Tracer, x: Any, dtype: str) -> TileValue:
    """``x`` in ``dtype``, as ``x.to(dtype)`` has it."""
    value = t.operand(x)
    if not isinstance(value, Value) or not _is_half(value.type.dtype):
        return t.cast(x, dtype)
    is_own = dtype == value.type.dtype
    if (is_float(dtype) and not is_own) or _is_rounded(t, value):
        return t.cast(x, dtype)
    rounded = t.emit(OpKind.CAST, (value,), TileType(value.type.dtype, value.dims))
    return rounded if is_own else t.cast(rounded, dtype)


def _is_half(dtype: str) -> bool:
    return is_float(dtype) and itemsize(dtype) == 2


def _is_rounded(t: Tracer, operand: Operand) -> bool:
    """Whether a tile's numbers are known to be ones of its dtype."""
    op = t.builder.definitions.get(operand) if isinstance(operand, Value) else None
    if op is None:
        return False
    if op.kind in (OpKind.LOAD, OpKind.CAST, OpKind.BITCAST):
        return True
    values = op.values
    if op.kind is OpKind.POINTWISE:
        if PointwiseAttrs.of(op).fn not in _CHOSEN or len(values) < len(op.inputs):
            return False
        values = values[PointwiseAttrs.of(op).fn == "where" :]
    elif op.kind not in _REARRANGED:
        return False
    return all(v.type.dtype == op.outputs[0].type.dtype and _is_rounded(t, v) for v in values)
