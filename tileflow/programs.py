"""Exported programs in other processes: what ``torch.export.load`` must find registered before it reads a file.

A saved program names the operators that it calls. They are registered where a kernel's call is traced; a process that
only loads the program has traced none. What it needs to know of each is text beside the program, in the file's own
``extra_files``::

    torch.export.save(program, "model.pt2", extra_files=tileflow.saved_operators(program))
    ...
    tileflow.load_operators("model.pt2")  # imports the modules of the kernels
    program = torch.export.load("model.pt2")

A package that AOTInductor makes of the program has no such files: the text is in one beside it, and loaded first.

No compiler is needed for the second part: the calls of an operator that was loaded are served as any are. A compiler
is shown the Triton functions that the program was exported with, or nothing: what it makes is kept on disk under the
operator's name, which says those.
"""

from __future__ import annotations

import importlib
import json
import os
import zipfile
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from .api import load_kernel, operators_of
from .errors import CallError, TileflowError
from .locks import cached_property
from .operators import HERE, MODULES, NAMESPACE, Operator, Subject, define, defined
from .runtime.argtree import Argument, Constant, Inner, Leaf, MappingShell, SequenceShell, leaves_of
from .serve import may_compile

if TYPE_CHECKING:
    from .library import Operators

FILE = "tileflow_operators.json"
_BESIDE = (
    "a package of AOTInductor holds no operators: write the text of tileflow.saved_operators(program) to a file beside "
    "it, and load that"
)
_VERSION = 1
_SEQUENCES: dict[str, type] = {"tuple": tuple, "list": list, "size": torch.Size}
_PLAIN: dict[str, type] = {"bool": bool, "int": int, "float": float, "str": str}
_NAMED: dict[str, type] = {
    "dtype": torch.dtype,
    "layout": torch.layout,
    "memory_format": torch.memory_format,
    "device": torch.device,
}


def saved_operators(program: torch.export.ExportedProgram) -> dict[str, str]:
    """What another process must know of the kernels that ``program`` calls: the ``extra_files`` to save it with.

    Raises CallError for a kernel that another process cannot import, and for one whose arguments are more than tensors,
    numbers, strings, dtypes and tuples, lists and dictionaries of them.
    """
    if not isinstance(program, torch.export.ExportedProgram):
        raise CallError(
            "operators are saved of what torch.export.export returned",
            got=type(program).__name__,
            hint="pass the program itself, not its module()",
        )
    known = defined()
    names = sorted({*_called(program.graph_module)})
    if missing := [name for name in names if name not in known and name not in MODULES]:
        raise CallError(
            "a program's kernels were traced, or loaded, by the process that saves it",
            got=missing[0],
            hint="export it here, or call tileflow.load_operators first",
        )
    found = [_declaration(n, known[n].operator) if n in known else {"name": n, "module": MODULES[n]} for n in names]
    return {FILE: json.dumps({"version": _VERSION, "operators": found})}


def load_operators(file: str | os.PathLike[str] | Mapping[str, str]) -> tuple[str, ...]:
    """Register the operators that a saved program calls, and import the modules of their kernels; their names.

    ``file``: the program's file, one with the text of :func:`saved_operators`, or what that returned. Raises CallError
    where a kernel is not what it was when the program was exported, or is not here, and where there is no such file.
    """
    text = _given(file)
    try:
        found = json.loads(text)
        declarations = found["operators"]
        if found["version"] != _VERSION:
            raise CallError(
                f"a file of operators must be of version {_VERSION}",
                got=found["version"],
                hint="upgrade tileflow, or export the program again",
            )
        operators = [None if "module" in each else _operator(each) for each in declarations]
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise CallError(
            "a file of operators is what tileflow.saved_operators wrote",
            got=f"{error!r}",
            hint="export the program again",
        ) from error
    names = tuple(str(declaration["name"]) for declaration in declarations)
    for name, operator, declaration in zip(names, operators, declarations, strict=True):
        if operator is None:
            _import(str(declaration["module"]), name)
            continue
        is_visible = bool(operator.shown) and may_compile("default")
        define(operator, shown=_Again(operator) if is_visible else None, loaded_as=name)
    return names


def _import(module: str, name: str) -> None:
    """Import the module that registers an operator of its own. Raises CallError where it is not here, or does not."""
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise _not_here(name, module, error) from error
    if MODULES.get(name) != module:
        raise _not_here(name, module, "it registers no such operator")


def _not_here(name: str, where: str, why: object) -> CallError:
    return CallError(
        "a saved program's kernels are here",
        got=f"{name} of {where}: {why}",
        hint="install the package that declares it, or set PYTHONPATH",
    )


class _Again:
    """A loaded operator's call as a compiler sees it: the kernel's own in this process, where that is what the program
    was exported with; else an opaque operator."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._opaque = replace(operator, rule="", shown="")

    @cached_property
    def _own(self) -> Operators:
        return operators_of(load_kernel(self._operator.kernel.name))

    def __call__(self, leaves: Sequence[Any]) -> Any:
        found, call = self._own.find(self._operator.template, leaves)
        is_same = found.shown == self._operator.shown
        return (call if is_same else define(self._opaque))(*leaves)


def _given(file: object) -> str:
    """The text of what :func:`load_operators` was given. Raises CallError where it has none."""
    if isinstance(file, Mapping) and FILE in file:
        return str(file[FILE])
    if not isinstance(file, (str, os.PathLike)):
        raise CallError(
            "operators are loaded from a path, or from what tileflow.saved_operators returned",
            got=f"{type(file).__name__} without {FILE}" if isinstance(file, Mapping) else type(file).__name__,
            hint="write a program that is in memory to a file, or keep what saved_operators returned beside it",
        )
    try:
        return _text_in(Path(file))
    except (OSError, UnicodeDecodeError, zipfile.BadZipFile) as error:
        raise CallError(
            "a file of operators must be readable",
            got=f"{type(error).__name__}: {error}",
            where=str(file),
            hint="name the program's file, or one with the text of tileflow.saved_operators",
        ) from error


def _text_in(path: Path) -> str:
    """The text in a program's file, or in a file of its own. Raises CallError where there is none."""
    if not zipfile.is_zipfile(path):
        return path.read_text()
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        for name in names:
            if name.rpartition("/")[2] == FILE:
                return archive.read(name).decode()
    raise CallError(
        "a saved program says which kernels it calls",
        got=f"no {FILE} in {path}",
        hint=_BESIDE
        if any("/aotinductor/" in name for name in names)
        else "torch.export.save(program, path, extra_files=tileflow.saved_operators(program))",
    )


