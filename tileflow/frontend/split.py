"""The host/device split: every outermost tile loop of a kernel becomes a launch in the user's own function.

The function itself stays what it is, Python that Python runs; only the loops are cut out of its AST. Standard library
only: production runs host functions too.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import inspect
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal

from tileflow.errors import SplitError
from tileflow.frontend import loop_text
from tileflow.frontend.infer_invariants import infer_invariants
from tileflow.frontend.liveness import (
    COMPREHENSIONS,
    FUNCTIONS,
    Liveness,
    Names,
    bound_names,
    free_names,
    local_names,
    parameters,
    target_names,
)
from tileflow.frontend.source import (
    FunctionSource,
    check_runs_to_its_end,
    compile_function,
    function_source,
    location,
    resolve,
)
from tileflow.frontend.syntax import copied
from tileflow.lazy_dataclass import dataclass
from tileflow.runtime.asked_names import in_trees
from tileflow.runtime.key_invariants import DeviceReads, KeyInvariants

from ..parsing import expression_tree, module_tree

CONTEXT = "__tileflow__"
LOOP_MARK = "__tileflow_loop__"
HOST_MARK = "__tileflow_host__"
CONSTANT_MARK = "__tileflow_constant__"
PARALLEL = "the iterations of an outermost tile loop run in parallel: store results into a tensor"

_OF_THE_BODY = "write `for tile in ...:` at the level of the kernel's body, or inside its if, for, while or with"
_NESTED = (
    "write `for tile in ...:` at the level of the kernel's body; a function with loops that a launch calls is defined "
    "inside the launch, or outside of the kernel"
)


@dataclass(frozen=True, slots=True)
class Capture:
    """A name that a region reads. ``local``: a parameter or a name that host code binds; else a cell or a global."""

    name: str
    kind: Literal["local", "cell", "global"]


@dataclass(frozen=True, slots=True, eq=False)
class RegionSource:
    """One outermost tile loop. ``function`` is the marked function that it iterates over (``tile``, ``grid`` ...).

    ``targets`` are the loop variables, a tuple target flattened. ``captures`` are ordered by name; each may be missing
    from a launch's frame where the host code binds it on some paths only. ``invariants``: what the key fixes.
    ``sizing``: what host code binds and the sizes of blocks may be made of, which guards then read.
    """

    index: int
    function: Callable[..., Any]
    targets: tuple[str, ...]
    loop: ast.For
    captures: tuple[Capture, ...]
    invariants: KeyInvariants
    sizing: Names
    file: str
    lines: Sequence[str]

    @property
    def locals(self) -> tuple[str, ...]:
        """The names that host code binds and a launch reads."""
        return tuple(sorted(self.sizing.union(c.name for c in self.captures if c.kind == "local")))

    def block_node(self, axis: int) -> ast.expr | None:
        """The text of an axis' block size; None where it has none, or one value holds those of all axes."""
        given = block_argument(self.loop)
        if not isinstance(given, (ast.List, ast.Tuple)):
            return given
        return given.elts[axis] if axis < len(given.elts) else None


@dataclass(frozen=True, slots=True, eq=False)
class HostFunction:
    """A kernel cut in two. ``run(context, *args, **kwargs)`` is the host code; ``context`` answers its launches.

    ``context`` follows ``tileflow.runtime.dispatch.HostContext``. ``flat``: the same for a ``KeyedContext``, which is
    handed the locals of each region; None where one may lack a value, or nothing is settled. ``sites``: the names of
    the host code's questions to the config, by (line, column). ``constants``: the parameters annotated ``constexpr``.
    ``ambient``: the settings of torch's that host code can see (see ``tileflow.runtime.ambient``). ``restartable``:
    whether the first region, if it launches, launches once and before all others. ``reads``: what device code reads
    from outside (see ``tileflow.runtime.outside``). ``passed``: the parameters that host code binds to nothing else.
    ``varying``: paths of captured ints that were seen to change between calls of one key.
    """

    fn: types.FunctionType
    run: Callable[..., Any]
    flat: Callable[..., Any] | None
    regions: tuple[RegionSource, ...]
    signature: inspect.Signature
    sites: dict[tuple[int, int], str]
    constants: frozenset[str] = frozenset()
    ambient: frozenset[str] = frozenset()
    restartable: bool = True
    reads: DeviceReads = DeviceReads()
    passed: frozenset[str] = frozenset()
    varying: set[str] = field(default_factory=set)


