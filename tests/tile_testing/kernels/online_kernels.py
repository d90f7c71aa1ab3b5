"""Kernels whose rows are read in a loop that finds a maximum and a sum of exponentials together: ``CASES``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import tileflow
import tileflow.language as tfl
from tile_testing.kernels.cases import Case

CASES: dict[str, Case] = {}
INF, NAN = float("inf"), float("nan")


def rows() -> torch.Tensor:
    """Rows of 300 in blocks of 128: a rising one, a falling one, with infinities, of nothing but them, with a NaN."""
    x = torch.randn(8, 300, generator=torch.Generator().manual_seed(0))
    x[0], x[1] = torch.linspace(-80, 80, 300), torch.linspace(80, -80, 300)
    x[2, :200] = -INF
    x[3] = -INF
    x[4, 40] = INF
    x[5, 290] = NAN
    x[6, ::2], x[6, 1] = -INF, INF
    return x


def case(wanted: Callable[..., torch.Tensor], dtype: torch.dtype = torch.float32) -> Callable[[Any], Any]:
    def register(kernel: Any) -> Any:
        CASES[kernel.__name__] = Case(kernel, (rows().to(dtype),), wanted, (("reduce:max#0", 128), ("block:tile", 2)))
        return kernel

    return register


@case(lambda x: torch.softmax(x, 1))
@tileflow.kernel
def softmax(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = torch.softmax(x[tile, :], dim=1)
    return out


@case(lambda x: torch.softmax(x, 1), torch.bfloat16)
@tileflow.kernel
def softmax_of_halves(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = torch.softmax(x[tile, :].float(), dim=1)
    return out


@case(lambda x: torch.log_softmax(x, 1))
@tileflow.kernel
def log_softmax(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = torch.log_softmax(x[tile, :], dim=1)
    return out


@case(lambda x: torch.logsumexp(x, 1))
@tileflow.kernel
def logsumexp(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x[:, 0])
    for tile in tfl.tile(x.size(0)):
        out[tile] = torch.logsumexp(x[tile, :], dim=1)
    return out


@case(lambda x: torch.stack([torch.exp2(x - x.amax(1, True)).sum(1), x.sum(1)]))
@tileflow.kernel
def with_a_sum_beside(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(2, x.size(0), dtype=x.dtype, device=x.device)
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        out[0, tile] = torch.exp2(row - torch.amax(row, dim=1)[:, None]).sum(1)
        out[1, tile] = row.sum(1)
    return out


@case(lambda x: torch.exp(x * 2 - x.amax(1, True)).sum(1))
@tileflow.kernel
def another_exponent(x: torch.Tensor) -> torch.Tensor:
    """Not of what the maximum is of: two loops."""
    out = torch.empty_like(x[:, 0])
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        out[tile] = torch.exp(row * 2 - torch.amax(row, dim=1)[:, None]).sum(1)
    return out


@case(lambda x: torch.softmax(x, 1))
@tileflow.kernel
def along_the_first_axis(x: torch.Tensor) -> torch.Tensor:
    columns, out = x.t(), torch.empty_like(x).t()
    for tile in tfl.tile(x.size(0)):
        out[:, tile] = torch.softmax(columns[:, tile], dim=0)
    return out.t()
