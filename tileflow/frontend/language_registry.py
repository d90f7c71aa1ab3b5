"""The traced meanings of the language's functions by name, and of Python's own; each family registers its own."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any, TypeVar

Meaning = Callable[..., Any]
M = TypeVar("M", bound=Meaning)

DEVICE: dict[str, Meaning] = {}
# Python's own functions, where an argument is traced, and those that have a meaning of their own even where none is.
PYTHON: dict[Any, Meaning] = {}
ALWAYS: dict[Any, Meaning] = {}
# By module and name, those that no public module offers.
QUALIFIED: dict[tuple[str, str], Meaning] = {}
# By their names, builtins that other libraries put a function of their own in place of: Ray ``print``, debuggers
# ``breakpoint``. Python's own and whatever stands there now have this meaning, whichever of the two a kernel holds.
REPLACEABLE: dict[str, Meaning] = {}


def register_language(name: str) -> Callable[[M], M]:
    """Register what ``tfl.<name>`` means while tracing: it takes the tracer, then the function's own arguments."""

    def register(meaning: M) -> M:
        assert name not in DEVICE, name  # two meanings: which one counts would follow from the order of imports
        DEVICE[name] = meaning
        return meaning

    return register


def replaceable_builtin(function: Any) -> str | None:
    """The name in ``REPLACEABLE`` of a builtin, or of the function that stands in its place; None for all others."""
    for name in REPLACEABLE:
        if function is getattr(builtins, name):
            return name
    if getattr(function, "__module__", None) != "builtins":
        return None
    name = getattr(function, "__name__", "")
    return name if name in REPLACEABLE else None
