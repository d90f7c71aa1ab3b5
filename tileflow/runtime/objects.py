"""Objects as containers of their attributes: those of a user's classes, torch's modules, and bound methods.

What a kernel can read of an object is a part of the call: its tensors, its numbers, its constants, and the objects that
it holds. The rest (a lock, a logger, a set) is fixed: it counts by identity, and device code may not read it. No path
leads to a private number, so that one is fixed too, by its value, and so are those of torch's own modules (a slope, a
stride): their code decides by them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import field
from enum import Enum
from functools import cache
from types import BuiltinFunctionType, FunctionType, MemberDescriptorType, MethodType
from typing import Any

import torch

from ..lazy_dataclass import dataclass
from .libraries import is_library
from .paths import Step

Module = torch.nn.Module
REGISTERED = ("_parameters", "_buffers", "_modules")  # of a module: dictionaries of what it holds by name
HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
SETTINGS = (Enum, torch.device, torch.layout, torch.memory_format, BuiltinFunctionType)

_PLAIN = (bool, int, float, str, torch.dtype, type(None))
_BASES = frozenset({"abc", "typing", "typing_extensions", "collections.abc"})  # their classes give objects no state
_GENERATED = frozenset(
    f"__{name}__"
    for name in ("init", "repr", "eq", "lt", "le", "gt", "ge", "hash", "setattr", "delattr", "getstate", "setstate")
)


@dataclass(frozen=True, slots=True)
class MethodShell:
    """A method bound to an object: its parts are the function and the object."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps to the function and to the object."""
        return (("attr", "__func__"), ("attr", "__self__"))

    def make(self, parts: Sequence[Any]) -> Any:
        """A method of the two parts."""
        function, owner = parts
        return MethodType(function, owner)


class Same:
    """An object that counts by identity. It is kept alive, so that no other one takes its place."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


@dataclass(frozen=True, slots=True)
class ObjectShell:
    """An object of ``type`` without its attributes ``names``.

    ``registered``: of a module, which of them are its parameters, buffers and modules, by the dictionary that has them.
    ``fixed``: the other attributes. ``hooks``: kinds of hooks that a module has. ``forward``: what a call of a module
    runs, which may be generated anew. ``state``: all attributes of a representative.
    """

    type: type
    names: tuple[str, ...]
    registered: tuple[tuple[str, ...], ...]
    fixed: tuple[tuple[str, Hashable], ...]
    hooks: tuple[str, ...]
    forward: Any
    state: dict[str, Any] = field(compare=False, repr=False)

    @property
    def steps(self) -> tuple[Step, ...]:
        """One step for each attribute."""
        return tuple(("attr", name) for name in self.names)

    def make(self, parts: Sequence[Any]) -> Any:
        """Another object of the class with these attributes; its constructor is not called."""
        made: Any = object.__new__(self.type)
        held = dict(zip(self.names, parts, strict=True))
        groups = dict(zip(REGISTERED, self.registered, strict=True)) if self.registered else {}
        inside = {name for group in groups.values() for name in group}
        state = self.state | {name: value for name, value in held.items() if name not in inside}
        state |= {kind: {name: held[name] for name in group} for kind, group in groups.items()}
        for name, value in state.items():
            object.__setattr__(made, name, value)
        return made


def fast_reads(shell: ObjectShell, name: str, known: Callable[[Any], str]) -> tuple[list[str], list[str]] | None:
    """Source texts for an object called ``name``: tests that it has this shell, and what reads each part. ``known``
    gives a name to a value. None where an object of the class may have fewer slots than another."""
    kind, own = shell.type, slots(shell.type)
    if any(slot not in shell.state for slot in own):
        return None
    reads = {slot: f"{name}.{slot}" for slot in own}
    reads |= {attribute: f"{name}.__dict__[{attribute!r}]" for attribute in shell.state if attribute not in own}
    tests = []
    if kind.__dictoffset__:  # objects of the class may have more than slots
        others = [attribute for attribute in shell.state if attribute not in own]
        tests.append(f"[*{name}.__dict__] == {known(others)}")
    for group, names in zip(REGISTERED, shell.registered, strict=False):
        tests.append(f"[*{name}.{group}] == {known([*names])}")
        reads |= {part: f"{name}.{group}[{part!r}]" for part in names}
    if shell.registered:
        tests += [f"{'' if hook in shell.hooks else 'not '}{name}.{hook}" for hook in HOOKS]
        tests.append(f"type({name}).forward.__code__ is {known(shell.forward)}")
    for attribute, held in shell.fixed:
        read = reads[attribute]
        if isinstance(held, Same):
            tests.append(f"{read} is {known(held.value)}")
        else:
            tests.append(f"(type({read}), repr({read})) == {known(held)}")
    return tests, [reads[attribute] for attribute in shell.names]


def is_object(kind: Any) -> bool:
    """Whether objects of the type are containers of attributes: of torch's modules and of plain classes of users."""
    if issubclass(kind, Module):
        return True
    if issubclass(kind, (type, Enum)) or is_library(kind.__module__) or kind.__module__ == "builtins":
        return False
    bases = {base.__module__ for base in kind.__mro__[1:-1]} - _BASES
    return not any(name == "builtins" or is_library(name) for name in bases)


