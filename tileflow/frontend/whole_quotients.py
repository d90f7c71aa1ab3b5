"""Whole quotients and remainders of ints by a number that is 0, which torch refuses.

A size of 0, and what host code made of one, divides nothing: no element of an empty table is asked for. So it is the
author's own 0 that is refused, which stands in the text of the expression.
"""

from __future__ import annotations

import ast
import itertools
import linecache
import textwrap
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

from ..errors import TraceError
from ..ir.graph import Operand
from ..ir.types import Value, is_float
from ..parsing import module_tree

if TYPE_CHECKING:
    from .trace import Tracer

WHOLE_QUOTIENTS = frozenset({"floordiv", "truncdiv", "remainder", "fmod"})


def check_divisor(t: Tracer, fn: str, divisor: Operand, given: Any, dtype: str) -> None:
    """Raises TraceError where ``divisor`` of ints of ``dtype`` is a 0 that the author wrote, or wraps to 0."""
    if isinstance(divisor, Value) or divisor != 0 or is_float(dtype):
        return
    if given != 0 or is_written(0, t.frame()):
        raise TraceError(
            "ints are divided by what is not 0",
            got=f"{fn} of {dtype} by {given!r}, which is 0 there",
            where=t.location(),
            hint="choose what stands in its place: torch.where(divisor == 0, 0, x // torch.clamp(divisor, min=1))",
        )


def is_written(number: int, frame: FrameType | None) -> bool:
    """Whether the expression that ``frame`` is executing has ``number`` in its text as an operand or an argument."""
    if frame is None:
        return False
    try:
        tree = module_tree(textwrap.dedent(_text(frame)).strip())
    except SyntaxError:  # a part of a statement that is no expression by itself
        return False
    return any(_number(operand) == number for operand in _operands(tree.body))


def _text(frame: FrameType) -> str:
    """The source of the instruction that a frame is executing."""
    places = itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None)
    line, last, begin, end = next(places, (None, None, None, None))
    if line is None or last is None or begin is None or end is None:
        return ""
    lines = [linecache.getline(frame.f_code.co_filename, n).encode() for n in range(line, last + 1)]
    lines[-1] = lines[-1][:end]  # columns count bytes
    lines[0] = lines[0][begin:]
    return b"".join(lines).decode()


def _operands(statements: list[ast.stmt]) -> Iterator[ast.expr]:
    """The operands of an operator, or the arguments of a call, that a text is."""
    for statement in statements:
        match statement:
            case ast.Expr(ast.BinOp(right=right)) | ast.AugAssign(value=right):
                yield right
            case ast.Expr(ast.Call(args=args, keywords=keywords)):
                yield from (*args, *(k.value for k in keywords))
            case ast.Expr(value):
                yield value


def _number(node: ast.expr) -> int | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        negative = _number(node.operand)
        return None if negative is None else -negative
    return node.value if isinstance(node, ast.Constant) and type(node.value) is int else None
