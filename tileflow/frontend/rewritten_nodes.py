"""Nodes of rewritten device code: calls of the tracer, names, functions, each at a place of the user's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import TypeVar

from ..parsing import module_tree

N = TypeVar("N", bound=ast.AST)

TRACER = "__tf__"


def named(names: tuple[str, ...], value: ast.expr) -> ast.expr:
    """``value`` as it is, told what the author calls it."""
    words: list[ast.expr] = [ast.Constant(name) for name in names]
    return ast.copy_location(call_tracer("named", ast.Tuple(words, ast.Load()), value), value)


def call_tracer(method: str, *arguments: ast.expr) -> ast.Call:
    """``__tf__.method(*arguments)``"""
    return ast.Call(read_name(TRACER, method), list(arguments), [])


def read_name(name: str, attribute: str = "") -> ast.expr:
    """``name``, or ``name.attribute``, as it is read."""
    base = ast.Name(name, ast.Load())
    return ast.Attribute(base, attribute, ast.Load()) if attribute else base


def bind_name(name: str) -> ast.expr:
    """``name`` as an assignment has it."""
    return ast.Name(name, ast.Store())


def constants(names: Sequence[str]) -> ast.expr:
    """A tuple of the names as strings."""
    return ast.Tuple([ast.Constant(name) for name in names], ast.Load())


def values(names: Sequence[str], defined: Iterable[str]) -> ast.expr:
    """A tuple of the names' values; see :func:`current`."""
    return ast.Tuple([current(name, defined) for name in names], ast.Load())


def current(name: str, defined: Iterable[str]) -> ast.expr:
    """The value of ``name``, or ``__tf__.UNDEFINED``."""
    if name in defined:
        return read_name(name)
    lookup = ast.Attribute(ast.Call(read_name("locals"), [], []), "get", ast.Load())
    return ast.Call(lookup, [ast.Constant(name), read_name(TRACER, "UNDEFINED")], [])


def unbind(names: Iterable[str], at: ast.AST) -> list[ast.stmt]:
    """``if name is __tf__.UNDEFINED: del name``, for each name."""
    return [
        placed(
            ast.If(
                ast.Compare(read_name(name), [ast.Is()], [read_name(TRACER, "UNDEFINED")]),
                [ast.Delete([ast.Name(name, ast.Del())])],
                [],
            ),
            at,
        )
        for name in names
    ]


def lambda_of(names: Sequence[str], body: ast.expr, at: ast.AST) -> ast.expr:
    """``lambda *names: body``"""
    arguments = ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])
    return ast.copy_location(ast.Lambda(arguments, body), at)


def function_of(name: str, names: Sequence[str], body: list[ast.stmt], at: ast.AST) -> ast.FunctionDef:
    """``def name(*names): body``"""
    (made,) = module_tree("def f(): pass").body
    assert isinstance(made, ast.FunctionDef)
    made.name, made.body = name, body
    made.args.args = [ast.arg(parameter) for parameter in names]
    return placed(made, at)


def placed(made: N, at: ast.AST) -> N:
    """``made`` at the start of ``at``, on one line: a loop's call belongs to its header, not to its body."""
    ast.copy_location(made, at)
    if isinstance(made, ast.stmt | ast.expr):
        made.end_lineno, made.end_col_offset = made.lineno, made.col_offset
    return made
