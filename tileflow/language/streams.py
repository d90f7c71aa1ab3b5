"""Which stream of random numbers a call draws from: decided by where it stands in the text, not by what a run does.

The calls of a kernel are numbered in the order of its text, and those of a helper function likewise under a number of
the helper's own. So two calls never share a stream, a forward and a backward kernel agree where they are written alike,
and the order in which branches and loops reach the calls does not matter.
"""

from __future__ import annotations

import ast
import linecache
import zlib
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType

from ..errors import CallError
from ..lazy_dataclass import dataclass
from ..parsing import module_tree

NAMES = frozenset({"rand", "randint"})
TORCH = frozenset({"rand", "rand_like", "randn", "randn_like"})  # of torch, which draw by torch's own seed

Scope = ast.FunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class Stream:
    """Two words of a generator's counter. ``function``: 0 for the kernel itself; ``call``: the number of the call."""

    function: int
    call: int


@lru_cache(maxsize=1024)
def stream_at(file: str, line: int, column: int, kernel: CodeType, names: frozenset[str] = NAMES) -> Stream:
    """The stream of the call that starts at a place, among those of ``names``. Raises CallError where no call of one
    of them by its name does."""
    tree = module_tree("".join(linecache.getlines(file)))
    for scopes, call in _calls(tree, (), names):
        if (line, column) in _places(call):
            return _stream(tree, scopes, call, file, kernel, names)
    raise CallError(
        "a random function is called by its name",
        got=f"another call at {file}:{line}",
        hint=f"write a call of {', '.join(sorted(names))}, so that its place in the text names its stream",
    )


def _places(call: ast.Call) -> set[tuple[int, int]]:
    """Where Python may say that a call stands: at its first character, or at the name of the attribute it calls."""
    found = {(call.lineno, call.col_offset)}
    if isinstance(call.func, ast.Attribute):
        line, column = call.func.end_lineno or call.lineno, call.func.end_col_offset or 0
        found.add((line, column - len(call.func.attr.encode())))
    return found


def _stream(
    tree: ast.Module, scopes: tuple[Scope, ...], call: ast.Call, file: str, kernel: CodeType, names: frozenset[str]
) -> Stream:
    functions = [s for s in scopes if isinstance(s, ast.FunctionDef)]
    own = next((s for s in functions if (file, _first_line(s)) == (kernel.co_filename, kernel.co_firstlineno)), None)
    holder = own or (functions[-1] if functions else tree)
    number = [c for _, c in _calls(holder, (), names)].index(call)
    path = ".".join(s.name for s in scopes[: scopes.index(functions[-1]) + 1]) if functions else ""
    return Stream(0 if own else zlib.crc32(path.encode()) or 1, number)


def _first_line(function: ast.FunctionDef) -> int:
    """The first line of a function as its code object has it: decorators belong to the function."""
    return min([function.lineno, *(d.lineno for d in function.decorator_list)])


def _calls(
    node: ast.AST, scopes: tuple[Scope, ...], names: frozenset[str]
) -> Iterator[tuple[tuple[Scope, ...], ast.Call]]:
    """The calls of ``names`` in the order of the text, with the functions and classes around each."""
    found = sorted(_unordered(node, scopes, names), key=lambda item: (item[1].lineno, item[1].col_offset))
    yield from found


def _unordered(
    node: ast.AST, scopes: tuple[Scope, ...], names: frozenset[str]
) -> Iterator[tuple[tuple[Scope, ...], ast.Call]]:
    if isinstance(node, ast.Call) and _last_name(node.func) in names:
        yield scopes, node
    for child in ast.iter_child_nodes(node):
        yield from _unordered(child, (*scopes, child) if isinstance(child, Scope) else scopes, names)


def _last_name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""
