"""The dtypes of what is computed per element, by torch's promotion, and of the numbers among its operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import TraceError
from ..ir.graph import Operand
from ..ir.ops import POINTWISE
from ..ir.types import INT32_MAX, Value, is_float
from .held_numbers import CHOOSING, check_number
from .intervals import result_fits
from .promotion import Kind, number_as, operand_dtype, result_dtype, torch_dtype
from .sizes import SymInt
from .whole_quotients import WHOLE_QUOTIENTS, check_divisor

if TYPE_CHECKING:
    from .trace import Tracer


def pointwise_dtypes(t: Tracer, fn: str, kinds: tuple[Kind, ...]) -> tuple[str, str]:
    """The dtypes of the result and of its operands. Raises TraceError where torch takes no such operands."""
    try:
        with t.plain_torch():
            dtype, operand = result_dtype(fn, kinds), operand_dtype(fn, kinds)
    except (RuntimeError, TypeError) as error:
        raise TraceError(
            f"torch.{fn} takes these operands",
            got=", ".join(k[0] for k in kinds),
            where=t.location(),
            hint=str(error).splitlines()[0],
        ) from error
    if POINTWISE[fn].int_only and torch_dtype(operand).is_floating_point:
        raise TraceError(
            f"torch.{fn} takes ints and bools",
            got=", ".join(k[0] for k in kinds),
            where=t.location(),
            hint="convert with .int(), or .view(torch.int32)",
        )
    return dtype, operand


def as_operands(t: Tracer, fn: str, args: Sequence[Any], given: list[Operand], dtype: str) -> list[Operand]:
    """The operands, numbers among them as ``dtype`` holds them. Raises TraceError for those that it does not hold,
    and for divisors that do not divide."""
    has_dtype = any(isinstance(o, Value) and not o.type.weak for o in given)
    for arg, number in zip(args, given, strict=True) if fn in CHOOSING else ():
        check_number(t, arg if isinstance(arg, SymInt) and has_dtype else number, dtype)
    with t.plain_torch():
        operands = [number_as(fn, place, o, dtype) for place, o in enumerate(given)]
    if fn in WHOLE_QUOTIENTS:
        check_divisor(t, fn, operands[1], args[1], dtype)
    return operands


def bits_of_ints(t: Tracer, fn: str, dtype: str, operand: str, operands: Sequence[Operand]) -> tuple[str, str]:
    """The dtypes of a result of Python's ints, which have no end, and of its operands: 64 bits, of which 32 suffice
    where nothing can be more."""
    are_short = all(map(_is_short, operands))
    if POINTWISE[fn].boolean:
        return dtype, operand if are_short else "int64"
    bits = "int32" if are_short and result_fits(t, fn, operands) else "int64"
    return (dtype if is_float(dtype) else bits), bits


def _is_short(operand: Operand) -> bool:
    """Whether a weak int is held in 32 bits."""
    return operand.type.dtype != "int64" if isinstance(operand, Value) else abs(operand) <= INT32_MAX
