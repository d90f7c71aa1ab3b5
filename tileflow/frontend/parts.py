"""Parts of captured tensors, as an index with ints and slices names them: an index behind an index, ``x[b]`` and then
``[rows, :]``, is one of the tensor, ``x[b, rows, :]``.

:mod:`.loaded_parts` reads so of what was loaded whole; :mod:`.part_views` reads and stores so through a name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ShapeError
from ..expr import Expr
from ..ir.types import is_float
from .affine import between
from .intervals import interval, without_lanes
from .loaded_tiles import Part, Run, is_number
from .trace import Tracer
from .values import SymInt, TileProxy, TileValue


@dataclass(frozen=True, slots=True)
class Access:
    """Which elements an index of a part may name. Of a tile that was loaded, lanes outside are 0; ``is_memory``: they
    are what a tensor says they are, past its own ends; ``is_masked``: the author's mask says."""

    is_memory: bool
    is_masked: bool = False


TILE = Access(is_memory=False)


def joined(t: Tracer, part: Part, index: Sequence[Any], access: Access) -> tuple[Any, ...] | None:
    """The tensor's index for an index of the part, which has an item for each of its dimensions, and may have None
    among them; None where there is no such one."""
    found: list[Any] = []
    rest = list(part.items)
    for item in index:
        if item is None:
            found.append(None)
            continue
        while is_number(rest[0]):
            found.append(rest.pop(0))
        found.append(_joined(t, rest.pop(0), item, access))
        if found[-1] is None:
            return None
    found += rest
    return None if sum(map(is_places, found)) > 1 and not access.is_memory else tuple(found)


def place(t: Tracer, run: Run, offset: Any) -> Any:
    """Where the element ``offset``, a size, a scalar, a tile of ints or a loop's, of a run lies in the dimension."""
    if isinstance(offset, (int, SymInt)):
        offset = t.as_expr(offset, "an index")
    if isinstance(run.start, Expr) and isinstance(offset, Expr):
        return t.size(run.start + offset)
    offset = t.size(offset) if isinstance(offset, Expr) else offset
    if run.begins_first:
        return offset
    start = t.size(run.start) if isinstance(run.start, Expr) else run.start
    return start if isinstance(offset, int) and offset == 0 else offset + start


def _joined(t: Tracer, first: Any, second: Any, access: Access) -> Any:
    if isinstance(first, Run):
        return within(t, first, second, access)
    return first if is_whole(second) else None


def within(t: Tracer, run: Run, item: Any, access: Access = TILE) -> Any:
    """An item of elements in a row as one of the dimension in which they lie; None where it may name others there."""
    if run.is_all:
        return None if not access.is_memory and runs_past(t, item, run.whole) else item
    if is_whole(item):
        return slice(place(t, run, 0), place(t, run, run.size))
    if isinstance(item, slice):
        ends = _ends(t, item, run.size, access)
        return None if ends is None else slice(*(place(t, run, end) for end in ends))
    if access.is_memory and isinstance(item, (int, SymInt)):
        return place(t, run, _counted(t, item, run.size))
    if not access.is_masked and not stays_inside(t, item, run.size):
        return None
    return place(t, run, item)


def _ends(t: Tracer, item: slice, size: Expr, access: Access) -> tuple[Any, Any] | None:
    """Where the elements of a slice begin and end among ``size``; None where only the kernel knows."""
    part = clipped(item, size)
    if part is not None:
        return (part.start, part.stop) if part.step == 1 else None
    ends = (item.start, item.stop)
    if not access.is_memory or item.step not in (None, 1):
        return None
    if not all(end is None or isinstance(end, (int, SymInt)) for end in ends):
        return None
    start = Expr.of(0) if item.start is None else _clip(t, t.as_expr(item.start, "a slice's end"), size)
    stop = size if item.stop is None else _clip(t, t.as_expr(item.stop, "a slice's end"), size)
    return None if start is None or stop is None else (start, stop if t.decide(start.le(stop)) else start)


def _clip(t: Tracer, end: Expr, size: Expr) -> Expr | None:
    """An end of a slice among ``size`` elements, as Python clips it; None where no launch settles it."""
    if not (end.symbols() | size.symbols()) <= t.hints.keys():
        return None
    if end.constant != 0 and t.decide(end.lt(0)):
        end = end + size
        return Expr.of(0) if t.decide(end.lt(0)) else end
    return end if t.decide(end.le(size)) else size


def _counted(t: Tracer, item: Any, size: Expr) -> Any:
    """A number of an element, from the front. Raises ShapeError for one outside."""
    number = t.as_expr(item, "an index")
    if not (number.symbols() | size.symbols()) <= t.hints.keys():
        return item
    found = number + size if t.decide(number.lt(0)) else number
    if not t.decide(Expr.of(0).le(found)) or not t.decide(found.lt(size)):
        raise ShapeError(
            "an index must lie inside the part of a tensor that it is one of",
            got=f"{item} in a dimension of {size}",
            where=t.location(),
            hint="count from 0, or from -1 at the end",
        )
    return t.size(found)


def clipped(item: slice, size: Expr) -> range | None:
    """The elements of a slice between ints; None where a launch says."""
    ends = (item.start, item.stop, item.step)
    if size.constant is None or any(end is not None and type(end) is not int for end in ends):
        return None
    return range(size.constant)[item]


def runs_past(t: Tracer, item: Any, size: Expr) -> bool:
    """Whether a loop leaves a dimension: a tensor refuses it, and lanes outside a tile are 0."""
    if not isinstance(item, TileProxy) or item.offset != Expr.of(0) or item.shift is not None:
        return False
    end = t.tiles[item.name].end
    if not isinstance(end, Expr) or not end.symbols() <= t.hints.keys() or size.constant == 1:
        return False
    return not t.decide(end.le(size))


def stays_inside(t: Tracer, item: Any, size: Expr) -> bool:
    """Whether all that an item names is known to lie inside a dimension."""
    if isinstance(item, TileProxy):
        tile = t.tiles[item.name]
        bounds = [b for b in (tile.begin, tile.end) if isinstance(b, Expr) and b.symbols() <= t.hints.keys()]
        if item.offset != Expr.of(0) or item.shift is not None or len(bounds) < 2:
            return False
        return bool(t.decide(Expr.of(0).le(bounds[0])) and t.decide(bounds[1].le(size)))
    if isinstance(item, int):
        return item == 0 or (size.constant is not None and 0 <= item < size.constant)
    if not isinstance(item, TileValue):
        return isinstance(item, slice)  # is clipped
    found = interval(t, item.value)
    end = None if found.most is None else found.most + 1
    inside = between(t, found.least, end, size, without_lanes(t, item.value))
    return inside.below.constant == 1 and inside.above.constant == 1


# ---- items of an index ----------------------------------------------------------------------------------------------


def is_simple(item: Any) -> bool:
    """Whether an item is one that a part may have, or a part of a part."""
    return isinstance(item, (slice, TileProxy)) or is_number(item) or is_places(item)


def is_whole(item: Any) -> bool:
    """Whether an item is ``:``."""
    return isinstance(item, slice) and item.start is item.stop is item.step is None


def is_places(item: Any) -> bool:
    """Whether an item is a row of ints."""
    is_row = isinstance(item, TileValue) and item.ndim == 1
    return is_row and item.value.type.dtype != "bool" and not is_float(item.value.type.dtype)