def _called(graph_module: torch.fx.GraphModule) -> Iterator[str]:
    """The names of our operators in a graph and in those inside it."""
    for module in graph_module.modules():
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
            namespace, _, name = str(node.target).partition(".")
            if namespace == NAMESPACE:
                yield name.removesuffix(".default")


# ---- an operator as data ------------------------------------------------------------------------------------------


def _declaration(name: str, operator: Operator) -> dict[str, Any]:
    kernel = operator.kernel.name
    module, _, path = kernel.partition(":")
    if module == "__main__" or "<" in path:
        raise CallError(
            "a saved program's kernels are found in modules that other processes import",
            got=kernel,
            hint="move it out of the script or the function into a module",
        )
    return {
        "name": name,
        "kernel": kernel,
        "template": _template_data(operator.template, kernel),
        "results": _template_data(operator.results, kernel),
        "stored": sorted(operator.stored),
        "settings": operator.settings,
        "rule": operator.rule,
        "shown": operator.shown,
    }


def _operator(declaration: Mapping[str, Any]) -> Operator:
    """The operator of a declaration. Raises CallError where the kernel is not here, or is another one now."""
    name, ref = str(declaration["name"]), str(declaration["kernel"])
    kernel = _kernel(ref, name)
    indices = iter(range(1 << 20))
    template = _template(declaration["template"], indices)
    results = _template(declaration["results"], iter(range(1 << 20)))
    operator = Operator(
        kernel,
        template,
        results,
        frozenset(map(int, declaration["stored"])),
        str(declaration["settings"]),
        str(declaration["rule"]),
        str(declaration["shown"]),
    )
    if any(leaf.type != "Tensor" for leaf in leaves_of(template) if leaf.index in operator.stored):
        raise ValueError(f"{name} stores into what is no tensor")
    if operator.name != name.removesuffix(HERE):
        raise CallError(
            "a saved program's kernel is the one that it was exported with",
            got=f"another {ref} than that of {name}",
            hint="import the module as it was, or export the program again",
        )
    return operator


def _kernel(ref: str, name: str) -> Subject:
    try:
        return load_kernel(ref)
    except TileflowError as error:
        raise _not_here(name, ref, error) from error


def _template_data(template: Hashable, where: str) -> Any:
    match template:
        case Leaf(_, kind, path):
            return ["leaf", kind, path]
        case Argument(index):
            return ["argument", index]
        case Constant(None):
            return ["none"]
        case Constant(value) if type(value) in _PLAIN.values():
            return [type(value).__name__, repr(value) if isinstance(value, float) else value]
        case Constant(value) if (word := _word_of(value)) is not None:
            return [word, str(value)]
        case Inner(SequenceShell(kind), parts) if kind in _SEQUENCES.values():
            (word,) = (word for word, known in _SEQUENCES.items() if known is kind)
            return [word, [_template_data(part, where) for part in parts]]
        case Inner(MappingShell(kind, keys), parts) if kind is dict and all(type(key) is str for key in keys):
            return ["dict", list(keys), [_template_data(part, where) for part in parts]]
    what = template.shell if isinstance(template, Inner) else template
    raise CallError(
        "a saved program's kernels take tensors, numbers, strings, dtypes, and tuples, lists and dictionaries of them",
        got=str(what),
        where=where,
        hint="pass what the kernel needs of it; functions belong into the kernel",
    )


def _word_of(value: Any) -> str | None:
    return next((word for word, kind in _NAMED.items() if isinstance(value, kind)), None)


def _template(data: Sequence[Any], indices: Iterator[int]) -> Hashable:
    """The inverse of :func:`_template_data`. Raises ValueError, TypeError, IndexError."""
    word, rest = data[0], data[1:]
    if word == "leaf":
        kind, path = rest
        if kind not in ("Tensor", "SymInt", "float"):
            raise ValueError(f"a leaf of type {kind!r}")
        return Leaf(next(indices), kind, str(path))
    if word == "argument":
        return Argument(int(rest[0]))
    if word == "none":
        return Constant(None, type(None))
    if word in _PLAIN:
        return Constant(_PLAIN[word](rest[0]), _PLAIN[word])
    if word in _NAMED:
        return Constant(_named(word, str(rest[0])), _NAMED[word])
    if word in _SEQUENCES:
        parts = tuple(_template(part, indices) for part in rest[0])
        return Inner(SequenceShell(_SEQUENCES[word], len(parts)), parts)
    if word == "dict":
        keys, values = rest
        return Inner(MappingShell(dict, tuple(map(str, keys))), tuple(_template(part, indices) for part in values))
    raise ValueError(f"a template of kind {word!r}")


def _named(word: str, text: str) -> Any:
    """A device, or one of torch's constants by its name."""
    if word == "device":
        return torch.device(text)
    found = getattr(torch, text.removeprefix("torch."), None)
    if not isinstance(found, _NAMED[word]):
        raise ValueError(f"{word} {text!r}")
    return found
