"""Kernels of Python's own things in device code, with what they must give: ``CASES``. Functions and classes of the
author, containers that change, and what Python itself does with numbers."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

import tileflow
import tileflow.language as tfl
from tile_testing.kernels.cases import Cases, rand

CASES = Cases()
case = CASES.case

X = rand(13, 37)
V = rand(37, seed=1)
N = torch.arange(-9, 12)


# ---- functions and classes ----------------------------------------------------------------------


class Kind(enum.Enum):
    SUM = "sum"
    MAX = "max"


TABLE: dict[str, Any] = {"relu": torch.relu, "double": lambda v: v * 2, "scale": 3}
WEIGHTS = (0.5, 0.25, 0.25)


def reduced(values: Any, kind: Kind = Kind.SUM, *, dtype: torch.dtype | None = None) -> Any:
    """Several returns, on an enum and on a default."""
    if dtype is not None:
        values = values.to(dtype)
    if kind is Kind.SUM:
        return values.sum(1)
    return values.amax(1)


@case(X, Kind.MAX, "relu", torch.float64, None, True, wanted=lambda x, *_: x.amax(1).relu() * 2 + 3 + x[:, 0], tile=4)
@tileflow.kernel
def values_that_select_code(
    x: torch.Tensor, kind: Kind, name: str, dtype: torch.dtype, bias: torch.Tensor | None, double: bool
) -> torch.Tensor:
    out = torch.empty(x.size(0))
    assert x.size(1) > 3, f"rows of {x.size(1)}"
    for tile in tfl.tile(x.size(0)):
        value = reduced(x[tile, :], kind, dtype=dtype)
        value = TABLE[name](value)
        value = TABLE["double"](value) if double else value
        value += TABLE["scale"]
        if bias is not None:
            value += bias[tile]
        elif name in ("relu", "gelu"):
            value += x[tile, 0]
        out[tile] = value
    return out


def _clipped(tile: Any) -> Any:
    tile.clamp_(min=-1, max=1)
    return tile


@case(X, wanted=lambda x: (2 * x.sum(1) - 2).clamp(-1, 1) + x.half()[:, 0].add_(x[:, 1]).float() * 3, tile=4)
@tileflow.kernel
def methods_that_change(x: torch.Tensor) -> torch.Tensor:
    """Methods that change a tile in place, in loops and branches, of a half, and in a function."""
    out = torch.empty(x.size(0))
    for tile in tfl.tile(x.size(0)):
        total = tfl.zeros([tile])
        for part in tfl.tile(x.size(1)):
            total.add_(x[tile, part].sum(1))
            if part.begin < 0:
                total.zero_()
        total.mul_(2).sub_(1, alpha=2)
        half = x[tile, 0].half()
        half.add_(x[tile, 1])
        three = torch.empty_like(total)
        three.fill_(3)
        out[tile] = _clipped(total) + half * three
    return out


@case(X, wanted=lambda x: 0.5 * x[:, 0] + 0.25 * (x[:, 1] + x[:, 2]) + x[:, :3].sum(1) + x[:, :3].amax(1) + 6, tile=4)
@tileflow.kernel
def static_python(x: torch.Tensor) -> torch.Tensor:
    """Comprehensions, zip, enumerate, reversed, sum, len, map, any, dictionaries, nested functions, while."""
    out = torch.empty(x.size(0))
    for tile in tfl.tile(x.size(0)):
        columns = [x[tile, i] for i in range(3)]
        by_name = {f"c{i}": column for i, column in enumerate(columns)}
        total = sum(w * c for w, c in zip(WEIGHTS, columns, strict=True))
        total = total + sum([by_name[name] for name in reversed(list(by_name))])
        biggest = columns[0]
        for column in columns[1:]:
            biggest = torch.maximum(biggest, column)

        def plus(v: Any, n: int = len(columns)) -> Any:
            def inner(u: Any) -> Any:
                return u + n if n > 2 else u

            return inner(v)

        left = 3
        while left > 0:
            total = total + 1
            left -= 1
        halves = list(map(lambda v: v / 2, [biggest, biggest]))  # noqa: C417
        some = any([tile.begin >= 0, tile.begin < -1])
        out[tile] = plus(total) + halves[0] + (halves[1] if some else 0)
    return out


@dataclass(frozen=True)
class Epilogue:
    """An object with a method, an operator and constants."""

    scale: float
    relu: bool

    def apply(self, value: Any, extra: int = 1) -> Any:
        if self.relu:
            value = torch.relu(value)
        for _ in tfl.grid(2):
            value = value * self.scale + extra
        return value

    def __call__(self, value: Any) -> Any:
        return self.apply(value, extra=0)


EPILOGUE = Epilogue(2.0, True)


def _epilogue(x: torch.Tensor, k: int) -> torch.Tensor:
    positive = x.relu()
    return positive * 4 + 3 * k + positive * 4 + (positive * 4 + 3) + x * k


@case(V, 5, wanted=_epilogue, tile=8)
@tileflow.kernel
def methods_and_partials(x: torch.Tensor, k: int) -> torch.Tensor:
    """Host code makes the objects, also out of run-time ints and tensors."""
    out = torch.empty_like(x)
    bound = EPILOGUE.apply
    scaled = functools.partial(EPILOGUE.apply, extra=k)
    table = {"x": x, "k": k, 3: (x,)}
    for tile in tfl.tile(x.size(0)):
        y = x[tile]
        out[tile] = scaled(y) + EPILOGUE(y) + bound(y) + table["x"][tile] * table["k"] + 0 * table[3][0][tile]
    return out


def outer(scale: float) -> Callable[..., Any]:
    def middle(shift: float) -> Callable[..., Any]:
        def inner(value: Any, tile: Any) -> Any:
            return value * scale + shift if tile.begin > 8 else value

        return inner

    return middle(1.5)


@case(V, outer(3.0), wanted=lambda x, f: torch.cat([x[:16], x[16:] * 3 + 1.5]))
@tileflow.kernel
def nested_closures(x: torch.Tensor, f: Callable[..., Any]) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0), block_size=8):
        out[tile] = f(x[tile], tile)
    return out


# ---- containers that device code changes in place --------------------------------------------------


def _running(x: torch.Tensor) -> torch.Tensor:
    steps = torch.stack([part.sum(1) for part in x.split(8, 1)], 1).cumsum(1)
    return torch.stack([steps.repeat_interleave(8, 1)[:, : x.size(1)], torch.zeros_like(x) + x.square().sum(1, True)])


@case(X, wanted=_running, tile_m=4)
@tileflow.kernel
def items_of_a_list(x: torch.Tensor) -> torch.Tensor:
    """A later turn reads what an earlier one put there, under whatever name the list has."""
    out = torch.empty(2, *x.shape)
    for tile_m in tfl.tile(x.size(0)):
        sums = [tfl.zeros([tile_m]), tfl.zeros([tile_m])]
        also = sums
        for tile_n in tfl.tile(x.size(1), block_size=8):
            value = x[tile_m, tile_n]
            sums[0] += value.sum(1)
            sums[1] = also[1] + (value * value).sum(1)
            out[0, tile_m, tile_n] = also[0][:, None] + tfl.zeros([tile_m, tile_n])
        for tile_n in tfl.tile(x.size(1)):
            out[1, tile_m, tile_n] = also[1][:, None] + tfl.zeros([tile_m, tile_n])
    return out


class Statistics:
    """The author's own, with a method that changes it."""

    def __init__(self, zero: Any) -> None:
        self.total, self.parts = zero, {"square": zero, "turns": 0}

    def add(self, value: Any) -> None:
        self.total = self.total + value.sum(1)
        self.parts["square"] += (value * value).sum(1)
        self.parts["turns"] += 1


