"""Expressions of device code in functional form: conditions, comparisons, comprehensions and calls, as
:mod:`.rewrite` lists them."""

from __future__ import annotations

import ast
import types
from typing import Any, cast

from ..errors import Location, SplitError
from .liveness import Names
from .rewritten_nodes import TRACER, call_tracer, lambda_of, placed, read_name
from .source import FunctionSource, location, resolve

LEFT_ALONE = frozenset({"super", "locals", "vars", "dir"})
# of torch: sizes may be tiles, which torch itself refuses, and what it asks of a class
_TAKE_TILES = frozenset(
    {"reshape", "broadcast_to", "unflatten", "arange", "empty", "full", "ones", "rand", "randn", "zeros", "is_tensor"}
)


class Expressions(ast.NodeTransformer):
    """Rewrites expressions in place; statements keep theirs. Collects the locations that ``loc`` arguments index."""

    def __init__(self, source: FunctionSource, local: Names) -> None:
        self.source = source
        self.local = local
        self.locations: list[Location] = []
        self._index: dict[tuple[int, int], int] = {}
        self._deferred = 0
        self._counter = 0

    def __call__(self, node: ast.expr) -> ast.expr:
        """``node`` rewritten."""
        return cast(ast.expr, self.visit(node))

    def loc(self, node: ast.AST) -> ast.expr:
        """The ``loc`` argument for ``node``: the index of its place."""
        where = location(self.source, node)
        index = self._index.setdefault((where.line, where.column), len(self.locations))
        if index == len(self.locations):
            self.locations.append(where)
        return ast.Constant(index)

    def fresh(self, what: str) -> str:
        """A name that the author's text has none of."""
        self._counter += 1
        return f"__tileflow_{what}_{self._counter}"

    def static_bool(self, test: ast.expr) -> ast.expr:
        """A condition that Python decides while the function is traced."""
        return ast.copy_location(call_tracer("static_bool", self(test), self.loc(test)), test)

    def exit_bool(self, test: ast.expr, hint: str) -> ast.expr:
        """The condition of leaving a loop of Python, or the function. ``hint``: what to write where kernels decide."""
        return ast.copy_location(call_tracer("exit_bool", self(test), ast.Constant(hint), self.loc(test)), test)

    def while_bool(self, test: ast.expr, hint: str, why: ast.AST) -> ast.expr:
        """The condition of a ``while`` of Python; ``why`` is what makes it one, where an error points."""
        where = self.loc(test)
        asked = placed(call_tracer("of_python", self(test), ast.Constant(hint)), why)
        return ast.copy_location(call_tracer("static_bool", asked, where), test)

    def static_iter(self, iterable: ast.expr) -> ast.expr:
        """What a loop of Python runs over."""
        return ast.copy_location(call_tracer("static_iter", self(iterable), self.loc(iterable)), iterable)

    def later(self, e: ast.expr) -> ast.expr:
        """``lambda: e``"""
        self._deferred += 1
        made = lambda_of([], self(e), e)
        self._deferred -= 1
        return made

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        """It stays as it is written, until it is called."""
        return node

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.AST:
        """It stays. Raises SplitError where it would be bound inside another function."""
        if self._deferred:
            raise SplitError(
                "device code cannot assign inside an expression that is evaluated only sometimes",
                got=f"{node.target.id} := ...",
                where=location(self.source, node),
                hint="assign in a statement of its own",
            )
        return self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        """``a if test else b``: ``ifexp``."""
        test = self(node.test)
        made = call_tracer("ifexp", test, self.later(node.body), self.later(node.orelse), self.loc(node))
        return ast.copy_location(made, node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        """``a and b and c``: ``and_`` of ``a`` and the rest, and so with ``or``."""
        method = "and_" if isinstance(node.op, ast.And) else "or_"
        first, *others = node.values
        rest = others[0] if len(others) == 1 else ast.copy_location(ast.BoolOp(node.op, others), others[0])
        return ast.copy_location(call_tracer(method, self(first), self.later(rest), self.loc(node)), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """``not a``: ``not_``."""
        if not isinstance(node.op, ast.Not):
            return self.generic_visit(node)
        return ast.copy_location(call_tracer("not_", self(node.operand), self.loc(node)), node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Chains two by two; ``a is b`` asks whether the two are one value."""
        if len(node.ops) > 1:
            return self._chain(node, node.left, list(zip(node.ops, node.comparators, strict=True)))
        self.generic_visit(node)
        if not isinstance(node.ops[0], ast.Is | ast.IsNot) or isinstance(node.comparators[0], ast.Constant):
            return node
        found: ast.expr = call_tracer("is_one", node.left, *node.comparators)
        return ast.copy_location(found if isinstance(node.ops[0], ast.Is) else ast.UnaryOp(ast.Not(), found), node)

    def _chain(self, node: ast.Compare, left: ast.expr, rest: list[tuple[ast.cmpop, ast.expr]]) -> ast.expr:
        """``left < b < c`` as ``(lambda l: (lambda r: and_(l < r, lambda: r < c))(b))(left)``."""
        name = self.fresh("left")
        value = self(left)
        self._deferred += 1
        body = self._chain_from(node, name, rest)
        self._deferred -= 1
        return ast.copy_location(ast.Call(lambda_of([name], body, node), [value], []), node)

    def _chain_from(self, node: ast.Compare, left: str, rest: list[tuple[ast.cmpop, ast.expr]]) -> ast.expr:
        (op, comparator), *others = rest
        value = self(comparator)
        if not others:
            return ast.copy_location(ast.Compare(read_name(left), [op], [value]), node)
        right = self.fresh("right")
        pair = ast.copy_location(ast.Compare(read_name(left), [op], [read_name(right)]), node)
        both = call_tracer("and_", pair, lambda_of([], self._chain_from(node, right, others), node), self.loc(node))
        return ast.copy_location(ast.Call(lambda_of([right], both, node), [value], []), node)

    def visit_ListComp(self, node: ast.ListComp) -> ast.expr:
        """See :meth:`_comprehension`."""
        return self._comprehension(node)

    def visit_SetComp(self, node: ast.SetComp) -> ast.expr:
        """See :meth:`_comprehension`."""
        return self._comprehension(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.expr:
        """See :meth:`_comprehension`."""
        return self._comprehension(node)

    def visit_DictComp(self, node: ast.DictComp) -> ast.expr:
        """See :meth:`_comprehension`."""
        return self._comprehension(node)

    def _comprehension(self, node: Any) -> ast.expr:
        """A loop of Python in an expression."""
        self._deferred += 1
        for generator in node.generators:
            generator.iter = self.static_iter(generator.iter)
            generator.ifs = [self.static_bool(test) for test in generator.ifs]
        for part in ("elt", "key", "value"):
            if hasattr(node, part):
                setattr(node, part, self(getattr(node, part)))
        self._deferred -= 1
        return cast(ast.expr, node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """``f(x)``: ``call``, but for torch's own functions and for what asks about the frame it stands in."""
        plain = isinstance(node.func, ast.Name) and node.func.id in LEFT_ALONE
        if plain or self._is_library(node.func):
            return self.generic_visit(node)
        self.generic_visit(node)
        # the function on one line: Python says that a call of a method stands where its name ends
        made = ast.Call(placed(read_name(TRACER, "call"), node), [node.func, *node.args], node.keywords)
        return ast.copy_location(made, node)

    def _is_library(self, function: ast.expr) -> bool:
        if not isinstance(function, ast.Attribute) or function.attr in _TAKE_TILES:
            return False
        module = resolve(function.value, self.source.fn, self.local)
        return isinstance(module, types.ModuleType) and module.__name__.partition(".")[0] == "torch"
