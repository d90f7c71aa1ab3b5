"""Register tiles made from nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from . import eager_calls, eager_session, eager_sizes
from .dim_identity import tag
from .eager_indexing import lanes_by
from .eager_tiles import EagerTile as Tile
from .marks import device

Shape = Sequence[Any]  # of tiles, block sizes, sizes


def _length(size: Any) -> int:
    return len(size) if isinstance(size, Tile) else int(size)


@device
def zeros(shape: Shape, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A register tile of zeros; ``shape`` takes tiles, block sizes and ints."""
    return full(shape, 0, dtype)


@device
def full(shape: Shape, value: Any, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A register tile of ``value``."""
    given = torch.as_tensor(value, dtype=dtype, device=eager_session.current("full").device)
    made = given.expand([_length(s) for s in shape]).clone(memory_format=torch.contiguous_format)
    return eager_calls.tile_of(tag(made, tuple(lanes_by(s) for s in shape)))


@device
def arange(start_or_end: Any, end: Any = None, step: Any = 1, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    """``start``, ``start + step`` ... up to ``end`` as a 1-D register tile: int32 unless a number is a float.

    The length is in block sizes, sizes and ints, also where only the kernel knows the start: ``arange(tile.begin,
    tile.begin + n)``.
    """
    start, stop = (0, start_or_end) if end is None else (start_or_end, end)
    return eager_calls.tile_of(eager_sizes.counting(start, stop, step, dtype))
