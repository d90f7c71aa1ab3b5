"""Stores: into outputs of host code, whole, shifted, masked, accumulated, by atomics."""

from __future__ import annotations

from dataclasses import replace

import torch

from .tensors import RANGES, SAFE_LAYOUTS, Argument, Tensor
from .values import FLOATS, Dim, Range, Value, aligned, held
from .writer import Loop, Writer

MOST_OUT = 1 << 15
ATOMIC = {torch.float32: ("add", "max", "min"), torch.int32: ("add", "max", "min", "or", "and", "xor"),
          torch.int64: ("add", "max", "min", "xor"), torch.float16: ("add",)}  # fmt: skip


def store(w: Writer, value: Value) -> bool:
    """A store of a value into an output of its own: an axis for each loop around, and for each whole dimension."""
    dtype = _dtype(w, value)
    held_in = held(value.range, dtype)
    if held_in is None:
        return False
    whole = [d for d in value.dims if not d.tile]
    places: list[Loop | Dim] = w.draws.order([*w.loops, *whole])
    sizes = [p.size for p in places]
    total = 1
    for size in sizes:
        total *= max(size, 1)
    if total > MOST_OUT or len(sizes) > 5 or not _tiles_are_here(w, value):
        return False
    kind = w.draws.weighted([(8, "plain"), (2, "shifted"), (2, "accumulated"), (2, "atomic"), (2, "masked")])
    if kind == "atomic" and _atomic(w, value, held_in):
        return True
    shifts = [w.draws.below(3) if kind == "shifted" and isinstance(p, Loop) else 0 for p in places]
    out = Tensor(w.name("out"), dtype, tuple(s + n for s, n in zip(sizes, shifts, strict=True)), held_in)
    dims = tuple(d for p in places for d in _dims(p))
    text = aligned(value, dims)
    index = ", ".join(_index(p, n) for p, n in zip(places, shifts, strict=True))
    _write(w, kind, out, index, text, value, dims)
    if kind in ("plain", "shifted") and out.may_be_read:
        _read_again(w, out, index, places, dims)
    return True


def _read_again(w: Writer, out: Tensor, index: str, places: list[Loop | Dim], dims: tuple[Dim, ...]) -> None:
    """What this iteration has stored, by the same name or by that of a view."""
    values = replace(out.range, step=out.range.step)
    w.stored.append((f"{out.name}[{index}]", Value("", out.dtype, dims, values)))
    if len(places) == 2 and not any(a.name == out.name for a in w.changed) and w.draws.chance(40):
        w.host.append(f"{out.name}_t = {out.name}.t()")
        rows, columns = index.split(", ")
        w.stored.append((f"{out.name}_t[{columns}, {rows}]", Value("", out.dtype, dims[::-1], values)))


def _write(w: Writer, kind: str, out: Tensor, index: str, text: str, value: Value, dims: tuple[Dim, ...]) -> None:
    masks = [v for v in w.values if v.dtype == torch.bool and set(v.dims) <= set(dims)]
    start = "zeros"
    if kind == "accumulated" and out.dtype != torch.bool and (twice := held(out.range.times(2), out.dtype)) is not None:
        start, out = "ones", replace(out, range=twice.hull(Range(0, 1, 1)))
        w.line(f"{out.name}[{index}] += {text}")
    elif kind == "masked" and masks and ":" not in index:
        mask = aligned(w.draws.of(masks), dims)
        if w.draws.chance(50):
            w.line(f"tfl.store({out.name}, [{index}], {text}, extra_mask={mask})")
        else:
            w.line(f"{out.name}[{index}] = torch.where({mask}, {text}, {out.name}[{index}])")
        out = replace(out, range=out.range.hull(Range(0, 0, 1)))
    else:
        start = "zeros" if kind == "shifted" or out.dtype == torch.bool else w.draws.of(("empty", "zeros"))
        w.line(f"{out.name}[{index}] = {text}")
        out = replace(out, range=out.range.hull(Range(0, 0, 1)))
    _allocate(w, out, start)


def _allocate(w: Writer, out: Tensor, start: str) -> None:
    if start == "empty" and w.partial:
        start = "zeros"
    if w.draws.chance(15) and out.dtype in RANGES:
        values = RANGES[out.dtype]
        w.changed.append(Argument(out.name, out.dtype, out.sizes, values, w.draws.of(SAFE_LAYOUTS)))
        return
    sizes = ", ".join(map(str, out.sizes)) + ("," if len(out.sizes) == 1 else "")
    w.host.append(f"{out.name} = torch.{start}(({sizes}), dtype={out.dtype}, device=x0.device)")
    w.outputs.append(out)


def _atomic(w: Writer, value: Value, held_in: Range) -> bool:
    """Some axes alone: what each iteration of the other loops adds."""
    if value.dtype not in ATOMIC or not value.dims or not value.is_exact:
        return False
    turns = 1
    for loop in w.loops:
        turns *= max(loop.size, 1)
    values = held(value.range.times(turns), value.dtype)
    if values is None or not values.step:
        return False
    kind = w.draws.of(ATOMIC[value.dtype])
    out = Tensor(w.name("out"), value.dtype, tuple(d.size for d in value.dims), values.hull(Range(0, 0, 1)))
    if kind in ("or", "and", "xor"):
        info = torch.iinfo(value.dtype)
        out = replace(out, range=Range(info.min, info.max, 1))
    index = ", ".join(d.tile or "slice(None)" for d in value.dims)
    w.line(f"tfl.atomic_{kind}({out.name}, [{index}], {value.text})")
    _allocate(w, out, "zeros")
    return True


def _dtype(w: Writer, value: Value) -> torch.dtype:
    """Its own, mostly; another that all of its numbers are in."""
    if value.is_float and w.draws.chance(25):
        return w.draws.of(FLOATS)
    if value.is_int and value.range.most < 2**31 and w.draws.chance(25):
        return w.draws.of((torch.int32, torch.int64))
    return value.dtype


def _tiles_are_here(w: Writer, value: Value) -> bool:
    here = {loop.dim for loop in w.loops if loop.is_tile}
    return all(not d.tile or d in here for d in value.dims)


def _dims(place: Loop | Dim) -> tuple[Dim, ...]:
    if isinstance(place, Dim):
        return (place,)
    return (place.dim,) if place.is_tile else ()


def _index(place: Loop | Dim, shift: int) -> str:
    if isinstance(place, Dim):
        return ":"
    return f"{place.variable} + {shift}" if shift else place.variable
