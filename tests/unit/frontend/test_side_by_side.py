"""Products of tiles that lie side by side: of which parts they are made, and where they stay one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl
from tileflow.build.compile import build
from tileflow.ir.attributes import LoadAttrs
from tileflow.target import target

H200, MI300X = target("nvidia-h200"), target("amd-mi300x")


def bf16(*shape: int) -> torch.Tensor:
    return torch.empty(shape, dtype=torch.bfloat16, device="meta")


def projected(x, y, w, out):
    for t in tfl.tile(x.size(0)):
        one, other = x[t, :].float(), y[t, :].float()
        one, other = one / one.norm(dim=1, keepdim=True), other / other.norm(dim=1, keepdim=True)
        out[t, :] = torch.cat([one, other], 1).to(x.dtype) @ w[:, :]
    return out


def rectified(x, y, w, out):
    for t in tfl.tile(x.size(0)):
        out[t, :] = F.linear(F.relu(torch.cat([x[t, :], y[t, :]], -1) * 2), w[:, :].T)
    return out


def normed(x, y, w, out):
    for t in tfl.tile(x.size(0)):
        both = torch.cat([x[t, :], y[t, :]], -1).float()
        out[t, :] = F.rms_norm(both, (w.size(0),), w[:, 0].float(), 1e-6).to(x.dtype) @ w[:, :]
    return out


def gated(x, y, w, out):
    for t in tfl.tile(x.size(0)):
        gate, up = (x[t, :] @ w[: x.size(1), :]).float().chunk(2, 1)
        out[t, : w.size(1) // 2] = F.silu(gate) * up
    return out


def sliced(x, y, w, out):
    for t in tfl.tile(x.size(0)):
        both = (x[t, :] @ w[: x.size(1), :]).float()
        out[t, 512:] = both[:, 512:] + both[:, : w.size(1) - 512].exp()
    return out


def written_between(x, y, w, out):
    for t in tfl.tile(x.size(0)):
        weight = w[:, :]
        w[t, :] = out[t, :]
        out[t, :] = torch.cat([x[t, :], y[t, :]], 1) @ weight
    return out


def masked(x, y, w, out):
    for t in tfl.tile(x.size(0)):
        weight = tfl.load(w, [slice(None), slice(None)], extra_mask=(tfl.arange(w.size(0)) % 3 > 0)[:, None])
        out[t, :] = torch.cat([x[t, :], y[t, :]], 1) @ weight
    return out


def products(kernel: Callable[..., Any], *args: torch.Tensor) -> list[Any]:
    (ir,) = tileflow.kernel(kernel).lower(args, H200).regions
    return [op for op in ir.walk() if op.kind == "dot"]


@pytest.mark.parametrize("mode", ["static", "dynamic", "generic"])
@pytest.mark.parametrize("kernel", [projected, rectified, normed, gated, sliced])
@pytest.mark.parametrize("device", [H200, MI300X], ids=["h200", "mi300x"])
def test_long_rows_side_by_side_have_a_config(kernel: Callable[..., Any], device: Any, mode: str) -> None:
    """A state and a word's vector of 2048 each, projected as one: all 4096 were in one piece, which no config held. So
    were the columns of a product that are cut in two."""
    args = bf16(64, 2048), bf16(64, 2048), bf16(4096, 2048), bf16(64, 2048)
    lowered = tileflow.kernel(kernel).lower(args, device, mode=mode)
    sources = lowered.emit(lowered.default)
    assert sources if mode != "static" else [build(source, device) for source in sources]


def test_each_part_has_its_own_rows() -> None:
    (ir,) = tileflow.kernel(projected).lower((bf16(64, 300), bf16(64, 100), bf16(400, 96), bf16(64, 96)), H200).regions
    rows = {LoadAttrs.of(op).site for op in ir.walk() if op.kind == "load" and LoadAttrs.of(op).tensor == "w"}
    assert len(rows) == 2 and len([op for op in ir.walk() if op.kind == "dot"]) == 2


@pytest.mark.parametrize(
    ("kernel", "sizes"),
    [(projected, (32, 64)), (written_between, (300, 100)), (masked, (300, 100))],
)
def test_what_stays_one_product(kernel: Callable[..., Any], sizes: tuple[int, int]) -> None:
    """Short rows, a weight that was written since it was loaded, and one of which a mask says what was."""
    one, other = sizes
    assert len(products(kernel, bf16(64, one), bf16(64, other), bf16(one + other, 96), bf16(64, 96))) == 1


def promoted(x, y, w, out):
    for t in tfl.tile(x.size(0)):
        out[t, :] = torch.cat([x[t, :], y[t, :]], 1) @ w[:, :]
    return out


def test_parts_have_the_dtype_that_they_have_side_by_side() -> None:
    """Part of a row in bfloat16 beside one in float32 was multiplied as it was: Triton refused two dtypes."""
    wide = torch.empty(400, 96, device="meta")
    args = torch.empty(64, 300, device="meta"), bf16(64, 100), wide, torch.empty(64, 96, device="meta")
    found = products(promoted, *args)
    assert len(found) == 2
    assert {v.type.dtype for op in found for v in op.values[:2]} == {"float32"}
