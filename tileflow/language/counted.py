"""Random numbers by seed and offset, which are those of Triton's ``tl.rand`` and ``tl.randint`` for the same two.

Triton's generator is Philox 4x32-10 too (:func:`.random.philox`): its key is the seed, its counter the offset, and a
number is made of the first of the four words. :func:`rand4x` takes all four.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from . import eager_session
from .dim_identity import lanes_of, tag
from .marks import device, inline
from .random import LOW, Words, of_shape, philox, positions_of

SCALE = 4.6566127342e-10  # Triton's: the largest number of 31 bits times it is less than 1


@device
def positions(shape: Sequence[Any], *, whole: Sequence[Any] | None = None, by_length: bool = False) -> torch.Tensor:
    """Each element's position in the whole, counted row by row from 0, as int64. ``shape`` and ``whole``: as for
    ``rand``. ``by_length``: the whole is as large as the tiles' loops are long, rather than up to their ends."""
    return of_shape(positions_of("positions", shape, whole, by_length), shape)


@device
def random_words(seed: Any, offsets: Any) -> Words:
    """The four words of each offset as int32 tiles; the key is ``seed``, an int of 64 bits."""
    here = eager_session.current("random_words")
    offsets = torch.as_tensor(offsets, device=here.device)
    upper = offsets.long() >> 32 & LOW if offsets.dtype == torch.int64 else 0
    words = philox((offsets.long() & LOW, upper, 0, 0), int(seed))
    return tuple(tag(word.to(torch.int32), lanes_of(offsets)) for word in words)


@inline
def rand_at(seed: Any, offsets: Any) -> Any:
    """Uniform float32 in [0, 1) of the shape of ``offsets``, a tile of ints: Triton's ``tl.rand(seed, offsets)``."""
    return uniform(random_words(seed, offsets)[0])


@inline
def rand4x(seed: Any, offsets: Any) -> Any:
    """Four uniform tiles out of one evaluation of the generator: Triton's ``tl.rand4x(seed, offsets)``."""
    first, second, third, fourth = random_words(seed, offsets)
    return uniform(first), uniform(second), uniform(third), uniform(fourth)


@inline
def randint_at(seed: Any, offsets: Any, low: Any, high: Any) -> Any:
    """Int32 in [low, high): ``low`` and the remainder of ``tl.randint(seed, offsets)``'s magnitude by the span."""
    magnitude = torch.abs(random_words(seed, offsets)[0].to(torch.int64))
    return (low + magnitude % (high - low)).to(torch.int32)


@inline
def uniform(word: Any) -> Any:
    """A word of 32 bits as a float32 in [0, 1): the magnitude of 31 bits, scaled."""
    return torch.where(word < 0, ~word, word).to(torch.float32) * SCALE
