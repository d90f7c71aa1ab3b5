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
    a += b                   ->  a = __tf__.iadd("+", a, b, loc, None)
    a[i] += b                ->  a[i] = __tf__.iadd("+", a[i], b, loc, a); a and i are evaluated once
    a.add_(b)                ->  a = __tf__.in_place(a, __tf__.changing(a, "add_")(b))
    a[i].add_(b)             ->  c = __tf__.item_to_change(a, i, a[i])
                                 __tf__.put_item(a, i, c, __tf__.changing(c, "add_")(b))
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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ..errors import Location, SplitError
from . import in_place
from .liveness import Liveness, Names, bound_names, free_names, local_names, parameters, target_names
from .rewritten_expressions import Expressions
from .rewritten_nodes import (
    TRACER,
    bind_name,
    call_tracer,
    constants,
    current,
    function_of,
    named,
    placed,
    read_name,
    unbind,
    values,
)
from .source import FunctionSource, compile_code, function_source, location, with_code
from .split import RegionSource, anchor, check_device_code, find_name
from .structured import ended_by_condition, leaves, structured, why_native
from .syntax import copied

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
    tree = function_of(fn.__name__, [*unique, *captured], loop.body, region.loop)
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
    tree.body, static = structured(in_place.bound(tree.body))
    expressions = Expressions(source, local)
    statements = _Statements(expressions, Liveness(tree.body), static)
    inside = bound_names(tree.body) - set(parameters(tree.args))
    body = statements.block(tree.body, set(given), native=False)
    tree.body = [*anchor(source, inside), *unbind(maybe, tree), *body]
    return _Rewritten(compile_code(source.fn, tree, TRACER), tuple(expressions.locations))


