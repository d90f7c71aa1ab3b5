"""Kernels as a Python package that needs torch and ``tileflow-runtime`` only: ``tileflow bundle build --standalone``.

The package holds a bundle, and the text of each kernel's function with what it reads: helpers, constants, imports of
libraries. The functions keep their signatures and docstrings, and host code runs as in the original module. The
package's bundle decides which binary serves a call. Modules keep their original names, since rows are found by a
kernel's name and text.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import importlib.util
import keyword
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import torch

from tileflow.api import Kernel, load_kernel
from tileflow.errors import SpecError
from tileflow.frontend.source import FunctionSource, function_source
from tileflow.language.code_objects import codes_of, globals_read
from tileflow.runtime import Bundle
from tileflow.runtime.libraries import is_library

BUNDLE = "bundle"
_IMPORTED = frozenset({"torch", "triton", "tileflow", "tileflow_runtime"})  # beside Python's own library
_SHOWN = 5  # of the names that a folder holds, in an error
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_SETTINGS = (torch.dtype, torch.layout, torch.memory_format)
_HINT = "pass it as an argument, or write it as a function or a constant"
_KERNEL = "_tileflow_kernel"  # what the package calls tileflow.kernel, whose name may be something else in a module
_WRITTEN = "Written by `tileflow bundle build --standalone`"  # by which a package is known that may be written anew
_INIT = '''\
"""{title}

{written}; needs torch and tileflow-runtime.
"""

import importlib.util as _tileflow_import
import pathlib as _tileflow_pathlib

import tileflow.runtime as _tileflow_runtime

_tileflow_here = _tileflow_pathlib.Path(__file__).parent


def _tileflow_module(name, file):
    """A module under the name that it has at home, by which the bundle's rows are found."""
    spec = _tileflow_import.spec_from_file_location(name, _tileflow_here / file)
    module = _tileflow_import.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


