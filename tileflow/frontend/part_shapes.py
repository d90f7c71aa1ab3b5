"""Views of parts of tensors: what torch's methods make of ``out[b]`` under other dimensions, as a part of a view of the
tensor. Those that an index says, as ``select`` and ``chunk``, are :mod:`.part_views`'."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from ..errors import ShapeError, TileflowError
from ..language.captured_views import taken
from .loaded_tiles import Part, Run
from .trace import Tracer

_ORDERS = frozenset({"t", "T", "mT", "permute", "transpose", "swapaxes", "swapdims", "movedim", "moveaxis"})
_SHAPES = frozenset({"view", "reshape", "flatten", "ravel", "unflatten"})


def shaped(t: Tracer, part: Part, name: str, words: str) -> Part | None:
    """The view of a part that ``words`` say, by the method ``name``; None where it is none of the tensor's memory, as
    strides say it. Raises ShapeError where torch has no such view."""
    if name in _ORDERS:
        return _turned(t, part, words)
    if name in _SHAPES:
        return _reshaped(t, part, words)
    try:
        return _OTHERS[name](t, part, words) if name in _OTHERS else None
    except ShapeError:
        torch_has(t, sizes_of(t, part), words, part.ref.path)  # the error, if torch has none of the part either
        return None


def torch_has(t: Tracer, sizes: Sequence[int], words: str, path: str) -> list[list[int]]:
    """The sizes of the one or the several tensors that torch makes of one of these sizes. Raises ShapeError."""
    with t.plain_torch():
        try:
            made = taken(torch.empty(tuple(sizes), device="meta"), words, path)
            return [list(one.shape) for one in (made if isinstance(made, tuple) else (made,))]
        except TileflowError as error:
            error.stand_at(t.location())
            raise


def sizes_of(t: Tracer, part: Part) -> list[int]:
    """The sizes of a part's dimensions, as constants."""
    return [t.specialize(part.items[axis].size) for axis in part.axes]


def _turned(t: Tracer, part: Part, words: str) -> Part:
    """Other orders of the dimensions: those of numbers stay where they are."""
    axes = part.axes
    (found,) = torch_has(t, range(2, 2 + len(axes)), words, part.ref.path)  # no two sizes are the same
    order = list(range(len(part.items)))
    for axis, size in zip(axes, found, strict=True):
        order[axis] = axes[size - 2]
    if order == sorted(order):
        return part
    return Part(part.ref.viewed("permute", *order), tuple(part.items[axis] for axis in order))


def _unsqueezed(t: Tracer, part: Part, words: str) -> Part:
    """A dimension of 1 put in."""
    axes = (*part.axes, len(part.items))
    (found,) = torch_has(t, [2] * len(part.axes), words, part.ref.path)
    dim = found.index(1)
    return _with(part.ref.viewed("unsqueeze", axes[dim]), part, axes[dim], axes[dim], 1)


def _with(ref: Any, part: Part, begin: int, end: int, count: int) -> Part:
    """``count`` whole dimensions of ``ref`` in place of those from ``begin`` up to ``end``."""
    whole = map(Run.all, ref.dims[begin : begin + count])
    return Part(ref, (*part.items[:begin], *whole, *part.items[end:]))


def _whole(t: Tracer, part: Part, axis: int) -> Part | None:
    """The part with a run of elements as a whole dimension, of a narrower view; None where a scalar of the kernel says
    where it begins."""
    run = part.items[axis]
    if run.is_all:
        return part
    if not run.is_known:
        return None
    narrow = part.ref.viewed("narrow", axis, t.size(run.start), t.size(run.size))
    return Part(narrow, part.items).replaced(axis, Run.all(narrow.dims[axis]))


# ---- other sizes ----------------------------------------------------------------------------------------------------


def _reshaped(t: Tracer, part: Part, words: str) -> Part | None:
    """Other dimensions of the same elements, group by group; None where some do not follow one another in memory."""
    old = sizes_of(t, part)
    (new,) = torch_has(t, old, words, part.ref.path)
    if 0 in old:
        return None
    at = 0
    for left, right in _groups(old, new):
        made = _regrouped(t, part, at, len(left), right)
        if made is None:
            return None
        part, at = made, at + len(right)
    return part


