"""Python's own functions of numbers as device code has them, for a kernel that runs as plain Python.

Python's ``max`` compares and chooses one of its arguments, and its ``divmod`` and ``round`` know no tensors. A kernel's
own text, with the functions inside it, finds those below in their place. The functions that it calls find ``divmod``
and ``round``, which are rare: those below stand for Python's own in all modules while a kernel runs.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from types import FunctionType
from typing import Any

import torch

from ..locks import Lock
from ..python_functions import python_own
from . import eager_calls, eager_session
from .code_objects import assigns_globals


def with_builtins(fn: FunctionType) -> FunctionType:
    """``fn`` over the names of its module, with the functions below as builtins. One that assigns to names of its
    module stays as it is, for the assignments are to be seen there."""
    if assigns_globals(fn.__code__):
        return fn
    names = {**fn.__globals__, "__builtins__": vars(builtins) | _OWN}
    made = FunctionType(fn.__code__, names, fn.__name__, fn.__defaults__, fn.__closure__)
    made.__kwdefaults__ = fn.__kwdefaults__
    return made


def _are_of_device(*values: Any) -> bool:
    return eager_session.is_in_a_loop() and any(isinstance(value, torch.Tensor) for value in values)


def _chosen(plain: Callable[..., Any], func: Any) -> Callable[..., Any]:
    """``max`` or ``min``, which of tiles is per element, and of NaN NaN."""

    def pair(a: Any, b: Any) -> Any:
        if not _are_of_device(a, b):
            return plain(a, b)
        dtype = torch.result_type(a, b)
        device = next(x.device for x in (a, b) if isinstance(x, torch.Tensor))
        alike = [x if isinstance(x, torch.Tensor) else torch.tensor(x, dtype=dtype, device=device) for x in (a, b)]
        return eager_calls.elementwise(func, func, *alike)

    def call(*args: Any, **named: Any) -> Any:
        items = args[0] if len(args) == 1 else args
        if named or isinstance(items, torch.Tensor):
            return plain(*args, **named)
        items = [*items]
        return reduce(pair, items) if _are_of_device(*items) else plain(items)

    return call


def _divmod(a: Any, b: Any, /) -> Any:
    """The quotient, rounded down, and the remainder."""
    if not _are_of_device(a, b):
        return _PYTHONS["divmod"](a, b)
    quotient = eager_calls.elementwise(torch.floor_divide, operator.floordiv, a, b)
    return quotient, eager_calls.elementwise(torch.remainder, operator.mod, a, b)


def _round(number: Any, ndigits: int | None = None) -> Any:
    """To the nearest integer, halves to the even one; of a tile it stays a tile."""
    if not _are_of_device(number):
        return _PYTHONS["round"](number, ndigits)
    if ndigits is None:
        return eager_calls.elementwise(torch.round, torch.round, number)
    return eager_calls.elementwise(torch.round, lambda x: torch.round(x, decimals=ndigits), number)


_OWN: dict[str, Any] = {
    "max": _chosen(python_own(max), torch.maximum),
    "min": _chosen(python_own(min), torch.minimum),
    "divmod": _divmod,
    "round": _round,
}
_PYTHONS: dict[str, Any] = {"divmod": python_own(divmod), "round": python_own(round)}


class _Replacing:
    """Those two in all modules while some thread runs a kernel as plain Python."""

    def __init__(self) -> None:
        self._lock, self._open = Lock(), 0

    @contextmanager
    def session(self) -> Iterator[None]:
        """While a kernel runs."""
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    def _count(self, by: int) -> None:
        with self._lock:
            self._open += by
            vars(builtins).update({name: _OWN[name] for name in _PYTHONS} if self._open else _PYTHONS)


replacing = _Replacing()
