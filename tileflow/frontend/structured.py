"""Statements without early exits: what follows an ``if`` that may leave is in its branches, and returns come last."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from tileflow.frontend.liveness import bound_names, scope_nodes
from tileflow.frontend.syntax import copied

RESULT = "__tileflow_result__"


def first_exit(statements: Iterable[ast.stmt], *kinds: type[ast.stmt]) -> ast.stmt | None:
    """The first statement of ``kinds`` by which ``statements`` can leave their place: Break and Continue of a loop
    around, Return."""
    for s in statements:
        found = None
        if isinstance(s, kinds):
            return s
        if isinstance(s, ast.If):
            found = first_exit([*s.body, *s.orelse], *kinds)
        elif isinstance(s, ast.For | ast.While):
            inside = first_exit(s.body, ast.Return) if ast.Return in kinds else None
            found = inside or first_exit(s.orelse, *kinds)
        if found is not None:
            return found
    return None


def leaves(statements: Iterable[ast.stmt], *kinds: type[ast.stmt]) -> bool:
    """Whether ``statements`` can leave their place by one of ``kinds``."""
    return first_exit(statements, *kinds) is not None


def why_native(loop: ast.For | ast.While) -> ast.AST | None:
    """What makes a loop one of Python: the exit, or the condition that binds a name; None for other loops."""
    if isinstance(loop, ast.While) and bound_names([loop.test]):
        return loop.test
    return first_exit(loop.body, ast.Break, ast.Return)


def is_native(loop: ast.For | ast.While) -> bool:
    """Whether a loop stays a loop of Python."""
    return why_native(loop) is not None


_FLAG = "or by a flag: going = True, while going: ..., and going = False in place of leaving"
_SHORT = 80  # characters of a condition that a hint repeats


def ended_by_condition(loop: ast.While) -> str:
    """What to write for a ``while`` of Python where only the kernel knows when it ends."""
    if bound_names([loop.test]):
        return "assign in statements of their own: before the loop, and at the end of its body"
    condition = "top >= 1 and st[top - 1] >= x[i]"
    match loop.body[0]:
        case ast.If(test=test, body=[ast.Break()], orelse=[]):
            condition = f"{_conjunct(loop.test)}not ({ast.unparse(test)})"
    condition = condition if len(condition) <= _SHORT else "condition and not what_ends_it"
    return f"let the condition end it: while {condition}; {_FLAG}"


def _conjunct(test: ast.expr) -> str:
    """The condition of a loop as the first part of another one; nothing of one that is always true."""
    if isinstance(test, ast.Constant):
        return ""
    text = ast.unparse(test)
    is_looser = isinstance(test, ast.IfExp) or (isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or))
    return f"({text}) and " if is_looser else f"{text} and "


def structured(body: list[ast.stmt]) -> tuple[list[ast.stmt], set[ast.stmt]]:
    """``body`` without ``continue`` in functional loops, and with one ``return``, at the end; and the loops of Python.

    What follows an ``if`` that may leave moves into its branches. Where a loop returns, it is a loop of Python, and the
    returns stay.
    """
    loops = [n for n in scope_nodes(body) if isinstance(n, ast.For | ast.While)]
    returns = not any(leaves(loop.body, ast.Return) for loop in loops)
    static: set[ast.stmt] = set()
    body = _structure(body, False, returns, static)
    if returns and any(isinstance(s, ast.If) and leaves([s], ast.Return) for s in body):
        last = body[-1]
        _assign_result(body)
        body.append(ast.copy_location(ast.Return(ast.Name(RESULT, ast.Load())), last))
    return body, static


def _structure(statements: Sequence[ast.stmt], native: bool, returns: bool, static: set[ast.stmt]) -> list[ast.stmt]:
    """``native``: inside a loop of Python, whose exits stay. ``returns``: returns are to be restructured.

    Adds the loops of Python to ``static``: the reason why a loop is one may stand in a part that never runs.
    """
    moved: tuple[type[ast.stmt], ...] = (*(() if native else (ast.Continue,)), *((ast.Return,) if returns else ()))
    done: list[ast.stmt] = []
    rest = list(statements)
    while rest:
        s = rest.pop(0)
        if isinstance(s, ast.If):
            if moved and leaves([s], *moved):
                s.body += copied(rest)
                s.orelse += rest
                rest = []
            s.body = _structure(s.body, native, returns, static)
            s.orelse = _structure(s.orelse, native, returns, static)
        elif isinstance(s, ast.For | ast.While):
            if is_native(s):
                static.add(s)
            else:
                rest, s.orelse = s.orelse + rest, []
            s.body = _structure(s.body, s in static, returns, static)
            s.orelse = _structure(s.orelse, native, returns, static)
        elif isinstance(s, ast.Continue) and not native:
            break
        done.append(s)
        if isinstance(s, ast.Return | ast.Raise | ast.Break | ast.Continue):
            break
    return done


def _assign_result(statements: list[ast.stmt]) -> None:
    """Turn the returns at the ends of structured statements into assignments of RESULT."""
    last = statements[-1] if statements else None
    if isinstance(last, ast.If) and leaves([last], ast.Return):
        _assign_result(last.body)
        _assign_result(last.orelse)
    elif isinstance(last, ast.Return):
        value = last.value or ast.Constant(None)
        statements[-1] = ast.copy_location(ast.Assign([ast.Name(RESULT, ast.Store())], value), last)
    elif not isinstance(last, ast.Raise):
        statements.append(ast.Assign([ast.Name(RESULT, ast.Store())], ast.Constant(None)))
