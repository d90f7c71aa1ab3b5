"""What a name is where its values come together: before a loop and after a turn, on both sides of a branch.

A number of Python's has no dtype, and takes the other value's. Where it stays as it was, Python has it whole, so that
the dtype must hold it.
"""

from __future__ import annotations

from typing import Any

from ..errors import TraceError
from ..expr import Expr
from ..ir.ops import holds
from ..ir.types import INT_BITS, TileType
from .intervals import int_dtype, interval
from .promotion import torch_limits
from .sizes import SymInt
from .trace import Tracer
from .values import TileValue


def joined_type(t: Tracer, name: str, a: Any, b: Any) -> TileType:
    """The type that holds both values of ``name``. Raises TraceError for an int beyond the other's dtype."""
    common = t.common_type(a, b)
    if common.dtype in INT_BITS and common.dtype != "bool":
        for number in (a, b):
            _check(t, name, number, common.dtype)
    return common


def _check(t: Tracer, name: str, number: Any, dtype: str) -> None:
    if not _is_held(t, number, dtype):
        raise TraceError(
            "an int that a loop or a branch makes a scalar with a dtype is one that this dtype holds",
            got=f"{name}: {number!r} and {dtype}"[:200],
            where=t.location(),
            hint=f"convert what {name} meets, as in {name} + step[k].int(), or begin with a scalar of a wider dtype",
        )


def _is_held(t: Tracer, number: Any, dtype: str) -> bool:
    """Whether ``dtype`` has a number; what has a dtype of its own is one of those that promotion looked at."""
    if isinstance(number, int):
        return holds(dtype, number)
    if isinstance(number, SymInt):
        return _are_within(t, number.expr, number.expr, dtype, int_dtype(t, number.expr))
    if not isinstance(number, TileValue) or not number.value.type.weak:
        return True
    found = interval(t, number.value)
    return _are_within(t, found.least, found.most, dtype, number.value.type.dtype)


def _are_within(t: Tracer, least: Expr | None, most: Expr | None, dtype: str, own: str) -> bool:
    """Whether ints of dtype ``own`` between two sizes are ones that ``dtype`` has, guarded where a launch says so."""
    lowest, highest = torch_limits(dtype)
    low, high = torch_limits(own)
    if lowest <= low and high <= highest:
        return True
    if least is None or most is None:
        return False
    conditions = Expr.of(lowest).le(least), most.le(highest)
    return all(bool(c.constant) if c.constant is not None else _decided(t, c) for c in conditions)


def _decided(t: Tracer, condition: Expr) -> bool:
    return condition.symbols() <= t.hints.keys() and t.decide(condition)
