"""The traced meanings of the language's functions, by name; each family registers its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Meaning = Callable[..., Any]

DEVICE: dict[str, Meaning] = {}


def device_function(name: str) -> Callable[[Meaning], Meaning]:
    """Register what ``tfl.<name>`` means while tracing: it takes the tracer, then the function's own arguments."""

    def register(meaning: Meaning) -> Meaning:
        DEVICE[name] = meaning
        return meaning

    return register
