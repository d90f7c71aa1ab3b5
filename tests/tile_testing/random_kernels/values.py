"""What a name of a generated kernel holds: dtype, dimensions, and between which numbers.

A value is *exact* where every way to compute it gives the same number: no operation on its way rounds in any of the
dtypes that may hold it. What is compared, cut to an int or sorted is exact, since rounding would choose otherwise
there; and what is stored of exact values must be equal to the last bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite
from types import MappingProxyType
from typing import Any

import torch

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
INTS = (torch.int32, torch.int64, torch.int8, torch.uint8)
DTYPES = (*FLOATS, *INTS, torch.bool)
BITS = {torch.float64: 52, torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}
MOST = {torch.float32: 2.0**20, torch.float64: 2.0**20, torch.float16: 2.0**11, torch.bfloat16: 2.0**11}
MOST_INEXACT = 256.0


@dataclass(frozen=True, slots=True)
class Range:
    """All are in [low, high]; multiples of ``step``, a power of two, unless it is 0: then they are not exact."""

    low: float
    high: float
    step: float = 0.0

    @property
    def most(self) -> float:
        return max(abs(self.low), abs(self.high))

    def hull(self, *others: Range) -> Range:
        every = (self, *others)
        step = min(r.step for r in every)
        return Range(min(r.low for r in every), max(r.high for r in every), step)

    def times(self, n: int) -> Range:
        """Of sums of up to ``n`` of them."""
        return Range(min(self.low * n, self.low, 0), max(self.high * n, self.high, 0), self.step)


def held(values: Range, dtype: torch.dtype) -> Range | None:
    """The range once the values are of the dtype; None where they may be too large for tests of it."""
    if dtype == torch.bool:
        return Range(0, 1, 1)
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        if values.low >= info.min and values.high <= info.max:
            return replace(values, step=max(values.step, 1.0))
        return Range(info.min, info.max, 1)
    if not isfinite(values.most) or values.most > (MOST[dtype] if values.step else MOST_INEXACT):
        return None
    if values.step and values.most / values.step > 2 ** BITS[dtype]:
        return replace(values, step=0.0) if values.most <= MOST_INEXACT else None
    return values


@dataclass(frozen=True, slots=True)
class Dim:
    """A dimension of a register tile: of the loop whose variable is ``tile``, or a whole one of a constant size."""

    size: int
    tile: str = ""

    @property
    def text(self) -> str:
        return self.tile or str(self.size)


@dataclass(frozen=True, slots=True)
class Value:
    """``number``: of one of Python's own, a literal, a constant of the module or an argument. ``parts``: the loops
    whose variables it depends on, beside those of its dimensions."""

    text: str
    dtype: torch.dtype
    dims: tuple[Dim, ...]
    range: Range
    number: Any = None

    @property
    def is_exact(self) -> bool:
        return self.range.step > 0

    @property
    def is_float(self) -> bool:
        return self.dtype.is_floating_point

    @property
    def is_int(self) -> bool:
        return not self.is_float and self.dtype != torch.bool

    @property
    def numel(self) -> int:
        total = 1
        for dim in self.dims:
            total *= dim.size
        return total

    def meta(self, primes: Mapping[Dim, int]) -> Any:
        """Something of its type, without data, for torch to say what an expression of it has."""
        if self.number is not None:
            return self.number
        return torch.empty([primes.get(d, d.size) for d in self.dims], dtype=self.dtype, device="meta")


_PRIMES = (1009, 1013, 1019, 1021, 1031, 1033, 1039)  # stand for how long a loop's tiles are


def typed(text: str, operands: tuple[Value, ...], more: Mapping[str, Any] = MappingProxyType({})) -> torch.Tensor:
    """What torch makes of an expression of values: a tensor without data. ``more``: names that it knows besides."""
    primes = _primes(operands)
    names: dict[str, Any] = {dim.tile: size for dim, size in primes.items()}
    for value in operands:
        name, _, item = value.text.partition("[")
        names[name] = value.meta(primes) if not item else (*names.get(name, ()), value.number, value.number)
    found = eval(text, {"torch": _MetaTorch(), "F": torch.nn.functional, **more, **names})
    return found if isinstance(found, torch.Tensor) else torch.tensor(found, device="meta")


class _MetaTorch:
    """torch, whose tables have no data either."""

    def __getattr__(self, name: str) -> Any:
        return partial(torch.tensor, device="meta") if name == "tensor" else getattr(torch, name)


def _primes(operands: tuple[Value, ...]) -> dict[Dim, int]:
    tiles = sorted({d for v in operands for d in v.dims if d.tile}, key=lambda d: d.tile)
    return dict(zip(tiles, _PRIMES, strict=False))


def named_dims(text: str, operand: Value, more: Mapping[str, Any]) -> tuple[Dim, ...] | None:
    """The dimensions of an expression's result; None where a tile's own is lost in another, or one is there twice."""
    known = {size: dim for dim, size in _primes((operand,)).items()}
    dims = tuple(known.get(size, Dim(size)) for size in typed(text, (operand,), more).shape)
    return dims if len(set(dims)) == len(dims) and all(d.tile or d.size < min(_PRIMES) for d in dims) else None


def aligned(value: Value, dims: tuple[Dim, ...], short: bool = False) -> str:
    """The text of ``value`` with its dimensions where ``dims`` has them, ones elsewhere. ``short``: without those in
    front of its first."""
    if value.number is not None or not value.dims:
        return value.text
    order = [value.dims.index(d) for d in dims if d in value.dims]
    text = value.text
    if order != sorted(order):
        text = f"{text}.T" if order == [1, 0] else f"{text}.permute({', '.join(map(str, order))})"
    present = [d in value.dims for d in dims]
    if short:
        present = present[present.index(True) :]
    if all(present):
        return text
    return f"{text}[{', '.join(':' if p else 'None' for p in present)}]"


def union(*values: Value) -> tuple[Dim, ...]:
    found = list[Dim]()
    for value in values:
        found += [d for d in value.dims if d not in found]
    return tuple(found)
