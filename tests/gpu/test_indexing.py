"""Indices on the GPU that 32 bits do not hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tile_testing.kernels.wide_kernels import LONG, end_of_a_vector

import tileflow
import tileflow.language as tfl
from tileflow.lowered import Lowered
from tileflow.runtime.describe import device_class
from tileflow.target import target

pytestmark = pytest.mark.gpu


@tileflow.kernel
def doubled(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] * 2
    return out


@tileflow.kernel
def column(x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    out = torch.empty(rows.size(0), dtype=x.dtype, device=x.device)
    for tile in tfl.tile(rows.size(0)):
        out[tile] = x[rows[tile], x.size(1) - 1]
    return out


@pytest.fixture(autouse=True)
def _freed() -> Iterator[None]:
    yield
    torch.cuda.empty_cache()


def run(kernel: tileflow.api.Kernel, args: tuple[Any, ...], mode: str, **changes: Any) -> Any:
    lowered: Lowered = kernel.lower(args, target(device_class("cuda")), mode=mode)
    config = lowered.space.repair(lowered.default.with_(changes))
    return kernel.compile(lowered, config, "cuda")(*args)


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_a_vector_of_more_than_2_31_elements(mode: str) -> None:
    x = torch.arange(128, dtype=torch.int8, device="cuda").repeat(LONG // 128 + 1)[:LONG] % 60
    assert torch.equal(run(doubled, (x,), mode), x * 2)
    index = torch.arange(LONG - 100, LONG, device="cuda")
    assert torch.equal(run(end_of_a_vector, (x,), mode), index + x[-100:])


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_a_matrix_of_more_than_2_31_elements(mode: str) -> None:
    m, n = 70000, 40000
    x = torch.zeros(m, n, dtype=torch.int8, device="cuda")
    x[:, -1] = torch.arange(m, device="cuda") % 100
    rows = torch.randint(0, m, (5000,), dtype=torch.int32, device="cuda")
    assert torch.equal(run(column, (x, rows), mode), x[rows.long(), -1])
