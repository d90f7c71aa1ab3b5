"""From a Python function to its AST with the positions of the user's file, and back; and the hash of what it means.

Standard library only: production reads a kernel's source too, to find its row in a table.
"""

from __future__ import annotations

import __future__
import ast
import builtins
import copy
import hashlib
import linecache
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tileflow.errors import KernelError, Location
from tileflow.frontend.liveness import free_names, parameters


class Lines(Protocol):
    """Whatever knows its file and that file's lines."""

    @property
    def file(self) -> str: ...

    @property
    def lines(self) -> Sequence[str]: ...


@dataclass(frozen=True, slots=True, eq=False)
class FunctionSource:
    """A function and its definition. ``tree`` is a copy to change; for a lambda, ``def <lambda>: return ...``."""

    fn: types.FunctionType
    tree: ast.FunctionDef
    file: str
    lines: Sequence[str]


def location(source: Lines, node: ast.AST) -> Location:
    """Where ``node`` begins in the user's file."""
    line: int = getattr(node, "lineno", 1)
    text = source.lines[line - 1].rstrip("\n") if line <= len(source.lines) else ""
    before = text.encode()[: getattr(node, "col_offset", 0)]  # the AST counts bytes, a caret counts characters
    return Location(source.file, line, len(before.decode(errors="replace")), text)


def function_source(fn: Callable[..., Any]) -> FunctionSource:
    """Parse the definition of ``fn``, decorators stripped, with the line and column numbers of its file.

    Raises KernelError when ``fn`` is no plain function or its text cannot be found.
    """
    if not isinstance(fn, types.FunctionType):
        raise KernelError("only a plain Python function has source that can be compiled", got=repr(fn))
    code = fn.__code__
    lines, module = _parsed(fn)
    if code.co_name == "<lambda>":
        tree = _as_function(_find_lambda(code, module, lines))
    else:
        tree = _find_function(code, module)
    tree.decorator_list = []
    return FunctionSource(fn, tree, code.co_filename, lines)


_files: dict[str, tuple[list[str], ast.Module]] = {}


def _parsed(fn: types.FunctionType) -> tuple[list[str], ast.Module]:
    file = fn.__code__.co_filename
    linecache.checkcache(file)
    lines = linecache.getlines(file, fn.__globals__)
    if not lines:
        raise KernelError(
            f"the source of {fn.__qualname__} must be readable",
            got=f"nothing under the name {file}",
            hint="define it in a .py file or a notebook cell, not through exec, eval or a plain interactive prompt",
        )
    known = _files.get(file)
    if known is None or known[0] != lines:
        known = _files[file] = (lines, ast.parse("".join(lines), filename=file))
    return known


def _find_function(code: types.CodeType, module: ast.Module) -> ast.FunctionDef:
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == code.co_name:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first == code.co_firstlineno and isinstance(node, ast.FunctionDef):
                return copy.deepcopy(node)
    raise _changed(code)


def _find_lambda(code: types.CodeType, module: ast.Module, lines: Sequence[str]) -> ast.Lambda:
    found = [n for n in ast.walk(module) if isinstance(n, ast.Lambda) and n.lineno == code.co_firstlineno]
    if not found:
        raise _changed(code)
    spans = [
        ((line, column), (end_line, end_column))
        for line, end_line, column, end_column in code.co_positions()
        if None not in (line, end_line, column, end_column) and (line, column) != (end_line, end_column)
    ]
    if spans:
        inside = [n for n in found if all(_start(n.body) <= a and b <= _end(n.body) for a, b in spans)]
        found = sorted(inside, key=lambda n: (_start(n.body), _end(n.body)))[-1:]  # the innermost of nested ones
    if len(found) != 1:
        where = Location(code.co_filename, code.co_firstlineno, 0, lines[code.co_firstlineno - 1].rstrip("\n"))
        hint = "put each lambda on a line of its own, or use def"
        raise KernelError("a lambda must be recognisable by its position", where=where, hint=hint)
    return copy.deepcopy(found[0])


