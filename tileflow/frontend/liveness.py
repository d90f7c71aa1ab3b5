"""Which names a piece of Python reads, binds, and still needs: scopes and live variables over the plain AST.

Live variables are the textbook backward analysis (Aho, Lam, Sethi, Ullman: Compilers, 9.2.5) on structured code, with a
fixpoint at each loop. Functions defined inside the analysed code are read conservatively: creating one reads its free
names, and so does every later use of the name it is bound to.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from ..lazy_dataclass import dataclass

Names = frozenset[str]

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
NOTHING: Names = frozenset()


def parameters(arguments: ast.arguments) -> tuple[str, ...]:
    """The parameter names in the order of the signature."""
    named = [*arguments.posonlyargs, *arguments.args]
    named += [arguments.vararg] if arguments.vararg else []
    named += arguments.kwonlyargs
    named += [arguments.kwarg] if arguments.kwarg else []
    return tuple(a.arg for a in named)


def target_names(target: ast.expr) -> tuple[str, ...]:
    """The plain names that an assignment target binds, in order."""
    if isinstance(target, ast.Name):
        return (target.id,)
    if isinstance(target, ast.Starred):
        return target_names(target.value)
    if isinstance(target, ast.Tuple | ast.List):
        return tuple(name for element in target.elts for name in target_names(element))
    return ()


def bound_names(nodes: Iterable[ast.AST], skip: Container[ast.AST] = ()) -> Names:
    """Names that running ``nodes`` may bind in the scope that they stand in (not in scopes nested in it)."""
    return frozenset(name for node in nodes for name in _bound(node, skip))


def _bound(node: ast.AST, skip: Container[ast.AST]) -> Iterator[str]:
    if node in skip:
        return
    if isinstance(node, ast.Name):
        if not isinstance(node.ctx, ast.Load):
            yield node.id
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, COMPREHENSIONS):
        yield from (n.target.id for n in ast.walk(node) if isinstance(n, ast.NamedExpr))
    elif isinstance(node, ast.alias):
        yield node.asname or node.name.partition(".")[0]
    elif not isinstance(node, ast.Lambda):
        if isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name
        elif isinstance(node, ast.MatchMapping) and node.rest:
            yield node.rest
        for child in ast.iter_child_nodes(node):
            yield from _bound(child, skip)


def local_names(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Names:
    """The names that are local to a function: parameters and what its body binds, less global and nonlocal ones."""
    body = [function.body] if isinstance(function, ast.Lambda) else function.body
    declared = {name for n in scope_nodes(body) if isinstance(n, ast.Global | ast.Nonlocal) for name in n.names}
    return (frozenset(parameters(function.args)) | bound_names(body)) - declared


def scope_nodes(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All nodes under ``nodes`` that run in their scope; bodies of functions and classes are left out."""
    for node in nodes:
        yield node
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            yield from scope_nodes(ast.iter_child_nodes(node))


def free_names(node: ast.AST) -> Names:
    """Names that ``node`` reads from the scope it stands in, also from inside nested scopes; annotations apart."""
    if isinstance(node, ast.Name):
        return NOTHING if isinstance(node.ctx, ast.Store) else frozenset((node.id,))
    if isinstance(node, FUNCTIONS):
        body = [node.body] if isinstance(node, ast.Lambda) else node.body
        outside = [*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)]
        outside += [] if isinstance(node, ast.Lambda) else node.decorator_list
        return _free(outside) | (_free(body) - local_names(node))
    if isinstance(node, COMPREHENSIONS):
        own = frozenset(name for g in node.generators for name in target_names(g.target))
        return free_names(node.generators[0].iter) | (_free(ast.iter_child_nodes(node)) - own)
    if isinstance(node, ast.AnnAssign):
        return free_names(node.target) | (free_names(node.value) if node.value else NOTHING)
    read = _free(ast.iter_child_nodes(node))
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        return read | {node.target.id}
    return read


def _free(nodes: Iterable[ast.AST]) -> Names:
    return NOTHING.union(*(free_names(n) for n in nodes))


def closure_reads(body: Sequence[ast.stmt]) -> dict[str, Names]:
    """What each nested function reads when called, transitively, by the name that is bound to it."""
    reads: dict[str, Names] = {}
    for node in scope_nodes(body):
        if isinstance(node, ast.FunctionDef):
            reads[node.name] = reads.get(node.name, NOTHING) | free_names(node)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            for name in (n for t in node.targets for n in target_names(t)):
                reads[name] = reads.get(name, NOTHING) | free_names(node.value)
    changed = True
    while changed:
        wider = {name: read.union(*(reads.get(r, NOTHING) for r in read)) for name, read in reads.items()}
        changed, reads = wider != reads, wider
    return reads


