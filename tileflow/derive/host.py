"""Host code of a derived kernel: the forward kernel's own statements, with other loops in the place of its launches."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import GradientError
from ..frontend.liveness import bound_names, free_names, scope_nodes
from ..frontend.source import function_source, location
from ..frontend.split import HostFunction
from ..language import loops
from .forward import HINT

_FACTORIES = (
    "empty",
    "zeros",
    "ones",
    "full",
    "empty_like",
    "zeros_like",
    "ones_like",
    "full_like",
    "new_empty",
    "new_zeros",
    "new_full",
    "new_ones",
    "empty_strided",
)


@dataclass(frozen=True, slots=True)
class HostText:
    """A kernel's function in parts. ``before``: the statements before the last launch, without the launches, of which
    ``launches`` has those in between by position: how many statements stand before each. ``after``: the rest."""

    parameters: tuple[ast.arg, ...]
    before: tuple[ast.stmt, ...]
    launches: tuple[tuple[int, ast.For], ...]
    after: tuple[ast.stmt, ...]
    names: frozenset[object]

    @property
    def bound(self) -> frozenset[str]:
        """The names that are bound when the last launch is over."""
        return frozenset(bound_names(self.before)) | {p.arg for p in self.parameters}


def host_text(host: HostFunction) -> HostText:
    """Raises GradientError where a launch stands inside a statement of host code."""
    source = function_source(host.fn)
    tree = source.tree
    arguments = tree.args
    if arguments.vararg is not None:
        raise GradientError(
            "a kernel whose backward is derived has named parameters",
            got=f"*{arguments.vararg.arg}",
            where=location(source, tree),
            hint=f"take a tuple of tensors; or {HINT}",
        )
    wanted = {(r.loop.lineno, r.loop.col_offset) for r in host.regions}
    before: list[ast.stmt] = []
    after: list[ast.stmt] = []
    launches: list[tuple[int, ast.For]] = []
    for statement in tree.body:
        if isinstance(statement, ast.For) and (statement.lineno, statement.col_offset) in wanted:
            before, after = before + after, []
            launches.append((len(before), statement))
            continue
        inside = {(n.lineno, n.col_offset) for n in ast.walk(statement) if isinstance(n, ast.For)}
        if inside & wanted:
            raise GradientError(
                "the launches of a kernel whose backward is derived stand in the kernel's body",
                got="one inside another statement",
                where=location(source, statement),
                hint=f"make a kernel of each way; or {HINT}",
            )
        if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
            after.append(statement)
    for statement in before:
        if any(isinstance(n, ast.Return) for n in scope_nodes([statement])):
            raise GradientError(
                "a kernel whose backward is derived returns after its launches",
                got="a return before",
                where=location(source, statement),
                hint=HINT,
            )
    parameters = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    texts = (*before, *after, *(loop.iter for _, loop in launches), *parameters)
    every = {name for node in texts for n in ast.walk(node) for name in (getattr(n, "id", ""), getattr(n, "arg", ""))}
    return HostText(parameters, tuple(before), tuple(launches), tuple(after), frozenset(every) - {"", None})


def result_names(after: Iterable[ast.stmt]) -> list[str]:
    """What is returned, where each result is a name; empty where host code computes it."""
    found = list(after)
    if len(found) != 1 or not isinstance(found[0], ast.Return) or found[0].value is None:
        return []
    value = found[0].value
    elements = value.elts if isinstance(value, ast.Tuple) else [value]
    return [e.id for e in elements if isinstance(e, ast.Name)] if all(isinstance(e, ast.Name) for e in elements) else []


def parameter_text(parameter: ast.arg, host: HostFunction) -> str:
    """A parameter as the derived kernel has it: a constant stays one."""
    if parameter.arg in host.constants and parameter.annotation is not None:
        return f"{parameter.arg}: {ast.unparse(parameter.annotation)}"
    return parameter.arg


def needed(statements: Iterable[ast.stmt], live: set[str]) -> list[str]:
    """The lines of the statements, without allocations that nobody reads."""
    kept: list[ast.stmt] = []
    for statement in reversed(list(statements)):
        bound = bound_names([statement])
        if isinstance(statement, ast.Assign) and not bound & live and _allocates(statement.value):
            continue
        kept.append(statement)
        live |= free_names(statement)
    return [line for statement in reversed(kept) for line in ast.unparse(statement).splitlines()]


def _allocates(value: ast.expr) -> bool:
    calls = [n for n in ast.walk(value) if isinstance(n, ast.Call)]
    made = [c for c in calls if isinstance(c.func, ast.Attribute) and c.func.attr in _FACTORIES]
    plain = [c for c in calls if c not in made]
    return bool(made) and all(_is_a_size(c.func) for c in plain)


def _is_a_size(function: ast.expr) -> bool:
    if isinstance(function, ast.Name):
        return function.id == "range"
    return isinstance(function, ast.Attribute) and function.attr == "size"


class Header:
    """The loop of a launch: its bounds as text, axis by axis. ``frame``: the host code's variables in this call."""

    def __init__(self, host: HostFunction, loop: ast.For, function: Any, frame: Mapping[str, Any]) -> None:
        assert isinstance(loop.iter, ast.Call)
        self.call, self._host, self._frame = loop.iter, host, frame
        self.is_grid = function is loops.grid
        keywords = {str(k.arg): k.value for k in self.call.keywords}
        bound = inspect.signature(function).bind(*self.call.args, **keywords).arguments
        first, second = bound["begin_or_end"], bound.get("end")
        only = second is None or (isinstance(second, ast.Constant) and second.value is None)
        self._begin: ast.expr | None = None if only else first
        self._end: ast.expr = first if only or second is None else second
        self._block_size = bound.get("step" if self.is_grid else "block_size")

    @property
    def names(self) -> frozenset[str]:
        """What the bounds are made of."""
        return free_names(self.call)

    @property
    def begins_at_0(self) -> bool:
        """Whether the author gave no begin."""
        return self._begin is None

    def bound(self, which: str, axis: int) -> str:
        """The begin or the end of an axis."""
        node = self._begin if which == "begin" else self._end
        return "0" if node is None else self._axis(node, axis)

    def block_size(self, axis: int) -> str | None:
        """A tile's size, or the step of a grid, where the author gave one."""
        found = None if self._block_size is None else self._axis(self._block_size, axis)
        return None if found in (None, "None") else found

    def _axis(self, node: ast.expr, axis: int) -> str:
        if isinstance(node, ast.List | ast.Tuple):
            return ast.unparse(node.elts[axis])
        code = compile(ast.Expression(node), "<bounds>", "eval")
        value = eval(code, dict(self._host.fn.__globals__), dict(self._frame))
        return f"{ast.unparse(node)}[{axis}]" if isinstance(value, tuple | list) else ast.unparse(node)


def knob_variables(host: HostFunction, statements: Iterable[ast.stmt]) -> Iterator[tuple[str, str]]:
    """The variables that hold the host code's block sizes, by symbol."""
    bound = bound_names(list(statements))
    for site in host.sites.values():
        if site in bound:
            yield f"block:{site}", site
