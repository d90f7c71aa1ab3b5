"""First warps of programs that compute sines."""

from __future__ import annotations

import pytest
import torch
from tile_testing.strangers import ALL

import tileflow
import tileflow.language as tfl
from tileflow.target import target


@tileflow.kernel
def waves(x, is_turned: bool):
    out = torch.empty_like(x)
    for t in tfl.tile(x.numel()):
        out[t] = torch.sin(x[t]) if is_turned else torch.exp(x[t])
    return out


def warps(is_turned: bool, dtype: torch.dtype, device: str = "nvidia-h100-sxm") -> tuple[int, int]:
    """The block and the warps of the default."""
    config = waves.lower((torch.empty(1 << 24, dtype=dtype, device="meta"), is_turned), target(device)).default
    return int(config["block:t"]), int(config["num_warps"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_many_sines_of_a_lane_are_shared_by_twice_the_warps(dtype: torch.dtype) -> None:
    """0.62 to 0.96 of the time (nine kernels, H100)."""
    block, few = warps(False, dtype)
    assert block >= 8 * 32 * few
    assert warps(True, dtype) == (block, 2 * few)


def test_sines_of_float64_have_two_registers_each() -> None:
    """4 a lane: 7.6 ms by four warps, 4.8 by eight (H100, by hand, 2026-11-27)."""
    one = ALL["kepler_positions"]
    found = one.kernel.lower(one.arguments("large", "meta"), target("nvidia-h100-sxm")).default
    assert (found["block:tt"], found["num_warps"]) == (512, 8)


def test_what_was_not_measured_keeps_its_warps() -> None:
    assert warps(True, torch.float32, "amd-mi300x") == warps(False, torch.float32, "amd-mi300x")
