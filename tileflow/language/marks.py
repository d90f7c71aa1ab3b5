"""How the frontend recognises the language: attributes on functions, so that any alias or re-export still counts."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import TYPE_CHECKING, Any, TypeVar

F = TypeVar("F", bound=Callable[..., object])
INLINED: set[CodeType] = set()  # the code of functions of the language that are written in it


def loop(fn: F) -> F:
    """``for ... in fn(...)`` is a tile loop: outermost, a launch; inside, a loop of the GPU kernel."""
    fn.__tileflow_loop__ = True  # type: ignore[attr-defined]
    return device(fn)


def host(fn: F) -> F:
    """A host call that the config answers."""
    fn.__tileflow_host__ = True  # type: ignore[attr-defined]
    return fn


def device(fn: F) -> F:
    """A function of device code: the tracer has a meaning for it under this name."""
    fn.__tileflow_device__ = fn.__name__  # type: ignore[attr-defined]
    return fn


def inline(fn: F) -> F:
    """A function of the language that is written in the language: traced through, as a user's helper is, and as plain
    Python what it does is device code, too."""
    fn.__tileflow_inline__ = True  # type: ignore[attr-defined]
    INLINED.add(fn.__code__)
    return fn


if TYPE_CHECKING:
    constexpr = Any
else:

    class constexpr:
        """Annotates a kernel's parameter: an int or a float passed for it is a constant of the generated kernel, one
        kernel for each value, instead of a run-time parameter. Tuples of them likewise."""

        __tileflow_constant__ = True
