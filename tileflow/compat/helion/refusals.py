"""What of the dialect is not here: refused by name when it is called, with what to do instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ...errors import UnsupportedOp


def refusal(name: str, hint: str, reason: str = "tileflow has another way for this") -> Callable[..., Any]:
    """What stands in the place of ``name``. It raises UnsupportedOp when it is called."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise UnsupportedOp(reason, got=name, hint=hint)

    refuse.__name__ = name.rpartition(".")[2]
    return refuse


def absent(module: str, name: str) -> NoReturn:
    """Raises Python's own error of a module without the attribute."""
    raise AttributeError(f"module {module!r} has no attribute {name!r}")
