"""Lanes that hold one sum hold the same number where something is decided by it (passes/agreeing_lanes.py)."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

pytest.importorskip("triton")

from tile_testing.ptx import ptx
from tile_testing.strangers import ALL

import tileflow
import tileflow.language as tfl


@tileflow.kernel
def read_where_a_sum_says(x, places, points):
    out = torch.empty(points.size(0), places.size(0), device=x.device)
    for i in tfl.tile(points.size(0), block_size=1):
        apart = places[:, :] - points[i.begin, :][None, :]
        out[i.begin, :] = x[torch.sqrt((apart * apart).sum(1)).int()]
    return out


@tileflow.kernel
def the_nearest_marked(places, points):
    out = torch.empty(points.size(0), places.size(0), device=points.device)
    for i in tfl.tile(points.size(0), block_size=1):
        apart = places[:, :] - points[i.begin, :][None, :]
        far = -(apart * apart).sum(1)
        out[i.begin, :] = torch.where(far == far.amax(), 1.0, 0.0)
    return out


@tileflow.kernel
def roots_above_the_least(places, points):
    out = torch.empty(points.size(0), places.size(0), device=points.device)
    for i in tfl.tile(points.size(0), block_size=1):
        far = (places[:, :] * points[i.begin, :][None, :]).sum(1)
        out[i.begin, :] = torch.sqrt(far - far.amin())
    return out


@tileflow.kernel
def a_branch_by_a_sum(places, points):
    out = torch.zeros(points.size(0), device=points.device)
    for i in tfl.tile(points.size(0), block_size=1):
        apart = places[0, :] - points[i.begin, :]
        if (apart * apart).sum() > 1:
            out[i.begin] = places[0, 0] + 1
    return out


@tileflow.kernel
def of_a_short_dtype(x, places, points):
    """The product is held in float32, and its conversion no instruction."""
    out = torch.empty(points.size(0), places.size(0), device=points.device)
    for i in tfl.tile(points.size(0), block_size=1):
        near = places[:, :] * points[i.begin, :][None, :]
        out[i.begin, :] = x[near.float().sum(1).int()]
    return out


@tileflow.kernel
def scaled_by_the_norm(places, points):
    out = torch.empty(points.size(0), places.size(0), device=points.device)
    for i in tfl.tile(points.size(0), block_size=1):
        apart = places[:, :] - points[i.begin, :][None, :]
        far = (apart * apart).sum(1)
        out[i.begin, :] = torch.where(far > 1, far / far.amax(), torch.sqrt(far))
    return out


X, PLACES, POINTS = (torch.empty(shape, device="meta") for shape in ((4096,), (32, 3), (1024, 3)))
DECIDED = {
    the_nearest_marked: (PLACES, POINTS),
    roots_above_the_least: (PLACES, POINTS),
    read_where_a_sum_says: (X, PLACES, POINTS),
    a_branch_by_a_sum: (PLACES, POINTS),
    of_a_short_dtype: (X, PLACES.bfloat16(), POINTS.bfloat16()),
    ALL["steered_power"].kernel: ALL["steered_power"].arguments("large", "meta"),
}


def rounded_for_one_lane(text: str) -> list[str]:
    """The lines that multiply a lane's own numbers and add what a neighbour has rounded already."""
    neighbours = set(re.findall(r"shfl\.sync\.bfly\.b32\s+(%\w+)", text))
    return [line for line in text.splitlines() if "fma.rn" in line and line.rstrip(";").split()[-1] in neighbours]


@pytest.mark.parametrize("kernel", DECIDED, ids=lambda k: k.__name__)
def test_a_sum_that_decides_is_one_number(kernel: Any) -> None:
    """On the code before, each of these has such lines."""
    text = ptx(kernel, DECIDED[kernel], num_warps=2)
    assert "shfl.sync.bfly" in text
    assert rounded_for_one_lane(text) == []


def test_a_sum_that_decides_nothing_keeps_its_instruction() -> None:
    text = ptx(scaled_by_the_norm, (PLACES, POINTS), num_warps=2)
    assert len(rounded_for_one_lane(text)) > 0
