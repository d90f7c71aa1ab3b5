"""Kernels that compute with the author's numbers alone, which Python does in doubles: ``CASES``."""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl
from tile_testing.kernels.cases import Cases, rand

CASES = Cases()
case = CASES.case

X = rand(13, 37)


@case(X, 0.9999999, 1e-7, wanted=lambda x, beta, eps: x * (1 - beta) / (beta - 1 + 3 * eps), tile=4)
@tileflow.kernel
def near_one(x: torch.Tensor, beta: float, eps: float) -> torch.Tensor:
    """``1 - beta`` keeps one digit of a float32."""
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        rest = 1 - beta
        out[tile, :] = x[tile, :] * rest / (beta - 1 + 3 * eps)
    return out


@case(X, 0.999999, 3, wanted=lambda x, beta, step: x / (1 - beta**step), tile=4)
@tileflow.kernel
def corrected(x: torch.Tensor, beta: float, step: int) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = x[tile, :] / (1 - beta**step)
    return out


@case(X.double(), 0.999, 1, wanted=lambda x, beta, step: x / (1 - beta**step) ** 0.5, tile=4)
@tileflow.kernel
def corrected_doubles(x: torch.Tensor, beta: float, step: int) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = x[tile, :] / (1 - beta**step) ** 0.5
    return out


@case(X, 2.5, wanted=lambda x, p: x * 0.99999999 ** x.size(1) - x + x * 3.0**p * 1.5**2, tile=4)
@tileflow.kernel
def powers_of_numbers(x: torch.Tensor, p: float) -> torch.Tensor:
    """A number to the power of a size, of an argument, of a number."""
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = x[tile, :] * 0.99999999 ** x.size(1) - x[tile, :] + x[tile, :] * 3.0**p * 1.5**2
    return out


@case(X, 0.9999999, wanted=lambda x, beta: x * (1 - beta) * 2, tile=4)
@tileflow.kernel
def chosen_numbers(x: torch.Tensor, beta: float) -> torch.Tensor:
    """A number that a loop carries, and one that a branch chooses."""
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        rest = 1 - beta if x.size(1) > 3 else beta
        total = x[tile, :] * 0
        for _ in range(2):
            total = total + x[tile, :] * rest
        out[tile, :] = total
    return out


@case(X, -2.5, 0.5, wanted=lambda x, a, b: x.abs() * -1 + x.abs() + x * 0, tile=4)
@tileflow.kernel
def signs_of_numbers(x: torch.Tensor, a: float, b: float) -> torch.Tensor:
    """The bits of a number that is an argument, which Triton's interpreter has as Python's."""
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        out[tile, :] = torch.copysign(row, a) + row.copysign(b) + row * 0
    return out


@case(-X.abs() - 1, wanted=lambda x: torch.stack([torch.zeros(13), x[:, 0] * 0 + 37 * 3], 1), tile=4)
@tileflow.kernel
def sums_beside_rounded_numbers(x: torch.Tensor) -> torch.Tensor:
    """0.01 * 0.09 is more than 0.0009 in float32, and not in doubles: lanes past a row's end, which hold 0, counted."""
    out = torch.empty(x.size(0), 2)
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        out[tile, 0] = ((row + 0.01) * 0.09 > 0.0009).sum(1).float()
        out[tile, 1] = (3 - ((row * 0 + 0.01) * 0.09 - 0.0009 == 0).float() * 0).sum(1)
    return out


@case(X[0], wanted=lambda x: torch.stack([torch.where(x > 0, -x / 0, x.abs() / 0), x.abs() / -0.0], 1))
@tileflow.kernel
def numbers_that_are_equal(x: torch.Tensor) -> torch.Tensor:
    """A branch of the kernel, and a turn, give another zero than there was."""
    out = torch.empty(x.size(0), 2)
    for i in tfl.grid(x.size(0)):
        chosen = 0.0
        if x[i] > 0:
            chosen = -0.0
        carried = 0.0
        for _ in range(x.size(0)):
            carried = -0.0
        out[i, 0] = x[i].abs() / chosen
        out[i, 1] = x[i].abs() / carried
    return out


def _least_quotients(x: torch.Tensor) -> torch.Tensor:
    signs = torch.where(x[:, :1] > 1, 1, -1)
    return torch.stack([(1 / x).amin(1), (-1 / x).amin(1), (signs / x).amin(1)], 1)


@case(X.abs() + 0.5, wanted=_least_quotients)
@tileflow.kernel
def zeros_of_two_signs(x: torch.Tensor) -> torch.Tensor:
    """Past a row's end are 0.0 and -0.0, put together or chosen from: their reciprocals are not one infinity."""
    out = torch.empty(x.size(0), 3)
    for i in tfl.grid(x.size(0)):
        row = x[i, :]
        out[i, 0:2] = (1 / torch.stack([row, -row], -1)).amin(0)
        chosen = row if x[i, 0] > 1 else -row
        out[i, 2] = (1 / chosen).amin(0)
    return out


BYTES = torch.arange(100).to(torch.int8)


@case(BYTES, wanted=lambda x: torch.stack([(k + 1) * x[k] + int(x[k]) * x[k] for k in range(100)]).long())
@tileflow.kernel
def counts_beside_bytes(x: torch.Tensor) -> torch.Tensor:
    """What a loop counts, and what int() makes, has no dtype: its product with a byte wraps."""
    out = torch.empty(x.size(0), dtype=torch.int64)
    for _ in tfl.grid(1):
        count = 0
        for k in range(x.size(0)):
            count = count + 1
            out[k] = count * x[k] + int(x[k]) * x[k]
    return out


@case(BYTES, wanted=lambda x: torch.stack([(200 if v > 2 else 0) * v for v in x]).long())
@tileflow.kernel
def chosen_beside_bytes(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), dtype=torch.int64)
    for i in tfl.grid(x.size(0)):
        factor = 0
        if x[i] > 2:
            factor = 200
        out[i] = factor * x[i]
    return out


def _walked(starts: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
    found = []
    for start in starts:
        place = start
        for step in steps:
            place = place + step
        found.append(place)
    return torch.stack(found).long()


@case(BYTES[::7], BYTES[60:70], wanted=_walked)
@tileflow.kernel
def walks_by_bytes(starts: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
    """A scalar with a dtype wraps in it, whatever it is used for."""
    out = torch.empty(starts.size(0), dtype=torch.int64)
    for i in tfl.grid(starts.size(0)):
        place = starts[i]
        for k in range(steps.size(0)):
            place = place + steps[k]
        out[i] = place
    return out


@case(BYTES[:20], wanted=lambda x: x.long().clamp(max=12) + 100)
@tileflow.kernel
def numbers_that_bytes_hold(x: torch.Tensor) -> torch.Tensor:
    """A branch, and a loop that may have no turn, put an int beside a byte that holds it."""
    out = torch.empty(x.size(0), dtype=torch.int64)
    for i in tfl.grid(x.size(0)):
        least = 12
        if x[i] < 12:
            least = x[i]
        total = 100
        for _ in range(least):
            total = total + x[1]
        out[i] = total
    return out


@case(BYTES[:9], wanted=lambda x: torch.arange(9) * 1000000007 + torch.arange(9))
@tileflow.kernel
def ints_beyond_32_bits(x: torch.Tensor) -> torch.Tensor:
    """Python's ints are as long as they need to be: the product of a loop's variable was cut to 32 bits."""
    out = torch.empty(x.size(0), dtype=torch.int64)
    for i in tfl.grid(x.size(0)):
        out[i] = i * 1000000007 + i
    return out
