"""Methods that change a tile in place, ``acc.add_(x)``: a statement that binds the name anew, as ``acc += x`` does.

acc.add_(x)     ->  acc = __tf__.in_place(acc, __tf__.changing(acc, "add_")(x))
acc.exp_().neg_()   likewise; what is no tile stays what it is
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..language.in_place import is_in_place
from .rewritten_nodes import bind_name, call_tracer, placed, read_name
from .torch_registry import METHODS
from .values import TileValue

if TYPE_CHECKING:
    from .trace import Tracer

FILLING: dict[str, Callable[..., Any]] = {  # those of methods that no name without the underscore has
    "fill_": lambda t, x, value: METHODS["full_like"](t, x, value),
    "zero_": lambda t, x: METHODS["full_like"](t, x, 0),
    "copy_": lambda t, x, src, non_blocking=False: (
        src if isinstance(src, TileValue) else METHODS["full_like"](t, x, src)
    ),
}


def changed(t: Tracer, name: str, x: TileValue, args: Any, kwargs: Any) -> TileValue:
    """What a method of that name makes of a tile. Raises MissingAttribute for one that tiles do not have."""
    if name in FILLING:
        return FILLING[name](t, x, *args, **kwargs)  # type: ignore[no-any-return]
    found = getattr(x, name[:-1] if name[:-1] in METHODS else name)
    return found(*args, **kwargs)  # type: ignore[no-any-return]


def bound(statements: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Statements in which such calls of a variable's method bind it. Those of functions inside stay as they are."""
    return [_Binding().visit(s) for s in statements]


class _Binding(ast.NodeTransformer):
    """Does that."""

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        name = _root(node.value)
        if not name:
            return node
        value = call_tracer("in_place", read_name(name), _changing(node.value))
        return ast.fix_missing_locations(placed(ast.Assign([bind_name(name)], value), node))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.stmt:
        return node


def _root(call: ast.expr) -> str:
    """The variable whose tile a chain of such calls changes; empty for all else."""
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if is_in_place(method):
            return name
        case ast.Call(func=ast.Attribute(value=ast.Call() as inner, attr=method)) if is_in_place(method):
            return _root(inner)
    return ""


def _changing(call: ast.expr) -> ast.expr:
    assert isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
    owner = call.func.value
    tile = owner if isinstance(owner, ast.Name) else _changing(owner)
    method = call_tracer("changing", tile, ast.Constant(call.func.attr))
    return ast.copy_location(ast.Call(ast.copy_location(method, call.func), call.args, call.keywords), call)
