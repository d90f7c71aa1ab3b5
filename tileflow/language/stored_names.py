"""Which parts of tensors a text stores through a name, ``ob = out[b]`` with ``ob[t] = value`` behind it: asked where
the text runs as plain Python, which has no second run to know it before the store."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache

from ..parsing import module_tree

Span = tuple[int, int, int, int]  # the line and the column where an expression begins, and where it ends
_STORES = ("store", "atomic_")


@lru_cache(maxsize=64)
def stored_through(file: str) -> frozenset[Span]:
    """The brackets of a file, ``out[b]``, and calls, ``out.select(0, b)``, whose value, or a view of it, a name has
    that the same function stores through. What a function is passed is not followed."""
    found: set[Span] = set()
    with suppress(SyntaxError, ValueError):
        for node in ast.walk(module_tree("".join(linecache.getlines(file)))):
            if isinstance(node, ast.FunctionDef):
                found |= _of_function(node)
    return frozenset(found)


def _of_function(function: ast.FunctionDef) -> set[Span]:
    nodes = [*ast.walk(function)]
    names = _bindings(nodes)
    todo = [root for target in _stored(nodes) for root in _roots(target)]
    found, seen = set[Span](), set[str]()
    while todo:
        root = todo.pop()
        if not isinstance(root, str):
            found.add(root)
        elif root not in seen:
            seen.add(root)
            todo += [other for value in names.get(root, ()) for other in _roots(value)]
    return found


def _stored(nodes: Iterable[ast.AST]) -> Iterator[ast.expr]:
    """What is stored through."""
    for node in nodes:
        match node:
            case ast.Subscript(value=value, ctx=ast.Store()):
                yield value
            case ast.Call(func=ast.Attribute(attr=name), args=[first, *_]) if name.startswith(_STORES):
                yield first


def _bindings(nodes: Iterable[ast.AST]) -> dict[str, list[ast.expr]]:
    """What each name is bound to, or is among."""
    found: dict[str, list[ast.expr]] = {}
    for node in nodes:
        match node:
            case ast.Assign(targets=targets, value=value):
                pairs = [(target, value) for target in targets]
            case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                pairs = [(target, value)]
            case ast.NamedExpr(target=target, value=value):
                pairs = [(target, value)]
            case _:
                continue
        for target, value in pairs:
            for name, part in _pairs(target, value):
                found.setdefault(name, []).append(part)
    return found


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """The names in a target, each with what it takes of a value."""
    match target, value:
        case ast.Name(id=name), _:
            yield name, value
        case ((ast.Tuple(elts=left) | ast.List(elts=left)), (ast.Tuple(elts=right) | ast.List(elts=right))) if len(
            left
        ) == len(right):
            for one, other in zip(left, right, strict=True):
                yield from _pairs(one, other)
        case ((ast.Tuple(elts=left) | ast.List(elts=left)), _):
            for one in left:
                yield from _pairs(one, value)


def _span(node: ast.expr) -> Span:
    return node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0


def _roots(value: ast.expr) -> Iterator[str | Span]:
    """The names, the brackets and the calls that a value may be a view of, or holds."""
    match value:
        case ast.Name(id=name):
            yield name
        case ast.Subscript(value=inner):
            yield _span(value)
            yield from _roots(inner)
        case ast.Attribute(value=inner) | ast.Starred(value=inner) | ast.NamedExpr(value=inner):
            yield from _roots(inner)
        case ast.Call(func=function, args=args):
            yield _span(value)
            for one in (function, *args):
                yield from _roots(one)
        case ast.Tuple(elts=elts) | ast.List(elts=elts) | ast.Dict(values=elts):
            for one in elts:
                yield from _roots(one)
        case ast.ListComp(elt=inner) | ast.GeneratorExp(elt=inner) | ast.DictComp(value=inner):
            yield from _roots(inner)
        case ast.IfExp(body=body, orelse=other):
            yield from _roots(body)
            yield from _roots(other)
