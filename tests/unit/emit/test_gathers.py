"""Gathers in registers that Triton must find a layout for: out of one lane, and into one."""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl
from tileflow.build.compile import build
from tileflow.target import target

H200 = target("nvidia-h200")


@tileflow.kernel
def parts_of_other_sizes(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        a, b, c = torch.split(x[tile, :], [5, 30, 1], dim=-1)
        out[tile, :] = torch.cat((c, a * 2, b), dim=-1)
    return out


@tileflow.kernel
def one_of_each_row(x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), 1, device=x.device)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = torch.gather(x[tile, :], 1, labels[tile, :])
    return out


def test_one_lane_is_a_broadcast_or_a_sum_and_no_gather() -> None:
    x = torch.empty(24, 36, device="meta")
    lowered = parts_of_other_sizes.lower((x,), H200)
    (source,) = lowered.emit(lowered.default)
    assert source.text.count("tl.gather(") == 4  # of six, one reads one lane and one makes one
    build(source, H200)
    lowered = one_of_each_row.lower((x, torch.empty(24, 1, dtype=torch.int64, device="meta")), H200)
    (source,) = lowered.emit(lowered.default)
    assert "tl.gather(" not in source.text
    build(source, H200)


def test_one_of_each_row_is_the_rows_own() -> None:
    x, labels = torch.randn(7, 5), torch.randint(5, (7, 1))
    assert torch.equal(one_of_each_row(x, labels), x.gather(1, labels))
