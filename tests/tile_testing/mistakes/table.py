"""The table of mistakes: a kernel, the error's class, what the message must hold, what stands at the caret."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from tileflow.errors import TileflowError
from tileflow.target import target

H200 = target("nvidia-h200")


@dataclass(frozen=True)
class Mistake:
    """``says``: parts of the message: what must hold, what was got, what to write. ``caret``: what the column is of.
    ``mode``: whether sizes are constants.

    The mistake is on the line that ends with ``# <-``.
    """

    function: Callable[..., Any]
    error: type[TileflowError]
    says: tuple[str, ...]
    caret: str
    args: tuple[Any, ...]
    mode: str


MISTAKES: dict[str, Mistake] = {}


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


X, V = meta(64, 96), meta(96)


def mistake(
    error: type[TileflowError], says: str | tuple[str, ...], caret: str, *args: Any, mode: str = "static"
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a kernel into the table; ``args``: those that it is lowered with, one float32 matrix if there are none."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        assert function.__name__ not in MISTAKES, function.__name__
        parts = (says,) if isinstance(says, str) else says
        MISTAKES[function.__name__] = Mistake(function, error, parts, caret, args or (X,), mode)
        return function

    return register