{modules}
__all__ = {names}
_tileflow_runtime.load(_tileflow_here / "{bundle}")
'''


def write_package(dest: Path, names: Sequence[str], build: Callable[[Path], Bundle]) -> Bundle:
    """Write the package ``dest`` of the kernels ``names`` (``module:name``); ``build`` makes its bundle in a folder.

    Raises SpecError where a kernel reads what a package cannot hold: a closure, a tensor, an object or a class of its
    own module; and where something stands at ``dest`` that was not written here.
    """
    dest = Path(os.path.abspath(dest))  # `.` has no name; a link's own name is that of the package
    _require_name(dest)
    _require_place(dest)
    kernels = [load_kernel(name) for name in names]
    short = [kernel.__name__ for kernel in kernels]
    if len({*short}) < len(short):
        raise SpecError("the kernels of a package have names of their own", got=", ".join(short), where=str(dest))
    texts = _texts(kernels)
    files = {module: f"_kernels_{number}.py" for number, module in enumerate(texts)}
    written = {files[module]: text for module, text in texts.items()}
    with tempfile.TemporaryDirectory() as checked:  # nothing stands at dest until all is known to fit
        _write(Path(checked), written)
        _check(Path(checked), kernels, files)
    bundle = build(dest / BUNDLE)
    _write(dest, {**written, "__init__.py": _init(kernels, files)})
    return bundle


def _require_name(dest: Path) -> None:
    """Raise SpecError for a name that Python cannot import, or that stands for a module which the package imports."""
    rule = "a package's folder is named as Python imports it"
    if not dest.name.isidentifier() or keyword.iskeyword(dest.name):
        hint = "a name of letters, digits and underscores, as my_ops"
        raise SpecError(rule, got=repr(dest.name), where=str(dest), hint=hint)
    if dest.name in sys.stdlib_module_names or dest.name in _IMPORTED:
        taken = f"{dest.name!r}, the name of a module that the package may import itself"
        raise SpecError(rule, got=taken, where=str(dest), hint=f"another name, as my_{dest.name}")


def _require_place(dest: Path) -> None:
    """Raise SpecError where writing to ``dest`` would change what is another's."""
    if not dest.exists():
        return
    init = dest / "__init__.py"
    there = sorted(path.name for path in dest.iterdir()) if dest.is_dir() else ["a file"]
    # a bundle alone is what a run leaves that ended amid its work
    if there in ([], [BUNDLE]) or (init.is_file() and _WRITTEN in init.read_text(encoding="utf-8", errors="replace")):
        return
    more = ", ..." if len(there) > _SHOWN else ""
    raise SpecError(
        "a standalone package is written to a new folder, or over one that --standalone wrote",
        got=", ".join(there[:_SHOWN]) + more,
        where=str(dest),
        hint="name another folder, or remove this one",
    )


def _write(folder: Path, files: Mapping[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def _init(kernels: Sequence[Kernel], files: Mapping[str, str]) -> str:
    lines = [f'_tileflow{Path(file).stem} = _tileflow_module("{module}", "{file}")' for module, file in files.items()]
    lines += [f"{k.__name__} = _tileflow{Path(files[_home(k)]).stem}.{k.__name__}" for k in kernels]
    names = [kernel.__name__ for kernel in kernels]
    title, modules = f"Kernels: {', '.join(names)}.", "\n".join(lines)
    return _INIT.format(title=title, written=_WRITTEN, modules=modules, names=names, bundle=BUNDLE)


def _home(kernel: Kernel) -> str:
    return kernel.name.partition(":")[0]


def _texts(kernels: Sequence[Kernel]) -> dict[str, str]:
    """Return the text of each module, by its name."""
    made: dict[str, _Text] = {}
    for kernel in kernels:
        module, _, path = kernel.name.partition(":")
        if not path.isidentifier():
            raise SpecError("a kernel of a package is a function of a module", got=kernel.name)
        made.setdefault(module, _Text(module)).need(path, kernel)
    return {module: text.whole() for module, text in made.items()}


def _check(dest: Path, kernels: Sequence[Kernel], files: Mapping[str, str]) -> None:
    """Raise SpecError where a kernel of the package differs from the original: its rows would not be found."""
    for kernel in kernels:
        spec = importlib.util.spec_from_file_location(_home(kernel), dest / files[_home(kernel)])
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found = getattr(module, kernel.__name__)
        if (found.name, found.semantic_hash) != (kernel.name, kernel.semantic_hash):
            raise SpecError(
                "a packaged kernel means what it does at home",
                got=f"another {kernel.name}",
                where=str(dest / files[_home(kernel)]),
                hint="report it with the kernel's module",
            )


class _Text:
    """The text of one module: what was asked for, and all that it reads in turn."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._held: dict[str, Any] = {}
        self._imports: list[str] = []
        self._constants: list[str] = []
        self._functions: list[str] = []
        self._annotations: set[str] = set()  # the names in them
        self._are_strings = False  # whether a kernel's module has its annotations unevaluated

    def whole(self) -> str:
        head = [f'"""From {self._module}."""', ""]
        if self._are_strings or self._annotations - self._held.keys() - vars(builtins).keys():
            head += ["from __future__ import annotations", ""]
        imports = ["import torch", *self._imports, f"from tileflow import kernel as {_KERNEL}"]
        parts = ["\n".join([*head, *dict.fromkeys(imports)]), "\n".join(self._constants), *self._functions]
        return "\n\n\n".join(filter(None, parts)) + "\n"

    def need(self, name: str, value: Any) -> None:
        """Add ``value`` under ``name``. Raises SpecError where it has no text."""
        if name in self._held:
            if self._held[name] is not value:
                raise SpecError(
                    "names mean one thing in all functions of a package's module",
                    got=name,
                    where=self._module,
                    hint="give one of the two another name",
                )
            return
        self._held[name] = value
        if isinstance(value, (Kernel, FunctionType)) and value.__name__ != name and not _is_of_library(value):
            raise self._refused(name, f"{value.__name__} under another name")
        if isinstance(value, Kernel):
            if type(value) is not Kernel:
                raise self._refused(name, f"a {type(value).__qualname__}")
            self._function(value.__wrapped__, is_kernel=True)
        elif isinstance(value, FunctionType) and not _is_of_library(value):
            self._function(value, is_kernel=False)
        elif (line := _import_of(name, value)) is not None:
            self._imports.append(line)
        elif (text := _literal(value)) is not None:
            self._constants.append(f"{name} = {text}")
        elif isinstance(value, ModuleType):
            raise self._refused(name, "a module", f"from {value.__name__} import ...: what the kernel reads of it")
        else:
            raise self._refused(name, f"a {type(value).__qualname__}")

    def _refused(self, name: str, what: str, hint: str = _HINT) -> SpecError:
        return SpecError(
            "a kernel of a package reads functions, constants and libraries",
            got=f"{name}, {what}",
            where=self._module,
            hint=hint,
        )

    def _function(self, fn: FunctionType, is_kernel: bool) -> None:
        if fn.__closure__:
            raise self._refused(fn.__name__, f"a closure over {', '.join(fn.__code__.co_freevars)}")
        source = function_source(fn)
        definition = source.tree
        # of the body what Python reads there: names of variables and parameters may be a module's own too
        reads = [name for code in codes_of(fn.__code__) for name in globals_read(code)]
        reads += _names(definition.args.defaults)
        reads += _names([default for default in definition.args.kw_defaults if default is not None])
        if not is_kernel and fn.__code__.co_firstlineno != definition.lineno:
            raise self._refused(fn.__name__, "a function with a decorator")
        for name in dict.fromkeys(reads):
            if name in fn.__globals__:
                self.need(name, fn.__globals__[name])
        self._are_strings |= is_kernel and bool(fn.__code__.co_flags & __future__.annotations.compiler_flag)
        for name in dict.fromkeys(_names(_annotations(definition))):
            self._annotations.add(name)
            value = fn.__globals__.get(name)
            if name not in self._held and (line := _import_of(name, value)) is not None:
                self._held[name] = value
                self._imports.append(line)
        self._functions.append("\n".join([*([f"@{_KERNEL}"] if is_kernel else []), *_lines(source)]))


def _lines(source: FunctionSource) -> Iterator[str]:
    """Yield the lines of a definition as they are at a module's margin: it may stand in an ``if`` or a ``try``. What
    begins within a string is the string's."""
    definition = source.tree
    assert definition.end_lineno is not None
    margin = source.lines[definition.lineno - 1][: definition.col_offset]
    inside = set[int]()
    for node in ast.walk(definition):
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes))):
            inside.update(range(node.lineno + 1, (node.end_lineno or node.lineno) + 1))
    for number in range(definition.lineno, definition.end_lineno + 1):
        line = source.lines[number - 1].rstrip("\n")
        # a comment, or a line that continues another, may begin left of the margin
        yield line if number in inside else line.removeprefix(margin) if line.startswith(margin) else line.lstrip()


def _is_of_library(value: Kernel | FunctionType) -> bool:
    return isinstance(value, FunctionType) and is_library(value.__module__)


def _names(nodes: Sequence[ast.AST]) -> Iterator[str]:
    return (inner.id for node in nodes for inner in ast.walk(node) if isinstance(inner, ast.Name))


def _annotations(definition: ast.FunctionDef) -> list[ast.AST]:
    """Return the annotations of parameters and of the result."""
    args = definition.args
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    return [a for a in (definition.returns, *(arg.annotation for arg in every if arg is not None)) if a is not None]


def _import_of(name: str, value: Any) -> str | None:
    """Return the statement that imports a library's module, function or class as ``name``; None for other values."""
    if isinstance(value, ModuleType):
        own = value.__name__
        return (f"import {own}" if own == name else f"import {own} as {name}") if is_library(own) else None
    is_special = type(value).__module__ == "typing"  # as Optional is
    if not is_special and not isinstance(value, (FunctionType, BuiltinFunctionType, type)):
        return None
    module, path = value.__module__, getattr(value, "__qualname__", "")
    if module is None or not is_library(module) or not path.isidentifier():
        return None
    if is_special and getattr(sys.modules[module], path, None) is not value:
        return None
    return f"from {module} import {path} as {name}"


def _literal(value: Any) -> str | None:
    """Return the text of a constant."""
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if type(value) in _PLAIN and not isinstance(value, Enum):
        return repr(value)
    if isinstance(value, _SETTINGS):
        return repr(value)
    if isinstance(value, torch.device):
        return f"torch.{value!r}"
    if type(value) in (tuple, list):
        items = [_literal(item) for item in value]
        if any(item is None for item in items):
            return None
        inside = "".join(f"{item}, " for item in items)
        return f"({inside})" if type(value) is tuple else f"[{inside}]"
    if type(value) is dict:
        pairs = [(_literal(key), _literal(item)) for key, item in value.items()]
        known = all(key is not None and item is not None for key, item in pairs)
        return f"{{{', '.join(f'{key}: {item}' for key, item in pairs)}}}" if known else None
    return None
