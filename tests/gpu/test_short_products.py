"""Products of few turns' elements whose operands are joined of tiles that were loaded as bytes (emit.products)."""

from __future__ import annotations

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.measure.device import identity
from tileflow.target import target

pytestmark = pytest.mark.gpu


@tileflow.kernel
def normal_equations(x, flag):
    n, t = x.shape
    out = torch.empty(n, 2, 2, dtype=torch.float32, device=x.device)
    for i in tfl.grid(n):
        total = tfl.zeros([2, 2])
        for k in tfl.tile(t):
            row = torch.stack([x[i, k], flag[i, k].to(x.dtype)], 1)
            total += row.T @ row
        out[i, :, :] = total
    return out


@tileflow.kernel
def weighed(x, y):
    n, m, _ = x.shape
    out = torch.empty(n, m, y.size(1), dtype=torch.float32, device=x.device)
    for i in tfl.grid(n):
        out[i, :, :] = x[i, :, :].to(y.dtype) @ y
    return out


@pytest.mark.parametrize("narrow", [torch.bool, torch.int8, torch.float8_e4m3fn])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("block", [16, 32])
def test_joined_bytes(narrow: torch.dtype, dtype: torch.dtype, block: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(64, 96, device="cuda").to(dtype)
    flag = (torch.rand(64, 96, device="cuda") < 0.5).float().to(narrow)
    lowered = normal_equations.lower((x, flag), target(identity().device_class))
    changes = {"block:k": block} | ({"product:dot#0.precision": "tf32x3"} if dtype == torch.float32 else {})
    found = normal_equations.compile(lowered, lowered.space.normalise(lowered.default.with_(changes)), "cuda")(x, flag)
    rows = torch.stack([x.double(), flag.double()], 2)
    torch.testing.assert_close(found.double(), rows.mT @ rows, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("narrow", [torch.int8, torch.float8_e4m3fn])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("inner", [4, 8, 16])
def test_padded_bytes(narrow: torch.dtype, dtype: torch.dtype, inner: int) -> None:
    torch.manual_seed(0)
    x = (torch.randn(8, 16, inner, device="cuda") * 2).round().to(narrow)
    y = torch.randn(inner, 32, device="cuda").to(dtype)
    lowered = weighed.lower((x, y), target(identity().device_class))
    for choice in ("tf32x3", "ieee") if dtype == torch.float32 else ("",):
        config = lowered.default.with_({"product:dot#0.precision": choice} if choice else {})
        found = weighed.compile(lowered, config, "cuda")(x, y)
        torch.testing.assert_close(found.double(), x.double() @ y.double(), atol=1e-3, rtol=1e-3)