def _groups(old: Sequence[int], new: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """The fewest dimensions at a time that hold as many elements before and after; one of 1 may have none."""
    olds, news = list(old), list(new)
    while olds or news:
        if olds[:1] == [1] != news[:1]:
            yield [olds.pop(0)], []
            continue
        if news[:1] == [1] != olds[:1]:
            yield [], [news.pop(0)]
            continue
        left, right = [olds.pop(0)], [news.pop(0)]
        while (a := math.prod(left)) != (b := math.prod(right)):
            side, rest = (left, olds) if a < b else (right, news)
            side.append(rest.pop(0))
        yield left, right


def _regrouped(t: Tracer, part: Part, at: int, count: int, sizes: Sequence[int]) -> Part | None:
    """``count`` dimensions from ``at`` on as others of ``sizes``."""
    if count == len(sizes) == 1:
        return part
    if not count:
        return _unsqueezed(t, part, f"unsqueeze_{at}")
    part = _side_by_side(part, at, count)
    first, last = part.axes[at], part.axes[at + count - 1]
    begin = part.items[first]
    if not sizes:
        return part.replaced(first, t.size(begin.start) if begin.is_known else begin.start)
    is_moved = not begin.is_known and len(sizes) == 1
    for axis in range(first + is_moved, last + 1):
        narrowed = _whole(t, part, axis)
        if narrowed is None:
            return None
        part = narrowed
    try:
        ref = part.ref.viewed("flatten", first, last) if count > 1 else part.ref
        ref = ref.viewed("unflatten", first, tuple(sizes)) if len(sizes) > 1 else ref
    except ShapeError:
        return None
    made = _with(ref, part, first, last + 1, len(sizes))
    if not is_moved:
        return made
    row = sizes[0] // t.specialize(begin.size)
    return made.replaced(first, Run(begin.start * row, begin.size * row, ref.dims[first]))


def _side_by_side(part: Part, at: int, count: int) -> Part:
    """The part with those of its dimensions that are to be one side by side in the tensor: others' numbers in front."""
    axes = part.axes
    if axes[at + count - 1] - axes[at] == count - 1:
        return part
    order = [*(axis for axis in range(len(part.items)) if axis not in axes), *axes]
    return Part(part.ref.viewed("permute", *order), tuple(part.items[axis] for axis in order))


# ---- dimensions that share elements ---------------------------------------------------------------------------------


def _windows(t: Tracer, part: Part, words: str) -> Part | None:
    """``unfold``: the dimension of windows stays where it was, their elements lie in a new last one."""
    dim, size, step = _numbers(words)
    axis = part.axes[dim]
    whole = _whole(t, part, axis)
    if whole is None:
        return None
    ref = whole.ref.viewed("unfold", axis, size, step)
    return Part(ref, (*whole.replaced(axis, Run.all(ref.dims[axis])).items, Run.all(ref.dims[-1])))


def _diagonal(t: Tracer, part: Part, words: str) -> Part | None:
    """``diagonal``: a new last dimension in place of two."""
    given = _numbers(words)
    offset, dim1, dim2 = [*given, *(0, 0, 1)[len(given) :]]
    first, second = part.axes[dim1], part.axes[dim2]
    for axis in (first, second):
        whole = _whole(t, part, axis)
        if whole is None:
            return None
        part = whole
    ref = part.ref.viewed("diagonal", offset, first, second)
    rest = [item for axis, item in enumerate(part.items) if axis not in (first, second)]
    return Part(ref, (*rest, Run.all(ref.dims[-1])))


def _numbers(words: str) -> list[int]:
    return [-int(word[1:]) if word[0] == "m" else int(word) for word in words.split("_")[1:]]


_OTHERS: dict[str, Callable[[Tracer, Part, str], Part | None]] = {
    "unsqueeze": _unsqueezed,
    "unfold": _windows,
    "diagonal": _diagonal,
}
