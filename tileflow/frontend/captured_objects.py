"""Objects that a region captures: their attributes are captured one by one, as device code asks for them."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from types import FunctionType, MethodType
from typing import Any, NoReturn

import torch

from ..errors import MissingAttribute, TraceError
from ..runtime.argtree import is_container
from ..runtime.libraries import is_library
from ..runtime.objects import HOOKS, REGISTERED, attributes_of, is_fixed, is_part
from .values import TensorRef

Capture = Callable[[Any, str], Any]
Call = Callable[..., Any]
_CONSTANT = (bool, str, FunctionType, type(None))
_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "matmul", "and", "or", "xor", "lshift",
           "rshift")  # fmt: skip
_ORDER = ("lt", "le", "gt", "ge")
_ALONE = ("neg", "pos", "abs", "invert", "int", "float", "index", "complex", "round", "floor", "ceil", "trunc")


class CapturedObject:
    """Stands for an object at ``path``. Its methods see it as ``self``; a private attribute is a constant only.

    ``baked``: whether a private number is one, because a change of it is seen. ``given``: whether it is what the call
    passed, whose key knows the attributes that are parts of arguments, and no others. ``call``: what device code calls
    functions by, which the operators of the object's class are too.
    """

    __slots__ = ("_baked", "_call", "_capture", "_given", "_object", "_path")

    def __init__(
        self, value: Any, path: str, capture: Capture, call: Call, baked: bool = False, given: bool = False
    ) -> None:
        for name, held in zip(CapturedObject.__slots__, (baked, call, capture, given, value, path), strict=True):
            object.__setattr__(self, name, held)

    def __getattr__(self, name: str) -> Any:
        owner, path = self._object, f"{self._path}.attr:{name}"
        if name in REGISTERED and isinstance(owner, torch.nn.Module):  # which torch's own code goes through
            return {key: getattr(self, key) for key in getattr(owner, name)}
        try:
            found = getattr(owner, name)
        except AttributeError as error:
            raise MissingAttribute("a captured object has the attribute", got=f"{self._path}.{name}") from error
        if isinstance(found, MethodType) and found.__self__ is owner:
            return MethodType(found.__func__, self)
        if self._given and name in attributes_of(owner) and not is_part(found, is_container):
            raise TraceError(
                "the attributes of an object that a kernel is passed are tensors, numbers, constants and objects of "
                "such",
                got=f"{self._path}.{name} of type {type(found).__name__}",
                hint="keep what the kernel needs of it in attributes of its own: its tensors and its numbers",
            )
        if self._baked and is_fixed(type(owner), name, found):
            return found
        if name.startswith("_") and not isinstance(found, _CONSTANT):
            raise TraceError(
                "the values of a captured object are in its public attributes",
                got=f"{self._path}.{name}",
                hint=f"name it {name.lstrip('_')}",
            )
        made = self._capture(found, path)
        if isinstance(made, TensorRef) and callable(owner):  # its code is torch's, where a tensor is all of it
            made.is_whole = True
        return made

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise TraceError(
            "device code changes no attribute of an object",
            got=f"{self._path}.{name} = ...",
            hint="keep it in a variable, or store it into a tensor",
        )

    def __delattr__(self, name: str) -> NoReturn:
        self.__setattr__(name, None)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """For ``isinstance`` in device code."""
        return type(self._object)

    def _special(self, name: str, *args: Any) -> Any:
        """What Python asks of the object's class."""
        method = getattr(type(self._object), name, None)
        if method is None:
            raise TypeError(f"{type(self._object).__name__!r} object has no {name}, at {self._path}")
        return method(self, *args)

    def _operator(self, name: str, *args: Any) -> Any:
        """What an operator of the object gives: its text is device code, as that of its other methods is."""
        method = getattr(type(self._object), name, None)
        if not isinstance(method, FunctionType) or not linecache.getlines(method.__code__.co_filename):
            return self._special(name, *args)  # none, or one without a text, as a dataclass's __eq__
        return self._call(MethodType(method, self), *args)

    def __iter__(self) -> Iterator[Any]:
        return self._special("__iter__")  # type: ignore[no-any-return]

    def __len__(self) -> int:
        return self._operator("__len__")  # type: ignore[no-any-return]

    def __getitem__(self, index: Any) -> Any:
        return self._operator("__getitem__", index)

    def __contains__(self, item: Any) -> bool:
        return self._operator("__contains__", item)  # type: ignore[no-any-return]

    def __eq__(self, other: object) -> Any:
        """What the object's class says. Raises TraceError where it says nothing, so that it is whether both are one."""
        asked: Any = type(self._object).__eq__
        if asked is object.__eq__:
            return is_one(self, other)
        return self._operator("__eq__", other)

    def __hash__(self) -> int:
        """Raises TraceError: a dictionary or a set would look for what stands for the object."""
        raise TraceError(
            "Python's dictionaries and sets in device code are of constants",
            got=f"the object {self._path}",
            hint="look it up in host code, or by a name that the object has: table[x.name]",
        )

    def __repr__(self) -> str:
        asked: Any = type(self._object).__repr__
        if asked is object.__repr__ or is_library(asked.__module__):  # an address, or all that torch's module holds
            return f"{self._path} of class {type(self._object).__name__}"
        return self._special("__repr__")  # type: ignore[no-any-return]

    def __str__(self) -> str:
        return self._special("__str__")  # type: ignore[no-any-return]

    def __format__(self, spec: str) -> str:
        return self._special("__format__", spec)  # type: ignore[no-any-return]

    def __bool__(self) -> bool:
        kind = type(self._object)
        return (
            bool(self._operator("__bool__"))
            if hasattr(kind, "__bool__")
            else not hasattr(kind, "__len__") or len(self) > 0
        )


