"""What an index names of a tile in registers, as far as sizes say it: see :mod:`tileflow.language.cuts`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..language.cuts import Spans, cut_of
from .values import SymInt, TileValue


def cut_by(x: TileValue, items: Sequence[Any], hints: Mapping[str, int]) -> Spans:
    """What ``x[items]`` names of ``x``."""
    sizes = [size if size.constant is None else size.constant for size in x.extents]
    return cut_of([_item(i, hints) for i in items], sizes)


def _item(item: Any, hints: Mapping[str, int]) -> Any:
    """An item with sizes as expressions. What only the kernel knows may name anything."""
    if item is None or item is Ellipsis:
        return item
    ends = (item.start, item.stop, item.step) if isinstance(item, slice) else (item,)
    if not all(end is None or isinstance(end, int) or _is_from_the_front(end, hints) for end in ends):
        return slice(None)
    plain = [end.expr if isinstance(end, SymInt) else end for end in ends]
    return slice(*plain) if isinstance(item, slice) else plain[0]


def _is_from_the_front(end: Any, hints: Mapping[str, int]) -> bool:
    if not isinstance(end, SymInt):
        return False
    return not end.expr.symbols() <= hints.keys() or end.expr.evaluate(hints) >= 0
