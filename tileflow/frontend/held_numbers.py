"""Numbers that take a dtype's place, and are refused where torch would not convert them to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ..errors import TraceError
from ..ir.types import is_float

if TYPE_CHECKING:
    from .trace import Tracer

CHOOSING = frozenset({"where", "maximum", "minimum"})  # what gives one of its operands as it is


def check_number(t: Tracer, number: Any, dtype: str) -> None:
    """Raises TraceError for a number that torch does not convert to an integer dtype. A negative one wraps in an
    unsigned dtype, as it does there. What is no number of Python's is not looked at."""
    if not isinstance(number, (int, float)) or is_float(dtype) or dtype == "bool":
        return
    most = torch.iinfo(getattr(torch, dtype)).max
    least = torch.iinfo(getattr(torch, dtype)).min or -most
    if number != number or not least <= number <= most:
        raise TraceError(
            f"a number is one that {dtype} holds",
            got=repr(number),
            where=t.location(),
            hint=f"{least} to {most}; or a tensor of another dtype",
        )