@case(X, wanted=lambda x: torch.stack([x.sum(1), x.square().sum(1), torch.full((13,), 5.0)]), tile_m=4)
@tileflow.kernel
def an_object_that_a_method_changes(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(3, x.size(0))
    for tile_m in tfl.tile(x.size(0)):
        found = Statistics(tfl.zeros([tile_m]))
        for tile_n in tfl.tile(x.size(1), block_size=8):
            found.add(x[tile_m, tile_n])
        out[0, tile_m], out[1, tile_m], out[2, tile_m] = found.total, found.parts["square"], found.parts["turns"]
    return out


@case(X, torch.tensor([3]), wanted=lambda x, flag: torch.stack([x * 3, x + 1, x * 8]), tile_m=4)
@tileflow.kernel
def items_that_a_branch_changes(x: torch.Tensor, flag: torch.Tensor) -> torch.Tensor:
    """Each side finds the list as it was before the branch, and so does each turn of a while."""
    out = torch.empty(3, *x.shape)
    for tile_m in tfl.tile(x.size(0)):
        kept = [x[tile_m, :], x[tile_m, :], 1]
        if flag[0] > 2:
            kept[0] = kept[0] * 3
        else:
            kept[0] = kept[0] * 5
            kept[1] = kept[1] * 5
        if flag[0] < 2:
            kept[1] = kept[1] - 1
        else:
            kept[1] = kept[1] + 1
        turns = 0
        while turns < flag[0]:
            kept[2] = kept[2] * 2
            turns += 1
        out[0, tile_m, :], out[1, tile_m, :], out[2, tile_m, :] = kept[0], kept[1], x[tile_m, :] * kept[2]
    return out


# ---- Python's own functions of tiles ------------------------------------------------------------


def _larger_and_smaller(x: torch.Tensor) -> torch.Tensor:
    larger = torch.maximum(torch.maximum(x[0], x[1]), torch.tensor(0.25))
    return torch.stack([larger, torch.minimum(x[2], x[3]), x[4].clamp(-0.5, 0.5)])


@case(X, wanted=_larger_and_smaller, tile=8)
@tileflow.kernel
def max_and_min_of_tiles(x: torch.Tensor) -> torch.Tensor:
    """Per element, which Python's own refused of tensors; in a function inside the kernel too."""
    out = torch.empty(3, x.size(1))
    for tile in tfl.tile(x.size(1)):

        def clipped(value: torch.Tensor) -> torch.Tensor:
            return min(max(value, -0.5), 0.5)

        out[0, tile] = max(x[0, tile], x[1, tile], 0.25)
        out[1, tile] = min([x[n, tile] for n in (2, 3)])
        out[2, tile] = clipped(x[4, tile])
    return out


def _nan(x: torch.Tensor) -> torch.Tensor:
    return torch.full((4,), float("nan"))


@case(torch.tensor([float("nan"), 1.0]), wanted=_nan)
@tileflow.kernel
def max_and_min_of_nan(x: torch.Tensor) -> torch.Tensor:
    """NaN wherever it stands, where Python's own depend on the order."""
    out = torch.empty(4)
    for _ in tfl.grid(1):
        out[0], out[1] = max(x[0], 0.0), max(0.0, x[0])
        out[2], out[3] = min(x[0], x[1]), min(x[1], x[0])
    return out


def _quotients(n: torch.Tensor) -> torch.Tensor:
    i = torch.arange(21)
    return torch.stack([n // 5, n % 5, i // 4, i % 4, 100 // (i + 1), 100 % (i + 1)])


@case(N, wanted=_quotients, tile=8)
@tileflow.kernel
def quotients_and_remainders(n: torch.Tensor) -> torch.Tensor:
    out = torch.empty(6, n.size(0), dtype=n.dtype)
    for tile in tfl.tile(n.size(0)):
        out[0, tile], out[1, tile] = divmod(n[tile], 5)
    for i in tfl.grid(n.size(0)):
        out[2, i], out[3, i] = divmod(i, 4)
        out[4, i], out[5, i] = divmod(100, i + 1)
    return out


HALVES = torch.arange(-9, 12) / 2


@case(
    HALVES, N, wanted=lambda x, n: torch.stack([x.round(), x.round(), (x * 0.3).round(decimals=1), n.float()]), tile=8
)
@tileflow.kernel
def rounded_to_even(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    out = torch.empty(4, x.size(0))
    for tile in tfl.tile(x.size(0)):
        out[0, tile] = round(x[tile])
        out[2, tile] = round(x[tile] * 0.3, 1)
        out[3, tile] = round(n[tile])
    for i in tfl.grid(x.size(0)):
        out[1, i] = round(float(x[i]))
    return out


# ---- numbers of the author's classes ------------------------------------------------------------


class Mode(enum.IntEnum):
    ADD = 1
    SUB = 2


class Bits(enum.IntFlag):
    LOW = 1
    HIGH = 4


class Halves(float, enum.Enum):
    ONE = 0.5
    THREE = 1.5


class Count(int):
    """An int with a name."""


def _by_mode(x: torch.Tensor, mode: Mode, count: Count) -> torch.Tensor:
    return torch.stack([x * 2, x - 1, x.clamp(max=0.5) * 1.5, 5.0 - x, x + 3, x * 2, x**3])


@case(V, Mode.SUB, Count(3), wanted=_by_mode, tile=8)
@tileflow.kernel
def numbers_of_own_classes(x: torch.Tensor, mode: Mode, count: Count) -> torch.Tensor:
    """They are the numbers that they are in arithmetic, and themselves where Python compares them."""
    out = torch.empty(7, x.size(0))
    match mode:
        case Mode.SUB:
            row = 0
        case _:
            row = 1
    for tile in tfl.tile(x.size(0)):
        out[row, tile] = x[tile] * mode
        out[Mode.ADD, tile] = x[tile] - Mode.ADD
        out[2, tile] = torch.clamp(x[tile], max=Halves.ONE) * Halves.THREE
        out[Count(3), tile] = (Bits.LOW | Bits.HIGH) - x[tile]
        out[4, tile] = x[tile] + count
        if mode == Mode.SUB and mode is not Mode.ADD:
            out[5, tile] = torch.full_like(x[tile], mode) * x[tile]
        out[6, tile] = x[tile] ** Count(3)
    return out


def _shifted_counts(x: torch.Tensor, prime: int) -> torch.Tensor:
    n, sums = x.size(0), sum((i << 40) ^ (1 << i) for i in range(40))
    rows = [x * 0 + ((8 * n & 255) << 56), x + sums, x * pow(prime, -1, 8191)]
    return torch.stack(rows)


@case(N, 3329, wanted=_shifted_counts, tile=8)
@tileflow.kernel
def shifted_counts(x: torch.Tensor, prime: int) -> torch.Tensor:
    """What a loop counts, and what is made of sizes, is an int of Python: a shift takes it past 32 bits."""
    out = torch.empty(3, x.size(0), dtype=torch.int64)
    for tile in tfl.tile(x.size(0)):
        out[0, tile] = x[tile] * 0 + ((8 * x.size(0) & 255) << 56)
        total = x[tile]
        for i in range(40):
            total += (i << 40) ^ (1 << i)
        out[1, tile] = total
        out[2, tile] = x[tile] * pow(prime, -1, 8191)
    return out


def _long_counts(x: torch.Tensor) -> torch.Tensor:
    squares = sum(i * j for i in range(0, 70000, 1749) for j in range(0, 70000, 1749))
    sums = sum(i + 2_147_483_640 for i in range(40))
    return torch.stack([x + sum(i * 2_000_000_000 for i in range(40)), x + sums, x + squares])


@case(N, wanted=_long_counts, tile=8)
@tileflow.kernel
def long_counts(x: torch.Tensor) -> torch.Tensor:
    """Products and sums of what loops count are Python's ints, of any length: 32 bits of them were kept."""
    out = torch.empty(3, x.size(0), dtype=torch.int64)
    for tile in tfl.tile(x.size(0)):
        product, total, squares = x[tile], x[tile], x[tile]
        for i in range(40):
            product += i * 2_000_000_000
            total += i + 2_147_483_640
        for i in range(0, 70000, 1749):
            for j in range(0, 70000, 1749):
                squares += i * j
        out[0, tile], out[1, tile], out[2, tile] = product, total, squares
    return out
