"""What is done element by element, in any layout: functions, conversions, masks."""

from __future__ import annotations

from ..ir.attributes import PointwiseAttrs, WhereMaskAttrs
from ..ir.graph import Op, Operand
from ..ir.kinds import OpKind
from ..ir.ops import POINTWISE
from ..ir.types import Value, is_float
from .context import Context
from .dtypes import NARROW_INTS, compute_dtype, triton_dtype, typed_literal
from .functions import calls_functions, provide
from .number_dtypes import are_numbers
from .round_trips import ROUNDED, is_round_trip, rounded
from .table import COMMON


@COMMON.emits(OpKind.POINTWISE)
def pointwise(e: Context, op: Op) -> None:
    """Write a row of POINTWISE, with its operands in the dtype that the row computes in."""
    row = POINTWISE[PointwiseAttrs.of(op).fn]
    dtype = compute_dtype(PointwiseAttrs.of(op).operand)
    if are_numbers(op):
        dtype = e.number_dtypes.of(op.output, dtype)
        if dtype == "int32" and any(_is_wide(e, v) for v in op.inputs):
            dtype = "int64"
    other = row.double if dtype == "float64" else None if is_float(dtype) else row.integer
    template = row.triton if other is None else other
    first = 1 if PointwiseAttrs.of(op).fn == "where" else 0
    operands = [e.as_dtype(v, "bool") for v in op.inputs[:first]]
    operands += [_operand(e, v, dtype, template) for v in op.inputs[first:]]
    held = "bool" if row.boolean else dtype
    provide(e.module, template, e.is_interpreted)
    numbers = not any(isinstance(v, Value) for v in op.inputs[first:])
    e.define(op.output, _typed(template, template.format(*operands), held, numbers), held)


def _operand(e: Context, operand: Operand, dtype: str, template: str) -> str:
    """The text of an operand. A function of a library is found by its arguments' dtypes, a number's among them."""
    if dtype == "float64" and not isinstance(operand, Value) and calls_functions(template):
        return typed_literal(operand, dtype)
    return e.as_dtype(operand, dtype)


def _is_wide(e: Context, operand: Operand) -> bool:
    """Whether an int of 32 bits is held in 64, since it was made of sizes or numbers that need them: it keeps them
    until it meets a tile, in whose dtype it wraps."""
    return isinstance(operand, Value) and operand.type.dtype == "int32" and e.held(operand) == "int64"


def _typed(template: str, text: str, dtype: str, numbers: bool) -> str:
    """``text`` in ``dtype`` also where Triton gives another one. A number among a function's arguments is an int32 or a
    float32 there, to which narrower ints are widened; of two ``numbers`` nothing says otherwise."""
    is_sign = template in (POINTWISE["sign"].triton, POINTWISE["sign"].integer)
    if "tl." not in template or dtype in ("int32", "float32") or (dtype == "bool" and not is_sign):
        return text
    chooses_numbers = numbers or is_sign
    return f"({text}).to({triton_dtype(dtype)})" if dtype in NARROW_INTS or chooses_numbers else text


@COMMON.emits(OpKind.CAST)
def cast(e: Context, op: Op) -> None:
    """Write a conversion to the output's dtype."""
    value, dtype = op.inputs[0], op.output.type.dtype
    if dtype == "bool":
        e.define(op.output, e.as_dtype(value, "bool", op.output), "bool")
    elif dtype == ROUNDED and is_round_trip(e, op):
        e.define(op.output, rounded(e, e.as_dtype(value, "float32")), "float32")
    else:
        e.define(op.output, e.as_dtype(value, dtype, op.output), dtype)


@COMMON.emits(OpKind.BITCAST)
def bitcast(e: Context, op: Op) -> None:
    """Write the same bits as another dtype."""
    value = op.inputs[0]
    assert isinstance(value, Value)
    dtype, text = op.output.type.dtype, e.as_dtype(value, value.type.dtype)
    if value.type.weak:  # a number of the author's, which the interpreter has as Python's
        text = f"tl.cast({text}, {triton_dtype(value.type.dtype)})"
    e.define(op.output, f"{text}.to({triton_dtype(dtype)}, bitcast=True)", dtype)


@COMMON.emits(OpKind.FULL)
def full(e: Context, op: Op) -> None:
    """Write a tile of one number; without dimensions, the number itself in the dtype."""
    out, dtype = op.output, compute_dtype(op.output.type.dtype)
    value = op.inputs[0]
    if isinstance(value, Value) and not out.dims:
        e.define(out, e.as_dtype(value, dtype), dtype)
    else:  # not tl.broadcast_to: the variable of a loop is a Python int to the interpreter
        text = e.as_dtype(value, dtype)
        e.define(out, e.full(out.dims, text, triton_dtype(dtype)), dtype)


@COMMON.emits(OpKind.WHERE_MASK)
def where_mask(e: Context, op: Op) -> None:
    """Write ``tl.where`` over the lanes of the masked axes. Where no axis is masked the value keeps its name."""
    value, other = op.inputs
    assert isinstance(value, Value)
    axes = [a for a in WhereMaskAttrs.of(op).axes if e.plan.is_masked(value.dims[a])]
    held = e.held(value)
    if not axes:
        e.bind(op.output, e.name(value), held)
        return
    mask = " & ".join(e.lane_mask(value.dims, a) for a in axes)
    e.define(op.output, chosen(mask, e.name(value), e.as_dtype(other, held), held), held)


def chosen(mask: str, value: str, other: str, dtype: str) -> str:
    """``tl.where`` of a tile and a number, in the tile's dtype."""
    template = "tl.where({0}, {1}, {2})"
    return _typed(template, template.format(mask, value, other), dtype, False)
