"""Mistakes that the text of a tile loop shows: a body that does nothing, bounds that are the wrong way round.

Standard library only: production reads a kernel's source too.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

Mistake = tuple[str, ast.AST, str, str]  # the constraint, where, what was got, what to write


def mistake(loop: ast.For) -> Mistake | None:
    """What is wrong with a tile loop, as far as its text says."""
    if all(map(_does_nothing, loop.body)):
        return (
            "a tile loop does something with its tiles",
            loop,
            "an empty body",
            "store into a tensor, or leave the loop out",
        )
    assert isinstance(loop.iter, ast.Call)
    return _of_bounds(loop.iter)


def _does_nothing(statement: ast.stmt) -> bool:
    """``pass``, ``...``, a text."""
    is_constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return isinstance(statement, ast.Pass) or is_constant


def _of_bounds(call: ast.Call) -> Mistake | None:
    keywords = {k.arg: k.value for k in call.keywords}
    first = call.args[0] if call.args else keywords.get("begin_or_end")
    second = call.args[1] if len(call.args) > 1 else keywords.get("end")
    begins, ends = (_numbers(second and first), _numbers(second or first))
    for begin in begins:
        if begin is not None and begin < 0:
            return ("a loop begins at 0 or later", call, f"{begin}", "shift the index instead: x[tile - 4]")
    for end in ends:
        if end is not None and end < 0:
            return ("a loop ends at 0 or later", call, f"{end}", "count from the start: tensor.size(0) - n")
    if len(call.args) > 2 or {"step", "block_size"} & keywords.keys():
        return None  # other mistakes than a box without its brackets, which the trace names
    for begin, end in zip(begins, ends, strict=False):
        if begin is not None and end is not None and begin > end:
            return (
                "a loop's begin is at most its end",
                call,
                f"{begin} and {end}",
                f"for a box write its sizes as a list: [{begin}, {end}]",
            )
    return None


def _numbers(node: ast.expr | None) -> Sequence[int | None]:
    """The ints that are written out, None for what else there is."""
    if node is None:
        return ()
    items = node.elts if isinstance(node, ast.List | ast.Tuple) else [node]
    return [_number(item) for item in items]


def _number(node: ast.expr) -> int | None:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError):
        return None
    return value if type(value) is int else None
