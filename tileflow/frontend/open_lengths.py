"""What to write where a length is asked for in sizes and block sizes, and an author's ends say none."""

from __future__ import annotations

from typing import Any

from .intervals import is_of_ranges, is_of_tile_ends
from .trace import Tracer
from .values import TileValue


def way_out(t: Tracer, start: Any, stop: Any, otherwise: str) -> str:
    """The hint of an error about the length from ``start`` to ``stop``: by what the ends are made of, else
    ``otherwise``."""
    ends = [end.value for end in (start, stop) if isinstance(end, TileValue)]
    if any(is_of_ranges(t, end) for end in ends):
        return "a range of many turns is a loop of the kernel: tfl.static_range writes its turns out"
    if any(is_of_tile_ends(t, end) for end in ends):
        return "a tile's end is cut where its loop ends: count by tile.begin + tile.block_size"
    return otherwise
