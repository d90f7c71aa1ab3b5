"""Indices on the GPU: every case of the interpreter's, those of neighbours in memory and of histograms too, under its
own config and the default; and beyond 32 bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tile_testing.kernels.histogram_kernels import CASES as HISTOGRAMS
from tile_testing.kernels.indexing_kernels import CASES
from tile_testing.kernels.neighbour_kernels import CASES as NEIGHBOURS
from tile_testing.kernels.wide_kernels import LONG, end_of_a_vector
from tile_testing.runs.interpreted import close

import tileflow
import tileflow.language as tfl
from tileflow.lowered import Lowered
from tileflow.runtime.describe import device_class
from tileflow.target import target

pytestmark = pytest.mark.gpu
ALL = {**CASES, **NEIGHBOURS, **HISTOGRAMS}


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


def on_device(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(a.to("cuda", copy=True) if isinstance(a, torch.Tensor) else a for a in args)


def run(kernel: tileflow.api.Kernel, args: tuple[Any, ...], mode: str, **changes: Any) -> Any:
    lowered: Lowered = kernel.lower(args, target(device_class("cuda")), mode=mode)
    config = lowered.space.repair(lowered.default.with_(changes))
    return kernel.compile(lowered, config, "cuda")(*args)


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("case", [*ALL.values()], ids=[*ALL])
def test_case(case: Any, mode: str) -> None:
    expected = case.wanted(*case.args)
    for config in ({}, dict(case.config)):
        got = run(case.kernel, on_device(case.args), mode, **config)
        assert close(got.cpu(), expected) == "", config


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
