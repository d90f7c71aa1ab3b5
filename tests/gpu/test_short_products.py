"""Products of few turns' elements whose operands are joined of tiles that were loaded as bytes (emit.products)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.config import Config
from tileflow.lowered import Lowered
from tileflow.measure.device import identity
from tileflow.target import target

pytestmark = pytest.mark.gpu


@tileflow.kernel
def normal_equations(x, flag):
    n, t = x.shape
    out = torch.empty(n, 4, 4, dtype=torch.float32, device=x.device)
    for i in tfl.grid(n):
        total = tfl.zeros([4, 4])
        for k in tfl.tile(t):
            one, other = x[i, k], flag[i, k].to(x.dtype)
            row = torch.stack([torch.ones_like(one), one, other, one * other], 1)
            total += row.T @ row
        out[i, :, :] = total
    return out


@tileflow.kernel
def weighed(x, y):
    n, m, _ = x.shape
    out = torch.empty(n, m, y.size(1), dtype=torch.float32, device=x.device)
    for i in tfl.grid(n):
        out[i, :, :] = x[i, :, :].to(y.dtype) @ y[:, :]
    return out


def _configs(lowered: Lowered, **wanted: int) -> Iterator[Config]:
    """The default with these knobs, in every precision that it may have; none where a knob lacks a choice."""
    knobs = {knob.name: knob.choices for knob in lowered.space.knobs}
    blocks = {f"block:{name}": size for name, size in wanted.items()}
    if all(size in knobs[name] for name, size in blocks.items()):
        for precision in knobs.get("product:dot#0.precision", ("",)):
            changes = blocks | ({"product:dot#0.precision": precision} if precision else {})
            yield lowered.space.normalise(lowered.default.with_(changes))


@pytest.mark.parametrize("narrow", [torch.bool, torch.int8, torch.float8_e4m3fn])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("block", [16, 32])
def test_joined_bytes(narrow: torch.dtype, dtype: torch.dtype, block: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(64, 160, device="cuda").to(dtype)
    flag = (torch.rand(64, 160, device="cuda") < 0.5).float().to(narrow)
    one, other = x.double(), flag.double()
    rows = torch.stack([torch.ones_like(one), one, other, one * other], 2)
    lowered = normal_equations.lower((x, flag), target(identity().device_class))
    for config in _configs(lowered, k=block):
        found = normal_equations.compile(lowered, config, "cuda")(x, flag)
        torch.testing.assert_close(found.double(), rows.mT @ rows, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("narrow", [torch.int8, torch.float8_e4m3fn])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("inner", [4, 8, 16])
def test_padded_bytes(narrow: torch.dtype, dtype: torch.dtype, inner: int) -> None:
    torch.manual_seed(0)
    x = (torch.randn(8, 16, inner, device="cuda") * 2).round().to(narrow)
    y = torch.randn(inner, 32, device="cuda").to(dtype)
    lowered = weighed.lower((x, y), target(identity().device_class))
    for config in _configs(lowered):
        found = weighed.compile(lowered, config, "cuda")(x, y)
        torch.testing.assert_close(found.double(), x.double() @ y.double(), atol=1e-3, rtol=1e-3)
