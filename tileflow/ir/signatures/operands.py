"""What the rules of several families ask of an op's operands."""

from __future__ import annotations

from ..attributes import AxisAttrs
from ..checking import Checker
from ..graph import Block, Op, Operand
from ..types import Dim, Value


def value_at(c: Checker, op: Op, position: int = 0) -> Value:
    """The input at ``position``, which must be a value; a number there is refused."""
    operand = op.inputs[position]
    if not isinstance(operand, Value):
        c.refuse(op, f"input {position} is a value", operand)
    return operand


def dtype_of(operand: Operand) -> str:
    """The dtype of a value; the name of the Python type of a number."""
    return operand.type.dtype if isinstance(operand, Value) else type(operand).__name__


def axis_of(c: Checker, op: Op, dims: tuple[Dim, ...]) -> int:
    """The op's axis, refused where ``dims`` have no such axis."""
    axis = AxisAttrs.of(op).axis
    c.require(0 <= axis < len(dims), op, "the axis is one of the dimensions", axis, dims)
    return axis


def without(dims: tuple[Dim, ...], axis: int) -> tuple[Dim, ...]:
    """``dims`` without the one at ``axis``."""
    return dims[:axis] + dims[axis + 1 :]


def same_dims(c: Checker, op: Op) -> None:
    """Refuses an output whose dimensions differ in size from the first input's."""
    value = value_at(c, op)
    c.require(
        c.same_sizes(value.dims, op.output.dims),
        op,
        "the output has the input's dimensions",
        value.dims,
        op.output.dims,
    )


def same_dtype(c: Checker, op: Op) -> None:
    """Refuses an output whose dtype differs from the first input's."""
    for output in op.outputs:
        c.require(
            output.type.dtype == value_at(c, op).type.dtype,
            op,
            "the output has the input's dtype",
            value_at(c, op).type,
            output.type,
        )


def same_type(c: Checker, op: Op) -> None:
    """Refuses an output that differs from the first input in dimensions or dtype."""
    same_dims(c, op)
    same_dtype(c, op)


def yields(c: Checker, op: Op, block: Block, wanted: tuple[Value, ...]) -> None:
    """Refuses a block that does not yield one value of the right type for each of ``wanted``."""
    c.require(
        len(block.results) == len(wanted), op, "a region gives a value for each result", len(block.results), len(wanted)
    )
    for result, value in zip(block.results, wanted, strict=True):
        fits = not isinstance(result, Value) or is_assignable(c, result, value)
        c.require(fits, op, "what a region gives has the result's type", result, value)


def is_assignable(c: Checker, given: Value, wanted: Value) -> bool:
    """Whether both values have one dtype and dimensions of the same sizes."""
    return given.type.dtype == wanted.type.dtype and c.same_sizes(given.dims, wanted.dims)
