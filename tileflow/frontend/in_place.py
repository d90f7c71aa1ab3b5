"""Methods that change a tile in place, ``acc.add_(x)``: a statement that binds the name anew, as ``acc += x`` does.

acc.add_(x)     ->  acc = __tf__.in_place(acc, __tf__.changing(acc, "add_")(x))
acc.exp_().neg_()   likewise; what is no tile stays what it is

Of what brackets name, ``out[t].add_(x)``, it is stored there, as ``out[t] += x`` is: an operator that assigns, of its
own kind (:class:`Method`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..language.in_place import root_of
from .rewritten_nodes import bind_name, call_tracer, placed, read_name
from .torch_registry import METHODS
from .values import TileValue

if TYPE_CHECKING:
    from .trace import Tracer


class Method(ast.operator):
    """Stands for the operator of ``x[i].add_(y)``, which is written as ``x[i] op= <call>``: the call is one of
    :data:`PLACE` in place of ``x[i]``, which is evaluated once."""


class Place(ast.Constant):
    """Stands for what the brackets of such a statement name."""


FILLING: dict[str, Callable[..., Any]] = {  # those of methods that no name without the underscore has
    "fill_": lambda t, x, value: METHODS["full_like"](t, x, value),
    "zero_": lambda t, x: METHODS["full_like"](t, x, 0),
    "copy_": lambda t, x, src, non_blocking=False: (
        _copied(t, src) if isinstance(src, TileValue) else METHODS["full_like"](t, x, src)
    ),
}


def _copied(t: Tracer, src: TileValue) -> TileValue:
    t.use(src)
    return t.copied(src)


def changed(t: Tracer, name: str, x: TileValue, args: Any, kwargs: Any) -> TileValue:
    """What a method of that name makes of a tile. Raises MissingAttribute for one that tiles do not have."""
    if name in FILLING:
        return FILLING[name](t, x, *args, **kwargs)  # type: ignore[no-any-return]
    found = getattr(x, name[:-1] if name[:-1] in METHODS else name)
    return found(*args, **kwargs)  # type: ignore[no-any-return]


def bound(statements: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Statements in which such calls of a variable's method bind it, and those of what brackets name store there. Those
    of functions inside stay as they are."""
    return [_Binding().visit(s) for s in statements]


class _Binding(ast.NodeTransformer):
    """Does that."""

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        match root_of(node.value):
            case ast.Name(id=name):
                value = call_tracer("in_place", read_name(name), _changing(node.value))
                return ast.fix_missing_locations(placed(ast.Assign([bind_name(name)], value), node))
            case ast.Subscript(value=owner, slice=index) as place:
                target = ast.copy_location(ast.Subscript(owner, index, ast.Store()), place)
                made = placed(ast.AugAssign(target, Method(), _changing(node.value)), node)
                return ast.fix_missing_locations(made)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.stmt:
        return node


def with_place(call: ast.expr, place: ast.expr) -> ast.expr:
    """Such a call of what brackets name, with ``place`` for that."""

    class Placing(ast.NodeTransformer):
        def visit_Place(self, node: Place) -> ast.expr:
            return place

    return Placing().visit(call)  # type: ignore[no-any-return]


def _changing(call: ast.expr) -> ast.expr:
    assert isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
    owner = call.func.value
    tile: ast.expr
    match owner:
        case ast.Name():
            tile = owner
        case ast.Subscript():
            tile = ast.copy_location(Place(None), owner)
        case _:
            tile = _changing(owner)
    method = call_tracer("changing", tile, ast.Constant(call.func.attr))
    return ast.copy_location(ast.Call(ast.copy_location(method, call.func), call.args, call.keywords), call)
