"""Strength reduction: integer divisions by constant powers of two become shifts and masks.

Triton divides towards zero, Python and torch towards minus infinity; an arithmetic shift and a mask do the latter, so
that the corrections of a general division fall away with it.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir.attributes import PointwiseAttrs
from ..ir.graph import KernelIR, Op
from ..ir.types import is_float
from .rewrite import map_ops, with_body


def reduce_strength(ir: KernelIR) -> KernelIR:
    """``x // 8`` as ``x >> 3``, ``x % 8`` as ``x & 7``."""
    return with_body(ir, map_ops(ir.body, lambda op: [_reduced(op)]))


def _reduced(op: Op) -> Op:
    attrs = op.attrs
    if not isinstance(attrs, PointwiseAttrs) or attrs.fn not in ("floordiv", "remainder") or is_float(attrs.operand):
        return op
    number, divisor = op.inputs
    if not isinstance(divisor, int) or isinstance(divisor, bool) or divisor <= 0 or divisor & (divisor - 1):
        return op
    if attrs.fn == "floordiv":
        return op.with_(inputs=(number, divisor.bit_length() - 1), attrs=replace(attrs, fn="shift_right"))
    return op.with_(inputs=(number, divisor - 1), attrs=replace(attrs, fn="bitwise_and"))
