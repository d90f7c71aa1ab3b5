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


@pytest.mark.parametrize(("rows", "mean", "block", "stages"), [(8192, 508, 512, 2), (65536, 64, 128, 3)])
def test_a_thread_copies_few_elements_of_a_row(rows: int, mean: int, block: int, stages: int) -> None:
    """Rows of 508 had blocks of 1024, two turns ahead: 168 registers where a softmax by segment needs 44."""
    args = torch.empty(rows + 1, dtype=torch.int32, device="meta"), torch.empty(rows * mean, device="meta")
    default = row_sums.lower(args, target("nvidia-h200")).default
    assert (default["block:part"], default["num_stages"]) == (block, stages)


@tileflow.kernel
def gathered(x, chosen):
    out = torch.empty(x.size(0), device=x.device)
    for rows in tfl.tile(x.size(0)):
        out[rows] = x[rows.index, chosen[rows]]
    return out


@pytest.mark.parametrize(("rows", "least", "most"), [(4096, 128, 128), (1 << 22, 512, 4096)])
def test_few_gathers_go_to_many_programs(rows: int, least: int, most: int) -> None:
    """One element of each of 4096 rows had few programs of 1024 and more rows, on 132 multiprocessors."""
    args = torch.empty(rows, 64, device="meta"), torch.empty(rows, dtype=torch.int64, device="meta")
    assert least <= gathered.lower(args, target("nvidia-h200")).default["block:rows"] <= most