def split(fn: Callable[..., Any]) -> HostFunction:
    """Cut every outermost tile loop out of ``fn``.

    Raises KernelError when ``fn`` has no readable source, and SplitError, with the place, when a loop holds what cannot
    run on a device or when host code reads what a loop assigns.
    """
    source = function_source(fn)
    if not source.fn.__code__.co_kwonlyargcount:
        _name_by_position(source.tree.args)
    cutter = _Cutter(source)
    loops = cutter.find_launches()
    signature = inspect.signature(fn)
    constants = _constants(source.fn, signature)
    regions = cutter.regions(loops, constants)
    reads = cutter.reads(regions)
    check_runs_to_its_end(source.fn)
    calls = _LaunchCalls(cutter, loops)
    body = calls.rewrite(source.tree.body)
    source.tree.body = [*anchor(source, cutter.local - cutter.host_names(loops)), *body]
    run = compile_function(source.fn, source.tree, CONTEXT)
    flat = None
    if all(set(region.locals) <= region.invariants.names for region in regions):
        tree = _Flat(regions).visit(copied(source.tree))
        flat = compile_function(source.fn, tree, CONTEXT)
    return HostFunction(
        source.fn,
        run,
        flat,
        regions,
        signature,
        calls.names,
        constants,
        cutter.ambient,
        _restartable(source.tree, loops),
        reads,
        cutter.passed(loops),
    )


def _restartable(tree: ast.FunctionDef, loops: Mapping[ast.For, object]) -> bool:
    """Whether no loop of host code holds the first launch."""
    first = next(iter(loops), None)
    repeats = (node for node in ast.walk(tree) if isinstance(node, ast.For | ast.While) and node not in loops)
    return not any(node is first for repeat in repeats for node in ast.walk(repeat))


def _name_by_position(arguments: ast.arguments) -> None:
    """The parameters as a function's code has them whose keywords became positions."""
    arguments.args += arguments.kwonlyargs
    arguments.defaults += [d for d in arguments.kw_defaults if d is not None]
    arguments.kwonlyargs, arguments.kw_defaults = [], []


def _constants(fn: types.FunctionType, signature: inspect.Signature) -> frozenset[str]:
    """The parameters annotated ``constexpr``, by whatever name and also where annotations are text."""
    found = set()
    for name, parameter in signature.parameters.items():
        annotation = parameter.annotation
        if isinstance(annotation, str):
            with contextlib.suppress(SyntaxError):  # text for people
                annotation = resolve(expression_tree(annotation), fn, frozenset())
        if getattr(annotation, CONSTANT_MARK, False) is True:
            found.add(name)
    return frozenset(found)


def marked_call(node: ast.AST, mark: str, fn: types.FunctionType, local: Names) -> Any:
    """The function that ``node`` calls in ``fn`` if that bears ``mark``, else None."""
    function = resolve(node.func, fn, local) if isinstance(node, ast.Call) else None
    return function if getattr(function, mark, False) is True else None


