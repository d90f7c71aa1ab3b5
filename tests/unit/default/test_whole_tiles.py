"""Warps of programs whose tiles are all the author's own. Figures are in docs/measurements/default-rules.md."""

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
        ("tensor_train_embedding", 1),  # 1024 elements by two sums: two warps took three times as long
        ("adam_8bit", 1),  # 256 elements, two sums
        ("jpeg_blocks", 1),  # products of 8 x 8
        ("chosen_block_attention", 1),  # of 16 rows
        ("dtw", 1),  # 128 elements, which turns shift
        ("shortest_paths", 2),  # 64 x 64, of which turns take a row and a column
        ("crf_partition", 2),  # the same, summed in turns
        ("rwkv7", 2),
        ("ctc_loss", 4),  # few programs
        ("radix_counts", 4),  # 2048 elements, the columns of whose digits are summed as they are made
        ("lambda_gradients", 16),  # 128 x 128 pairs, which are summed along both: one warp spilled 8040 bytes a thread
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


@pytest.mark.parametrize(("columns", "warps"), [(256, 1), (1024, 1), (4096, 4)])
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
