"""A module whose functions and constants kernels of ``outside_kernels`` read."""

from __future__ import annotations

from typing import Any

SCALE = 2.0
COUNT = 3
FLAG = True


def apply(x: Any) -> Any:
    return x * SCALE


def inner(x: Any) -> Any:
    return x + COUNT


class Settings:
    """A namespace of constants."""

    offset = 1
    name = "add"
