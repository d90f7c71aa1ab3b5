"""Float8 stored as it lies and turned: pairs that are packed into words and taken apart (build.ptxas_faults)."""

from __future__ import annotations

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.measure.device import identity
from tileflow.target import target

pytestmark = pytest.mark.gpu


@tileflow.kernel
def both_ways(x, dtype: tfl.constexpr):
    m, n = x.shape
    lying = torch.empty(m, n, dtype=dtype, device=x.device)
    turned = torch.empty(n, m, dtype=dtype, device=x.device)
    for tm, tn in tfl.tile([m, n]):
        a = x[tm, tn].float()
        small = (torch.tanh(a) * a * 100).clamp(-448, 448).to(dtype)
        lying[tm, tn] = small
        turned[tn, tm] = small.T
    return lying, turned


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
@pytest.mark.parametrize("source", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    ("rows", "columns", "warps"), [(1, 2048, 4), (1, 2048, 16), (4, 1024, 4), (32, 64, 4), (16, 256, 8)]
)
def test_both_are_the_same_numbers(
    dtype: torch.dtype, source: torch.dtype, rows: int, columns: int, warps: int
) -> None:
    torch.manual_seed(0)
    x = torch.randn(512, 5504, device="cuda").to(source)
    lowered = both_ways.lower((x, dtype), target(identity().device_class))
    config = lowered.default.with_({"block:tm": rows, "block:tn": columns, "num_warps": warps})
    lying, turned = both_ways.compile(lowered, config, "cuda")(x, dtype)
    a = x.float()
    wanted = (torch.tanh(a) * a * 100).clamp(-448, 448).to(dtype)
    assert (lying.view(torch.int8) != wanted.view(torch.int8)).float().mean() < 1e-3  # by rounding
    assert torch.equal(lying.view(torch.int8).T, turned.view(torch.int8))
