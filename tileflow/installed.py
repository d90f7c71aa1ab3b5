"""What is installed beside ``tileflow-runtime``: whether this process can lower a kernel, and compile it."""

from __future__ import annotations

import importlib.util
from functools import cache

from .errors import CallError


@cache
def can_lower() -> bool:
    """Whether the distribution ``tileflow`` is installed."""
    return importlib.util.find_spec("tileflow.lowered") is not None


@cache
def has_compiler() -> bool:
    """Whether Triton and the compiler's packages are installed, so that a missing config can be built here."""
    return importlib.util.find_spec("triton") is not None and can_lower()


def need_lowering(what: str, kernel: str, otherwise: str = "") -> None:
    """Raises CallError where ``what`` is asked of ``kernel`` and nothing here can lower it."""
    if not can_lower():
        raise CallError(
            f"{what} needs the compiler",
            got="tileflow-runtime alone",
            where=kernel,
            hint=", ".join(filter(None, ["pip install tileflow", otherwise])),
        )
