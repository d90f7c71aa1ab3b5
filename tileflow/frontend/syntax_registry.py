"""What Python's syntax means on traced values, by name: each is registered by the module that gives it its meaning.

``take`` and ``store`` are brackets on a tensor, ``load`` what is read of it, ``index_tile`` brackets on a tile,
``binary`` an operator of two operands. Values know their syntax, and are below what it means.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

Syntax = Literal["load", "take", "store", "index_tile", "binary"]
M = TypeVar("M", bound=Callable[..., Any])

SYNTAX: dict[Syntax, Callable[..., Any]] = {}


def register_syntax(name: Syntax) -> Callable[[M], M]:
    """Register what ``name`` means while tracing: it takes the tracer, then the operands in the order of the text."""

    def register(meaning: M) -> M:
        assert name not in SYNTAX, name  # two meanings: which one counts would follow from the order of imports
        SYNTAX[name] = meaning
        return meaning

    return register
