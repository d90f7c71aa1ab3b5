"""Functions that stand beside a kernel, in both families of templates (emit/functions.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

pytest.importorskip("triton")

from tile_testing.kernels.schedule_kernels import FUNCTIONS, product_with
from tile_testing.ptx import ptx

import tileflow
import tileflow.language as tfl
from tileflow.build.compile import build, load_function
from tileflow.target import target


@tileflow.kernel
def alone(f, x, s: float):
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        out[t] = f(x[t], s)
    return out


@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=list(FUNCTIONS))
def test_a_warp_specialised_epilogue_has_them(f: Callable[..., Any]) -> None:
    """On the code before, no module of a remainder could be loaded."""
    x = torch.empty(4096, 4096, dtype=torch.bfloat16, device="meta")
    lowered = product_with.lower((f, x, x, 0.3), target("nvidia-h200"))
    config = lowered.space.repair(lowered.default.with_({"schedule": "warp_specialised"}))
    assert config["schedule"] == "warp_specialised"
    (source,) = lowered.emit(config)
    assert load_function(source)


def test_a_warp_specialised_epilogue_that_rounds_is_built() -> None:
    x = torch.empty(4096, 4096, dtype=torch.bfloat16, device="meta")
    lowered = product_with.lower((FUNCTIONS["round"], x, x, 0.3), target("nvidia-h200"))
    (source,) = lowered.emit(lowered.space.repair(lowered.default.with_({"schedule": "warp_specialised"})))
    assert build(source, lowered.target).resources.spills == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_rounding_is_one_instruction(dtype: torch.dtype) -> None:
    """Two floors and a comparison each before."""
    text = ptx(alone, (FUNCTIONS["round"], torch.empty(4096, dtype=dtype, device="meta"), 0.3))
    rounded = [line.split()[0] for line in text.splitlines() if "cvt.rni" in line or "cvt.rmi" in line]
    assert len(rounded) == text.count("cvt.rni") > 0
    assert "setp.eq" not in text


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_amd_has_them(dtype: torch.dtype) -> None:
    x = torch.empty(4096, dtype=dtype, device="meta")
    lowered = alone.lower((lambda x, s: torch.round(x * s) + x % s, x, 0.3), target("amd-mi300x"))
    (source,) = lowered.emit(lowered.default)
    assert build(source, lowered.target).code.startswith(b"\x7fELF")


BESIDE_NUMBERS: dict[str, Callable[..., Any]] = {
    "remainder": lambda x, s: x % 3,
    "remainder of a number": lambda x, s: 7 % x,
    "floor_divide": lambda x, s: x // -2.5,
    "floor_divide of a number": lambda x, s: 2 // x,
    "fmod": lambda x, s: torch.fmod(x, float("inf")),
    "power": lambda x, s: x**1.7 + 2.5**x,
    "of a number of the call": lambda x, s: x + s % 0.1 + s // 3,
    "of an element": lambda x, s: x + x.sum() % 3,
}


@pytest.mark.parametrize("f", BESIDE_NUMBERS.values(), ids=list(BESIDE_NUMBERS))
@pytest.mark.parametrize("kind", ["nvidia-h200", "amd-mi300x"])
def test_doubles_have_them_beside_numbers(f: Callable[..., Any], kind: str) -> None:
    """No library has a function of a float64 and a float32, which a bare number was; the interpreter has one."""
    x = torch.empty(4096, dtype=torch.float64, device="meta")
    lowered = alone.lower((f, x, 0.3), target(kind))
    (source,) = lowered.emit(lowered.default)
    assert build(source, lowered.target).code