def open_object(value: Any, is_container: Callable[[Any], bool]) -> tuple[ObjectShell, tuple[Any, ...]]:
    """The shell of an object and its parts. ``is_container``: whether a value has a shell."""
    kind: Any = type(value)
    state = attributes_of(value)
    registered: tuple[tuple[str, ...], ...] = ()
    hooks: tuple[str, ...] = ()
    parts: dict[str, Any] = {}
    ignored = frozenset[str]()
    if issubclass(kind, Module):
        held = [state.get(name) or {} for name in REGISTERED]
        registered = tuple(map(tuple, held))
        hooks = tuple(name for name in HOOKS if state.get(name))
        parts = {name: part for group in held for name, part in group.items()}
        ignored = internal_names(kind)
    fixed: list[tuple[str, Hashable]] = []
    for name, attribute in state.items():
        if name in ignored:
            continue
        if is_fixed(kind, name, attribute):
            fixed.append((name, (type(attribute), repr(attribute))))
        elif is_part(attribute, is_container):
            parts[name] = attribute
        else:
            fixed.append((name, Same(attribute)))
    forward = getattr(getattr(kind, "forward", None), "__code__", None) if registered else None
    return ObjectShell(kind, tuple(parts), registered, tuple(fixed), hooks, forward, state), tuple(parts.values())


def is_fixed(kind: type, name: str, attribute: Any) -> bool:
    """Whether an attribute of an object of the class is a number that counts by its value."""
    return type(attribute) in (int, float) and (name.startswith("_") or is_library(kind.__module__))


def is_part(value: Any, is_container: Callable[[Any], bool]) -> bool:
    """Whether a kernel can be given the value."""
    return type(value) in _PLAIN or isinstance(value, (torch.Tensor, *SETTINGS)) or is_container(value)


def has_methods(kind: type) -> bool:
    """Whether a user's class has methods of its own, more than ``dataclass`` makes."""
    return any(
        isinstance(held, FunctionType) and name not in _GENERATED
        for owner in kind.__mro__
        if not is_library(owner.__module__)
        for name, held in vars(owner).items()
    )


def attributes_of(value: Any) -> dict[str, Any]:
    """What an object itself holds, by name: slots first."""
    found: dict[str, Any] = {}
    kind: Any = type(value)
    for name in slots(kind):
        try:
            found[name] = object.__getattribute__(value, name)
        except AttributeError:  # not set
            continue
    return found | getattr(value, "__dict__", {})


@cache
def slots(kind: type) -> tuple[str, ...]:
    """The attributes of a class's objects that have slots."""

    def named() -> Iterator[str]:
        for owner in reversed(kind.__mro__):
            yield from (name for name, held in vars(owner).items() if isinstance(held, MemberDescriptorType))

    return tuple(named())


def internal_names(kind: type) -> frozenset[str]:
    """What torch itself keeps in modules of a class, all but whether they are being trained."""
    return _internals(issubclass(kind, torch.fx.GraphModule))


@cache
def _internals(is_graph: bool) -> frozenset[str]:
    empty = torch.fx.GraphModule(Module(), torch.fx.Graph()) if is_graph else Module()
    return frozenset(vars(empty)) - {"training"}
