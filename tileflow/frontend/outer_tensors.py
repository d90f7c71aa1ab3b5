"""Tensors that functions of device code read as globals of their module: captured by path, as the kernel's own are.

A path leads to a module's names from the kernel: they are the kernel's own globals, or those of a function that it
captures (``helper.global:BIAS``), or attributes of a module or a class that it reads (``constants.attr:BIAS``). A
launch reads them there each time, so that what is bound there by then is what it computes with.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import Enum
from types import FunctionType, MethodType, ModuleType
from typing import Any, cast

import torch

from ..errors import CallError
from ..language.code_objects import codes_of, globals_read
from ..runtime.argtree import tensors
from ..runtime.libraries import is_library
from ..runtime.paths import may_be_read
from .user_code import is_user

Capture = Callable[[Any, str], Any]


class OuterTensors:
    """Finds the paths of one launch to what functions read besides what they are passed.

    ``capture``: what device code sees of a value at a path. ``kernel``: the user's function. ``local``: the variables
    that host code binds, by which a launch finds these in place of globals.
    """

    def __init__(self, capture: Capture, kernel: FunctionType | None, local: Collection[str]) -> None:
        self._capture = capture
        self._kernel = kernel.__globals__ if kernel is not None else {}
        code = None if kernel is None else kernel.__code__
        own = () if code is None else (*code.co_varnames, *code.co_cellvars, *code.co_freevars)
        self._hidden = frozenset((*local, *own))
        self._ways: dict[int, str] = {}  # by the identity of a module's names: the path to one of them without the name
        self._held: list[Any] = []  # keeps the identities

    def met(self, value: Any, path: str) -> None:
        """A function or a module stands at ``path``: so do the names of its module."""
        names, step = (vars(value), "attr") if isinstance(value, ModuleType) else (value.__globals__, "global")
        if id(names) not in self._ways and may_be_read(path):
            self._ways[id(names)] = f"{path}.{step}:"
            self._held.append(names)

    def read_by(self, function: FunctionType) -> dict[str, Any]:
        """What device code sees of those names of its module that ``function``, or one inside it, reads and that lead
        to tensors. Names that no path leads to are left out."""
        names = function.__globals__
        found: dict[str, Any] = {}
        for name in {name: None for code in codes_of(function.__code__) for name in globals_read(code)}:
            value = names.get(name)
            path = self._path(names, name)
            if path is None or value is None:
                continue
            if isinstance(value, FunctionType) and is_user(value):
                self.met(value, path)
            if leads_to_tensors(value):
                found[name] = self._capture(value, path)
        return found

    def _path(self, names: Mapping[str, Any], name: str) -> str | None:
        if names is self._kernel and name not in self._hidden:
            return name
        way = self._ways.get(id(names))
        is_readable = way is not None and (way.endswith(".global:") or not name.startswith("_"))
        return f"{way}{name}" if is_readable else None


class CapturedModule(ModuleType):
    """Stands for a module of the author's: its tensors are captured as device code asks for them, its functions are
    known by their paths, all else is the module's own."""

    def __init__(self, module: ModuleType, path: str, outer: OuterTensors, capture: Capture) -> None:
        super().__init__(module.__name__)
        for name, held in zip(_SLOTS, (module, path, outer, capture), strict=True):
            object.__setattr__(self, name, held)

    def __getattribute__(self, name: str) -> Any:
        return _attribute(self, name)


class CapturedClass:
    """Stands for a class of the author's that holds tensors, as a module may. It is called, and asked which objects are
    its own, as the class is."""

    __slots__ = ("_capture", "_outer", "_owner", "_path")

    def __init__(self, kind: type, path: str, outer: OuterTensors, capture: Capture) -> None:
        for name, held in zip(_SLOTS, (kind, path, outer, capture), strict=True):
            object.__setattr__(self, name, held)

    def __getattribute__(self, name: str) -> Any:
        return _attribute(self, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """An object of the class."""
        return object.__getattribute__(self, "_owner")(*args, **kwargs)

    def __instancecheck__(self, value: object) -> bool:
        """Whether an object is of the class."""
        return isinstance(value, object.__getattribute__(self, "_owner"))

    def __subclasscheck__(self, kind: type) -> bool:
        """Whether a class is one below the class."""
        return issubclass(kind, object.__getattribute__(self, "_owner"))

    def __eq__(self, other: object) -> bool:
        own = object.__getattribute__(self, "_owner")
        return other is self or other is own

    def __hash__(self) -> int:
        return hash(object.__getattribute__(self, "_owner"))


_SLOTS = ("_owner", "_path", "_outer", "_capture")


def _attribute(stand_in: CapturedModule | CapturedClass, name: str) -> Any:
    owner, path, outer, capture = (object.__getattribute__(stand_in, slot) for slot in _SLOTS)
    found = getattr(owner, name)
    if name.startswith("_"):
        return found
    path = f"{path}.attr:{name}"
    if isinstance(found, FunctionType) and is_user(found):
        outer.met(found, path)
    if isinstance(found, MethodType) and found.__self__ is owner:  # of a class
        return MethodType(found.__func__, stand_in)
    return capture(found, path) if leads_to_tensors(found) else found


def leads_to_tensors(value: Any) -> bool:
    """Whether it is a tensor, holds one, or is a module of the author's, or a class that holds one."""
    if isinstance(value, ModuleType):
        return not is_library(value.__name__) and not isinstance(value, CapturedModule)
    if isinstance(value, type):
        return holds_tensors(value)
    try:
        return any(True for _ in tensors([value]))
    except CallError:  # an object that holds itself: what it leads to is refused where it is read
        return False


def holds_tensors(kind: type) -> bool:
    """Whether a class of the author's has an attribute that is a tensor, or a container of some."""
    own = [vars(base) for base in kind.__mro__ if is_user(base) and not issubclass(kind, Enum)]
    return any(
        leads_to_tensors(value)
        for held in own
        for name, value in held.items()
        if not name.startswith("_") and isinstance(value, (torch.Tensor, list, tuple, dict))
    )


def over_names(rewritten: Callable[..., Any], seen: Mapping[str, Any]) -> Callable[..., Any]:
    """A rewritten function that finds what is ``seen`` under these names of its module."""
    fn = cast(FunctionType, rewritten)
    made = FunctionType(fn.__code__, {**fn.__globals__, **seen}, fn.__name__, fn.__defaults__, fn.__closure__)
    made.__kwdefaults__ = fn.__kwdefaults__
    made.__qualname__, made.__module__, made.__doc__ = fn.__qualname__, fn.__module__, fn.__doc__
    made.__dict__.update(fn.__dict__)
    return made
