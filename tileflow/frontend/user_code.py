"""Whose a function is."""

from __future__ import annotations

from typing import Any

from ..runtime.libraries import is_library


def is_user(function: Any) -> bool:
    """Whether a function is the author's own: neither of a library nor a built-in of Python."""
    return not is_library(getattr(function, "__module__", None)) and root_of(function) != "builtins"


def root_of(function: Any) -> str:
    """The package that holds it."""
    return (getattr(function, "__module__", None) or "").split(".", 1)[0]
