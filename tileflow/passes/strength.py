"""Strength reduction: divisions by constants, and by numbers that a program has one of.

Those of integers by powers of two become shifts and masks. Triton divides towards zero, Python and torch towards minus
infinity; an arithmetic shift and a mask do the latter, so that the corrections of a general division fall away with it.
A remainder of floats is a call of the vendor's loop in general; a power of two divides them exactly.

Floats over a Python number are multiplied by its reciprocal, which is what torch does on a GPU: the scale of
attention's scores, written ``scores / math.sqrt(d)``, takes one instruction in place of four.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ..ir.attributes import PointwiseAttrs
from ..ir.graph import KernelIR, Op
from ..ir.kinds import OpKind
from ..ir.types import TileType, Value, is_float, width
from .rewrite import Fresh, map_ops, with_body

MOST = 1 << 62  # that a divisor may be
_SMALLEST = 2.0**-125  # magnitude whose reciprocal is a normal float32 as well


def reduce_strength(ir: KernelIR) -> KernelIR:
    """``x // 8`` as ``x >> 3``, ``x % 8`` as ``x & 7``; of floats ``x % 8`` as ``x - floor(x * 0.125) * 8``, ``x / 8``
    as ``x * 0.125`` and ``x / scale`` as ``x * (1 / scale)``."""
    most = max((width(v) for op in ir.walk() for v in op.outputs), default=0)
    fresh = Fresh(ir)
    return with_body(ir, map_ops(ir.body, lambda op: _reduced(op, most, fresh)))


def _reduced(op: Op, most: int, fresh: Fresh) -> list[Op]:
    """``most``: dimensions of a value of the region. Of what has fewer, as the mean of a row, there are few numbers,
    which read better as the author has them."""
    if not isinstance(op.attrs, PointwiseAttrs):
        return [op]
    match op.attrs.fn:
        case "div" if 0 < most == width(op.output):
            return _multiplied(op, fresh)
        case "floordiv" | "remainder":
            return [_shifted(op)]
    return [op]


def _multiplied(op: Op, fresh: Fresh) -> list[Op]:
    """A division by a number of Python's; one of a tensor's divides in torch, too."""
    attrs = PointwiseAttrs.of(op)
    number, divisor = op.inputs
    if isinstance(divisor, Value):
        if divisor.dims or not divisor.type.weak:
            return [op]
        reciprocal = fresh.value(TileType(attrs.operand, weak=True), op.output)
        once = Op(OpKind.POINTWISE, (1.0, divisor), (reciprocal,), attrs, (), op.loc)
        return [once, op.with_(inputs=(number, reciprocal), attrs=replace(attrs, fn="mul"))]
    if not _SMALLEST <= abs(divisor) <= 1 / _SMALLEST:
        return [op]
    return [op.with_(inputs=(number, 1 / divisor), attrs=replace(attrs, fn="mul"))]


def _shifted(op: Op) -> Op:
    """A division or a remainder by a constant power of two."""
    attrs = PointwiseAttrs.of(op)
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