@dataclass(slots=True)
class Liveness:
    """Live names before and after each statement of ``body``.

    ``launches`` maps loops that are not to be entered to the names that they read. After construction ``before``,
    ``after`` and, for loops, ``head`` (live where an iteration starts, before the target is bound) are filled, keyed by
    node; ``entry`` is what is live at the start of ``body``.
    """

    body: Sequence[ast.stmt]
    launches: Mapping[ast.For, Names] = field(default_factory=dict)
    before: dict[ast.stmt, Names] = field(default_factory=dict)
    after: dict[ast.stmt, Names] = field(default_factory=dict)
    head: dict[ast.stmt, Names] = field(default_factory=dict)
    closures: dict[str, Names] = field(init=False)
    entry: Names = field(init=False)

    def __post_init__(self) -> None:
        self.closures = closure_reads(self.body)
        self.entry = self._block(self.body, NOTHING, _Exits())

    def _block(self, statements: Sequence[ast.stmt], live: Names, exits: _Exits) -> Names:
        for statement in reversed(statements):
            self.after[statement] = live
            live = self._statement(statement, live, exits) | exits.raised
            self.before[statement] = live
        return live

    def _statement(self, s: ast.stmt, live: Names, exits: _Exits) -> Names:  # noqa: C901
        match s:
            case ast.Assign():
                return self._expression(s.value, self._targets(s.targets, live))
            case ast.AnnAssign():
                return live if s.value is None else self._expression(s.value, self._targets([s.target], live))
            case ast.AugAssign():
                return self._expression(s.value, self._targets([s.target], live)) | free_names(s)
            case ast.Return() | ast.Raise():
                return exits.final | free_names(s)
            case ast.Break():
                return exits.broken
            case ast.Continue():
                return exits.continued
            case ast.If():
                branches = self._block(s.body, live, exits) | self._block(s.orelse, live, exits)
                return self._expression(s.test, branches)
            case ast.For() if s in self.launches:
                return self._expression(s.iter, live | self.launches[s])
            case ast.For() | ast.AsyncFor() | ast.While():
                return self._loop(s, live, exits)
            case ast.With() | ast.AsyncWith():
                live = self._block(s.body, live, exits)
                for item in reversed(s.items):
                    live = self._targets([item.optional_vars], live) if item.optional_vars else live
                    live = self._expression(item.context_expr, live)
                return live
            case ast.Try() | ast.TryStar():
                return self._try(s, live, exits)
            case ast.Match():
                taken = live
                for case in s.cases:
                    inside = self._block(case.body, live, exits) | (free_names(case.guard) if case.guard else NOTHING)
                    taken |= (inside - bound_names([case.pattern])) | free_names(case.pattern)
                return self._expression(s.subject, taken)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return (live - {s.name}) | free_names(s)
            case ast.Import() | ast.ImportFrom():
                return live - bound_names([s])
            case _:
                return self._children(s, live)

    def _loop(self, s: ast.For | ast.AsyncFor | ast.While, live: Names, exits: _Exits) -> Names:
        head = done = self._block(s.orelse, live, exits)
        while True:
            inside = self._block(s.body, head, exits.inside_loop(broken=live, continued=head))
            if isinstance(s, ast.While):
                wider = head | self._expression(s.test, inside | done)
            else:
                wider = head | self._targets([s.target], inside)
            if wider == head:
                break
            head = wider
        self.head[s] = head
        return head if isinstance(s, ast.While) else self._expression(s.iter, head)

    def _try(self, s: ast.Try | ast.TryStar, live: Names, exits: _Exits) -> Names:
        final = self._block(s.finalbody, live, exits)
        leaving = exits.through(final) if s.finalbody else exits
        handled = NOTHING
        for handler in s.handlers:
            caught = self._block(handler.body, final, leaving) - ({handler.name} if handler.name else set())
            handled |= caught | (free_names(handler.type) if handler.type else NOTHING)
        done = self._block(s.orelse, final, leaving)
        return self._block(s.body, done, leaving.raising(handled | final))

    def _targets(self, targets: Sequence[ast.expr], live: Names) -> Names:
        for target in reversed(targets):
            match target:
                case ast.Name():
                    live -= {target.id}
                case ast.Tuple() | ast.List():
                    live = self._targets(target.elts, live)
                case ast.Starred():
                    live = self._targets([target.value], live)
                case _:
                    live = self._children(target, live)
        return live

    def _expression(self, e: ast.AST, live: Names) -> Names:
        match e:
            case ast.Name():
                return live | {e.id} | self.closures.get(e.id, NOTHING)
            case ast.NamedExpr():
                return self._expression(e.value, live - {e.target.id})
            case ast.IfExp():
                return self._expression(e.test, self._expression(e.body, live) | self._expression(e.orelse, live))
            case ast.BoolOp():
                return self._expression(e.values[0], self._maybe(e.values[1:], live))
            case ast.Compare():
                live = self._maybe(e.comparators[1:], live)
                return self._expression(e.left, self._expression(e.comparators[0], live))
            case _ if isinstance(e, (*FUNCTIONS, *COMPREHENSIONS)):
                return live | self._called(free_names(e))
            case _:
                return self._children(e, live)

    def _maybe(self, expressions: Sequence[ast.expr], live: Names) -> Names:
        for e in reversed(expressions):
            live |= self._expression(e, live)
        return live

    def _children(self, node: ast.AST, live: Names) -> Names:
        for child in reversed(list(ast.iter_child_nodes(node))):
            live = self._expression(child, live)
        return live

    def _called(self, names: Names) -> Names:
        return names.union(*(self.closures.get(name, NOTHING) for name in names))


@dataclass(frozen=True, slots=True)
class _Exits:
    """What is live at the places that a statement may jump to."""

    broken: Names = NOTHING
    continued: Names = NOTHING
    raised: Names = NOTHING
    final: Names = NOTHING

    def inside_loop(self, broken: Names, continued: Names) -> _Exits:
        return _Exits(broken, continued, self.raised, self.final)

    def raising(self, handled: Names) -> _Exits:
        return _Exits(self.broken, self.continued, self.raised | handled, self.final)

    def through(self, final: Names) -> _Exits:
        return _Exits(self.broken | final, self.continued | final, self.raised | final, self.final | final)
