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


def once_hint(tile: str) -> str:
    """How to write one element for each lane, and all pairs."""
    return (
        f"one element for each lane of {tile}: out[{tile}.index, y[{tile}]]; "
        f"all pairs: out[{tile}.index[:, None], y[{tile}][None, :]]"
    )
