"""Methods that change a tensor in place: a tile is a value, so that no execution takes them."""

from __future__ import annotations

import dis
from collections.abc import Sequence
from types import FrameType
from typing import Any

import torch

from ..errors import MissingAttribute
from .rules import IMPLEMENTED, instead_of_in_place


def check_in_place(name: str, args: Sequence[Any], frame: FrameType) -> None:
    """Raises MissingAttribute for a call of torch's function ``name`` from ``frame`` that changes its first argument:
    ``x.add_(y)``. ``x += y``, which torch calls the same, makes a tile of its own."""
    is_in_place = name.endswith("_") and not name.endswith("__")
    if is_in_place and args and isinstance(args[0], torch.Tensor) and not _is_operator(frame):
        plain = name.rstrip("_")
        hint = instead_of_in_place(plain) if hasattr(torch.Tensor, plain) else "make another: torch.full_like(x, value)"
        raise MissingAttribute(IMPLEMENTED, got=f".{name}", hint=hint)


def _is_operator(frame: FrameType | None) -> bool:
    """Whether the author's code runs an operator there, whatever of torch's is between."""
    while frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == "torch":
        frame = frame.f_back
    return frame is not None and dis.opname[frame.f_code.co_code[frame.f_lasti]] == "BINARY_OP"
