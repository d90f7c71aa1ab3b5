"""Default blocks of loops whose turns find in memory what the turns before left there."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tile_testing.strangers import ALL

import tileflow
import tileflow.language as tfl
from tileflow.target import target

H200, MI300X = target("nvidia-h200"), target("amd-mi300x")


@tileflow.kernel
def cheapest_cuts(cost, window: tfl.constexpr):
    """The cheapest way to each place of a row, from the ``window`` places before it."""
    rows, n = cost.shape
    best = torch.zeros(rows, n + window, device=cost.device)
    for t in tfl.tile(rows):
        for i in range(n):
            before = best[t, i + tfl.arange(window)]
            best[t, i + window] = (before + cost[t, i][:, None]).amin(1)
    return best


def default(rows: int, window: int, gpu: Any = H200) -> dict[str, object]:
    lowered = cheapest_cuts.lower((torch.empty(rows, 512, device="meta"), window), gpu)
    return {knob: lowered.default[knob] for knob in ("block:t", "num_warps")}


@pytest.mark.parametrize("window", [32, 64, 256])
def test_a_program_is_one_warp_with_eight_elements_a_lane(window: int) -> None:
    """Several warps meet in each turn, and each turn waits for stores: 0.2 and 0.5 of the time (an H200)."""
    assert default(16384, window)["num_warps"] == 1
    rows = default(16384, window)["block:t"]
    assert isinstance(rows, int) and rows * window <= 8 * 32


def test_others_stay() -> None:
    assert default(16384, 4096)["num_warps"] != 1  # more than a warp has registers for
    assert default(64, 256)["num_warps"] != 1  # few programs
    assert default(16384, 64, MI300X)["num_warps"] != 1  # nothing was measured


@pytest.mark.parametrize("name", ["break_lines", "panjer_recursion"])
def test_tables_of_strangers(name: str) -> None:
    assert ALL[name].kernel.lower(ALL[name].arguments("large", "meta"), H200).default["num_warps"] == 1
