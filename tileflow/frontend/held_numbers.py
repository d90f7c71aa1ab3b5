"""Numbers that take a dtype's place, and are refused where torch would not convert them to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ..errors import TraceError
from ..expr import Expr
from ..ir.types import is_float
from .values import SymInt, TileValue

if TYPE_CHECKING:
    from .trace import Tracer

CHOOSING = frozenset({"where", "maximum", "minimum"})  # what gives one of its operands as it is


def check_number(t: Tracer, number: Any, dtype: str) -> None:
    """Raises TraceError for a number that torch does not convert to an integer dtype. A negative one wraps in an
    unsigned dtype, as it does there. Of an int of the call each launch checks it; a float of the call, which no launch
    looks at, is refused. What is loaded is not looked at."""
    if is_float(dtype) or dtype == "bool":
        return
    most = torch.iinfo(getattr(torch, dtype)).max
    least = torch.iinfo(getattr(torch, dtype)).min or -most
    if not _is_held(t, number, least, most):
        raise TraceError(
            f"a number is one that {dtype} holds",
            got=repr(number),
            where=t.location(),
            hint=f"{least} to {most}; or a tensor of another dtype",
        )
    if isinstance(number, TileValue) and number.value.type.weak and is_float(number.value.type.dtype):
        raise TraceError(
            f"a number in the place of {dtype} is an int, or a constant",
            got="a float of the call, which may be one that no int is",
            where=t.location(),
            hint="value = int(value) in host code; or a parameter that is annotated with tfl.constexpr",
        )


def _is_held(t: Tracer, number: Any, least: int, most: int) -> bool:
    """Whether a number of Python's, or an int of the call, lies between two others."""
    if isinstance(number, SymInt):
        if not number.expr.symbols() <= t.hints.keys():  # block sizes, which are small
            return True
        return t.decide(Expr.of(least).le(number.expr).and_(number.expr.le(most)))
    return not isinstance(number, (int, float)) or (number == number and least <= number <= most)
