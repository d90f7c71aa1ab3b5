"""Default blocks of loops whose bounds are loaded: rows of a ragged tensor."""

from __future__ import annotations

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.target import target


@tileflow.kernel
def row_sums(starts, values):
    out = torch.empty(starts.size(0) - 1, device=values.device)
    for row in tfl.grid(starts.size(0) - 1):
        total = 0.0
        for part in tfl.tile(starts[row], starts[row + 1]):
            total += values[part].sum()
        out[row] = total
    return out


@pytest.mark.parametrize(("rows", "mean"), [(65536, 64), (1024, 16), (16, 100_000)])
def test_a_block_is_about_as_long_as_a_row(rows: int, mean: int) -> None:
    """It was as long as all rows together let it be: 895 us where the best had 74 (rows of 64, an H200)."""
    args = torch.empty(rows + 1, dtype=torch.int32, device="meta"), torch.empty(rows * mean, device="meta")
    lowered = row_sums.lower(args, target("nvidia-h200"))
    block = lowered.default["block:part"]
    assert mean / 2 <= block <= 2 * mean or (mean > 4096 and block >= 1024)