@dataclass(slots=True)
class _Statements:
    """Rewrites structured statements. ``defined`` is, throughout, the set of names that surely have a value."""

    expressions: Expressions
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
                simple.value = named(names, simple.value)
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
            before.append(placed(ast.Assign([bind_name(name)], e), s))
            return read_name(name)

        visit, target = self.expressions, s.target
        load: ast.expr
        store: ast.expr
        place: ast.expr = ast.Constant(None)
        if isinstance(target, ast.Name):
            load, store = read_name(target.id), target
        elif isinstance(target, ast.Attribute):
            owner = once("owner", visit(target.value))
            load, store = ast.Attribute(owner, target.attr, ast.Load()), ast.Attribute(owner, target.attr, ast.Store())
        else:
            owner, key = once("owner", visit(target.value)), once("index", visit(_as_value(target.slice)))
            place = owner
            load, store = ast.Subscript(owner, key, ast.Load()), ast.Subscript(owner, key, ast.Store())
        load = ast.copy_location(load, target)
        if isinstance(s.op, in_place.Method):
            item = once("item", call_tracer("item_to_change", owner, key, load))
            made = call_tracer("put_item", owner, key, item, in_place.with_place(visit(s.value), item))
            return [*before, placed(ast.Expr(ast.copy_location(made, s)), s)]
        symbol = ast.Constant(SYMBOLS[type(s.op)])
        value: ast.expr = call_tracer("iadd", symbol, load, visit(s.value), visit.loc(s), place)
        if isinstance(target, ast.Name):
            value = named((target.id,), ast.copy_location(value, s))
        return [*before, placed(ast.Assign([ast.copy_location(store, target)], ast.copy_location(value, s)), s)]

    def _if(self, s: ast.If, defined: set[str]) -> list[ast.stmt]:
        self._refuse_stale_closures(s, [*s.body, *s.orelse])
        tested = bound_names([s.test])
        defined |= tested
        outputs = sorted(bound_names([*s.body, *s.orelse]) & self.live.after[s])
        test = self.expressions.fresh("test")
        where = self.expressions.loc(s.test)
        made: list[ast.stmt] = [placed(ast.Assign([bind_name(test)], self.expressions(s.test)), s)]
        names, ends = [], []
        for what, body in (("then", s.body), ("else", s.orelse)):
            # A name that a branch reads, then binds, is the branch's own; its value comes in as a default.
            own = sorted(bound_names(body) & (self.live.before[s] | tested) - set(outputs))
            inside = set(defined)
            function = self._function(what, s, body, outputs, inside, own=own)
            function.args.kwonlyargs = [ast.arg(name) for name in own]
            function.args.kw_defaults = [current(name, defined) for name in own]
            made.append(function)
            names.append(read_name(function.name))
            ends.append(inside)
        seen = self._seen([*s.body, *s.orelse], self.live.before[s] | tested, outputs, defined)
        call = call_tracer("if_", read_name(test), *names, constants(outputs), values(outputs, defined), seen, where)
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
            unpack = [placed(ast.Assign([self.expressions(s.target)], read_name(item)), s)]
        function = self._function("body", s, s.body, carried, inside, own=targets)
        function.args.args.insert(0, ast.arg(item))
        function.body[:0] = unpack
        body, loops = read_name(function.name), constants(targets)
        seen = self._seen(s.body, self.live.head[s], [*carried, *targets], defined)
        call = call_tracer("for_", iterable, body, loops, constants(carried), values(carried, defined), seen, where)
        return [function, *self._assign(carried, call, s, defined)]

    def _while(self, s: ast.While, defined: set[str]) -> list[ast.stmt]:
        self._refuse_stale_closures(s, s.body)
        carried = sorted(bound_names(s.body) & self.live.head[s])
        where = self.expressions.loc(s.test)
        unknown = unbind([name for name in carried if name not in defined], s)
        asks = [*unknown, placed(ast.Return(self.expressions(s.test)), s)]
        test = function_of(self.expressions.fresh("test"), carried, asks, s)
        body = self._function("body", s, s.body, carried, set(defined), own=())
        functions = read_name(test.name), read_name(body.name)
        seen = self._seen(s.body, self.live.head[s], carried, defined)
        call = call_tracer("while_", *functions, constants(carried), values(carried, defined), seen, where)
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
        start = unbind([name for name in (*names, *own) if name not in inside], s)
        statements = self.block(body, inside, native=False)
        end = placed(ast.Return(values(names, inside)), s)
        return function_of(self.expressions.fresh(what), names, [*start, *statements, end], s)

    def _assign(self, names: Sequence[str], call: ast.expr, s: ast.AST, defined: set[str]) -> list[ast.stmt]:
        if not names:
            return [placed(ast.Expr(placed(call, s)), s)]
        target = ast.Tuple([bind_name(name) for name in names], ast.Store())
        unknown = [name for name in names if name not in defined]
        return [placed(ast.Assign([target], placed(call, s)), s), *unbind(unknown, s)]

    def _seen(self, body: Sequence[ast.stmt], live: Names, bound: Sequence[str], defined: set[str]) -> ast.expr:
        """What ``body`` reads of the variables around it without binding them: names, and values. Containers among
        these may be changed in place."""
        read = frozenset().union(*(free_names(b) for b in body))
        read = read.union(*(self.live.closures.get(name, frozenset()) for name in read))
        names = sorted((read & live & self.expressions.local & defined) - set(bound))
        return ast.Tuple([constants(names), values(names, defined)], ast.Load())

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


def _as_value(index: ast.expr) -> ast.expr:
    """What stands between brackets as an expression on its own: slices as calls of ``slice``."""
    if isinstance(index, ast.Tuple):
        return ast.copy_location(ast.Tuple([_as_value(e) for e in index.elts], ast.Load()), index)
    if isinstance(index, ast.Slice):
        bounds = [e or ast.Constant(None) for e in (index.lower, index.upper, index.step)]
        return ast.copy_location(ast.Call(read_name("slice"), bounds, []), index)
    return index
