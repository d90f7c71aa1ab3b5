"""Classes that modules of one model have in place of their own: the same, but for their forward.

A module is given one by its ``__class__``. So a copy of it, deep or shallow, and a pickle have that forward too, and
run it with what they hold themselves; whoever replaces the module's forward or class replaces this one.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import FunctionType
from typing import Any

import torch
import torch.nn.modules.module as of_all

from ..runtime.describe import is_distributed

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_PATCH = "_tileflow_patch"  # an attribute of such a class


@dataclass(frozen=True, slots=True)
class Patch:
    """What a module's class stands for. ``kind``: its own class; ``function``, ``settings``: what its forward calls;
    ``own``, ``signature``: the class's own forward, and that of the bound one."""

    kind: Any
    own: Callable[..., Any]
    function: Callable[..., Any]
    settings: tuple[Any, ...]
    signature: inspect.Signature


@cache
def with_forward(kind: Any, function: Callable[..., Any], *settings: Any) -> type:
    """A class whose forward is ``function(module, *settings, *args, **kwargs)``, with a function that stands at the top
    of its module. The signature stays: trainers read which arguments there are."""
    return _subclass(kind, function, settings, (with_forward, kind, function, *settings))


@cache
def with_rotary(kind: Any, *turned: tuple[str, Callable[..., Any]]) -> type:
    """A class with the same forward, in which the functions that turn queries and keys are others: it reads them by
    their names from its globals."""
    return _subclass(kind, _with_rotary(kind.forward, turned), (), (with_rotary, kind, *turned))


def _subclass(kind: Any, function: Callable[..., Any], settings: tuple[Any, ...], made_by: tuple[Any, ...]) -> type:
    own = kind.forward

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if kind.forward is not own:  # the library's class has another by now
            return kind.forward(self, *args, **kwargs)
        return function(self, *settings, *args, **kwargs)

    # torch.compile keeps what it compiled by code object: so that no class is compiled anew for another's sake
    forward.__code__ = forward.__code__.replace()
    functools.update_wrapper(forward, own)

    def __reduce_ex__(self: Any, protocol: Any) -> Any:
        """No module has this class by its name: a copy makes it again."""
        makes, args, *state = kind.__reduce_ex__(self, protocol)
        if args[:1] != (made,):
            return makes, args, *state
        return _new, made_by, *state

    whole = inspect.signature(own)
    patch = Patch(kind, own, function, settings, whole.replace(parameters=[*whole.parameters.values()][1:]))
    other = {"forward": forward, "__reduce_ex__": __reduce_ex__, _PATCH: patch}
    named = {name: getattr(kind, name) for name in ("__module__", "__qualname__", "__doc__")}
    made: type = type(kind)(kind.__name__, (kind,), {**named, **other})
    return made


def _new(make: Callable[..., Any], *args: Any) -> Any:
    kind = make(*args)
    return kind.__new__(kind)


def patch_of(module: torch.nn.Module) -> Patch | None:
    """What the class stands for that a module was given; None where it has its own, or a later one."""
    patch: Patch | None = type(module).__dict__.get(_PATCH)
    return patch


def original(module: torch.nn.Module) -> Patch:
    """What a module's class stands for, also where another class was made out of it."""
    patch: Patch = getattr(type(module), _PATCH)
    return patch


def only_argument(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a forward of one argument was given, by position or by the name that the module's own class has for it."""
    if len(args) == 1 and not kwargs:
        return args[0]
    (given,) = original(module).signature.bind(*args, **kwargs).args
    return given


def own_class(module: torch.nn.Module) -> Any:
    """The class that a module has, or had before it was given another."""
    patch = patch_of(module)
    return type(module) if patch is None else patch.kind


def inherits_patch(module: torch.nn.Module) -> bool:
    """Whether somebody else made a class out of the one that the module was given."""
    return patch_of(module) is None and hasattr(type(module), _PATCH)


def put_back(module: torch.nn.Module) -> None:
    """Give a module its own class again, where it has not another one by now."""
    patch = patch_of(module)
    if patch is not None:
        module.__class__ = patch.kind


def is_plain(module: torch.nn.Module) -> bool:
    """Whether a call of a module runs the forward of its class, and nothing that a kernel in its place would skip."""
    patch = patch_of(module)
    if "forward" in module.__dict__ or (patch is not None and patch.kind.forward is not patch.own):
        return False
    return not any(getattr(module, hooks) or getattr(of_all, f"_global{hooks}") for hooks in _HOOKS)


def is_product(module: torch.nn.Module, *, may_add: bool = False) -> bool:
    """Whether a call of the module is the product with its weight and nothing else: no adapter's, no quantised or
    distributed weight, nothing that hooks its calls; and no bias, unless it may be added."""
    if type(module) is not torch.nn.Linear or not is_plain(module):
        return False
    given = (module.weight,) if module.bias is None else (module.weight, module.bias)
    return (may_add or module.bias is None) and all(map(_is_dense, given))


def are_local(*given: torch.Tensor) -> bool:
    """Whether no tensor is distributed: a kernel has no rule by which a sharded one would be computed."""
    return not any(map(is_distributed, given))


def _is_dense(x: torch.Tensor) -> bool:
    return type(x) in (torch.nn.Parameter, torch.Tensor) and type(x.data) is torch.Tensor


@cache
def _with_rotary(function: Any, turned: tuple[tuple[str, Callable[..., Any]], ...]) -> FunctionType:
    """A function with globals of its own, one for all modules of a class. Its code object is its own too: torch.compile
    keeps what it compiled by code object, and looks names of its own up in the globals of the first function."""
    code = function.__code__.replace()
    made = FunctionType(code, {**function.__globals__, **dict(turned)}, function.__name__)
    made.__defaults__, made.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    made.__annotations__, made.__doc__ = function.__annotations__, function.__doc__
    return made