class _Cutter:
    """Finds the launches of one function and what each of them captures."""

    def __init__(self, source: FunctionSource) -> None:
        self.source = source
        self.body = source.tree.body
        self.local = local_names(source.tree)
        self.ambient: frozenset[str] = frozenset()

    def tile_loop(self, node: ast.AST) -> Any:
        return marked_call(node, LOOP_MARK, self.source.fn, self.local)

    def asks(self, node: ast.Call) -> Any:
        """The function by which ``node`` asks the config, or None."""
        return marked_call(node, HOST_MARK, self.source.fn, self.local)

    def find_launches(self) -> dict[ast.For, Callable[..., Any]]:
        """The outermost tile loops in the order of the text, with the function that each iterates over."""
        loops: dict[ast.For, Callable[..., Any]] = {}
        self._search(self.body, loops)
        return loops

    def _search(self, nodes: Iterable[ast.AST], loops: dict[ast.For, Callable[..., Any]]) -> None:
        for node in nodes:
            function = self.tile_loop(node.iter) if isinstance(node, ast.For) else None
            if function is not None:
                assert isinstance(node, ast.For)
                loops[node] = function
                self._search(ast.iter_child_nodes(node.iter), loops)
            elif self.tile_loop(node) is not None:
                raise self._misplaced(node)
            elif isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                inner = next((n for n in ast.walk(node) if self.tile_loop(n) is not None), None)
                if inner is not None:
                    raise self._misplaced(inner, _NESTED)
            else:
                self._search(ast.iter_child_nodes(node), loops)

    def _misplaced(self, node: ast.AST, hint: str = _OF_THE_BODY) -> SplitError:
        return SplitError(
            "a tile loop of host code must be a for statement of the kernel itself",
            got="a call elsewhere (a comprehension, a nested function, an argument ...)",
            where=location(self.source, node),
            hint=hint,
        )

    def regions(self, loops: dict[ast.For, Callable[..., Any]], constants: Names) -> tuple[RegionSource, ...]:
        for loop in loops:
            check_device_code([loop], self.source, self.local, launch=loop)
        assigned = {loop: bound_names([loop.target, *loop.body]) for loop in loops}
        host = self.host_names(loops)
        needed = {loop: Liveness(loop.body).entry - set(target_names(loop.target)) for loop in loops}
        for loop in loops:
            self._no_carry(loop, needed[loop] & assigned[loop] & host)
        # A region's own maybe-unbound temporaries are no reads of what came before.
        live = Liveness(self.body, {loop: needed[loop] - (assigned[loop] - host) for loop in loops})
        for loop in loops:
            self._no_result(loop, live.after[loop] & assigned[loop])
        kept = {loop: self._captures(needed[loop] - (assigned[loop] - host), host) for loop in loops}
        asked = frozenset(n for n in ast.walk(self.source.tree) if isinstance(n, ast.Call) and self.asks(n))
        known, self.ambient = infer_invariants(self.source, loops, asked, self.local, constants)
        file, lines = self.source.file, self.source.lines
        return tuple(
            RegionSource(
                i,
                loops[loop],
                target_names(loop.target),
                loop,
                kept[loop],
                known[loop],
                self._sizing(loop, host),
                file,
                lines,
            )
            for i, loop in enumerate(loops)
        )

    def _sizing(self, loop: ast.For, host: Names) -> Names:
        """What host code binds and the block sizes of a launch may be made of: names in them, and the arguments that
        those may stand for."""
        given = block_argument(loop)
        named = host & free_names(given) if given is not None else frozenset[str]()
        return named.union(parameters(self.source.tree.args)) if named else named

    def reads(self, regions: Iterable[RegionSource]) -> DeviceReads:
        """What device code reads from outside. Host code hands on what it does more with than to call it."""
        loops = [region.loop for region in regions]
        names = {c.name for region in regions for c in region.captures if c.kind != "local"}
        device = {node for loop in loops for statement in loop.body for node in ast.walk(statement)}
        asked = frozenset[str]().union(*(in_trees(ast.walk(loop)) for loop in loops))
        host = [node for statement in self.body for node in ast.walk(statement) if node not in device]
        called = {node.func for node in host if isinstance(node, ast.Call)}
        read = {node.id for node in host if isinstance(node, ast.Name) and node not in called}
        return DeviceReads(frozenset(names), asked, frozenset(read - self.local))

    def passed(self, loops: Iterable[ast.For]) -> Names:
        """The parameters that host code binds to nothing else."""
        loops = list(loops)
        bound = bound_names(self.body, skip=loops) | bound_names(loop.iter for loop in loops)
        return frozenset(parameters(self.source.tree.args)) - bound

    def host_names(self, loops: Iterable[ast.For]) -> Names:
        """The names that parameters and host code bind."""
        loops = list(loops)
        bound = bound_names(self.body, skip=loops) | bound_names(loop.iter for loop in loops)
        return self.local & (bound | set(parameters(self.source.tree.args)))

    def _captures(self, names: Names, host: Names) -> tuple[Capture, ...]:
        code, found = self.source.fn.__code__, []
        for name in sorted(names):
            if name in host:
                found.append(Capture(name, "local"))
            elif name in code.co_freevars:
                found.append(Capture(name, "cell"))
            elif name not in self.local and (name in self.source.fn.__globals__ or not hasattr(builtins, name)):
                found.append(Capture(name, "global"))
        return tuple(found)

    def _no_carry(self, loop: ast.For, names: Names) -> None:
        for name in sorted(names):
            raise SplitError(
                f"{name} is read and assigned by the iterations of one launch, which run in parallel",
                where=location(self.source, find_name(loop.body, name)),
                hint=f"{PARALLEL}, or give the value inside the loop another name",
            )

    def _no_result(self, loop: ast.For, names: Names) -> None:
        for name in sorted(names):
            raise SplitError(
                f"host code cannot read {name}, which the tile loop at line {loop.lineno} assigns",
                where=location(self.source, find_name(self.body, name, after=loop)),
                hint=PARALLEL,
            )


