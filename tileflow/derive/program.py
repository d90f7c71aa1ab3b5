"""The text of a derived kernel while it is written: lines, loops and branches. Those that nobody needs are dropped.

Lines are Python. What a line assigns and reads is found in its syntax tree, so that whoever writes a line says it once.
"""

from __future__ import annotations

import ast
import builtins
import keyword
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from ..parsing import module_tree

INDENT = "    "


@dataclass(frozen=True, slots=True)
class Facts:
    """What a line is to others. ``assigns``: the names that it binds, if binding them is all that it does."""

    assigns: frozenset[str]
    reads: frozenset[str]
    is_effect: bool


@lru_cache(maxsize=8192)
def facts(line: str) -> Facts:
    """What a line of text assigns and reads."""
    (statement,) = module_tree(line).body
    names = [n for n in ast.walk(statement) if isinstance(n, ast.Name)]
    reads = frozenset(n.id for n in names if isinstance(n.ctx, ast.Load))
    assigns = frozenset(n.id for n in names if isinstance(n.ctx, ast.Store))
    plain = isinstance(statement, ast.Assign) and all(
        isinstance(n, ast.Name | ast.Tuple) for target in statement.targets for n in _outer(target)
    )
    return Facts(assigns, reads, not plain)


def _outer(target: ast.expr) -> Iterator[ast.expr]:
    yield target
    if isinstance(target, ast.Tuple):
        for element in target.elts:
            yield from _outer(element)


@dataclass(slots=True)
class Loop:
    """A loop of the device. ``variables``: those of the loop; ``over``: what follows ``in``."""

    variables: str
    over: str
    body: list[Statement] = field(default_factory=list)

    @property
    def header(self) -> str:
        """The ``for`` line."""
        return f"for {self.variables} in {self.over}:"


@dataclass(slots=True)
class Branch:
    """A branch of the device. ``condition``: the text behind ``if``; ``then``, ``other``: its two sides."""

    condition: str
    then: list[Statement] = field(default_factory=list)
    other: list[Statement] = field(default_factory=list)

    @property
    def reads(self) -> frozenset[str]:
        """The names that the condition reads."""
        return facts(f"x = {self.condition}").reads


@dataclass(slots=True)
class Gradient:
    """The gradient of a load, to be added to a tensor's: how that is done is decided when all of them are known.

    ``index``, ``mask``: as the load's. ``key``: equal for loads of the same elements. ``reads``: all that it reads.
    """

    tensor: str
    index: tuple[str, ...]
    mask: str | None
    value: str
    facts: object = None

    @property
    def reads(self) -> frozenset[str]:
        """The names that the gradient's index, value and mask read."""
        texts = (*self.index, self.value, *([self.mask] if self.mask else []))
        return frozenset().union(*(facts(f"x[{t}]").reads - {"x"} for t in texts))


Statement = str | Loop | Branch | Gradient


def prune(body: Iterable[Statement], live: frozenset[str] = frozenset()) -> tuple[list[Statement], frozenset[str]]:
    """The statements that have an effect or that give what is ``live`` after them, and what is live before them."""
    kept: list[Statement] = []
    for statement in reversed(list(body)):
        if isinstance(statement, Loop):
            inside, needed = _loop(statement, live)
            if inside:
                kept.append(Loop(statement.variables, statement.over, inside))
                live = live | needed
        elif isinstance(statement, Branch):
            then, other = prune(statement.then, live), prune(statement.other, live)
            if then[0] or other[0]:
                kept.append(Branch(statement.condition, then[0], other[0]))
                live = then[1] | other[1] | statement.reads
        elif isinstance(statement, Gradient):
            kept.append(statement)
            live = live | statement.reads
        else:
            line = facts(statement)
            if line.is_effect or line.assigns & live:
                kept.append(statement)
                live = (live - line.assigns) | line.reads
    return kept[::-1], live


def _loop(loop: Loop, after: frozenset[str]) -> tuple[list[Statement], frozenset[str]]:
    """What one turn needs, the next one needs of the one before it too."""
    live = after
    while True:
        inside, needed = prune(loop.body, live)
        if needed <= live:
            variables = facts(f"{loop.variables} = 0").assigns
            header = facts(f"x = {loop.over}").reads
            return inside, (needed - variables) | header
        live = live | needed


def walk(body: Iterable[Statement]) -> Iterator[Statement]:
    """Every statement, outer ones first."""
    for statement in body:
        yield statement
        if isinstance(statement, Loop):
            yield from walk(statement.body)
        elif isinstance(statement, Branch):
            yield from walk((*statement.then, *statement.other))


def render(body: Iterable[Statement], indent: str) -> list[str]:
    """The lines of the text."""
    lines = []
    for statement in body:
        if isinstance(statement, Loop):
            lines.append(indent + statement.header)
            lines += render(statement.body, indent + INDENT)
        elif isinstance(statement, Branch):
            lines += _branch(statement, indent)
        else:
            lines.append(indent + str(statement))
    return lines


def _branch(branch: Branch, indent: str) -> list[str]:
    then, other = (render(side, indent + INDENT) for side in (branch.then, branch.other))
    if not then:
        return [f"{indent}if not ({branch.condition}):", *other]
    return [f"{indent}if {branch.condition}:", *then, *([f"{indent}else:", *other] if other else [])]


class Namer:
    """Hands out names that nothing else has."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = {*taken, *keyword.kwlist, *dir(builtins)}

    def fresh(self, base: str) -> str:
        """``base``, or with the first number behind it that makes it new."""
        name, count = base, 0
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        return name
