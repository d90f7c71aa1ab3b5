"""Warps of programs whose tiles are all the author's own. Figures are in docs/explanations/defaults.md."""

from __future__ import annotations

import pytest
import torch
from tile_testing.strangers import ALL

import tileflow
import tileflow.language as tfl
from tileflow.target import target

H200 = target("nvidia-h200")


@pytest.mark.parametrize(
    ("name", "warps"),
    [
        ("adam_8bit", 1),  # 256 elements, two sums
        ("jpeg_blocks", 1),  # products of 8 x 8
        ("chosen_block_attention", 1),  # of 16 rows
        ("dtw", 1),  # 128 elements, which turns shift
        ("shortest_paths", 2),  # 64 x 64, of which turns take a row and a column
        ("crf_partition", 2),  # the same, summed in turns
        ("rwkv7", 2),
        ("ctc_loss", 4),  # few programs
        ("radix_counts", 4),  # 2048 elements, the columns of whose digits are summed as they are made
    ],
)
def test_lanes_that_exchange_are_of_few_warps(name: str, warps: int) -> None:
    args = ALL[name].arguments("large")
    meta = tuple(a.to("meta") if isinstance(a, torch.Tensor) else a for a in args)
    assert ALL[name].kernel.lower(meta, H200).default["num_warps"] == warps


@tileflow.kernel
def softmax_rows(x):
    out = torch.empty_like(x)
    for i in tfl.grid(x.size(0)):
        out[i, :] = torch.softmax(x[i, :].float(), -1)
    return out


@pytest.mark.parametrize(("columns", "warps"), [(256, 1), (1024, 2), (4096, 4)])
def test_a_short_row_is_one_warp(columns: int, warps: int) -> None:
    x = torch.empty(1 << 16, columns, device="meta")
    assert softmax_rows.lower((x,), H200).default["num_warps"] == warps


@tileflow.kernel
def doubled(x):
    out = torch.empty_like(x)
    for i in tfl.grid(x.size(0)):
        out[i, :] = x[i, :] * 2
    return out


def test_lanes_that_are_alone_are_of_four() -> None:
    assert doubled.lower((torch.empty(1 << 16, 256, device="meta"),), H200).default["num_warps"] == 4


@tileflow.kernel
def sums_of_exponentials(x):
    out = torch.empty(x.size(0), device=x.device)
    for rows in tfl.tile(x.size(0)):
        out[rows] = torch.logsumexp(x[rows, :].float(), -1)
    return out


@tileflow.kernel
def variances(x):
    out = torch.empty(x.size(0), device=x.device)
    for rows in tfl.tile(x.size(0)):
        out[rows] = torch.var(x[rows, :].float(), -1)
    return out


@pytest.mark.parametrize(("kernel", "blocks"), [(sums_of_exponentials, (0, 8192)), (variances, (0, 0))])
def test_a_row_that_a_loop_reads_once_is_a_loop(kernel: tileflow.api.Kernel, blocks: tuple[int, int]) -> None:
    """32768 numbers in bfloat16: 102 us in one piece, and 68; of variances 75 in one piece, and 85."""
    found = []
    for columns in (16384, 32768):
        config = kernel.lower((torch.empty(4096, columns, dtype=torch.bfloat16, device="meta"),), H200).default
        found.append(next(v for k, v in config.items if k.startswith("reduce:")))
    assert tuple(found) == blocks


@tileflow.kernel
def running_sums(x):
    out = torch.empty_like(x)
    for columns in tfl.tile(x.size(1)):
        out[:, columns] = x[:, columns].cumsum(0)
    return out


@pytest.mark.parametrize(("rows", "columns", "block", "warps"), [(1024, 8192, 16, 4), (4096, 4096, 8, 8)])
def test_a_lane_scans_much_of_a_column(rows: int, columns: int, block: int, warps: int) -> None:
    """8 and 32 warps took 31 and 123 us where these take 27 and 81."""
    found = running_sums.lower((torch.empty(rows, columns, device="meta"),), H200).default
    assert (found["block:columns"], found["num_warps"]) == (block, warps)