def block_argument(loop: ast.For) -> ast.expr | None:
    """What ``tile`` is given as its block size."""
    if not isinstance(loop.iter, ast.Call):
        return None
    named = (k.value for k in loop.iter.keywords if k.arg == "block_size")
    return next(named, loop.iter.args[2] if len(loop.iter.args) > 2 else None)


def path_of(node: ast.expr) -> str | None:
    """A name, or attributes and items of one, as the path by which launches read it; None for what is computed."""
    match node:
        case ast.Name(name):
            return name
        case ast.Attribute(value, attr) if (held := path_of(value)) is not None:
            return f"{held}.attr:{attr}"
        case ast.Subscript(value, ast.Constant(int(item))) if (held := path_of(value)) is not None:
            return f"{held}.item:{item}"
    return None


def find_name(body: Sequence[ast.AST], name: str, after: ast.stmt | None = None) -> ast.AST:
    """The first read of ``name`` in ``body``, preferably one that stands after the statement ``after``."""
    reads = [n for s in body for n in ast.walk(s) if isinstance(n, ast.Name) and n.id == name]
    reads = sorted((n for n in reads if isinstance(n.ctx, ast.Load)), key=lambda n: (n.lineno, n.col_offset))
    last = (after.end_lineno or after.lineno) if after else 0
    return next((n for n in reads if n.lineno > last), reads[0] if reads else after or body[0])


def anchor(source: FunctionSource, local: Names) -> list[ast.stmt]:
    """A statement that never runs and keeps names what they were in ``source``'s function: free ones free, local local.

    Without it a name used only in code that moved elsewhere would leave the closure, or turn into a global.
    """
    lines = [*source.fn.__code__.co_freevars, *(f"{name} = None" for name in sorted(local))]
    if not lines:
        return []
    (statement,) = module_tree("if False:\n" + "\n".join(f"    {line}" for line in lines)).body
    for node in ast.walk(statement):
        ast.copy_location(node, source.tree)
        if isinstance(node, ast.stmt | ast.expr):
            node.end_lineno, node.end_col_offset = node.lineno, node.col_offset
    return [statement]


