"""Which sizes are known to be 0 or more, by what their symbols stand for: Triton divides as C does, toward zero. Which
numbers of a program are positive, by how they are computed."""

from __future__ import annotations

from collections.abc import Mapping

from ..expr import Expr
from .attributes import PointwiseAttrs, SizeAttrs
from .graph import Op, Operand
from .kinds import OpKind
from .types import Value

_SMALL = 2.0**-60  # a few such make no number that float32 lacks
_NEVER_NEGATIVE = (":", ".shape.", ".stride.")  # block sizes and other knobs, what tensors have


def sign_of(factor: Expr) -> int:
    """That of a product's constant: -1 or 1."""
    constant = factor.args[0].constant if factor.op == "prod" else factor.constant
    return -1 if constant is not None and constant < 0 else 1


def is_nonnegative(e: Expr) -> bool:
    """Whether a size is known to be 0 or more. Ints of the author, differences and bounds of loops are not."""
    match e.op:
        case "const":
            return e.args[0] >= 0  # type: ignore[no-any-return]
        case "sym":
            return any(part in e.args[0] for part in _NEVER_NEGATIVE)
        case "sum" | "prod" | "floordiv" | "cdiv" | "min":
            return all(map(is_nonnegative, e.args))
        case "max":
            return any(map(is_nonnegative, e.args))
        case "mod":
            return is_nonnegative(e.args[1])
    return e.is_truth or e.op == "next_pow2"


def is_positive(number: Operand, definitions: Mapping[Value, Op], most: float = 1 / _SMALL) -> bool:
    """Whether a number that a program has one of is above 0 and finite, as float32 has it: constants, roots of sizes,
    and what is made of such by products and quotients. ``most``: that a constant, or its reciprocal, may be."""
    if not isinstance(number, Value):
        return 1 / most <= number <= most
    op = definitions.get(number)
    if op is None or number.dims or op.kind is not OpKind.POINTWISE:
        return False
    match PointwiseAttrs.of(op).fn:
        case "sqrt" | "rsqrt":
            return _is_size(op.inputs[0], definitions)
        case "div" | "mul":
            return all(is_positive(v, definitions, most) for v in op.inputs)
    return False


def _is_size(operand: Operand, definitions: Mapping[Value, Op]) -> bool:
    """Whether an operand is a size of a tensor: of one without elements nothing is computed."""
    op = definitions.get(operand) if isinstance(operand, Value) else None
    while op is not None and op.kind is OpKind.CAST:
        op = definitions.get(op.inputs[0]) if isinstance(op.inputs[0], Value) else None
    return op is not None and op.kind is OpKind.SIZE and is_nonnegative(SizeAttrs.of(op).value)
