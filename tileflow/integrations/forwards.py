"""Forwards that one module has in place of its class's. A copy of the module has one of its own, as has a pickle."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

import torch

from .forms import ROTARY

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class Forward:
    """``function(module, *settings, *args, **kwargs)``, with a function that stands at the top of its module.

    Not a closure: that would go on calling the first module in a copy, and be lost in a pickle. Its signature is that
    of the class's own forward: trainers read which arguments there are.
    """

    def __init__(self, module: torch.nn.Module, function: Callable[..., Any], settings: tuple[Any, ...]) -> None:
        self.__setstate__((type(module), module, function, settings))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function returns for the module."""
        return self.function(self.module, *self.settings, *args, **kwargs)

    def __getstate__(self) -> tuple[Any, ...]:
        return type(self.module), self.module, self.function, self.settings

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        kind, self.module, self.function, self.settings = state  # the module may not have its attributes yet
        self.__signature__ = _signature(kind)


class RotaryForward:
    """The class's own forward, in which the function that turns queries and keys is another: it reads it by its name
    from its globals."""

    def __init__(self, module: torch.nn.Module, turned: Callable[..., Any]) -> None:
        self.__setstate__((type(module), module, turned))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the class's forward returns, with the other function in it."""
        return self.function(self.module, *args, **kwargs)

    def __getstate__(self) -> tuple[Any, ...]:
        return type(self.module), self.module, self.turned

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        kind, self.module, self.turned = state
        self.function = _with_rotary(kind.forward, self.turned)
        self.__signature__ = _signature(kind)


def is_as_applied(module: torch.nn.Module, applied: torch.nn.Module) -> bool:
    """Whether a part is still the one that a kernel stands for, and nothing hooks its calls, which a kernel skips."""
    return module is applied and not any(getattr(module, hooks) for hooks in _HOOKS)


def is_product(module: torch.nn.Module) -> bool:
    """Whether a call of the module is the product with its weight and nothing else: no adapter's, no quantised or
    distributed weight, no bias, nothing that hooks its calls."""
    return (
        type(module) is torch.nn.Linear
        and module.bias is None
        and type(module.weight) is torch.nn.Parameter
        and type(module.weight.data) is torch.Tensor
        and "forward" not in module.__dict__
        and is_as_applied(module, module)
    )


def _signature(kind: Any) -> inspect.Signature:
    own = inspect.signature(kind.forward)
    return own.replace(parameters=[*own.parameters.values()][1:])


@cache
def _with_rotary(function: Any, turned: Callable[..., Any]) -> FunctionType:
    """A function with globals of its own, one for all modules of a class. Its code object is its own too: torch.compile
    keeps what it compiled by code object, and looks names of its own up in the globals of the first function."""
    code = function.__code__.replace()
    made = FunctionType(code, {**function.__globals__, ROTARY: turned}, function.__name__)
    made.__defaults__, made.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    made.__annotations__, made.__doc__ = function.__annotations__, function.__doc__
    return made
