"""Derived kernels: the backward pass of a kernel as a kernel of its own, one text for each kind of call."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch

from .. import language
from ..api import Kernel, to_meta
from ..config import Choice, Config
from ..errors import CallError, GradientError
from ..frontend.source import digest
from ..runtime.argtree import replace, tensors
from .observe import observe
from .pull_back import pull_back
from .write import Derived, derive

if TYPE_CHECKING:
    from ..lowered import Lowered
    from ..runtime.problem import Problem
    from ..target import Target

VERSION = 1  # of what is derived from a kernel's code: another one is another kernel to tables


class _OneKind(Kernel):
    """A derived kernel for one kind of call, whose text is ``derived``."""

    def __init__(self, parent: BackwardKernel, derived: Derived) -> None:
        self.derived, self._parent = derived, parent
        super().__init__(_function(parent.forward, derived))
        self.name = parent.name

    @cached_property
    def _serialised(self) -> str:
        return self._parent._serialised


def _function(forward: Kernel, derived: Derived) -> FunctionType:
    """The text's function, in the scope of the forward kernel's; its lines are there for errors and for ``inspect``."""
    scope = forward.scope
    file = f"<backward of {forward.name} {digest(derived.text)[:12]}>"
    lines = derived.text.splitlines(keepends=True)
    linecache.cache[file] = (len(derived.text), None, lines, file)
    cells = dict(zip(scope.__code__.co_freevars, scope.__closure__ or (), strict=True))
    held = {name: cell.cell_contents for name, cell in cells.items()}
    names = {**scope.__globals__, **held, "torch": torch, "tfl": language, "pull_back": pull_back}
    exec(compile(derived.text, file, "exec"), names)
    made = names[derived.name]
    assert isinstance(made, FunctionType)
    made.__module__ = scope.__module__
    return made


class BackwardKernel(Kernel):
    """What :func:`derive_backward` returns.

    ``backward(*args, *grads)``: the arguments of the forward kernel, all of them by position, and the gradient of each
    floating-point result that its launches wrote, in order. It returns the gradient of each floating-point tensor
    among the arguments, in order: several as a tuple, one alone.
    """

    def __init__(self, forward: Kernel) -> None:
        self.forward = forward
        self._kinds: dict[str, _OneKind] = {}
        self._known: dict[Hashable, _OneKind] = {}
        super().__init__(forward.scope)
        self.name = f"{forward.name}.backward"
        self.__name__ = f"{forward.__name__}_backward"
        self.__doc__ = f"The gradients of the arguments of {forward.__name__}."

    @cached_property
    def _serialised(self) -> str:
        return f"backward {VERSION} of {self.forward._serialised}"

    @cached_property
    def identity(self) -> str:
        return digest(f"backward {VERSION} of {self.forward.identity}")

    # ---- kinds of calls -------------------------------------------------------------------------

    def kind(self, *args: Any) -> Kernel:
        """The kernel that takes a call's arguments, with the gradients or without them."""
        return self._kind(args[: self._count])

    @property
    def _count(self) -> int:
        return len(self.forward.host.signature.parameters)

    def _kind(self, args: Sequence[Any]) -> _OneKind:
        key = self.forward.describe(*args).key
        found = self._known.get(key)
        if found is None:
            derived = derive(self.forward.name, self.forward.host, tuple(replace(a, to_meta) for a in args))
            found = self._kinds.get(derived.text)
            if found is None:
                found = self._kinds[derived.text] = _OneKind(self, derived)
            self._known[key] = found
        return found

    def source(self, *args: Any) -> str:
        """The text that is derived for a call: a kernel in the language, to read or to go on from by hand."""
        return self._kind(args[: self._count]).derived.text

    def arguments(self, *args: Any) -> tuple[str, ...]:
        """The arguments whose gradients a call returns, in order."""
        return self._kind(args[: self._count]).derived.arguments

    def results(self, *args: Any) -> tuple[int, ...]:
        """Which of the forward kernel's results a call takes the gradients of, in order."""
        return self._kind(args[: self._count]).derived.results

    # ---- a kernel as any other ------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs:
            raise CallError("a derived backward takes its arguments by position", got=", ".join(kwargs), where=self.name)
        return self.kind(*args)(*args)
