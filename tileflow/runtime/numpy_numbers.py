"""numpy's numbers as Python's: what a kernel is passed, or captures, may come from numpy, which nothing here needs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from .argtree import replace


def plain_number(value: Any) -> Any:
    """The int, float or bool that a number of numpy's is; anything else as it is."""
    kind = type(value)
    if kind.__module__ != "numpy" or not issubclass(kind, sys.modules["numpy"].generic):
        return value
    number = value.item()
    return number if type(number) in (int, float, bool) else value


def plain_argument(value: Any) -> Any:
    """Numbers of numpy's as Python's: one, those of a list or a tuple, or the bounds of a slice; else the same object.

    Device code indexes arrays that it finds among its globals, and passes on what it gets."""
    kind = type(value)
    if kind is slice:
        bounds = value.start, value.stop, value.step
        made = tuple(map(plain_number, bounds))
        return slice(*made) if any(new is not old for new, old in zip(made, bounds, strict=True)) else value
    if kind is not tuple and kind is not list:
        return plain_number(value)
    items = list(map(plain_argument, value))
    return kind(items) if any(new is not old for new, old in zip(items, value, strict=True)) else value


def plain_call(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """A call's arguments with Python's numbers in place of numpy's; None where there are none of those."""
    made = tuple(replace(value, plain_number) for value in args), plain_numbers(kwargs)
    held = zip((*args, *kwargs.values()), (*made[0], *made[1].values()), strict=True)
    return made if any(old is not new for old, new in held) else None


def plain_numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by their names, with Python's numbers in place of numpy's, in containers too."""
    return {name: replace(value, plain_number) for name, value in values.items()}
