"""Which parts of tensors a text stores through a name, ``ob = out[b]`` with ``ob[t] = value`` or ``ob.zero_()`` behind
it, and which brackets name what a statement changes: asked where the text runs as plain Python, which has no second run
to know it before the store."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache

from ..parsing import module_tree
from .in_place import root_of

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


@lru_cache(maxsize=64)
def changed_places(file: str) -> frozenset[Span]:
    """The brackets of a file that stand for a place, which is changed: ``out[t] += value``, ``out[t].add_(value)``."""
    found: set[Span] = set()
    with suppress(SyntaxError, ValueError):
        for node in ast.walk(module_tree("".join(linecache.getlines(file)))):
            match node:
                case ast.AugAssign(target=ast.Subscript() as place):
                    found.add(_span(place))
                case ast.Expr(value=call) if isinstance(root := root_of(call), ast.Subscript):
                    found.add(_span(root))
    return frozenset(found)


def _of_function(function: ast.FunctionDef) -> set[Span]:
    nodes = [*ast.walk(function)]
    names = _bindings(nodes)
    todo = [root for target in _stored(nodes) for root in _roots(target, is_inside=False)]
    found, seen = set[Span](), set[tuple[str, bool]]()
    while todo:
        root = todo.pop()
        if len(root) != 2:
            found.add(root)
        elif root not in seen:
            seen.add(root)
            name, is_inside = root
            todo += [r for value, among in names.get(name, ()) for r in _roots(value, is_inside or among)]
    return found


def _stored(nodes: Iterable[ast.AST]) -> Iterator[ast.expr]:
    """What is stored through."""
    for node in nodes:
        match node:
            case ast.Subscript(value=value, ctx=ast.Store()):
                yield value
            case ast.Call() if (root := root_of(node)) is not None:
                yield root.value if isinstance(root, ast.Subscript) else root
            case ast.Call(func=ast.Attribute(attr=name), args=[first, *_]) if name.startswith(_STORES):
                yield first


def _bindings(nodes: Iterable[ast.AST]) -> dict[str, list[tuple[ast.expr, bool]]]:
    """What each name is bound to, and whether it is one of the items of that."""
    found: dict[str, list[tuple[ast.expr, bool]]] = {}
    for node in nodes:
        pairs: list[tuple[str, ast.expr, bool]] = []
        match node:
            case ast.Assign(targets=targets, value=value):
                pairs = [pair for target in targets for pair in _pairs(target, value, is_item=False)]
            case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                pairs = [*_pairs(target, value, is_item=True)]
            case ast.NamedExpr(target=target, value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
                pairs = [*_pairs(target, value, is_item=False)]
        for name, value, is_item in pairs:
            found.setdefault(name, []).append((value, is_item))
    return found


def _pairs(target: ast.expr, value: ast.expr, is_item: bool) -> Iterator[tuple[str, ast.expr, bool]]:
    """The names in a target, each with what it takes of a value."""
    match target, value:
        case ast.Name(id=name), _:
            yield name, value, is_item
        case ((ast.Tuple(elts=left) | ast.List(elts=left)), (ast.Tuple(elts=right) | ast.List(elts=right))) if (
            len(left) == len(right) and not is_item
        ):
            for one, other in zip(left, right, strict=True):
                yield from _pairs(one, other, is_item)
        case ((ast.Tuple(elts=left) | ast.List(elts=left)), _):
            for one in left:
                yield from _pairs(one, value, is_item=True)


def _span(node: ast.expr) -> Span:
    return node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0


def _roots(value: ast.expr, is_inside: bool) -> Iterator[tuple[str, bool] | Span]:
    """The names, the brackets and the calls that a value, or with ``is_inside`` one of its items, may be a view of: a
    store of a list's item changes the list. A name stands beside whether its items are asked about."""
    match value:
        case ast.Name(id=name):
            yield name, is_inside
        case ast.Subscript(value=inner):
            yield _span(value)
            yield from _roots(inner, True)
        case ast.Attribute(value=inner) | ast.Starred(value=inner) | ast.NamedExpr(value=inner):
            yield from _roots(inner, True)
        case ast.Call(func=function, args=args):
            yield _span(value)
            for one in (function, *args):
                yield from _roots(one, True)
        case ast.IfExp(body=body, orelse=other):
            yield from _roots(body, is_inside)
            yield from _roots(other, is_inside)
    if is_inside:
        for one in _items(value):
            yield from _roots(one, True)


def _items(value: ast.expr) -> Iterator[ast.expr]:
    """What a list, a tuple or a dictionary that is written out holds."""
    match value:
        case ast.Tuple(elts=elts) | ast.List(elts=elts) | ast.Dict(values=elts):
            yield from elts
        case ast.ListComp(elt=inner) | ast.GeneratorExp(elt=inner) | ast.DictComp(value=inner):
            yield inner
