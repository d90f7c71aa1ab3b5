"""Shifts by as many bits as an int has, by more, and by less than 0: zeros, or of ``>>`` the sign, as torch's.

A GPU leaves open what such a shift gives: LLVM stores whatever a register holds, where it sees the number of bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..expr import Expr
from ..ir.types import INT_BITS, TileType
from .intervals import interval
from .sizes import SymInt
from .values import TileValue

if TYPE_CHECKING:
    from .trace import Tracer

SHIFTS = frozenset({"shift_left", "shift_right"})


def shifted(t: Tracer, fn: str, x: Any, bits: Any) -> TileValue:
    """``x << bits`` or ``x >> bits``, for each element. What sizes settle each launch checks."""
    mark = t.mark()
    found = t.pointwise(fn, x, bits)
    of = found.value.type
    width = INT_BITS[of.dtype]
    if _is_within(t, bits, width):
        return found
    t.rewind(mark)
    is_emptied = fn == "shift_left" or of.dtype.startswith("uint")
    if isinstance(bits, int):
        return _zeros(t, of, found.is_number) if is_emptied else t.pointwise(fn, x, width - 1)
    inside = t.pointwise("bitwise_and", t.pointwise("ge", bits, 0), t.pointwise("lt", bits, width))
    if is_emptied:
        return t.pointwise("where", inside, t.pointwise(fn, x, bits), 0)
    return t.pointwise(fn, x, t.pointwise("where", inside, bits, width - 1))


def _zeros(t: Tracer, of: TileType, is_number: bool) -> TileValue:
    zeros = t.full(of.dims, 0, of.dtype)
    return t.number(zeros) if is_number else zeros


def _is_within(t: Tracer, bits: Any, width: int) -> bool:
    """Whether a number of bits is known to be 0 and more, and fewer than ``width``."""
    found = interval(t, bits.expr if isinstance(bits, SymInt) else t.operand(bits))
    if found.least is None or found.most is None:
        return False
    conditions = Expr.of(0).le(found.least), found.most.lt(width)
    if not all(c.symbols() <= t.hints.keys() and c.evaluate(t.hints) for c in conditions):
        return False
    for condition in conditions:
        t.guard(condition)
    return True
