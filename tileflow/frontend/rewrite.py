"""Device code in functional form: every ``for``, ``if`` and conditional expression becomes a call of ``__tf__``.

The tracer runs the rewritten function once and answers those calls, so that a loop over tiles or a branch on a loaded
scalar is recorded with explicit carried values instead of being followed. What is rewritten, and to what:

    for t in it: body        ->  a, b = __tf__.for_(it, body, ("a", "b"), (a, b), seen, loc)
    if test: ... else: ...   ->  a, b = __tf__.if_(test, then, other, ("a", "b"), (a, b), seen, loc)
    while test: body         ->  a, b = __tf__.while_(asked, body, ("a", "b"), (a, b), seen, loc)
                                 body(t, a, b), then(a, b) ... -> (a, b);   asked(a, b) -> test
    while with a break       ->  while __tf__.static_bool(__tf__.of_python(test, hint), loc): body, its ifs by exit_bool
    for with a break         ->  for t in __tf__.static_iter(it, loc): body, its ifs by exit_bool
    a if test else b         ->  __tf__.ifexp(test, lambda: a, lambda: b, loc)
    a and b, a or b, not a   ->  __tf__.and_(a, lambda: b, loc), __tf__.or_(a, lambda: b, loc), __tf__.not_(a, loc)
    f(x)                     ->  __tf__.call(f, x), unless f is an attribute of a module of torch
    a += b                   ->  a = __tf__.iadd("+", a, b, loc)
    a = e; a, b = e          ->  a = __tf__.named(("a",), e); a, b = __tf__.named(("a", "b"), e)

A name without a value is passed as ``__tf__.UNDEFINED``, and one that comes back as that is unbound again, so that
reading it is Python's own UnboundLocalError (or NameError, from inside a lambda). Nested functions and lambdas stay as
they are written, and are rewritten in their turn when ``__tf__.call`` meets them. ``seen`` has the names that a body
reads and does not bind, and their values: lists may be among them. ``loc`` is an index into the rewritten function's
``__tileflow_locations__``.
"""

from __future__ import annotations

import ast
import functools
import types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from tileflow.errors import Location, SplitError
from tileflow.frontend.liveness import (
    Liveness,
    Names,
    bound_names,
    free_names,
    local_names,
    parameters,
    target_names,
)
from tileflow.frontend.source import FunctionSource, compile_code, function_source, location, resolve, with_code
from tileflow.frontend.split import RegionSource, anchor, check_device_code, find_name
from tileflow.frontend.structured import ended_by_condition, leaves, structured, why_native
from tileflow.frontend.syntax import copied

from ..parsing import module_tree

N = TypeVar("N", bound=ast.AST)

TRACER = "__tf__"
LEFT_ALONE = frozenset({"super", "locals", "vars", "dir"})
# of torch: sizes may be tiles, which torch itself refuses, and what it asks of a class
_TAKE_TILES = frozenset(
    {"reshape", "broadcast_to", "unflatten", "arange", "empty", "full", "ones", "rand", "randn", "zeros", "is_tensor"}
)
SYMBOLS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.MatMult: "@",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.BitOr: "|",
    ast.BitAnd: "&",
    ast.BitXor: "^",
}


def rewrite_region(region: RegionSource, fn: types.FunctionType) -> Callable[..., None]:
    """``region(__tf__, *targets, *captures)``: an iteration of a launch, captures in the order of ``region.captures``.

    A capture that the launch's frame lacks is passed as ``__tf__.UNDEFINED``.
    """
    rewritten = _region(region, fn).function(fn)
    rewritten.__defaults__ = rewritten.__kwdefaults__ = None
    return rewritten


@functools.lru_cache(maxsize=256)
def _region(region: RegionSource, fn: types.FunctionType) -> _Rewritten:
    """Kept, as host code that computes with its knobs is traced again for each config, which changes no text."""
    source = function_source(fn)
    loop = copied(region.loop)
    captured = [c.name for c in region.captures]
    # Python binds a repeated loop variable to its last value.
    unique = [t if t not in region.targets[i + 1 :] else f"{t}#{i}" for i, t in enumerate(region.targets)]
    tree = _function(fn.__name__, [*unique, *captured], loop.body, region.loop)
    inside = FunctionSource(fn, tree, region.file, region.lines)
    return _rewrite(inside, local_names(source.tree), set(region.targets), captured)


