"""Gathers of a few elements into more, which Triton does not take as they are."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl
from tileflow.build.compile import build
from tileflow.target import target

H200 = target("nvidia-h200")


@tileflow.kernel
def normalised(x, weight, bias, groups: int):
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :, :] = F.group_norm(x[tile, :, :], groups, weight[:], bias[:])
    return out


@pytest.mark.parametrize("warps", [1, 4, 8])
@pytest.mark.parametrize(("rows", "channels", "groups"), [(5, 6, 3), (64, 12, 3), (1, 12, 6)])
def test_a_gather_of_fewer_elements_than_threads_compiles(rows: int, channels: int, groups: int, warps: int) -> None:
    """Triton's pass of layouts ended with an error: a group's mean goes back to its channels by such a gather."""
    x, weight = torch.empty(rows, channels, 8, device="meta"), torch.empty(channels, device="meta")
    lowered = normalised.lower((x, weight, weight, groups), H200)
    config = lowered.space.repair(lowered.default.with_({"num_warps": warps}))
    for source in lowered.emit(config):
        assert "tl.gather" in source.code
        assert build(source, H200).resources.registers > 0
