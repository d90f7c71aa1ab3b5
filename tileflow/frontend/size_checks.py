"""What Python raises for ints and device code would compute: a size divided by 0, or shifted by less than 0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import TraceError
from ..expr import Expr

if TYPE_CHECKING:
    from .trace import Tracer


def check_divisor(t: Tracer, number: Any, divisor: Any) -> None:
    """Raises TraceError for a size that is divided by 0, which Python does before the kernel runs."""
    if isinstance(divisor, Expr):
        divisor = divisor.constant
    if isinstance(divisor, (int, float)) and divisor == 0:
        raise TraceError(
            "a size is divided by another number than 0",
            got=f"{number} by {divisor}",
            where=t.location(),
            hint="of sizes that may be 0: max(n, 1), or `if n > 0:` around it, which Python decides",
        )


def check_shift(t: Tracer, number: Any, bits: Any) -> None:
    """Raises TraceError for a size that is shifted by a number of bits below 0."""
    if isinstance(bits, int) and bits < 0:
        raise TraceError(
            "a size is shifted by 0 bits or more",
            got=f"{number} by {bits}",
            where=t.location(),
            hint="the other way: n >> k for n << -k",
        )
