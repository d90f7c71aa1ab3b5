"""Arithmetic of block sizes that host code uses; exact on ints that carry an expression."""

from __future__ import annotations

from collections import Counter

from ...frontend.host_values import SymbolicInt

counters: dict[str, Counter[str]] = {"autotune": Counter()}


def cdiv(a: int, b: int) -> int:
    """``ceil(a / b)`` of ints, ``b`` positive."""
    return (a + b - 1) // b


def next_power_of_2(n: int) -> int:
    """The least power of two that is not below ``n``; 1 for what is below 1."""
    if isinstance(n, SymbolicInt):
        return SymbolicInt(next_power_of_2(int(n)), n.expr.next_pow2())
    return 1 << max(int(n) - 1, 0).bit_length()
