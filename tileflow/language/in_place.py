"""What changes a tile in place, ``tile += 1``: a tile is a value, so that the name is bound to another one. The one before
is, to torch, changed: no other name has it from then on, nor a caller, for they would have what it was."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from ..errors import TraceError
from .rules import CHANGED, CHANGED_HINT


def note_changed(tile: torch.Tensor) -> None:
    """Note that an operator changes ``tile``."""
    tile.tileflow_changed = True  # type: ignore[attr-defined]


def check_unchanged(args: Iterable[Any]) -> None:
    """Raises TraceError where a tile among ``args`` is one that was changed."""
    for tile in args:
        if isinstance(tile, torch.Tensor) and hasattr(tile, "tileflow_changed"):
            raise TraceError(CHANGED, got=f"a tile of shape {tuple(tile.shape)}", hint=CHANGED_HINT)
