"""From a Python function to its AST with the positions of the user's file, and back.

Standard library only: production reads a kernel's source too, to find its row in a table.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tileflow.definitions import definition
from tileflow.errors import KernelError, Location
from tileflow.frontend.syntax import copied
from tileflow.lazy_dataclass import dataclass

from ..parsing import module_tree
from ..python_functions import python_own


class Lines(Protocol):
    """An object that knows its file and that file's lines."""

    @property
    def file(self) -> str:
        """The path of the file."""

    @property
    def lines(self) -> Sequence[str]:
        """The lines of the file, without their ends."""


@dataclass(frozen=True, slots=True, eq=False)
class FunctionSource:
    """A function and its definition. ``tree`` is a copy to change; for a lambda, ``def <lambda>: return ...``."""

    fn: types.FunctionType
    tree: ast.FunctionDef
    file: str
    lines: Sequence[str]


def location(source: Lines, node: ast.AST) -> Location:
    """The place in the user's file where ``node`` begins."""
    line: int = getattr(node, "lineno", 1)
    text = source.lines[line - 1].rstrip("\n") if line <= len(source.lines) else ""
    before = text.encode()[: getattr(node, "col_offset", 0)]  # the AST counts bytes, a caret counts characters
    return Location(source.file, line, len(before.decode(errors="replace")), text)


_DECORATED = "the decorator stands right above `def`, below all others"
_NOT_PLAIN: dict[type, str] = {
    staticmethod: "write @staticmethod above it", classmethod: "write a function, or @staticmethod above it",
    property: "write a function", type: "decorate a function: a class's tensors are its arguments",
    functools.partial: "decorate the function that the partial calls, and give the rest with the call",
}  # fmt: skip


def plain_function(fn: Any) -> types.FunctionType:
    """``fn``, which a decorator of kernels is given. Raises KernelError where it is no plain function of a file's."""
    if not isinstance(fn, types.FunctionType):
        hint = next((text for kind, text in _NOT_PLAIN.items() if isinstance(fn, kind)), _DECORATED)
        if hasattr(fn, "run_eagerly") or hasattr(fn, "__tileflow_kernel__"):
            hint = "it is a kernel already: decorate it once"
        raise KernelError(
            "a kernel is made of a plain Python function", got=f"{type(fn).__name__} {fn!r}"[:120], hint=hint
        )
    if hasattr(fn, "__wrapped__"):
        raise KernelError(
            "a kernel is made of the function that holds its loops",
            where=f"{fn.__code__.co_filename}:{fn.__code__.co_firstlineno}",
            got=f"what another decorator made of {fn.__qualname__}",
            hint=_DECORATED,
        )
    return fn


def check_runs_to_its_end(fn: types.FunctionType) -> None:
    """Raises KernelError for generators and async functions."""
    kinds = {
        inspect.CO_GENERATOR: "a generator",
        inspect.CO_COROUTINE: "an async function",
        inspect.CO_ASYNC_GENERATOR: "an async generator",
    }
    kind = next((text for flag, text in kinds.items() if fn.__code__.co_flags & flag), None)
    if kind is not None:
        raise KernelError(
            "a kernel runs to its end when it is called",
            got=f"{fn.__qualname__}, {kind}",
            where=f"{fn.__code__.co_filename}:{fn.__code__.co_firstlineno}",
            hint="return the results, without yield or await",
        )


def function_source(fn: Callable[..., Any]) -> FunctionSource:
    """Parse the definition of ``fn``, decorators stripped, with the line and column numbers of its file.

    Raises KernelError when ``fn`` is no plain function or its text cannot be found.
    """
    if not isinstance(fn, types.FunctionType):
        raise KernelError("only a plain Python function has source that can be compiled", got=repr(fn))
    if fn.__code__.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        check_runs_to_its_end(fn)
    found, lines = definition(fn)
    node = copied(found)
    tree = node if isinstance(node, ast.FunctionDef) else _as_function(node)
    tree.decorator_list = []
    return FunctionSource(fn, tree, fn.__code__.co_filename, lines)


def _as_function(node: ast.Lambda) -> ast.FunctionDef:
    body = ast.copy_location(ast.Return(node.body), node.body)
    tree = module_tree("def f(): pass").body[0]
    assert isinstance(tree, ast.FunctionDef)
    tree.name, tree.args, tree.body = "<lambda>", node.args, [body]
    return ast.copy_location(tree, node)


def compile_function(fn: types.FunctionType, tree: ast.FunctionDef, first: str) -> types.FunctionType:
    """``tree`` as a function in the place of ``fn``: its file, lines, globals, defaults and closure cells.

    The new function has one more positional parameter, ``first``, before the others.
    """
    return with_code(fn, compile_code(fn, tree, first))


def compile_code(fn: types.FunctionType, tree: ast.FunctionDef, first: str) -> types.CodeType:
    """The code of ``compile_function``'s function, which other closures of the same definition may share."""
    arguments = copied(tree.args)
    for a in ast.walk(arguments):
        if isinstance(a, ast.arg):
            a.annotation = None
    arguments.posonlyargs.insert(0, ast.arg(first))
    arguments.defaults, arguments.kw_defaults = [], [None] * len(arguments.kwonlyargs)
    inner = module_tree("def f(): pass").body[0]
    outer = module_tree(f"def factory({', '.join(fn.__code__.co_freevars)}): pass").body[0]
    assert isinstance(inner, ast.FunctionDef) and isinstance(outer, ast.FunctionDef)
    # Names free in fn must stay free in the new function: the factory's parameters stand for its closure, and the new
    # function's own name must not hide a global, which a recursive function finds itself by.
    inner.name, inner.args, inner.body = f"__tileflow_{tree.name}", arguments, tree.body
    outer.body = [ast.copy_location(inner, tree)]
    module = ast.fix_missing_locations(ast.Module([ast.copy_location(outer, tree)], []))
    flags = fn.__code__.co_flags & annotations.compiler_flag  # the one that changes what is compiled
    code = compile(module, fn.__code__.co_filename, "exec", flags, dont_inherit=True)
    made = _code_named(_code_named(code, "factory"), inner.name)
    return made.replace(co_name=tree.name, co_qualname=fn.__code__.co_qualname)


def with_code(fn: types.FunctionType, code: types.CodeType) -> types.FunctionType:
    """``fn`` with another code: the same globals, defaults and, by name, closure cells."""
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    closure = tuple(cells[name] for name in code.co_freevars)
    made = types.FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, closure)
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
        return python_own(getattr(owner, expression.attr, None)) if named else None
    if isinstance(expression, ast.Name) and expression.id not in local:
        return lookup(fn, expression.id, None)
    return None


def lookup(fn: types.FunctionType, name: str, default: object) -> object:
    """The value of a name that is free in ``fn``: from a closure cell, a global or a builtin."""
    if name in fn.__code__.co_freevars:
        cell = (fn.__closure__ or ())[fn.__code__.co_freevars.index(name)]
        try:
            return cell.cell_contents
        except ValueError:  # not assigned yet
            return default
    return python_own(fn.__globals__.get(name, getattr(builtins, name, default)))
