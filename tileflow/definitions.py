"""Where a function's definition stands in the text of its file.

Standard library only: production reads a kernel's source too, to find its row in a table.
"""

from __future__ import annotations

import ast
import linecache
import types
from collections.abc import Sequence
from typing import Any

from .errors import KernelError, Location
from .lazy_dataclass import dataclass
from .locks import cached_property
from .parsing import module_tree, undisturbed


def definition(fn: types.FunctionType) -> tuple[ast.FunctionDef | ast.Lambda, list[str]]:
    """The definition of ``fn``, which nobody changes, and the lines of its file.

    Raises KernelError where its text cannot be found.
    """
    code = fn.__code__
    file = _parsed(fn)
    found = file.functions.get((code.co_name, code.co_firstlineno), [])
    if not found:
        raise KernelError(
            f"{code.co_name} must stand in its file where it was imported from",
            got=f"no such definition at {code.co_filename}:{code.co_firstlineno}",
            hint="the file changed after its import, or the function is generated: import it again",
        )
    return _at_position(code, found, file.lines), file.lines


@dataclass(frozen=True, eq=False)
class _File:
    """A parsed file, with its function definitions by the name and first line that their code objects have."""

    name: str
    lines: list[str]
    functions: dict[tuple[str, int], list[ast.FunctionDef | ast.Lambda]]

    @cached_property
    def codes(self) -> list[tuple[object, ...]]:
        """What is told of the code of each of its functions."""
        text = "".join(self.lines)
        todo = [undisturbed(lambda: compile(text, self.name, "exec", dont_inherit=True))]
        found = []
        while todo:
            code = todo.pop()
            found.append(_told(code))
            todo += [const for const in code.co_consts if isinstance(const, types.CodeType)]
        return found


_MOST_VERSIONS = 4  # of one file
_files: dict[str, list[_File]] = {}  # the newest version first


def _parsed(fn: types.FunctionType) -> _File:
    """The file of ``fn`` as it was when ``fn`` was made of it, where that was read: somebody may have edited it, or
    installed another version of it, since it was imported."""
    name = fn.__code__.co_filename
    linecache.checkcache(name)
    lines = linecache.getlines(name, fn.__globals__)
    known = _files.get(name, [])
    if not lines and not known:
        raise KernelError(
            f"the source of {fn.__qualname__} must be readable",
            got=f"nothing under the name {name}",
            hint="define it in a .py file or a notebook cell, not through exec, eval or a plain interactive prompt",
        )
    if lines and not any(version.lines == lines for version in known):
        known = _with_version(name, known, lines)
    if len(known) == 1:
        return known[0]
    told = _told(fn.__code__)
    return next((version for version in known if told in version.codes), known[0])


def _with_version(name: str, known: list[_File], lines: list[str]) -> list[_File]:
    """The versions of a file with another one that was read. Text that is no Python's is none where one is known."""
    try:
        module = module_tree("".join(lines), name)
    except (SyntaxError, ValueError) as error:
        if known:
            return known
        raise KernelError(
            "the source of a function must be Python's text",
            got=f"{name}, which Python cannot read: {error}",
            hint="the file changed after its import, or the function is generated: import it again",
        ) from error
    _files[name] = [_File(name, lines, _definitions(module)), *known][:_MOST_VERSIONS]
    return _files[name]


def _told(code: types.CodeType) -> tuple[object, ...]:
    """What tells a function's code from what other text would give, but for how its parameters may be passed."""
    plain = [c for c in code.co_consts if not isinstance(c, types.CodeType)]
    constants = tuple(repr(sorted(map(repr, c)) if isinstance(c, frozenset) else c) for c in plain)
    return code.co_name, code.co_firstlineno, code.co_code, code.co_names, constants


def _definitions(module: ast.Module) -> dict[tuple[str, int], list[ast.FunctionDef | ast.Lambda]]:
    found: dict[tuple[str, int], list[ast.FunctionDef | ast.Lambda]] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Lambda):
            found.setdefault(("<lambda>", node.lineno), []).append(node)
        elif isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            found.setdefault((node.name, first), []).append(node)
    return found


def _at_position(
    code: types.CodeType, found: Sequence[ast.FunctionDef | ast.Lambda], lines: Sequence[str]
) -> ast.FunctionDef | ast.Lambda:
    """Of the definitions on one line the one whose body holds all positions of ``code``; of nested ones the inner."""
    spans = [
        ((line, column), (end_line, end_column))
        for line, end_line, column, end_column in code.co_positions()
        if None not in (line, end_line, column, end_column) and (line, column) != (end_line, end_column)
    ]
    if len(found) > 1 and spans:
        inside = [n for n in found if all(_start(n) <= a and b <= _end(n) for a, b in spans)]
        found = sorted(inside, key=lambda n: (_start(n), _end(n)))[-1:]
    if len(found) != 1:
        where = Location(code.co_filename, code.co_firstlineno, 0, lines[code.co_firstlineno - 1].rstrip("\n"))
        hint = "put each lambda on a line of its own, or use def"
        raise KernelError("a lambda must be recognisable by its position", where=where, hint=hint)
    return found[0]


def _start(node: ast.FunctionDef | ast.Lambda) -> tuple[Any, Any]:
    first = node.body[0] if isinstance(node, ast.FunctionDef) else node.body
    return first.lineno, first.col_offset


def _end(node: ast.FunctionDef | ast.Lambda) -> tuple[Any, Any]:
    last = node.body[-1] if isinstance(node, ast.FunctionDef) else node.body
    return last.end_lineno, last.end_col_offset
