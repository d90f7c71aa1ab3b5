"""Warps of loops whose turns have all that they need in registers."""

from __future__ import annotations

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.config import Config
from tileflow.target import target


@tileflow.kernel
def balanced(x, turns):
    """Rows and columns of many small matrices, each made to sum to one again and again."""
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        a = x[t, :, :]
        for _ in range(turns):
            a = a / a.sum(2, keepdim=True)
            a = a / a.sum(1, keepdim=True)
        out[t, :, :] = a
    return out


@tileflow.kernel
def balanced_by(x, weight, turns):
    """The same, by numbers that each turn loads."""
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        a = x[t, :, :]
        for n in range(turns):
            a = a * weight[n] / a.sum(2, keepdim=True)
            a = a / a.sum(1, keepdim=True)
        out[t, :, :] = a
    return out


def default(count: int, side: int, device: str = "nvidia-h100-sxm") -> Config:
    x = torch.empty(count, side, side, device="meta")
    return balanced.lower((x, 20), target(device)).default


@pytest.mark.parametrize(("side", "tiles"), [(32, 2), (27, 2)])
def test_one_warp_has_rounds_of_whole_tiles(side: int, tiles: int) -> None:
    found = default(16384, side)
    assert (found["num_warps"], found["block:t"]) == (1, tiles)


def test_tiles_that_a_lane_holds_and_those_beyond_a_warp_keep_their_warps() -> None:
    assert default(1 << 20, 4)["num_warps"] == 4
    assert default(16384, 64)["num_warps"] != 1


def test_few_programs_and_devices_without_a_measurement_keep_theirs() -> None:
    assert default(100, 32)["num_warps"] != 1
    assert default(16384, 32, "amd-mi300x")["num_warps"] != 1


def test_turns_that_load_keep_theirs() -> None:
    x, weight = torch.empty(16384, 32, 32, device="meta"), torch.empty(20, device="meta")
    assert balanced_by.lower((x, weight, 20), target("nvidia-h100-sxm")).default["num_warps"] != 1
