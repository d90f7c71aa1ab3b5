"""Kernels with numbers, sizes and ranges as people of Python and numpy write them, with what they give: ``CASES``."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import torch

import tileflow
import tileflow.language as tfl
from tile_testing.kernels.cases import Cases, ints, rand

CASES = Cases()
case = CASES.case

X, V, N = rand(13, 37), rand(37, seed=1), ints(5, 13)

# ---- Python's words for numbers -----------------------------------------------------------------


@case(N, V, wanted=lambda n, v: n * 0 + 5 + (n[0] + 2) + v[0] + 0 + v[1], tile=4)
@tileflow.kernel
def one_of_two_scalars(n: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Of numbers ``or`` and ``and`` give one, as in Python."""
    out = torch.empty(n.size(0), device=v.device)
    for tile in tfl.tile(n.size(0)):
        zero, some = n[0] * 0, n[0] + 2
        total = (zero or 5) + (some or 7) + (some and v[0]) + (zero and v[0]) + (n[0] >= 0 and v[1])
        if (some and v[0] < 100) or zero:
            out[tile] = total + n[tile] * 0
        else:
            out[tile] = 0.0
    return out


LIMITS = (0.5, 0.25)


def _by_math(v: torch.Tensor) -> torch.Tensor:
    made = v[1].tanh() * torch.atan2(v[2], torch.tensor(2.0)) * v[3].abs() ** 1.5 + v[4].abs().log1p()
    return v * 0.5 * (made + math.tanh(0.5) + math.log10(37))


@case(V, wanted=_by_math, tile=8)
@tileflow.kernel
def functions_of_math(v: torch.Tensor) -> torch.Tensor:
    """Of scalars of the kernel, of numbers that launches read, and of sizes."""
    out = torch.empty_like(v)
    for tile in tfl.tile(v.size(0)):
        found = math.tanh(v[1]) * math.atan2(v[2], 2) * math.pow(math.fabs(v[3]), 1.5) + math.log1p(v[4].abs())
        if all(limit > 0 for limit in LIMITS) and not any(limit > 2 for limit in LIMITS):
            found = found + math.tanh(LIMITS[0]) + math.log10(v.size(0))
        out[tile] = v[tile] * max(limit for limit in LIMITS) * found
    return out


# ---- sizes where Python wants ints --------------------------------------------------------------

Y = rand(5, 6, 8)


@case(Y, 4, wanted=lambda x, n: torch.cat([x[:, :n], x[:, :3], x[:, n:], x[:, ::n], x.narrow(1, 1, n)], 1), tile=2)
@tileflow.kernel
def slices_of_a_tile_by_sizes(x: torch.Tensor, n: int) -> torch.Tensor:
    """An argument, half a size, and steps."""
    out = torch.empty(x.size(0), 3 * n + 3, x.size(2), device=x.device)
    half = x.size(1) // 2
    for tile in tfl.tile(x.size(0)):
        r = x[tile, :, :]
        m, rest = x.size(1) // 2, x.size(1) - n
        out[tile, :n, :] = r[:, :n, :]
        out[tile, n : n + m, :] = r[:, :half, :]
        out[tile, n + m : n + m + rest, :] = r[:, n:, :]
        out[tile, n + m + rest : n + m + 2 * rest, :] = x[tile, ::n, :] + 0 * r[:, ::n, :]
        out[tile, n + m + 2 * rest :, :] = r.narrow(1, 1, n)
    return out


def _along(x: torch.Tensor, dim: int) -> torch.Tensor:
    found = x.softmax(dim) + x.flip(dim) + x.sum(dim).unsqueeze(dim) + x.cumsum(dim) + x.size(dim) + x.shape[dim]
    first, second = found.chunk(dim + 1, dim)
    return torch.stack([first, second], dim).flatten(dim, dim + 1).transpose(dim, dim + 1)


@case(Y, 1, wanted=_along, tile=2)
@tileflow.kernel
def dimensions_by_an_argument(x: torch.Tensor, dim: int) -> torch.Tensor:
    out = torch.empty(x.size(0), x.size(2), x.size(1), device=x.device)
    for tile in tfl.tile(x.size(0)):
        out[tile, :, :] = _along(x[tile, :, :], dim)
    return out


SCALES = (1.0, 2.0, 4.0, 8.0)


