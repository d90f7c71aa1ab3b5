"""The tiles of a loop as plain Python has them: runs of indices, as short at a size's end as they really are."""

from __future__ import annotations

from dataclasses import field, replace

import torch

from ..lazy_dataclass import dataclass
from .dim_identity import Lanes, tag
from .eager_indexing import DeviceInt, TileEnd, TileLike

INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class EagerTile(TileLike):
    """A run of indices ``begin .. end - 1``; ``block_size`` is how long it would be in the middle of the loop, which
    goes from ``first`` up to ``limit``."""

    begin: int
    end: int
    block_size: int
    id: int
    count: int
    device: torch.device
    limit: int
    lanes: Lanes = field(default_factory=Lanes, compare=False)
    first: int = 0

    @property
    def index(self) -> torch.Tensor:
        """The indices, shape (end - begin,); int32, or int64 where the loop goes beyond."""
        dtype = torch.int32 if max(self.limit, self.end) <= INT32_MAX else torch.int64
        return tag(torch.arange(self.begin, self.end, dtype=dtype, device=self.device), (self.lanes,))

    def __add__(self, offset: int) -> EagerTile:
        return replace(self, begin=self.begin + offset, end=self.end + offset)

    __radd__ = __add__

    def __sub__(self, offset: int) -> EagerTile:
        return self + -offset

    def __len__(self) -> int:
        return int(self.end) - int(self.begin)

    __index__ = __len__  # in shapes: x.expand(tile, 4)


def loop_tile(first: int, limit: int, block: int, number: int, count: int, device: torch.device) -> EagerTile:
    """Tile ``number`` of ``count`` in a loop from ``first`` up to ``limit``."""
    length, begin = limit - first, first + number * block
    end = DeviceInt.of_loop(min(begin + block, limit), length)
    places = DeviceInt.of_loop(begin, length), end, DeviceInt(block), DeviceInt.of_loop(number, length)
    return with_ends(EagerTile(*places, DeviceInt(count), device, limit, Lanes(begin), first))


def with_ends(tile: EagerTile) -> EagerTile:
    """A tile of a loop whose begin and end know it."""
    for place, is_last in ((tile.begin, False), (tile.end, True)):
        assert isinstance(place, DeviceInt)
        place.end_of = TileEnd(tile, is_last, 0)
    return tile
