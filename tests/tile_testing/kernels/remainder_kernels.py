"""Remainders of floats by constants, at every edge: those of powers of two are written without the vendor's loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

import tileflow
import tileflow.language as tfl
from tile_testing.kernels.cases import Case

CASES: dict[str, Case] = {}
EDGES = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    4096.0,
    -4096.0,
    1e-45,
    -1e-45,
    1e-38,
    -1e-38,
    3e38,
    -3e38,
    math.inf,
    -math.inf,
    math.nan,
]
POWERS = (1, 2, 4096, 2.0**40)


def _add(name: str, function: Callable[[Any], Any], dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(len(CASES))
    scales = 10.0 ** torch.randint(-6, 9, (97,), generator=generator)
    drawn = torch.randn(97, generator=generator, dtype=torch.float64) * scales
    x = torch.cat([torch.tensor(EDGES, dtype=torch.float64), drawn]).to(dtype)

    @tileflow.kernel
    def kernel(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            out[tile] = function(x[tile])
        return out

    globals()[name] = kernel
    CASES[name] = Case(kernel, (x,), function, (("block:tile", 16),))


for _dtype in (torch.float32, torch.float64):
    for _power in POWERS:
        _add(f"by_{_power:.0f}_{str(_dtype)[6:]}", lambda a, power=_power: a % power, _dtype)
    # an infinity has its zero's sign
    _add(f"sign_{str(_dtype)[6:]}", lambda a: 1 / torch.where(a % 4096 == 0, a % 4096, 1.0), _dtype)
    _add(f"by_6_{str(_dtype)[6:]}", lambda a: a % 6, _dtype)


@tileflow.kernel
def halves_of_an_int(x, n):
    out = torch.empty_like(x)
    for t in tfl.tile(x.numel()):
        out[t] = x[t] + n // 2 * 1000 + n % 5 * 100 + (n >> 1) + n // -7 + n % 2147483647 + n % -9
    return out


@tileflow.kernel
def high_bits(x, seed):
    """Constants beyond 32 bits beside an int of 32."""
    out = torch.empty_like(x)
    for t in tfl.tile(x.numel()):
        out[t] = x[t] + (seed >> 32) + seed % 4294967296 + seed // -5000000000
    return out


@tileflow.kernel
def turns_rounded_up(x):
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        acc = tfl.zeros([t], dtype=torch.int64)
        for _ in range(-(-x.size(0) // 4)):
            acc += 1
        out[t] = x[t] + acc + (x.size(0) - 7) // 4 + (3 - x.size(0)) % 4
    return out


@tileflow.kernel
def counted_by_a_step(x: torch.Tensor, end: int, step: int) -> torch.Tensor:
    """How many numbers an arange has, and their sum, by a step of either sign."""
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        numbers = tfl.arange(0, end, step)
        out[tile] = 1000 * torch.ones_like(numbers).sum() + numbers.sum()
    return out


@tileflow.kernel
def kth_of_rows(x: torch.Tensor, k: int) -> torch.Tensor:
    out = torch.empty(x.size(0), k, dtype=x.dtype)
    for tile in tfl.tile(x.size(0)):
        for i in tfl.grid(k):
            out[tile, i] = torch.kthvalue(x[tile, :], i + 1).values
    return out