class _LaunchCalls(ast.NodeTransformer):
    """Host code with its launches and its questions to the config turned into calls of the context."""

    def __init__(self, cutter: _Cutter, loops: Iterable[ast.For]) -> None:
        self.cutter = cutter
        self.index = {loop: i for i, loop in enumerate(loops)}
        self.site_of: dict[ast.expr, str] = {}
        self.used: dict[str, int] = {}
        self.names: dict[tuple[int, int], str] = {}

    def rewrite(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        return [self.visit(statement) for statement in body]

    def visit_For(self, node: ast.For) -> ast.AST:
        if node not in self.index:
            return self.generic_visit(node)
        iterable = copied(node.iter)  # the region keeps the loop as it is written
        assert isinstance(iterable, ast.Call)
        first = [ast.Constant(self.index[node]), ast.Call(ast.Name("locals", ast.Load()), [], [])]
        launch = ast.Call(_context("launch"), [*first, *iterable.args], iterable.keywords)
        statement = ast.Expr(self.generic_visit(ast.copy_location(launch, node.iter)))  # type: ignore[arg-type]
        ast.copy_location(statement, node)
        statement.end_lineno, statement.end_col_offset = node.iter.end_lineno, node.iter.end_col_offset
        return statement

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        if len(node.targets) == 1:
            self._name_sites(node.targets[0], node.value)
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            self._name_sites(node.target, node.value)
        return self.generic_visit(node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.AST:
        self._name_sites(node.target, node.value)
        return self.generic_visit(node)

    def _name_sites(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for t, v in zip(target.elts, value.elts, strict=False):
                self._name_sites(t, v)
        elif isinstance(target, ast.Name):
            self.site_of[value] = target.id

    def visit_Call(self, node: ast.Call) -> ast.AST:
        function = self.cutter.asks(node)
        if function is None:
            return self.generic_visit(node)
        name = self.site_of.get(node, getattr(function, "__name__", "host"))
        count = self.used[name] = self.used.get(name, 0) + 1
        site = self.names[node.lineno, node.col_offset] = name if count == 1 else f"{name}#{count - 1}"
        call = ast.Call(_context("host_call"), [ast.Constant(site), node.func, *node.args], node.keywords)
        return self.generic_visit(ast.copy_location(call, node))


class _Flat(ast.NodeTransformer):
    """``context.launch(i, locals(), ...)`` as ``context.regions[i](context, <what the region captures>, ...)``."""

    def __init__(self, regions: Sequence[RegionSource]) -> None:
        self.regions = regions

    def visit_Call(self, node: ast.Call) -> ast.AST:
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=context), attr="launch"), args=[ast.Constant(int(index)), _, *args]
            ) if context == CONTEXT:
                launch = ast.Subscript(_context("regions"), ast.Constant(index), ast.Load())
                captured = [ast.Name(name, ast.Load()) for name in self.regions[index].locals]
                made = ast.Call(launch, [ast.Name(CONTEXT, ast.Load()), *captured, *args], node.keywords)
                return ast.fix_missing_locations(ast.copy_location(made, node))
        return self.generic_visit(node)


def _context(method: str) -> ast.expr:
    return ast.Attribute(ast.Name(CONTEXT, ast.Load()), method, ast.Load())


_ELSEWHERE = "move it into host code, or write it with for, if and while"
REFUSED: dict[type[ast.AST], tuple[str, str]] = {
    ast.Yield: ("yield", "store into a tensor, or return the value from a helper"),
    ast.YieldFrom: ("yield from", "store into a tensor, or return the value from a helper"),
    ast.Await: ("await", _ELSEWHERE),
    ast.AsyncFor: ("async for", _ELSEWHERE),
    ast.AsyncWith: ("async with", _ELSEWHERE),
    ast.AsyncFunctionDef: ("async def", _ELSEWHERE),
    ast.With: ("with", "put it around the tile loop, in host code; a tile takes no gradient, so leave no_grad out"),
    ast.Try: ("try", "test before it what would raise: if x.size(1) > 0: ..."),
    ast.TryStar: ("try", "test before it what would raise: if x.size(1) > 0: ..."),
    ast.ClassDef: ("class", "define it at the top of the module"),
    ast.Match: ("match", "write it with if, elif and else"),
}