def rewrite_function(fn: Callable[..., Any]) -> Callable[..., Any]:
    """``fn`` as ``rewritten(__tf__, *args, **kwargs)``, with the same defaults and the same closure cells.

    Raises KernelError when ``fn`` has no readable source, SplitError when it holds what device code cannot. Closures of
    one definition are rewritten once.
    """
    code = getattr(fn, "__code__", None)
    key = (code, getattr(code, "co_filename", None))
    if key not in _known:
        source = function_source(fn)
        local = local_names(source.tree) | set(source.fn.__code__.co_freevars)  # a cell's value is not the definition's
        check_device_code(source.tree.body, source, local)
        _known[key] = _rewrite(source, local, set(parameters(source.tree.args)), [])
    return _known[key].function(cast(types.FunctionType, fn))


@dataclass(frozen=True, slots=True)
class _Rewritten:
    code: types.CodeType
    locations: tuple[Location, ...]

    def function(self, fn: types.FunctionType) -> types.FunctionType:
        made = with_code(fn, self.code)
        made.__dict__["__tileflow_locations__"] = self.locations
        return made


_known: dict[tuple[types.CodeType | None, str | None], _Rewritten] = {}


def _rewrite(source: FunctionSource, local: Names, given: set[str], maybe: Sequence[str]) -> _Rewritten:
    """Rewrite ``source.tree``. Parameters ``given`` have values; those in ``maybe`` may be UNDEFINED."""
    tree = source.tree
    tree.body, static = structured(tree.body)
    expressions = _Expressions(source, local)
    statements = _Statements(expressions, Liveness(tree.body), static)
    inside = bound_names(tree.body) - set(parameters(tree.args))
    body = statements.block(tree.body, set(given), native=False)
    tree.body = [*anchor(source, inside), *_unbind(maybe, tree), *body]
    return _Rewritten(compile_code(source.fn, tree, TRACER), tuple(expressions.locations))


