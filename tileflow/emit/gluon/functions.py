"""Functions of a generated program: their lines, and what they take, which is what their lines name and do not set."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection
from dataclasses import dataclass

from ...parsing import module_tree
from ..writer import Writer

_IMPORTED = frozenset(
    {
        "triton",
        "tl",
        "gluon",
        "gl",
        "mbarrier",
        "tma",
        "fence_async_shared",
        "add_to_global",
        "warpgroup_mma",
        "warpgroup_mma_wait",
        "float",
        "range",
    }
)
_CONSTEXPR = frozenset({"who"})  # the number of a consumer group, which each is compiled for


@dataclass(frozen=True, slots=True)
class Function:
    """One function: what is said about it, its parameters and its body. ``places``: the user's line of each line;
    ``said``: which lines are comments, from 0."""

    name: str
    says: str
    parameters: tuple[str, ...]
    body: str
    places: tuple[int, ...]
    said: tuple[int, ...]

    @property
    def header(self) -> str:
        """The lines above the body: the decorator, the signature and the comment."""
        parameters = [f"{p}: gl.constexpr" if p in _CONSTEXPR else p for p in self.parameters]
        one_line = f"def {self.name}({', '.join(parameters)}):"
        if len(one_line) > 100:
            one_line = f"def {self.name}(\n" + "".join(f"    {p},\n" for p in parameters) + "):"
        comment = f"# {self.says}\n" if self.says else ""
        return f"\n\n@gluon.jit\n{one_line}\n" + (f"    {comment}" if comment else "")

    @property
    def text(self) -> str:
        """The whole function as source text."""
        return self.header + self.body

    @property
    def lines(self) -> tuple[int, ...]:
        """The user's line of each line of the text."""
        return (*(0 for _ in range(self.header.count("\n"))), *self.places)

    @property
    def comments(self) -> tuple[int, ...]:
        """Which lines of the text are the author's, from 0."""
        return tuple(n + self.header.count("\n") for n in self.said)

    def call(self, **other: str) -> str:
        """A call by the names that its parameters have; ``other``: by other texts."""
        return f"{self.name}({', '.join(other.get(p, p) for p in self.parameters)})"


def function(name: str, says: str, writer: Writer, module: Collection[str], first: tuple[str, ...] = ()) -> Function:
    """The function of a writer's lines, which are indented once. ``module``: names that the module knows; ``first``:
    parameters in front of the others."""
    free = [n for n in free_names(writer.text) if n not in module and n not in first]
    return Function(name, says, (*first, *free), writer.text, writer.places, writer.comments)


def free_names(body: str) -> tuple[str, ...]:
    """What the indented lines of a body read before they set it, in the order of the text."""
    tree = module_tree(f"if True:\n{body}")
    names = sorted((n for n in ast.walk(tree) if isinstance(n, ast.Name)), key=_order(tree))
    known, found = set(_IMPORTED), dict[str, None]()
    for node in names:
        if isinstance(node.ctx, ast.Store):
            known.add(node.id)
        elif node.id not in known:
            found[node.id] = None
    return tuple(found)


def _order(tree: ast.AST) -> Callable[[ast.Name], tuple[int, int, int]]:
    """The order in which names count: an assignment's targets after its values."""
    later = {
        id(name)
        for statement in ast.walk(tree)
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        for name in ast.walk(target)
    }
    return lambda name: (name.lineno, id(name) in later, name.col_offset)
