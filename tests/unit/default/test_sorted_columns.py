"""A lane sorts its own column (default/exchanges.py)."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.config import Config
from tileflow.target import target

H200 = target("nvidia-h200")


@tileflow.kernel
def medians(frames):
    n, rows, columns = frames.shape
    out = torch.empty(rows, columns, device=frames.device)
    for ty, tx in tfl.tile([rows, columns]):
        out[ty, tx] = torch.sort(frames[:, ty, tx], 0).values[n // 2]
    return out


@tileflow.kernel
def joined(frames, like):
    """Its sorted tile has two loads, whose neighbours are along one block."""
    out = torch.empty_like(frames)
    for ty, tx in tfl.tile(like.shape):
        out[:, ty, tx] = (frames[:, ty, tx] + like[ty, tx]).sort(0)[0]
    return out


def chosen(kernel: Any, *args: torch.Tensor) -> Config:
    return kernel.lower(tuple(a.to("meta") for a in args), H200).default


@pytest.mark.parametrize("kernel", [medians, joined], ids=lambda k: k.__name__)
@pytest.mark.parametrize("is_turned", [False, True])
def test_a_warp_has_a_column_in_each_lane(kernel: Any, is_turned: bool) -> None:
    frames = torch.empty(31, 1000, 1000)
    like = torch.empty(1000, 1000)
    frames, like = (x.mT if is_turned else x for x in (frames, like))
    config = chosen(kernel, frames, *([like] if kernel is joined else []))
    near, far = ("block:ty", "block:tx") if is_turned else ("block:tx", "block:ty")
    assert (config["num_warps"], config[near], config[far]) == (1, 32, 1)


def test_short_columns_are_several_in_a_lane() -> None:
    config = chosen(medians, torch.empty(5, 1000, 1000))
    assert (config["num_warps"], config["block:tx"]) == (1, 64)


def test_long_columns_are_shared() -> None:
    assert chosen(medians, torch.empty(300, 1000, 1000))["num_warps"] > 1


def test_few_columns_keep_their_warps() -> None:
    assert chosen(medians, torch.empty(31, 8, 1000))["num_warps"] > 1
