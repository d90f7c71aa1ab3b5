"""Loops whose turns wait for nothing, and those whose turns wait for few. Figures are in the rules."""

from __future__ import annotations

import pytest
import torch
from tile_testing.strangers import ALL

from tileflow.config import Config
from tileflow.target import target


def default(name: str, **sizes: int) -> Config:
    one = ALL[name]
    args = one.make(**(one.large | sizes))
    meta = tuple(a.to("meta") if isinstance(a, torch.Tensor) else a for a in args)
    return one.kernel.lower(meta, target("nvidia-h100-sxm")).default


def test_sums_of_what_lanes_load_have_many_warps_and_no_stages() -> None:
    found = default("correlation_volume")
    assert (found["block:ty"], found["block:tx"]) == (8, 128)
    assert (found["num_warps"], found["num_stages"]) == (8, 1)


@pytest.mark.parametrize("name", ["gaussian_splat", "rwkv", "mandelbrot", "nms"])
def test_other_loops_keep_what_they_load_ahead(name: str) -> None:
    assert int(default(name)["num_stages"]) > 1


def test_rays_that_meet_the_same_spheres_have_a_row_a_lane() -> None:
    found = default("ray_spheres")
    assert (found["block:t"], found["num_warps"], found["num_stages"]) == (128, 4, 1)
    few = default("ray_spheres", n=4096)
    assert (few["block:t"], few["num_warps"]) == (32, 1)


def test_chunks_that_wait_for_one_another_have_programs_for_all() -> None:
    """80 programs of 256 columns, and 8 steps a turn: narrow ones take more steps of a chunk."""
    found = default("gated_linear_recurrence")
    assert (found["block:tc"], found["block:tt"]) == (64, 32)
