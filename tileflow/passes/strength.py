"""Strength reduction: divisions by constants, and by numbers that a program has one of.

Those of integers by powers of two become shifts and masks. Triton divides towards zero, Python and torch towards minus
infinity; an arithmetic shift and a mask do the latter, so that the corrections of a general division fall away with it.
A remainder of floats is a call of the vendor's loop in general; a power of two divides them exactly.

Floats over a Python number are multiplied by its reciprocal, which is what torch does on a GPU: the scale of
attention's scores, written ``scores / math.sqrt(d)``, takes one instruction in place of four. Quotients that are
rounded to whole numbers or compared are divided: 49 times the reciprocal of 49 is below 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from ..ir.attributes import NO_ATTRS, PointwiseAttrs
from ..ir.graph import KernelIR, Op, Operand
from ..ir.kinds import OpKind
from ..ir.ops import POINTWISE
from ..ir.reach import reaching
from ..ir.signs import is_positive
from ..ir.types import TileType, Value, is_float, width
from .rewrite import Fresh, map_ops, with_body

MOST = 1 << 62  # that a divisor may be
_WHOLE = frozenset(
    {"floor", "ceil", "trunc", "round", "floordiv", "truncdiv", "remainder", "remainder_by_power", "fmod"}
)
_ARITHMETIC = frozenset({"add", "sub", "mul", "fma", "neg", "positive", "abs", "minimum", "maximum", "where"})
_ADDS = frozenset({"add", "sub", "fma"})
_LEAST = 1e-4  # constant by which what is added to something else is divided
_SMALLEST = 2.0**-125  # magnitude whose reciprocal is a normal float32 as well


def reduce_strength(ir: KernelIR) -> KernelIR:
    """``x // 8`` as ``x >> 3``, ``x % 8`` as ``x & 7``; of floats ``x % 8`` as ``x - floor(x * 0.125) * 8``, ``x / 8``
    as ``x * 0.125`` and ``x / scale`` as ``x * (1 / scale)``."""
    most = max((width(v) for op in ir.walk() for v in op.outputs), default=0)
    divides = any(isinstance(op.attrs, PointwiseAttrs) and op.attrs.fn == "div" for op in ir.walk())
    fresh, exact = Fresh(ir), _exact(ir) if divides else frozenset[Value]()
    added = {
        v for op in ir.walk() if op.kind is OpKind.POINTWISE and PointwiseAttrs.of(op).fn in _ADDS for v in op.values
    }

    def rewrite(op: Op) -> list[Op]:
        if not isinstance(op.attrs, PointwiseAttrs):
            return [op]
        match op.attrs.fn:
            # of what has fewer dimensions, as the mean of a row, there are few numbers: the author's text reads better
            case "div" if 0 < most == width(op.output) and op.output not in exact:
                is_moderate = op.output not in added or _is_moderate(op.inputs[1], ir.definitions)
                return _multiplied(op, fresh) if is_moderate else [op]
            case "floordiv" | "remainder":
                return [_shifted(op)]
        return [op]

    return with_body(ir, map_ops(ir.body, rewrite))


def _exact(ir: KernelIR) -> frozenset[Value]:
    """What is rounded to whole numbers or compared, by way of what keeps whole numbers: a quotient next to one of them
    decides."""
    return reaching(ir, _rounds, _keeps_whole_numbers)


def _keeps_whole_numbers(op: Op) -> bool:
    return op.kind is not OpKind.POINTWISE or PointwiseAttrs.of(op).fn in _ARITHMETIC


def _rounds(op: Op) -> bool:
    if op.kind is OpKind.CAST:
        return not is_float(op.output.type.dtype) and is_float(op.values[0].type.dtype)
    if op.kind is not OpKind.POINTWISE:
        return False
    attrs = PointwiseAttrs.of(op)
    return attrs.fn in _WHOLE or (POINTWISE[attrs.fn].boolean and is_float(attrs.operand))


def _is_moderate(divisor: Operand, definitions: Mapping[Value, Op]) -> bool:
    """Whether quotients are not much larger than what is divided, whatever the call. A product and a sum are rounded
    once, a quotient and a sum twice: ``x / 1e-9 - (x / 1e-9).amax()`` is 0 for the largest, and by products up to the
    rounding of 1e10."""
    if isinstance(divisor, Value):
        return is_positive(divisor, definitions, 1 / _LEAST)
    return abs(divisor) >= _LEAST


def _multiplied(op: Op, fresh: Fresh) -> list[Op]:
    """A division by a number of Python's; one of a tensor's divides in torch, too."""
    attrs = PointwiseAttrs.of(op)
    number, divisor = op.inputs
    if attrs.operand == "float64":  # whose digits are what its author wants
        return [op]
    if isinstance(divisor, Value):
        if divisor.dims or not divisor.type.weak:
            return [op]
        one = fresh.value(TileType(attrs.operand), op.output)  # Triton's interpreter has Python's numbers else
        reciprocal = fresh.value(TileType(attrs.operand, weak=True), op.output)
        return [
            Op(OpKind.FULL, (1.0,), (one,), NO_ATTRS, (), op.loc),
            Op(OpKind.POINTWISE, (one, divisor), (reciprocal,), attrs, (), op.loc),
            op.with_(inputs=(number, reciprocal), attrs=replace(attrs, fn="mul")),
        ]
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
