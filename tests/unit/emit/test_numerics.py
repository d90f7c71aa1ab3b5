"""What the emitted text does for the numbers' sake (issue 14, findings 1 and 5 to 7)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl
from tileflow.api import Kernel
from tileflow.emit.source import TritonSource
from tileflow.target import target

X = torch.empty(64, 128, device="meta")


def source(kernel: Kernel, *args: Any, device: str = "nvidia-h200") -> TritonSource:
    lowered = kernel.lower(args, target(device))
    (only,) = lowered.emit(lowered.default)
    return only


@tileflow.kernel
def weights(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = torch.log_softmax(x[tile, :], 1) + torch.sigmoid(x[tile, :])
    return out


@tileflow.kernel
def mixture(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile_m, tile_n in tfl.tile(x.shape):
        p, q = x[tile_m, tile_n], y[tile_m, tile_n]
        out[tile_m, tile_n] = torch.log(0.5 * (p.exp() + q.exp())) * p.exp()
    return out


def test_a_logarithm_reads_no_exponential_that_was_flushed() -> None:
    """Else a small probability is 0, its logarithm minus infinity, their product NaN: in a JSD over 128,256 words."""
    text = source(mixture, X, X).text
    first, *rest = text.partition("tl.log(")
    assert first.count("tl.exp(") == 2 and "tl.exp2(" not in first and rest[0]


def test_exponentials_of_a_softmax_stay_one_instruction() -> None:
    assert "tl.exp(" not in source(weights, X).text


@tileflow.kernel
def scaled(x: torch.Tensor, scale: float) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] * scale + scale * 2
    return out


@pytest.mark.parametrize(("dtype", "word"), [("float64", "fp64"), ("float32", "fp32"), ("bfloat16", "fp32")])
def test_a_float_argument_is_as_wide_as_the_tiles_need(dtype: str, word: str) -> None:
    args = source(scaled, torch.empty(100, dtype=getattr(torch, dtype), device="meta"), 0.1).args
    assert [a.type for a in args if a.kind == "float"] == [word]


@tileflow.kernel
def implicit(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    out, last = torch.empty_like(x), torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = F.softmax(x[tile, :])
        last[tile, :] = F.log_softmax(x[tile, :]) + F.softmin(x[tile, :])
    return out, last


@pytest.mark.filterwarnings("ignore:Implicit dimension choice")
def test_softmax_takes_torchs_implicit_dimension() -> None:
    x = torch.randn(9, 33)
    with tileflow.interpret():
        wanted = F.softmax(x, 1), F.log_softmax(x, 1) + F.softmin(x, 1)
        torch.testing.assert_close(implicit(x), wanted)
    assert "axis=0" not in source(implicit, X).text


@tileflow.kernel
def wrapped(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] % y[tile] + x[tile] // y[tile]
    return out


@pytest.mark.parametrize("device", ["nvidia-h200", "amd-mi300x"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_remainders_are_the_vendors_own(device: str, dtype: torch.dtype) -> None:
    """Exact for quotients of any size; Triton's own multiplies a rounded quotient back."""
    pytest.importorskip("triton")
    from tileflow.build.compile import build

    x = torch.empty(1000, dtype=dtype, device="meta")
    assert build(source(wrapped, x, x, device=device), target(device)).code.startswith(b"\x7fELF")


@tileflow.kernel
def optional(x: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    out = torch.zeros_like(x)
    for tile in tfl.tile(x.size(0)):
        if bias is not None:
            out[tile, :] = x[tile, :] + bias[:]
    return out


def test_a_launch_that_a_condition_empties_is_no_mistake() -> None:
    assert "tl.store" not in source(optional, X, None).text
