"""Loads: a tensor by an index of each axis."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from .tensors import Tensor
from .values import Dim, Range, Value, held
from .writer import MOST_ELEMENTS, Loop, Writer

MOST_WHOLE = 70


@dataclass(frozen=True, slots=True)
class Index:
    """How an axis is indexed. ``leaves``: whether it may name what lies outside, which reads as 0. ``gathers``: whether
    it is a tile of ints."""

    text: str
    dim: Dim | None = None
    leaves: bool = False
    gathers: bool = False


def load(w: Writer, tensor: Tensor | None = None) -> Value | None:
    """Writes a load; None where no index fits."""
    if tensor is None and w.stored and w.draws.chance(15):
        text, value = w.draws.of(w.stored)
        return w.given(text, replace(value, text=w.name("v")))
    tensor = tensor or w.draws.of(w.tensors)
    chosen = list[Index]()
    for size in tensor.sizes:
        taken = [i.dim for i in chosen]
        choices = [c for c in indices(w, size) if c[1].dim is None or c[1].dim not in taken]
        if any(i.gathers for i in chosen):
            choices = [c for c in choices if not c[1].gathers]
        if not choices:
            return None
        chosen.append(w.draws.weighted(choices))
    dims = tuple(i.dim for i in chosen if i.dim is not None)
    numel = 1
    for dim in dims:
        numel *= dim.size
    if numel > MOST_ELEMENTS or len(dims) > 4:
        return None
    leaves = any(i.leaves for i in chosen)
    values = tensor.range.hull(Range(0, 0, 1)) if leaves else tensor.range
    found = held(values, tensor.dtype)
    if found is None:
        return None
    made = Value(w.name("v"), tensor.dtype, dims, found)
    return w.given(_text(w, tensor, chosen, made), made)


def _text(w: Writer, tensor: Tensor, chosen: list[Index], made: Value) -> str:
    text = ", ".join(i.text for i in chosen)
    masks = [v for v in w.values if v.dtype == torch.bool and v.dims == made.dims and v.dims]
    if masks and w.draws.chance(40) and not any(":" in i.text for i in chosen):
        return f"tfl.load({tensor.name}, [{text}], extra_mask={w.draws.of(masks).text})"
    if not chosen:
        return f"{tensor.name}[()]"
    last = len(chosen) - 1
    if len(chosen) > 1 and chosen[last].text == ":" and w.draws.chance(20):
        return f"{tensor.name}[{', '.join(i.text for i in chosen[:last])}, ...]"
    return f"{tensor.name}[{text}]"


def indices(w: Writer, size: int) -> list[tuple[int, Index]]:
    found = [(12, Index(loop.variable, loop.dim)) for loop in w.loops if loop.is_tile and loop.size == size]
    found += [(8, Index(loop.variable, Dim(1))) for loop in w.loops if loop.is_tile and size == 1 < loop.size]
    found += [
        (2, Index(f"{t}.begin:{t}.end", loop.dim))
        for loop in w.loops
        if loop.is_tile and loop.size == size
        for t in [loop.variable]
    ]
    if 0 < size <= MOST_WHOLE:
        found.append((6, Index(":", Dim(size))))
    for loop in w.loops:
        if not loop.is_tile and loop.size + 2 <= size:
            found.append((6, Index(f"{loop.variable} : {loop.variable} + 3", Dim(3))))
        if loop.is_tile and 0 < loop.size <= size:
            found.append((1, Index(f"{loop.variable}.begin : {loop.variable}.begin + 2", Dim(2), leaves=True)))
    for loop in reversed(w.loops):
        found += _of_tile(w, loop, size) if loop.is_tile else [(14, Index(loop.variable))] * (loop.size <= size)
    if size > 0:
        found += [(1, Index(str(w.draws.below(size)))), (1, Index("-1"))]
    if 3 <= size <= MOST_WHOLE:
        found += _slices(w, size)
    for value in w.values[-8:]:
        if (
            value.is_int
            and value.is_exact
            and value.range.low >= 0
            and value.range.high < size
            and len(value.dims) <= 1
        ):
            dim = value.dims[0] if value.dims else None
            found.append((6, Index(value.text, dim, gathers=dim is not None)))
    return found


def _of_tile(w: Writer, loop: Loop, size: int) -> list[tuple[int, Index]]:
    """Of a tile that is no longer than the axis, and of one that may leave it."""
    t, dim, found = loop.variable, loop.dim, list[tuple[int, Index]]()
    if loop.size == 0:
        return found
    if loop.size < size:
        found.append((6, Index(f"{t} + {size - loop.size}", dim)))
    shift = w.draws.between(1, 3)
    if loop.size <= size or w.draws.chance(5):
        found += [(2, Index(f"{t} + {shift}", dim, leaves=True)), (2, Index(f"{t} - {shift}", dim, leaves=True))]
    if loop.size <= size:
        found += [
            (1, Index(f"{t}.begin")), (1, Index(f"{t}.id")), (1, Index(f"{t}.end - 1")),
            (2, Index(f"{t}.index", dim, gathers=True)),
        ]  # fmt: skip
    if size > 0:
        found.append((2, Index(f"({t}.index + {shift}) % {size}", dim, gathers=True)))
    return found


def _slices(w: Writer, size: int) -> list[tuple[int, Index]]:
    begin = w.draws.below(size - 1)
    end = w.draws.between(begin + 1, size)
    step = w.draws.between(2, 3)
    strided = -(-(end - begin) // step)
    return [
        (3, Index(f"{begin}:{end}", Dim(end - begin))),
        (2, Index(f"{begin}:{end}:{step}", Dim(strided))),
        (1, Index(f"{begin}:", Dim(size - begin))),
    ]
