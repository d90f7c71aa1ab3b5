"""Sizes that a launch checks to be equal are one dimension, also where it checks a sum of sizes, or a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.passes.roll import rollable
from tileflow.target import target

H200 = target("nvidia-h200")


def differences(x, w, out):
    for t in tfl.tile(x.size(0)):
        out[t, 1:] = x[t, 1:] - x[t, : x.size(1) - 1]


def gated_halves(x, w, out):
    n = w.size(0)
    for t in tfl.tile(x.size(0)):
        out[t, :] = (torch.sigmoid(x[t, :n]) * x[t, n:]) @ w[:, :]


def of_a_number(x, w, out):
    for t in tfl.tile(x.size(0)):
        row = x[t, :] * tfl.arange(3000)[None, :]
        out[t, 0] = (row * w[0, :]).sum(1)


@pytest.mark.parametrize("mode", ["static", "dynamic", "wide", "generic"])
@pytest.mark.parametrize(
    ("function", "sizes", "count"),
    [
        (differences, ((64, 3000), (1, 1), (64, 3000)), 1),
        (gated_halves, ((64, 6000), (3000, 96), (64, 96)), 1),
        (of_a_number, ((64, 3000), (1, 3000), (64, 1)), 1),
    ],
)
def test_what_is_equal_is_one_dimension(function: Callable[..., Any], sizes: Any, count: int, mode: str) -> None:
    """In the modes of sizes that a launch gives, each of them was in one piece: the half of a row of 28672 in no
    config."""
    args = tuple(torch.empty(size, dtype=torch.bfloat16, device="meta") for size in sizes)
    (ir,) = tileflow.kernel(function).lower(args, H200, mode=mode).regions
    loops = [dim for dim in rollable(ir).values() if ir.hint(dim.extent) > 2000]
    cut = [tile for tile in ir.tiles.values() if ir.hint(tile.end) > 2000]
    assert len({*loops}) + len({str(tile.end) for tile in cut}) == count
