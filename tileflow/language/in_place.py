"""What changes a tile in place. A tile is a value, so that no execution takes methods that do. A function that changes
one that it was passed by an operator, ``tile += 1``, leaves its caller none: Python's meaning has another there."""

from __future__ import annotations

import dis
from collections.abc import Sequence
from types import CodeType, FrameType
from typing import Any

import torch

from ..errors import MissingAttribute, TraceError
from ..runtime.argtree import tensors
from .rules import CHANGED, CHANGED_HINT, IMPLEMENTED, instead_of_in_place


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


def note_changed(tile: torch.Tensor, frame: FrameType | None, kernel: CodeType) -> None:
    """Note that an operator of code in ``frame`` changes ``tile``, where a function has it from its caller. The text of
    the ``kernel`` binds its names anew."""
    outer = None if frame is None or frame.f_code is kernel else frame.f_back
    while outer is not None:
        if any(held is tile for held in tensors(outer.f_locals.values())):
            tile.tileflow_changed = True  # type: ignore[attr-defined]
            return
        if outer.f_code is kernel:
            return
        outer = outer.f_back


def check_unchanged(args: Sequence[Any]) -> None:
    """Raises TraceError where a tile among ``args`` is one that a function changed which was passed it."""
    for tile in args:
        if isinstance(tile, torch.Tensor) and hasattr(tile, "tileflow_changed"):
            raise TraceError(CHANGED, got=f"a tile of shape {tuple(tile.shape)}", hint=CHANGED_HINT)
