"""Rules that the eager and the compiled meaning of an index share."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar

# What another dialect means by the same text, while its kernels are traced or run as plain Python:
# 1-D tiles of ints of no loop, as of ``arange(8)``, are an outer product in an index even where their sizes agree.
OUTER_CONSTANTS: ContextVar[bool] = ContextVar("OUTER_CONSTANTS", default=False)

ONCE = "the index of a store or an atomic names a loop's lanes in one dimension, unless it spells out pairs"


def named_twice(lanes: Sequence[object], items: Sequence[tuple[int, ...]]) -> int | None:
    """The first dimension of an index by itself whose lanes another dimension is of too, as those of ``out[t, y[t]]``;
    None where there is none. ``lanes``: of each dimension, None where it is of no loop. ``items``: the dimensions that
    each item of the index has; those that ``[:, None]`` made pairs of have several."""
    alone = sorted({axes[0] for axes in items if len(axes) == 1})
    return next((a for a in alone if lanes[a] is not None and list(lanes).count(lanes[a]) > 1), None)


def most_behind(items: Sequence[tuple[int, ...]], is_own: Sequence[bool]) -> int:
    """How many dimensions a loaded index has behind those of a loop's lanes, at most. ``items``: the dimensions that
    each item of the index has; ``is_own``: of each dimension, whether it is of that loop."""
    return max((len(axes) - 1 - n for axes in items for n, axis in enumerate(axes) if is_own[axis]), default=0)


def once_hint(tile: str, behind: int = 0) -> str:
    """How to write one element for each lane, and all pairs. ``behind``: the dimensions of the loaded index ``y``
    behind the tile's own."""
    rows, loaded = lane_index(tile, behind), loaded_index(tile, behind)
    pairs = lane_index(tile, behind + 1)
    return f"one element for each lane of {tile}: out[{rows}, {loaded}]; all pairs: out[{pairs}, {loaded}[None, :]]"


def lane_index(tile: str, behind: int) -> str:
    """A tile's lanes against an index that has so many dimensions ``behind`` these."""
    return f"{tile}.index" + (f"[:{', None' * behind}]" if behind else "")


def loaded_index(tile: str, behind: int) -> str:
    """An index that was loaded by a tile, with so many whole dimensions ``behind`` its own."""
    return f"y[{tile}{', :' * behind}]"
