"""Tensors of a call in memory that other processes map: the same shapes, strides, dtypes, alignment and aliasing.

What is stored are *spans*: the bytes of one storage from the first to the last that a tensor of the call covers.
Integers, booleans and small spans of floats are stored by value. A large span of floats is drawn anew in every process
from a sample of its values, so that the shares of zeros, infinities and NaN, signs and ranges are the caller's; unless
the caller asks for its values.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

ALIGNMENT = 256  # bytes: what copy engines and vector loads ask for at most
BY_VALUE_BYTES = 64 << 20  # of a span of floats
SAMPLES = 1 << 16  # of a tensor's values
_CHUNK = 1 << 22  # elements that are drawn at a time
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True, slots=True)
class Span:
    """``nbytes`` of one storage, which begin at a multiple of ALIGNMENT.

    ``place``: the offset of their values; None where they are drawn. ``moves``: the span goes to the device that is
    asked for; else it stays on the CPU.
    """

    nbytes: int
    place: int | None
    moves: bool


@dataclass(frozen=True, slots=True)
class View:
    """A tensor over a span. ``offset``: of its first element, in bytes. ``sample``: the place and the number of the
    values to draw from."""

    span: int
    offset: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    sample: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """The spans and views of a call, and how many bytes their values take."""

    spans: tuple[Span, ...]
    views: tuple[View, ...]
    nbytes: int


@dataclass(frozen=True, slots=True)
class _Group:
    """The tensors of one storage, and the addresses that they cover."""

    members: list[int]
    begin: int
    end: int


class Packer:
    """Lays ``tensors`` out, then writes their values. ``device``: the call's; tensors elsewhere stay on the CPU.

    ``by_value``: whether large spans of floats are stored too.
    """

    def __init__(self, tensors: Sequence[torch.Tensor], device: torch.device, by_value: bool = False) -> None:
        self._tensors = [tensor.detach() for tensor in tensors]
        self._chunks: list[tuple[int, torch.Tensor]] = []  # bytes, and where they go
        self._end = 0
        spans: list[Span] = []
        views: dict[int, View] = {}
        for group in _groups(self._tensors):
            first = self._tensors[group.members[0]]
            drawn = all(map(_is_drawable, (self._tensors[i] for i in group.members)))
            drawn = drawn and not by_value and group.end - group.begin > BY_VALUE_BYTES
            base = group.begin - group.begin % ALIGNMENT
            place = None if drawn else self._put(_bytes(first, group), group.begin - base)
            spans.append(Span(group.end - base, place, first.device == device))
            for i in group.members:
                tensor = self._tensors[i]
                offset = tensor.data_ptr() - base if tensor.numel() else 0
                sample = self._sample(tensor) if drawn else None
                shape, strides = tuple(tensor.shape), tuple(tensor.stride())
                views[i] = View(len(spans) - 1, offset, tensor.dtype, shape, strides, sample)
        self.layout = Layout(tuple(spans), tuple(views[i] for i in range(len(tensors))), self._end)

    def write(self, memory: mmap.mmap, begin: int) -> None:
        """Copy the values to their places in ``memory``, for a layout that starts at ``begin``."""
        for place, values in self._chunks:
            if values.numel():
                there = torch.frombuffer(memory, dtype=torch.uint8, count=values.numel(), offset=begin + place)
                there.copy_(values)

    def _put(self, values: torch.Tensor, ahead: int = 0) -> int:
        """Reserve room for the values, with ``ahead`` bytes before them, and return their offset."""
        place = self._end
        self._chunks.append((place + ahead, values))
        self._end = place + -(-(ahead + values.numel()) // ALIGNMENT) * ALIGNMENT
        return place

    def _sample(self, tensor: torch.Tensor) -> tuple[int, int]:
        random = torch.Generator(tensor.device).manual_seed(0)
        where = [torch.randint(n, (SAMPLES,), generator=random, device=tensor.device) for n in tensor.shape]
        values = tensor.view(_INTEGERS[tensor.itemsize])[tuple(where)]
        return self._put(values.view(torch.uint8)), SAMPLES


def _groups(tensors: Sequence[torch.Tensor]) -> list[_Group]:
    """Group the tensors that share memory; one without elements is alone."""
    members: dict[Any, list[int]] = {}
    for i, tensor in enumerate(tensors):
        alone = not tensor.numel()
        members.setdefault(i if alone else (tensor.device, tensor.untyped_storage().data_ptr()), []).append(i)
    groups = []
    for found in members.values():
        covered = [_covered(tensors[i]) for i in found]
        groups.append(_Group(found, min(begin for begin, _ in covered), max(end for _, end in covered)))
    return groups


def _covered(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the first address of a tensor's elements and the one after its last."""
    if not tensor.numel():
        return 0, 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.itemsize


