"""Random tiles that do not depend on how the work is cut into blocks.

The generator is Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; SC 2011),
which has no state: a key and a counter of 128 bits give four words. The key is the seed. An element's position in the
whole, counted row by row, gives its counter (position // 4) and its word (position % 4); the call's stream
(:mod:`streams`) fills the counter's upper half.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from . import eager_session
from .dim_identity import tag
from .eager_indexing import lanes_by
from .eager_tiles import EagerTile as Tile
from .marks import device
from .streams import Stream, stream_at

LOW = 0xFFFFFFFF
ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
UNIT = 2.0**-24  # a float32 of [0, 1) has 24 bits

Words = tuple[torch.Tensor, ...]


@device
def rand(shape: Sequence[Any], seed: Any, *, whole: Sequence[Any] | None = None) -> torch.Tensor:
    """Uniform float32 in [0, 1), a multiple of 2**-24. ``shape``: of tiles, block sizes and ints, as for ``zeros``.

    An element's number depends on ``seed`` (an int of 64 bits, or one loaded), on where in the text the call stands,
    and on the element's position in ``whole``: one size a dimension, which by default is the end of the tile's loop, or
    the size itself. It does not depend on block sizes, nor on loops whose tiles are not in ``shape``: a loop that wants
    new numbers each time adds its variable to the seed.
    """
    words = _draw("rand", shape, seed, whole)
    return of_shape(UNIT * (words >> 8).float(), shape)


@device
def randint(
    shape: Sequence[Any], low: Any, high: Any, seed: Any, *, whole: Sequence[Any] | None = None
) -> torch.Tensor:
    """Uniform int32 in [low, high), ``high - low`` below 2**31; the rest as for :func:`rand`.

    A number's probability is off by at most 2**-32: the high half of word x (high - low), with nothing drawn again.
    """
    words = _draw("randint", shape, seed, whole)
    return of_shape(torch.add((words * (high - low)) >> 32, low).to(torch.int32), shape)


def of_shape(tile: torch.Tensor, shape: Sequence[Any]) -> torch.Tensor:
    """A tile whose dimensions are those of the tiles and block sizes in ``shape``; returns it."""
    return tag(tile, tuple(map(lanes_by, shape)))


def _draw(what: str, shape: Sequence[Any], seed: Any, whole: Sequence[Any] | None) -> torch.Tensor:
    """A word of 32 bits for each element, as int64."""
    place = eager_session.caller()
    stream = stream_at(place.file, place.line, place.column, eager_session.current(what).kernel)
    return words_at(positions_of(what, shape, whole), stream, int(seed))


def positions_of(what: str, shape: Sequence[Any], whole: Sequence[Any] | None, by_length: bool = False) -> torch.Tensor:
    """Each element's position in the whole, row by row, as int64."""
    here = eager_session.current(what)
    sizes = [_size(s, by_length) for s in shape] if whole is None else [int(s) for s in whole]
    position = torch.zeros((), dtype=torch.int64, device=here.device)
    for item, size in zip(shape, sizes, strict=True):
        first, last = (item.begin, item.end) if isinstance(item, Tile) else (0, int(item))
        position = position[..., None] * size + torch.arange(first, last, device=here.device)
    return position


def _size(item: Any, by_length: bool) -> int:
    if isinstance(item, Tile):
        return item.limit - (item.first if by_length else 0)
    return int(item)


def words_at(position: torch.Tensor, stream: Stream, seed: int) -> torch.Tensor:
    """The word of 32 bits of each position of a stream, as int64."""
    counter = position >> 2
    words = philox((counter & LOW, counter >> 32, stream.call, stream.function), seed)
    return torch.stack(torch.broadcast_tensors(*words)).gather(0, (position & 3)[None])[0]  # type: ignore[no-untyped-call]


def philox(counter: tuple[Any, Any, Any, Any], seed: int) -> Words:
    """The four words of 32 bits that ``seed`` and a counter of four words give, as int64 tensors or ints alike."""
    c0, c1, c2, c3 = counter
    k0, k1 = seed & LOW, seed >> 32 & LOW
    for _ in range(ROUNDS):
        # a product of two words wraps in int64, but its bits are those of the unsigned one
        a, b = c0 * MULTIPLIERS[0], c2 * MULTIPLIERS[1]
        c0, c1, c2, c3 = (b >> 32 & LOW) ^ c1 ^ k0, b & LOW, (a >> 32 & LOW) ^ c3 ^ k1, a & LOW
        k0, k1 = k0 + KEY_STEPS[0] & LOW, k1 + KEY_STEPS[1] & LOW
    return c0, c1, c2, c3