def _start(node: ast.expr) -> tuple[Any, Any]:
    return node.lineno, node.col_offset


def _end(node: ast.expr) -> tuple[Any, Any]:
    return node.end_lineno, node.end_col_offset


def _changed(code: types.CodeType) -> KernelError:
    return KernelError(
        f"{code.co_name} must stand in its file where it was imported from",
        got=f"no such definition at {code.co_filename}:{code.co_firstlineno}",
        hint="the file changed after its import, or the function is async or generated: import it again",
    )


def _as_function(node: ast.Lambda) -> ast.FunctionDef:
    body = ast.copy_location(ast.Return(node.body), node.body)
    tree = ast.parse("def f(): pass").body[0]
    assert isinstance(tree, ast.FunctionDef)
    tree.name, tree.args, tree.body = "<lambda>", node.args, [body]
    return ast.copy_location(tree, node)


def compile_function(fn: types.FunctionType, tree: ast.FunctionDef, first: str) -> types.FunctionType:
    """``tree`` as a function in the place of ``fn``: its file, lines, globals, defaults and closure cells.

    The new function has one more positional parameter, ``first``, before the others.
    """
    arguments = copy.deepcopy(tree.args)
    for a in ast.walk(arguments):
        if isinstance(a, ast.arg):
            a.annotation = None
    arguments.posonlyargs.insert(0, ast.arg(first))
    arguments.defaults, arguments.kw_defaults = [], [None] * len(arguments.kwonlyargs)
    inner = ast.parse("def f(): pass").body[0]
    outer = ast.parse(f"def factory({', '.join(fn.__code__.co_freevars)}): pass").body[0]
    assert isinstance(inner, ast.FunctionDef) and isinstance(outer, ast.FunctionDef)
    inner.name, inner.args, inner.body = tree.name, arguments, tree.body
    # Names free in fn must stay free in the new function: the factory's parameters stand for its closure.
    outer.body = [ast.copy_location(inner, tree)]
    module = ast.fix_missing_locations(ast.Module([ast.copy_location(outer, tree)], []))
    flags = fn.__code__.co_flags & __future__.annotations.compiler_flag
    code = compile(module, fn.__code__.co_filename, "exec", flags, dont_inherit=True)
    code = _code_named(_code_named(code, "factory"), tree.name).replace(co_qualname=fn.__code__.co_qualname)
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    made = types.FunctionType(
        code, fn.__globals__, fn.__name__, fn.__defaults__, tuple(cells[name] for name in code.co_freevars)
    )
    made.__kwdefaults__ = fn.__kwdefaults__
    made.__qualname__, made.__module__, made.__doc__ = fn.__qualname__, fn.__module__, fn.__doc__
    return made


def _code_named(code: types.CodeType, name: str) -> types.CodeType:
    return next(c for c in code.co_consts if isinstance(c, types.CodeType) and c.co_name == name)


def resolve(expression: ast.expr, fn: types.FunctionType, local: frozenset[str]) -> object:
    """What a name or a chain of attributes of modules and classes means in ``fn`` before it runs; None if unknown.

    ``local`` are the names whose value depends on the run.
    """
    if isinstance(expression, ast.Attribute):
        owner = resolve(expression.value, fn, local)
        named = isinstance(owner, types.ModuleType | type | types.SimpleNamespace)
        return getattr(owner, expression.attr, None) if named else None
    if isinstance(expression, ast.Name) and expression.id not in local:
        return _lookup(fn, expression.id, None)
    return None


def _lookup(fn: types.FunctionType, name: str, default: object) -> object:
    """The value of a name that is free in ``fn``: from a closure cell, a global or a builtin."""
    if name in fn.__code__.co_freevars:
        cell = (fn.__closure__ or ())[fn.__code__.co_freevars.index(name)]
        try:
            return cell.cell_contents
        except ValueError:  # not assigned yet
            return default
    return fn.__globals__.get(name, getattr(builtins, name, default))
