"""The text of a tile with more or fewer lanes along its dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ir.types import Dim


def with_lanes(text: str, own: Sequence[Dim], wanted: Sequence[Dim], size: Callable[[Dim], str]) -> str:
    """Source text of the tile ``text`` of dimensions ``own`` as one of ``wanted``, which has as many: the first lanes
    where a dimension is shorter, zeros behind its own where it is longer. ``size`` spells a dimension's."""
    for axis, (before, after) in enumerate(zip(own, wanted, strict=True)):
        if before.extent != after.extent:
            later = "0, 0, " * (len(own) - 1 - axis)
            text = f"torch.nn.functional.pad({text}, [{later}0, ({size(after)}) - ({size(before)})])"
    return text