class _Expressions(ast.NodeTransformer):
    """Rewrites expressions in place; statements keep theirs. Collects the locations that ``loc`` arguments index."""

    def __init__(self, source: FunctionSource, local: Names) -> None:
        self.source = source
        self.local = local
        self.locations: list[Location] = []
        self._index: dict[tuple[int, int], int] = {}
        self._deferred = 0
        self._counter = 0

    def __call__(self, node: ast.expr) -> ast.expr:
        return cast(ast.expr, self.visit(node))

    def loc(self, node: ast.AST) -> ast.expr:
        where = location(self.source, node)
        index = self._index.setdefault((where.line, where.column), len(self.locations))
        if index == len(self.locations):
            self.locations.append(where)
        return ast.Constant(index)

    def fresh(self, what: str) -> str:
        self._counter += 1
        return f"__tileflow_{what}_{self._counter}"

    def static_bool(self, test: ast.expr) -> ast.expr:
        return ast.copy_location(_tf("static_bool", self(test), self.loc(test)), test)

    def exit_bool(self, test: ast.expr, hint: str) -> ast.expr:
        return ast.copy_location(_tf("exit_bool", self(test), ast.Constant(hint), self.loc(test)), test)

    def while_bool(self, test: ast.expr, hint: str, why: ast.AST) -> ast.expr:
        """The condition of a ``while`` of Python; ``why`` is what makes it one, where an error points."""
        where = self.loc(test)
        asked = _at(_tf("of_python", self(test), ast.Constant(hint)), why)
        return ast.copy_location(_tf("static_bool", asked, where), test)

    def static_iter(self, iterable: ast.expr) -> ast.expr:
        return ast.copy_location(_tf("static_iter", self(iterable), self.loc(iterable)), iterable)

    def later(self, e: ast.expr) -> ast.expr:
        """``lambda: e``"""
        self._deferred += 1
        made = _lambda([], self(e), e)
        self._deferred -= 1
        return made

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        return node

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.AST:
        if self._deferred:
            raise SplitError(
                "device code cannot assign inside an expression that is evaluated only sometimes",
                got=f"{node.target.id} := ...",
                where=location(self.source, node),
                hint="assign in a statement of its own",
            )
        return self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        test = self(node.test)
        made = _tf("ifexp", test, self.later(node.body), self.later(node.orelse), self.loc(node))
        return ast.copy_location(made, node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        method = "and_" if isinstance(node.op, ast.And) else "or_"
        first, *others = node.values
        rest = others[0] if len(others) == 1 else ast.copy_location(ast.BoolOp(node.op, others), others[0])
        return ast.copy_location(_tf(method, self(first), self.later(rest), self.loc(node)), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        if not isinstance(node.op, ast.Not):
            return self.generic_visit(node)
        return ast.copy_location(_tf("not_", self(node.operand), self.loc(node)), node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        if len(node.ops) > 1:
            return self._chain(node, node.left, list(zip(node.ops, node.comparators, strict=True)))
        self.generic_visit(node)
        if not isinstance(node.ops[0], ast.Is | ast.IsNot) or isinstance(node.comparators[0], ast.Constant):
            return node
        found: ast.expr = _tf("is_one", node.left, *node.comparators)
        return ast.copy_location(found if isinstance(node.ops[0], ast.Is) else ast.UnaryOp(ast.Not(), found), node)

    def _chain(self, node: ast.Compare, left: ast.expr, rest: list[tuple[ast.cmpop, ast.expr]]) -> ast.expr:
        """``left < b < c`` as ``(lambda l: (lambda r: and_(l < r, lambda: r < c))(b))(left)``."""
        name = self.fresh("left")
        value = self(left)
        self._deferred += 1
        body = self._chain_from(node, name, rest)
        self._deferred -= 1
        return ast.copy_location(ast.Call(_lambda([name], body, node), [value], []), node)

    def _chain_from(self, node: ast.Compare, left: str, rest: list[tuple[ast.cmpop, ast.expr]]) -> ast.expr:
        (op, comparator), *others = rest
        value = self(comparator)
        if not others:
            return ast.copy_location(ast.Compare(_load(left), [op], [value]), node)
        right = self.fresh("right")
        pair = ast.copy_location(ast.Compare(_load(left), [op], [_load(right)]), node)
        both = _tf("and_", pair, _lambda([], self._chain_from(node, right, others), node), self.loc(node))
        return ast.copy_location(ast.Call(_lambda([right], both, node), [value], []), node)

    def visit_ListComp(self, node: ast.ListComp) -> ast.expr:
        return self._comprehension(node)

    def visit_SetComp(self, node: ast.SetComp) -> ast.expr:
        return self._comprehension(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.expr:
        return self._comprehension(node)

    def visit_DictComp(self, node: ast.DictComp) -> ast.expr:
        return self._comprehension(node)

    def _comprehension(self, node: Any) -> ast.expr:
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
        plain = isinstance(node.func, ast.Name) and node.func.id in LEFT_ALONE
        if plain or self._is_library(node.func):
            return self.generic_visit(node)
        self.generic_visit(node)
        # the function on one line: Python says that a call of a method stands where its name ends
        made = ast.Call(_at(_load(TRACER, "call"), node), [node.func, *node.args], node.keywords)
        return ast.copy_location(made, node)

    def _is_library(self, function: ast.expr) -> bool:
        if not isinstance(function, ast.Attribute) or function.attr in _TAKE_TILES:
            return False
        module = resolve(function.value, self.source.fn, self.local)
        return isinstance(module, types.ModuleType) and module.__name__.partition(".")[0] == "torch"


@dataclass(slots=True)
class _Statements:
    """Rewrites structured statements. ``defined`` is, throughout, the set of names that surely have a value."""

    expressions: _Expressions
    live: Liveness
    static: set[ast.stmt]
    instead: str = ""  # of leaving the innermost while of Python, where the kernel decides when

    def block(self, statements: Sequence[ast.stmt], defined: set[str], native: bool) -> list[ast.stmt]:
        """``native``: the innermost loop around is one of Python. Adds to ``defined`` what the statements define."""
        return [made for s in statements for made in self._statement(s, defined, native)]

    def _statement(self, s: ast.stmt, defined: set[str], native: bool) -> list[ast.stmt]:
        made: list[ast.stmt]
        match s:
            case ast.If() if leaves([s], ast.Return) or (native and leaves([s], ast.Break, ast.Continue)):
                return self._static_if(s, defined, native)
            case ast.If():
                return self._if(s, defined)
            case ast.While() if s in self.static:
                return self._static_while(s, defined, native)
            case ast.While():
                return self._while(s, defined)
            case ast.For() if s in self.static:
                return self._static_for(s, defined, native)
            case ast.For():
                return self._for(s, defined)
            case ast.AugAssign():
                made = self._augmented(s)
            case ast.Assign(targets=[ast.expr() as target]) if names := _assigned(target):
                simple = cast(ast.Assign, self._simple(s))
                simple.value = _named(names, simple.value)
                made = [simple]
            case ast.AnnAssign():
                made = [self._simple(ast.copy_location(ast.Assign([s.target], s.value), s))] if s.value else []
            case ast.Assert():
                message = self.expressions(s.msg) if s.msg else None
                made = [ast.copy_location(ast.Assert(self.expressions.static_bool(s.test), message), s)]
            case ast.FunctionDef():
                made = [s]
            case ast.Delete():
                defined -= bound_names([s])
                return [s]
            case _:
                made = [self._simple(s)]
        defined |= set() if isinstance(s, ast.AnnAssign) and not s.value else bound_names([s])
        return made

    def _simple(self, s: ast.stmt) -> ast.stmt:
        return cast(ast.stmt, self.expressions.generic_visit(s))

    def _static_if(self, s: ast.If, defined: set[str], native: bool) -> list[ast.stmt]:
        defined |= bound_names([s.test])
        then, other = set(defined), set(defined)
        made = ast.If(
            self.expressions.exit_bool(s.test, self.instead if native else ""),
            self.block(s.body, then, native) or [ast.Pass()],
            self.block(s.orelse, other, native),
        )
        defined &= then & other  # less what either deletes
        defined |= then & other
        return [ast.copy_location(made, s)]

    def _static_while(self, s: ast.While, defined: set[str], native: bool) -> list[ast.stmt]:
        defined |= bound_names([s.test])
        why, instead = why_native(s) or s.test, ended_by_condition(s)
        made = ast.While(
            self.expressions.while_bool(s.test, instead, why),
            self._turn(s.body, set(defined), instead),
            self.block(s.orelse, set(defined), native),
        )
        return [ast.copy_location(made, s)]

    def _turn(self, body: Sequence[ast.stmt], defined: set[str], instead: str) -> list[ast.stmt]:
        """The body of a loop of Python."""
        around, self.instead = self.instead, instead
        made = self.block(body, defined, native=True)
        self.instead = around
        return made

    def _static_for(self, s: ast.For, defined: set[str], native: bool) -> list[ast.stmt]:
        defined |= bound_names([s.iter])
        made = ast.For(
            self.expressions(s.target),
            self.expressions.static_iter(s.iter),
            self._turn(s.body, defined | set(target_names(s.target)), instead=""),
            self.block(s.orelse, set(defined), native),
        )
        return [ast.copy_location(made, s)]

    def _augmented(self, s: ast.AugAssign) -> list[ast.stmt]:
        """``x[i] += v`` evaluates ``x`` and ``i`` once, as Python does."""
        before: list[ast.stmt] = []

        def once(what: str, e: ast.expr) -> ast.expr:
            name = self.expressions.fresh(what)
            before.append(_at(ast.Assign([_store(name)], e), s))
            return _load(name)

        visit, target = self.expressions, s.target
        load: ast.expr
        store: ast.expr
        if isinstance(target, ast.Name):
            load, store = _load(target.id), target
        elif isinstance(target, ast.Attribute):
            owner = once("owner", visit(target.value))
            load, store = ast.Attribute(owner, target.attr, ast.Load()), ast.Attribute(owner, target.attr, ast.Store())
        else:
            owner, key = once("owner", visit(target.value)), once("index", visit(_as_value(target.slice)))
            load, store = ast.Subscript(owner, key, ast.Load()), ast.Subscript(owner, key, ast.Store())
        load = ast.copy_location(load, target)
        value: ast.expr = _tf("iadd", ast.Constant(SYMBOLS[type(s.op)]), load, visit(s.value), visit.loc(s))
        if isinstance(target, ast.Name):
            value = _named((target.id,), ast.copy_location(value, s))
        return [*before, _at(ast.Assign([ast.copy_location(store, target)], ast.copy_location(value, s)), s)]

    def _if(self, s: ast.If, defined: set[str]) -> list[ast.stmt]:
        self._refuse_stale_closures(s, [*s.body, *s.orelse])
        tested = bound_names([s.test])
        defined |= tested
        outputs = sorted(bound_names([*s.body, *s.orelse]) & self.live.after[s])
        test = self.expressions.fresh("test")
        where = self.expressions.loc(s.test)
        made: list[ast.stmt] = [_at(ast.Assign([_store(test)], self.expressions(s.test)), s)]
        names, ends = [], []
        for what, body in (("then", s.body), ("else", s.orelse)):
            # A name that a branch reads, then binds, is the branch's own; its value comes in as a default.
            own = sorted(bound_names(body) & (self.live.before[s] | tested) - set(outputs))
            inside = set(defined)
            function = self._function(what, s, body, outputs, inside, own=own)
            function.args.kwonlyargs = [ast.arg(name) for name in own]
            function.args.kw_defaults = [_current(name, defined) for name in own]
            made.append(function)
            names.append(_load(function.name))
            ends.append(inside)
        seen = self._seen([*s.body, *s.orelse], self.live.before[s] | tested, outputs, defined)
        call = _tf("if_", _load(test), *names, _constants(outputs), _values(outputs, defined), seen, where)
        defined -= set(outputs) - (ends[0] & ends[1])
        defined |= set(outputs) & ends[0] & ends[1]
        return [*made, *self._assign(outputs, call, s, defined)]

    def _for(self, s: ast.For, defined: set[str]) -> list[ast.stmt]:
        self._refuse_stale_closures(s, s.body)
        targets = target_names(s.target)
        for name in sorted(set(targets) & self.live.after[s]):
            raise SplitError(
                f"the loop variable {name} has no value after its loop",
                where=location(self.expressions.source, find_name(self.live.body, name, after=s)),
                hint="assign it to another name inside the loop",
            )
        carried = sorted((bound_names(s.body) - set(targets)) & self.live.head[s])
        defined |= bound_names([s.iter])
        where = self.expressions.loc(s)
        iterable = self.expressions(s.iter)
        inside = defined | set(targets)
        unpack: list[ast.stmt] = []
        if isinstance(s.target, ast.Name):
            item = s.target.id
        else:
            item = self.expressions.fresh("item")
            unpack = [_at(ast.Assign([self.expressions(s.target)], _load(item)), s)]
        function = self._function("body", s, s.body, carried, inside, own=targets)
        function.args.args.insert(0, ast.arg(item))
        function.body[:0] = unpack
        body, loops = _load(function.name), _constants(targets)
        seen = self._seen(s.body, self.live.head[s], [*carried, *targets], defined)
        call = _tf("for_", iterable, body, loops, _constants(carried), _values(carried, defined), seen, where)
        return [function, *self._assign(carried, call, s, defined)]

    def _while(self, s: ast.While, defined: set[str]) -> list[ast.stmt]:
        self._refuse_stale_closures(s, s.body)
        carried = sorted(bound_names(s.body) & self.live.head[s])
        where = self.expressions.loc(s.test)
        unknown = _unbind([name for name in carried if name not in defined], s)
        asks = [*unknown, _at(ast.Return(self.expressions(s.test)), s)]
        test = _function(self.expressions.fresh("test"), carried, asks, s)
        body = self._function("body", s, s.body, carried, set(defined), own=())
        functions = _load(test.name), _load(body.name)
        seen = self._seen(s.body, self.live.head[s], carried, defined)
        call = _tf("while_", *functions, _constants(carried), _values(carried, defined), seen, where)
        return [test, body, *self._assign(carried, call, s.test, defined)]

    def _function(
        self,
        what: str,
        s: ast.stmt,
        body: Sequence[ast.stmt],
        names: Sequence[str],
        inside: set[str],
        own: Sequence[str],
    ) -> ast.FunctionDef:
        """A function that takes and returns ``names`` and runs ``body``; ``own`` are its parameters besides.

        ``inside`` are the names defined around it and becomes those defined at its end.
        """
        inside -= bound_names(body) - {*names, *own}  # local to the function, so without a value at its start
        start = _unbind([name for name in (*names, *own) if name not in inside], s)
        statements = self.block(body, inside, native=False)
        end = _at(ast.Return(_values(names, inside)), s)
        return _function(self.expressions.fresh(what), names, [*start, *statements, end], s)

    def _assign(self, names: Sequence[str], call: ast.expr, s: ast.AST, defined: set[str]) -> list[ast.stmt]:
        if not names:
            return [_at(ast.Expr(_at(call, s)), s)]
        target = ast.Tuple([_store(name) for name in names], ast.Store())
        unknown = [name for name in names if name not in defined]
        return [_at(ast.Assign([target], _at(call, s)), s), *_unbind(unknown, s)]

    def _seen(self, body: Sequence[ast.stmt], live: Names, bound: Sequence[str], defined: set[str]) -> ast.expr:
        """What ``body`` reads of the variables around it without binding them: names, and values. Containers among
        these may be changed in place."""
        read = frozenset().union(*(free_names(b) for b in body))
        read = read.union(*(self.live.closures.get(name, frozenset()) for name in read))
        names = sorted((read & live & self.expressions.local & defined) - set(bound))
        return ast.Tuple([_constants(names), _values(names, defined)], ast.Load())

    def _refuse_stale_closures(self, s: ast.stmt, body: Sequence[ast.stmt]) -> None:
        """A function made outside ``body`` would not see what ``body`` assigns; one made inside, what comes later."""
        bound = bound_names(body)
        read = frozenset().union(*(free_names(b) for b in body))
        for name, reads in sorted(self.live.closures.items()):
            changed = sorted(reads & bound)
            crosses = (name in read and name not in bound) or (name in bound and name in self.live.after[s])
            if changed and crosses:
                raise SplitError(
                    f"{name} reads {changed[0]}, which this statement assigns; a device function sees one value only",
                    where=location(self.expressions.source, s),
                    hint=f"pass {changed[0]} to {name} as an argument",
                )


def _assigned(target: ast.expr) -> tuple[str, ...]:
    """The names of an assignment to a name, or to a tuple of names; empty for any other."""
    parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
    names = tuple(part.id for part in parts if isinstance(part, ast.Name))
    return names if len(names) == len(parts) else ()


def _named(names: tuple[str, ...], value: ast.expr) -> ast.expr:
    """``value`` as it is, told what the author calls it."""
    words: list[ast.expr] = [ast.Constant(name) for name in names]
    return ast.copy_location(_tf("named", ast.Tuple(words, ast.Load()), value), value)


def _tf(method: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(_load(TRACER, method), list(arguments), [])


def _load(name: str, attribute: str = "") -> ast.expr:
    base = ast.Name(name, ast.Load())
    return ast.Attribute(base, attribute, ast.Load()) if attribute else base


def _store(name: str) -> ast.expr:
    return ast.Name(name, ast.Store())


def _constants(names: Sequence[str]) -> ast.expr:
    return ast.Tuple([ast.Constant(name) for name in names], ast.Load())


def _values(names: Sequence[str], defined: Iterable[str]) -> ast.expr:
    return ast.Tuple([_current(name, defined) for name in names], ast.Load())


def _current(name: str, defined: Iterable[str]) -> ast.expr:
    """The value of ``name``, or ``__tf__.UNDEFINED``."""
    if name in defined:
        return _load(name)
    lookup = ast.Attribute(ast.Call(_load("locals"), [], []), "get", ast.Load())
    return ast.Call(lookup, [ast.Constant(name), _load(TRACER, "UNDEFINED")], [])


def _unbind(names: Iterable[str], at: ast.AST) -> list[ast.stmt]:
    """``if name is __tf__.UNDEFINED: del name``, for each name."""
    return [
        _at(
            ast.If(
                ast.Compare(_load(name), [ast.Is()], [_load(TRACER, "UNDEFINED")]),
                [ast.Delete([ast.Name(name, ast.Del())])],
                [],
            ),
            at,
        )
        for name in names
    ]


def _lambda(names: Sequence[str], body: ast.expr, at: ast.AST) -> ast.expr:
    arguments = ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])
    return ast.copy_location(ast.Lambda(arguments, body), at)


def _function(name: str, names: Sequence[str], body: list[ast.stmt], at: ast.AST) -> ast.FunctionDef:
    (made,) = module_tree("def f(): pass").body
    assert isinstance(made, ast.FunctionDef)
    made.name, made.body = name, body
    made.args.args = [ast.arg(parameter) for parameter in names]
    return _at(made, at)


def _as_value(index: ast.expr) -> ast.expr:
    """What stands between brackets as an expression on its own: slices as calls of ``slice``."""
    if isinstance(index, ast.Tuple):
        return ast.copy_location(ast.Tuple([_as_value(e) for e in index.elts], ast.Load()), index)
    if isinstance(index, ast.Slice):
        bounds = [e or ast.Constant(None) for e in (index.lower, index.upper, index.step)]
        return ast.copy_location(ast.Call(_load("slice"), bounds, []), index)
    return index


def _at(made: N, at: ast.AST) -> N:
    """``made`` at the start of ``at``, on one line: a loop's call belongs to its header, not to its body."""
    ast.copy_location(made, at)
    if isinstance(made, ast.stmt | ast.expr):
        made.end_lineno, made.end_col_offset = made.lineno, made.col_offset
    return made
