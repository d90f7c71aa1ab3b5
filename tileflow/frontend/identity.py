"""Identities: what graphs hold fixed of a kernel's call, as text that is the same in every process.

Compilers keep graphs on disk and find them again in other processes, where the names in them must mean the same, or
nothing. A name is therefore a digest of contents: nothing in it depends on addresses, on hashes that differ from run to
run, or on the order in which a process happens to meet its kernels.

Some contents have no text: the tensors and objects that a function reads as globals, classes that a function makes. An
identity with such a part is random, so that no other process finds it, and no other content of this process either.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Hashable
from enum import Enum
from types import BuiltinFunctionType
from typing import Any

import torch

from ..errors import CallError, KernelError
from ..runtime.argtree import (
    Argument,
    Constant,
    FunctionShell,
    Inner,
    Leaf,
    MappingShell,
    PartialShell,
    RecordShell,
    SequenceShell,
    Shell,
    is_code,
)
from ..runtime.objects import MethodShell, ObjectShell
from .meaning import code_hash, digest, serialise_value

_PLAIN = (bool, int, float, complex, str, bytes)
_SETTINGS = (torch.dtype, torch.device, torch.layout, torch.memory_format)


def unique() -> str:
    """An identity that nothing else has, in any process."""
    return f"(unique {secrets.token_hex(16)})"


def callable_identity(value: Callable[..., Any]) -> str:
    """The identity of a callable of any kind: 64 hex digits."""
    try:
        text, is_whole = serialise_value(value)
    except KernelError:  # code that cannot be read is refused where it is lowered, which names the place
        return digest(unique())
    return digest(text if is_whole else text + unique())


def class_identity(kind: type) -> str:
    """A class counts by its name. One that a function made is as many classes as calls of the function."""
    name = f"{kind.__module__}.{kind.__qualname__}"
    return name + unique() if "<locals>" in kind.__qualname__ else name


def template_identity(template: Hashable, where: str) -> str:
    """The identity of a template of arguments (see :mod:`tileflow.runtime.argtree`), all but the values of its leaves.

    Raises CallError, which names the kernel ``where``, for a constant that is an arbitrary object.
    """
    match template:
        case Leaf(index, kind, path):
            return f"(leaf {index} {kind} {path})"
        case Argument(index):
            return f"(argument {index})"
        case Constant(value):
            return constant_identity(value, where)
        case Inner(shell, parts):
            inner = " ".join(template_identity(part, where) for part in parts)
            return f"({_shell_identity(shell, parts, where)} {inner})"
    raise AssertionError(template)


def _shell_identity(shell: Shell, parts: tuple[Hashable, ...], where: str) -> str:
    match shell:
        case SequenceShell(kind, count):
            return f"sequence {class_identity(kind)} {count}"
        case MappingShell(kind, keys):
            return f"mapping {class_identity(kind)} {constant_identity(keys, where)}"
        case RecordShell(kind, names):
            return f"record {class_identity(kind)} {' '.join(names)}"
        case MethodShell():
            return "method"
        case ObjectShell(kind, names, registered):
            return f"object {_object_identity(shell, where)} {' '.join(names)} {registered}"
        case PartialShell(count, words):
            return f"partial {count} {' '.join(words)}"
        case FunctionShell():
            held = (shell.cells, shell.itself, shell.defaults, shell.keywords)
            return f"function {_code_identity(shell, parts)} {constant_identity(held, where)}"
    raise AssertionError(shell)


def _object_identity(shell: ObjectShell, where: str) -> str:
    """An object's class with its methods, and its private numbers. Nothing else has one with what no kernel takes."""
    fixed = [(name, held) for name, held in shell.fixed if isinstance(held, tuple)]
    own = [f"{name}={of.__name__} {text}" for name, (of, text) in fixed]
    unlike = unique() if len(fixed) < len(shell.fixed) else ""
    return f"{class_identity(shell.type)} {code_hash(shell.type)} {' '.join(own)} {' '.join(shell.hooks)}{unlike}"


def _code_identity(shell: FunctionShell, parts: tuple[Hashable, ...]) -> str:
    """The function's text and what it reads as globals. Its cells and defaults are told by ``parts``, and are left out:
    all but modules and classes, into which its text may reach."""
    held = [part.value if isinstance(part, Constant) and is_code(part.value) else "" for part in parts]
    return callable_identity(shell.make(held))


def constant_identity(value: Any, where: str) -> str:
    """The identity of a constant: it tells True, 1, 1.0 and "1" apart. Raises CallError for an arbitrary object."""
    kind = type(value)
    if isinstance(value, Enum):
        return f"(enum {class_identity(kind)}.{value.name} {_enum_value(value, where)})"
    if kind in (tuple, list, frozenset):
        items = [constant_identity(item, where) for item in value]
        return f"({kind.__name__} {' '.join(sorted(items) if kind is frozenset else items)})"
    if isinstance(value, BuiltinFunctionType):
        return _builtin_identity(value)
    if isinstance(value, type):
        return f"(class {class_identity(value)})"
    if is_code(value):
        return f"(module {value.__name__})"
    if isinstance(value, _SETTINGS):
        return f"({kind.__name__} {value})"
    if value is None or isinstance(value, _PLAIN):
        return f"({class_identity(kind)} {serialise_value(value)[0]})"
    raise CallError(
        "what an operator holds fixed has an identity in every process: a number, bool, string, None, dtype, enum or "
        "function, or a container of them",
        got=f"a {kind.__qualname__}",
        where=where,
        hint="pass what the kernel needs of it: its tensors and its numbers",
    )


def _enum_value(value: Enum, where: str) -> str:
    try:
        return constant_identity(value.value, where)
    except CallError:
        return unique()


def _builtin_identity(value: BuiltinFunctionType) -> str:
    """The identity of a built-in: its name; unique for a method of some object."""
    owner = value.__self__
    is_free = owner is None or is_code(owner)
    return f"(builtin {value.__module__}.{value.__qualname__} {'' if is_free else unique()})"
