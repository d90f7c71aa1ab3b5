"""``torch.rand``, ``rand_like``, ``randn`` and ``randn_like`` in device code, by torch's own generator.

A launch takes one seed out of the generator of the CPU, which ``torch.manual_seed`` sets, and draws from it as ``rand``
does: by the place of the call in the text and by the elements' positions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from . import eager, eager_session
from .dim_identity import Lanes, lanes_of, tag
from .eager_tiles import EagerTile as Tile
from .random import UNIT, positions_of, words_at
from .streams import TORCH, Stream, stream_at

_SECOND = 1 << 30  # the stream of a normal number's second half is its call's with this bit


def _drawn(name: str, shape: Sequence[Any], dtype: torch.dtype, is_normal: bool) -> torch.Tensor:
    place = eager_session.caller()
    stream = stream_at(place.file, place.line, place.column, eager_session.current(name).kernel, TORCH)
    at, seed = positions_of(name, shape, None), eager_session.torch_seed()
    first = UNIT * (words_at(at, stream, seed) >> 8).float()
    if is_normal:
        second = UNIT * (words_at(at, Stream(stream.function, stream.call | _SECOND), seed) >> 8).float()
        first = (-2.0 * (1.0 - first).log()).sqrt() * (2 * math.pi * second).cos()
    return first.to(dtype)


def _size(lanes: Lanes | None, size: int) -> Any:
    """The tile of a loop that a dimension has the lanes of, else its size."""
    running = (tile for tiles in eager_session.current("tile").loops for tile in tiles)
    return next((tile for tile in running if tile.lanes is lanes and len(tile) == size), size)


def _register(name: str, is_normal: bool) -> None:
    def like(x: torch.Tensor, *, dtype: torch.dtype | None = None, **unused: Any) -> torch.Tensor:
        shape = [_size(lanes, size) for lanes, size in zip(lanes_of(x), x.shape, strict=True)]
        return tag(_drawn(name, shape, dtype or x.dtype, is_normal), lanes_of(x))

    def factory(*size: Any, dtype: torch.dtype | None = None, **unused: Any) -> torch.Tensor:
        shape = size[0] if len(size) == 1 and isinstance(size[0], (list, tuple)) else size
        lanes = tuple(item.lanes if isinstance(item, Tile) else None for item in shape)
        return tag(_drawn(name, shape, dtype or torch.get_default_dtype(), is_normal), lanes)

    eager.RANDOM[getattr(torch, f"{name}_like")] = like
    eager.RANDOM[getattr(torch, name)] = factory


_register("rand", is_normal=False)
_register("randn", is_normal=True)