def _operator(name: str) -> Callable[..., Any]:
    """An operator that the object's class may have."""

    def apply(self: CapturedObject, *others: Any) -> Any:
        has_it = hasattr(type(self._object), name)
        return self._operator(name, *others) if has_it or not others else NotImplemented

    return apply


for _name in (*(f"{side}{name}" for name in _BINARY for side in ("", "r", "i")), *_ORDER, *_ALONE):
    setattr(CapturedObject, f"__{_name}__", _operator(f"__{_name}__"))


def is_one(a: Any, b: Any) -> bool:
    """The meaning of ``a is b``. Raises TraceError where one is captured and both are of a kind: another call may pass
    one object for both, or two, and nothing of it would tell."""
    names = [path_of(x) for x in (a, b)]
    if a is b or not any(names) or a.__class__ is not b.__class__:
        return a is b
    if names[0] != names[1]:
        raise TraceError(
            "whether two objects are one is asked in host code",
            got=" and ".join(name or f"a {x.__class__.__name__}" for name, x in zip(names, (a, b), strict=True)),
            hint="before the tile loop, same = a is b, or compare what they hold, numbers and names",
        )
    return True


def path_of(x: Any) -> str:
    """The path of what is captured, empty for all else."""
    if is_captured(x):
        return str(object.__getattribute__(x, "_path"))
    return x.path if isinstance(x, TensorRef) else ""


class CapturedCallable(CapturedObject):
    """Stands for an object that can be called."""

    __slots__ = ()

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises TraceError: a library called what device code itself must call."""
        raise TraceError(
            "an object is called by device code itself",
            got=f"{self._path}, called by a library",
            hint="call it where it is written",
        )


def captured(value: Any, path: str, capture: Capture, call: Call, baked: bool, given: bool) -> CapturedObject:
    """What stands for an object in device code."""
    kind = CapturedCallable if callable(value) else CapturedObject
    return kind(value, path, capture, call, baked, given)


def is_captured(value: Any) -> bool:
    """Whether ``value`` stands for an object that the region captures."""
    return isinstance(value, CapturedObject)


def method_of(value: CapturedObject) -> Any:
    """What a call of the object calls: of a module its ``forward``. Raises TraceError for one with hooks."""
    owner = object.__getattribute__(value, "_object")
    if not isinstance(owner, torch.nn.Module):
        return MethodType(type(owner).__call__, value)
    hooks = [name.removeprefix("_") for name in HOOKS if vars(owner).get(name)]
    if hooks:
        raise TraceError(
            "a module that device code calls has no hooks: they would not run",
            got=f"{type(owner).__name__} with {', '.join(hooks)}",
            hint="call module.forward(x), or do in the kernel what the hook does",
        )
    return value.forward


def is_torch_method(function: Any) -> bool:
    """Whether it is a method of torch's own modules, as torch.nn.Sequential's ``forward``: read as a user's is."""
    return (
        isinstance(function, MethodType)
        and isinstance(function.__func__, FunctionType)
        and is_captured(function.__self__)
        and isinstance(function.__self__, torch.nn.Module)
    )