def check_device_code(  # noqa: C901
    nodes: Iterable[ast.AST], source: FunctionSource, local: Names, launch: ast.For | None = None
) -> None:
    """SplitError at the first thing that device code cannot hold.

    ``launch`` is the outermost tile loop when ``nodes`` are its region, which cannot return; None for a helper.
    """

    declared = {name: n for n in _declarations([source.tree]) for name in n.names}

    def tile_loop(node: ast.AST) -> bool:
        return marked_call(node, LOOP_MARK, source.fn, local) is not None

    def refuse(what: str, node: ast.AST, hint: str) -> SplitError:
        return SplitError(f"device code cannot contain {what}", where=location(source, node), hint=hint)

    def check(node: ast.AST, loop: ast.For | None) -> None:  # noqa: C901
        if type(node) in REFUSED:
            raise refuse(REFUSED[type(node)][0], node, REFUSED[type(node)][1])
        if isinstance(node, ast.Delete) and not all(isinstance(target, ast.Name) for target in node.targets):
            raise refuse("del of what is no name", node, "make another list or dictionary without the item")
        if isinstance(node, ast.Return) and launch is not None:
            raise refuse("return", node, PARALLEL)
        if isinstance(node, ast.Break) and loop is not None and (loop is launch or tile_loop(loop.iter)):
            raise refuse("break out of a tile loop", node, "bound the loop instead: tile(begin, end)")
        if isinstance(node, COMPREHENSIONS):
            for generator in node.generators:
                if tile_loop(generator.iter):
                    raise refuse("a tile loop in a comprehension", generator.iter, "write a for statement")
        if isinstance(node, ast.For) and node is launch:
            if node.orelse:
                raise refuse("else on an outermost tile loop", node.orelse[0], "write it after the loop")
            if any(isinstance(n, ast.expr) and not isinstance(n, ast.Name | ast.Tuple) for n in ast.walk(node.target)):
                raise refuse("loop variables other than plain names", node.target, "unpack them in the body")
        if isinstance(node, ast.For) and (node is launch or tile_loop(node.iter)):
            found = loop_text.mistake(node)
            if found is not None:
                constraint, at, got, hint = found
                raise SplitError(constraint, got=got, where=location(source, at), hint=hint)
        if isinstance(node, FUNCTIONS):
            return
        if isinstance(node, ast.For | ast.While):
            for child in ast.iter_child_nodes(node):
                check(child, loop if child in node.orelse else node if isinstance(node, ast.For) else None)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in declared:
            outer = ast.unparse(declared[node.id])
            hint = f"{outer} stands at line {declared[node.id].lineno}: store into a tensor, or rename it here"
            raise refuse(f"an assignment to the outer name {node.id}", node, hint)
        else:
            for child in ast.iter_child_nodes(node):
                check(child, loop)

    nodes = list(nodes)
    for declaration in _declarations(nodes):
        name = declaration.names[0]
        hint = f"return the value, and assign it where the function is called: {name} = f(...); or store into a tensor"
        raise refuse(f"{ast.unparse(declaration)}, an assignment to outer names", declaration, hint)
    for node in nodes:
        check(node, None)


def _declarations(nodes: Iterable[ast.AST]) -> list[ast.Nonlocal | ast.Global]:
    """The statements that make a name one of code around, also those of functions inside."""
    return [n for node in nodes for n in ast.walk(node) if isinstance(n, ast.Nonlocal | ast.Global)]
