"""Two tiles as one, and one as two, in registers."""

from __future__ import annotations

import torch

from ..errors import ShapeError
from .alignment import facing
from .dim_identity import lanes_of, met, tag
from .marks import device


@device
def join(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Two tiles, broadcast to each other, in a new last dimension of 2."""
    a, b = facing([a, b])
    shape = torch.broadcast_shapes(a.shape, b.shape)  # type: ignore[no-untyped-call]
    return tag(torch.stack([a.expand(shape), b.expand(shape)], -1), (*met(a, b), None))


@device
def split(tile: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The two halves of a last dimension of 2: the inverse of ``join``. Raises ShapeError for another size."""
    if tile.ndim == 0 or tile.shape[-1] != 2:
        raise ShapeError("tfl.split takes a tile whose last dimension is 2", got=tuple(tile.shape))
    first, second = (tag(half, lanes_of(tile)[:-1]) for half in tile.unbind(-1))
    return first, second
