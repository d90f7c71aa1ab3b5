"""Ints that are too wide for a GPU, and for torch: Python's have any number of digits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import CallError
from ..expr import MAX_INT, MIN_INT
from .argtree import path_text, walk

WIDE = "an int that meets tiles is from -2**63 to 2**64 - 1"
NARROWER = "reduce it in host code (n % 2**64), or pass a float"
_LONG = 128  # bits of an int that an error spells


def is_wide(value: Any) -> bool:
    """Whether a value is an int that neither a GPU's ints nor torch's hold."""
    return isinstance(value, int) and not MIN_INT <= value <= MAX_INT


def spelled(value: int) -> str:
    """An int as an error says it: Python writes none of thousands of digits."""
    return str(value) if value.bit_length() <= _LONG else f"an int of {value.bit_length()} bits"


def too_wide(named: Iterable[tuple[str, Any]], where: str) -> CallError | None:
    """The error of the first of these values that is too wide an int; None where none is."""
    found = next(((name, value) for name, value in named if is_wide(value)), None)
    if found is None:
        return None
    return CallError(WIDE, got=f"{found[0]} = {spelled(found[1])}", where=where, hint=NARROWER)


def too_wide_argument(values: Mapping[str, Any], where: str) -> CallError | None:
    """The same of a call's arguments by their names, and of what they hold."""
    leaves = ((path_text(name, steps), leaf) for name, value in values.items() for steps, leaf in walk(value, ()))
    return too_wide(leaves, where)