@case(Y, 3, wanted=lambda x, n: x * (8.0 + 4 + 2 + 3) + (3 + 8 + 9 // n + 9 % n - n - 1), tile=2)
@tileflow.kernel
def numbers_of_sizes(x: torch.Tensor, n: int) -> torch.Tensor:
    """Items of tuples, functions of ints, shifts, comparisons with what is no number."""
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        scale = SCALES[n] + sum(SCALES[n - 1 :][:1]) + n.bit_length() + math.gcd(n, 6)
        quotient, remainder = divmod(9, n)
        more = n if n != None and n not in (None, "n") else 0  # noqa: E711
        out[tile, :, :] = x[tile, :, :] * scale + (more + (1 << n) + quotient + remainder + ~n)
    return out


# ---- ranges that Python goes through ------------------------------------------------------------


@case(X, 5, wanted=lambda x, n: x[:, :n].sum(1) + x[:, 1:n].prod(1) + 3 * n + 2 + 10 + n - 1, tile=4)
@tileflow.kernel
def comprehensions_over_sizes(x: torch.Tensor, n: int) -> torch.Tensor:
    """Within a loop of the kernel, and outside of it."""
    out = torch.empty(x.size(0), device=x.device)
    for tile in tfl.tile(x.size(0)):
        total = sum(x[tile, i] for i in range(n))
        for _ in range(3):
            product = 1.0
            for factor in [x[tile, i] for i in range(n) if i > 0]:
                product = product * factor
            total = total + n
        first, second, *_ = range(2, n)
        ends = len(range(n)) + max(range(n)) - n + first + second - 5
        steps = {i: i + 1 for i in range(n)}
        out[tile] = total + product + steps[1] + sum([*range(n)]) + ends
    return out


@case(X, 4, wanted=lambda x, n: x[:, :n] * 2 + torch.arange(n) + torch.tensor([1, 1, 0, 0]), tile=4)
@tileflow.kernel
def loops_of_python_over_sizes(x: torch.Tensor, n: int) -> torch.Tensor:
    """Counted, in pairs, backwards, and left by ``break``."""
    out = torch.zeros(x.size(0), n, device=x.device)
    for tile in tfl.tile(x.size(0)):
        for i, j in enumerate(range(n)):
            out[tile, i] = x[tile, j]
        for i, j in zip(range(n), reversed(range(n)), strict=True):
            out[tile, i] = out[tile, i] + x[tile, n - 1 - j] + i
        for i in range(n):
            if i == 2:
                break
            out[tile, i] = out[tile, i] + 1
    return out


@case(rand(5, 16), 5, wanted=lambda x, n: x.flip(1) + 3 + 4 + 2 + 2, tile=2)
@tileflow.kernel
def logarithms_of_sizes(x: torch.Tensor, n: int) -> torch.Tensor:
    """As many steps as a size has bits: exchanges of halves, quarters and so on are a reversal."""
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        r = x[tile, :]
        for step in range(math.ceil(math.log2(x.size(1)))):
            r = torch.gather(r, 1, (torch.arange(x.size(1)) ^ (1 << step))[None, :].expand(tile, x.size(1)))
        ceiling, bits = math.ceil(math.log2(n)), int(math.log(x.size(1), 2))
        out[tile, :] = r + ceiling + bits + int(math.log10(200)) + int(math.log2(n))
    return out


@case(rand(5, 21), 7, wanted=lambda x, n: x[:, :3] + 3 + 3 + 2 + 6 + 2, tile=2)
@tileflow.kernel
def quotients_of_sizes(x: torch.Tensor, n: int) -> torch.Tensor:
    """Exact ones, up and down, as lengths, ends of ranges and shapes."""
    out = torch.empty(x.size(0), 3, device=x.device)
    for tile in tfl.tile(x.size(0)):
        few, count = x[tile, : math.ceil(x.size(1) / n)], 0
        for _ in range(math.ceil(n / 3)):
            count = count + 1
        ones = torch.ones(int(x.size(1) / n)) + math.floor(n / 3) - 1
        out[tile, :] = few + count + int(x.size(1) / n) + ones + (int(-n / 2) + 9) + math.ceil(-n / 3) + 2 + 2
    return out


# ---- numbers of numpy's -------------------------------------------------------------------------

HALF, FOUR, BIASES = np.float32(0.5), np.int64(4), [np.float32(2.0), np.int8(3)]


@case(X, np.float32(0.25), np.int64(3), wanted=lambda x, s, n: x[:, :13] * 0.5 + 4 + 5 + 0.25 + 3 + 5.5 + 13, tile=4)
@tileflow.kernel
def numbers_of_numpy(x: torch.Tensor, s: float, n: int) -> torch.Tensor:
    """Arguments, globals, items of lists, what host code computes, and device code."""
    size = np.prod(x.shape) // np.int64(x.size(1))
    out = torch.empty(x.size(0), int(size), device=x.device)
    more = np.sqrt(np.float32(25)) + HALF
    for tile in tfl.tile(np.int64(x.size(0))):
        r = x[tile, :size] * HALF + FOUR
        out[tile, :] = r + (BIASES[0] + BIASES[1]) + s + np.float32(1) * n + more + size
    return out


# ---- block sizes that are passed ----------------------------------------------------------------


@case(X, [4, 8], 2, wanted=lambda x, blocks, n: x - x.cumsum(1)[:, -1:], tile=4)
@tileflow.kernel
def inner_blocks_of_arguments(x: torch.Tensor, blocks: list[int], n: int) -> torch.Tensor:
    """An item of a list, and a product of an int and a block size."""
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        total = tfl.zeros([tile])
        for part in tfl.tile(x.size(1), block_size=blocks[0] * n):
            total += x[tile, part].sum(1)
        for part in tfl.tile(x.size(1), block_size=n * tile.block_size):
            out[tile, part] = x[tile, part] - total[:, None]
    return out


def _chosen(x: torch.Tensor) -> torch.Tensor:
    is_low = (x < 0.3).where(x > 0, x < -1)
    return x.where(is_low, 2.0) + x.where(condition=x > 1, other=-x) + torch.lerp(input=x, end=x * 2, weight=0.25)


@case(X, wanted=lambda x: _chosen(x) + x.flip(0).flip(0), tile=4)
@tileflow.kernel
def words_of_methods(x: torch.Tensor) -> torch.Tensor:
    """The method's order of a choice, also of bools, and sizes and dimensions by their words."""
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        turned = torch.permute(row, dims=(1, 0)).permute(dims=(1, 0))
        out[tile, :] = _chosen(row) + turned.reshape(shape=row.shape).expand(size=row.shape).repeat(repeats=(1, 1))
    return out


def _by_class(x: torch.Tensor) -> torch.Tensor:
    """Methods as functions of torch's class: built in, written in Python, operators, by functions that call them."""
    parts = functools.reduce(torch.Tensor.add, map(torch.Tensor.exp, torch.Tensor.chunk(x[:, :4], 2, dim=1)))
    scale = torch.Tensor.norm(x, dim=1, keepdim=True) + torch.Tensor.amax(x, 1, keepdim=True)
    chosen = torch.Tensor.where(x, x > 0, -1.0) - torch.Tensor.__rsub__(x, 1) * torch.Tensor.float(x > 0)
    return torch.Tensor.__mul__(chosen, scale) + torch.Tensor.sum(parts, dim=-1)[:, None]


@case(X, wanted=lambda x: _by_class(x) + x.size(1), tile=4)
@tileflow.kernel
def methods_of_the_class(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = _by_class(x[tile, :]) + torch.Tensor.size(x, 1)
    return out


class Factor:
    """An object of the author's with operators of its own."""

    def __init__(self, number: float, name: str) -> None:
        self.number, self.name = number, name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Factor) and self.name == other.name

    __hash__ = None  # type: ignore[assignment]

    def __lt__(self, other: Factor) -> bool:
        return self.name < other.name

    def __add__(self, other: Any) -> Any:
        return self.number + (other.number if isinstance(other, Factor) else other)

    def __radd__(self, other: Any) -> Any:
        return self.number + other

    def __rmul__(self, other: Any) -> Any:
        return other * self.number

    def __rmatmul__(self, other: Any) -> Any:
        return other - self.number

    def __neg__(self) -> Any:
        return -self.number

    def __str__(self) -> str:
        return f"factor {self.name}"

    def __abs__(self) -> Any:
        return self.number * self.number + 1


def _by_operators(x: torch.Tensor, a: Factor, b: Factor) -> torch.Tensor:
    found = x * a + b + (a + 1.0) + (2.0 + b) + (a + b) - (x @ a) + abs(b) * (-a)
    if a == b or not a < b or a != a or a is None or f"{a}, {b!s}" != "factor a, factor b":
        found = found * 0
    return found * Factor(3.0, "made here")


@case(X, Factor(0.5, "a"), Factor(-2.0, "b"), wanted=_by_operators, tile=4)
@tileflow.kernel
def operators_of_objects(x: torch.Tensor, a: Factor, b: Factor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = _by_operators(x[tile, :], a, b)
    return out


def _answers(x: torch.Tensor) -> int:
    """What a tensor says of itself, by attributes, methods and functions of torch."""
    yes = [
        torch.is_tensor(x), torch.is_floating_point(x), x.is_floating_point(), x.is_signed(), torch.is_signed(x),
        x.itemsize == x.element_size() == 4, x.nbytes == 4 * x.nelement(), x.numel() == torch.numel(x),
        x.shape.numel() == x.numel(), x.shape[1:].numel() == x.size(dim=1), x.layout is torch.strided,
        torch.result_type(x, 1) is torch.float32, torch.result_type(x.half(), 1.0) is torch.float16,
    ]  # fmt: skip
    no = [torch.is_complex(x), x.is_complex(), x.requires_grad, x.is_sparse, torch.is_tensor(x.shape)]
    return sum(yes) - 100 * sum(no)


def _said(x: torch.Tensor, turned: torch.Tensor) -> torch.Tensor:
    return x + _answers(x) + (torch.numel(x) if x.is_contiguous() and not turned.is_contiguous() else 0)


@case(X, X.T, wanted=lambda x, turned: _said(x, turned) + x.numel(), tile=4)
@tileflow.kernel
def what_tensors_say_of_themselves(x: torch.Tensor, turned: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        total = torch.numel(x) if x.is_contiguous() and not turned.is_contiguous() else 0
        out[tile, :] = x[tile, :] + _answers(x[tile, :]) + total + x.shape.numel()
    return out


def _einsums(x: torch.Tensor, y: torch.Tensor, square: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Ellipses, letters that one tile has twice, lists of numbers in place of an equation."""
    wide, squares = torch.einsum("...i,...j->...ij", x, y), square[:, :, :, None] * y[:, None, None, :]
    return (
        torch.einsum("...i,...i->...", x, y), torch.einsum("tij,...tj->t...i", wide, y).sum(1),
        torch.einsum("tii->t", square), torch.einsum("tiij,ti->tj", squares, x[:, :4]).sum(1),
        torch.einsum(x, [0, 1], y, [0, 1], [0]), torch.einsum(wide, [0, ..., 1], y, [0, 1], [0, ...]).sum(1),
        torch.einsum("... i -> ...", x), torch.einsum("tij->t", wide),
    )  # fmt: skip


@case(
    X[:, :16].contiguous(),
    X[:, 16:32].contiguous(),
    rand(13, 4, 4, seed=4),
    wanted=lambda *a: torch.stack(_einsums(*a)),
    tile=4,
)
@tileflow.kernel
def words_of_einsum(x: torch.Tensor, y: torch.Tensor, square: torch.Tensor) -> torch.Tensor:
    out = torch.empty(8, x.size(0), device=x.device)
    for tile in tfl.tile(x.size(0)):
        for n, found in enumerate(_einsums(x[tile, :], y[tile, :], square[tile, :, :])):
            out[n, tile] = found
    return out


def _of_nothing(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """How many elements what follows from tiles without elements has, and the sums of none of them."""
    first, second = x.roll(1, 1).chunk(2, 1)
    parts = [first, second, x.flatten(1), y.flatten(1), x.repeat_interleave(2, 1), y.repeat_interleave(2, 2)]
    return x.sum(1).sum(1) + y.sum(2).sum(1) + sum(part.flatten(1).sum(1) + part.shape[-1] for part in parts)


@case(torch.empty(5, 0, 4), torch.empty(5, 4, 0), wanted=_of_nothing, tile=4)
@tileflow.kernel
def tiles_without_elements(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0))
    for tile in tfl.tile(x.size(0)):
        out[tile] = _of_nothing(x[tile, :, :], y[tile, :, :])
    return out


class Gain:
    """An object whose operators decide by what they are given, and loop."""

    def __init__(self, number: float) -> None:
        self.number = number

    def __mul__(self, other: Any) -> Any:
        if other.sum() > 0:
            return other * self.number
        return other

    __rmul__ = __mul__

    def __getitem__(self, row: Any) -> Any:
        total = row * 0
        if row.amax() > 0.5:
            total = total + self.number
        return total

    def __rsub__(self, other: Any) -> Any:
        if not other.sum() > 0:
            return other + self.number
        return other


def _by_conditions(row: torch.Tensor, gain: Gain) -> torch.Tensor:
    return gain * row + row * gain + gain[row] + (row - gain)


@case(X, Gain(0.5), wanted=lambda x, gain: torch.stack([_by_conditions(row, gain) for row in x]))
@tileflow.kernel
def conditions_in_operators(x: torch.Tensor, gain: Gain) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.grid(x.size(0)):
        out[tile, :] = _by_conditions(x[tile, :], gain)
    return out


def _by_types(x: torch.Tensor, factor: Factor, held: list[float], named: dict[str, float]) -> torch.Tensor:
    found = x * 0 + isinstance(factor, Factor) + 2 * (type(factor) is Factor) + 4 * isinstance(factor, Gain)
    return found + 8 * (type(held) is list) + 16 * (type(named) is dict) + 32 * isinstance(held, list)


@case(X, Factor(0.5, "a"), [1.0, 2.0], {"a": 1.0}, wanted=_by_types, tile=4)
@tileflow.kernel
def types_of_objects(x: torch.Tensor, factor: Factor, held: list[float], named: dict[str, float]) -> torch.Tensor:
    """They were False of objects, and of what was asked by ``type`` of lists and dictionaries."""
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = _by_types(x[tile, :], factor, held, named)
    return out