def _is_drawable(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and tensor.itemsize in _INTEGERS and tensor.dim() > 0


def _bytes(tensor: torch.Tensor, group: _Group) -> torch.Tensor:
    """Return what the group's addresses hold, on the tensor's device, without a copy."""
    raw = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    if group.begin == group.end:
        return raw
    storage = tensor.untyped_storage()
    return raw.set_(storage, group.begin - storage.data_ptr(), (group.end - group.begin,), (1,))


# ---- making them again ----------------------------------------------------------------------------------------------


def unpack(layout: Layout, memory: mmap.mmap | None, begin: int, device: str, seed: int) -> list[torch.Tensor]:
    """Make new tensors on ``device``, with memory of their own, from the values in ``memory``.

    On ``meta`` they have no memory. ``seed``: for those whose values are drawn.
    """
    places = [device if span.moves or device == "meta" else "cpu" for span in layout.spans]
    buffers = [_buffer(span, place) for span, place in zip(layout.spans, places, strict=True)]
    for span, (buffer, offset) in zip(layout.spans, buffers, strict=True):
        if memory is not None and span.place is not None and span.nbytes:
            values = torch.frombuffer(memory, dtype=torch.uint8, count=span.nbytes, offset=begin + span.place)
            buffer[offset : offset + span.nbytes].copy_(values)
    made = []
    for number, view in enumerate(layout.views):
        buffer, offset = buffers[view.span]
        tensor = torch.empty(0, dtype=view.dtype, device=buffer.device)
        at = (offset + view.offset) // view.dtype.itemsize
        tensor.set_(buffer.untyped_storage(), at, view.shape, view.strides)
        if memory is not None and view.sample is not None:
            place, count = view.sample
            size = count * view.dtype.itemsize
            values = torch.frombuffer(memory, dtype=torch.uint8, count=size, offset=begin + place)
            _draw(tensor, values.to(buffer.device).view(_INTEGERS[view.dtype.itemsize]), (seed << 10) + number)
        made.append(tensor)
    return made


def _buffer(span: Span, device: str) -> tuple[torch.Tensor, int]:
    """Return memory for a span, and the offset of an aligned address in it."""
    buffer = torch.empty(span.nbytes + ALIGNMENT, dtype=torch.uint8, device=device)
    return buffer, 0 if device == "meta" else -buffer.data_ptr() % ALIGNMENT


def _draw(tensor: torch.Tensor, sample: torch.Tensor, seed: int) -> None:
    """Fill ``tensor`` with elements of ``sample``, which are its own bits."""
    random = torch.Generator(tensor.device).manual_seed(seed)
    begin, end = _covered(tensor)
    bits = tensor.view(sample.dtype)
    once = bits[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in tensor.stride())]
    count = (end - begin) // tensor.itemsize
    if once.numel() > count or once.is_contiguous():  # overlapping itself: all that it covers
        once = bits.as_strided((count,), (1,))
    flat = once.is_contiguous()
    rows = once.flatten() if flat else once  # a view
    step = _CHUNK if flat else max(_CHUNK // max(once[0].numel(), 1), 1)
    for first in range(0, len(rows), step):
        part = rows[first : first + step]
        part.copy_(sample[torch.randint(len(sample), part.shape, generator=random, device=tensor.device)])
