"""What changes a tile in place. A tile is a value: a function that changes one that it was passed by an operator,
``tile += 1``, leaves its caller none, for Python's meaning has another there."""

from __future__ import annotations

from collections.abc import Sequence
from types import CodeType, FrameType
from typing import Any

import torch

from ..errors import TraceError
from ..runtime.argtree import tensors
from .rules import CHANGED, CHANGED_HINT


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
