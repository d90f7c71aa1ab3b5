"""Strength reduction: divisions by constant powers of two.

Those of integers become shifts and masks. Triton divides towards zero, Python and torch towards minus infinity; an
arithmetic shift and a mask do the latter, so that the corrections of a general division fall away with it. A remainder
of floats is a call of the vendor's loop in general; a power of two divides them exactly.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ..ir.attributes import PointwiseAttrs
from ..ir.graph import KernelIR, Op
from ..ir.types import is_float
from .rewrite import map_ops, with_body

MOST = 1 << 62  # that a divisor may be


def reduce_strength(ir: KernelIR) -> KernelIR:
    """``x // 8`` as ``x >> 3``, ``x % 8`` as ``x & 7``, of floats ``x % 8`` as ``x - floor(x * 0.125) * 8``."""
    return with_body(ir, map_ops(ir.body, lambda op: [_reduced(op)]))


def _reduced(op: Op) -> Op:
    attrs = op.attrs
    if not isinstance(attrs, PointwiseAttrs) or attrs.fn not in ("floordiv", "remainder"):
        return op
    number, divisor = op.inputs
    if isinstance(divisor, bool) or not isinstance(divisor, int | float) or not _is_power(divisor):
        return op
    if is_float(attrs.operand):
        return op.with_(attrs=replace(attrs, fn="remainder_by_power")) if attrs.fn == "remainder" else op
    if attrs.fn == "floordiv":
        return op.with_(inputs=(number, int(divisor).bit_length() - 1), attrs=replace(attrs, fn="shift_right"))
    return op.with_(inputs=(number, int(divisor) - 1), attrs=replace(attrs, fn="bitwise_and"))


def _is_power(divisor: float) -> bool:
    """Whether it is a power of two, 1 and more, by which no quotient overflows."""
    return 1 <= divisor <= MOST and math.frexp(divisor)[0] == 0.5
