"""What views of one tile name of it: two that have no element in common, ``a[:, :3]`` and ``a[:, 3:]`` or the parts of
a ``chunk``, may each be changed in place."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

# by the dimension, or what several views were made by, the first element, where it ends, and the step; sizes may be
# expressions of which differences have a ``constant``
Spans = Mapping[Hashable, tuple[Any, Any, Any]]
_COUNTED = 4096  # elements, up to which two runs are compared one by one


def cut_of(items: Sequence[Any], sizes: Sequence[Any]) -> Spans:
    """What an index of ints and slices names of dimensions of these sizes, as far as that is known."""
    axis, found = 0, dict[Hashable, tuple[Any, Any, Any]]()
    for place, item in enumerate(items):
        if item is Ellipsis:
            axis = len(sizes) - sum(i is not None for i in items[place + 1 :])
        elif item is not None and axis < len(sizes):
            run = _run(item, sizes[axis])
            found |= {axis: run} if run is not None else {}
            axis += 1
    return found


def _run(item: Any, size: Any) -> tuple[Any, Any, Any] | None:
    if not isinstance(item, slice):
        return (*_ends(item, item + 1, size), 1) if _is_size(item) else None
    step = 1 if item.step is None else item.step
    start, stop = 0 if item.start is None else item.start, size if item.stop is None else item.stop
    if not _is_size(start) or not _is_size(stop) or not isinstance(step, int) or step < 1:
        return None
    if all(isinstance(n, int) for n in (start, stop, size)):
        return slice(start, stop, step).indices(size)
    return (*(_from_the_front(end, size) for end in (start, stop)), step)


def _ends(start: Any, stop: Any, size: Any) -> tuple[Any, Any]:
    return (start + size, stop + size) if isinstance(start, int) and start < 0 else (start, stop)


def _from_the_front(end: Any, size: Any) -> Any:
    return end + size if isinstance(end, int) and end < 0 else end


def _is_size(item: Any) -> bool:
    return (isinstance(item, int) and not isinstance(item, bool)) or hasattr(item, "constant")


def are_apart(one: Spans, other: Spans) -> bool:
    """Whether two views of one tile are known to have no element in common."""
    return any(_are_runs_apart(one[key], other[key]) for key in one.keys() & other.keys())


def _are_runs_apart(one: tuple[Any, Any, Any], other: tuple[Any, Any, Any]) -> bool:
    if _is_at_most(one[1], other[0]) or _is_at_most(other[1], one[0]):
        return True
    if not all(isinstance(n, int) for n in (*one, *other)):
        return False
    fewer, more = sorted((range(*one), range(*other)), key=len)
    return len(fewer) <= _COUNTED and not any(n in more for n in fewer)


def _is_at_most(a: Any, b: Any) -> bool:
    difference = b - a
    known = difference if isinstance(difference, int) else difference.constant
    return known is not None and known >= 0
