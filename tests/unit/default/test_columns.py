"""Loops whose turns reduce rows of a matrix for each of its columns. Figures are in the rules."""

from __future__ import annotations

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.config import Config
from tileflow.target import target


@tileflow.kernel
def spans(x):
    """The least and the largest number of each column."""
    rows, columns = x.shape
    low = torch.empty(columns, device=x.device)
    high = torch.empty(columns, device=x.device)
    for t in tfl.tile(columns):
        least = tfl.full([t], float("inf"))
        most = tfl.full([t], float("-inf"))
        for tr in tfl.tile(rows):
            piece = x[tr, t].float()
            least = torch.minimum(least, piece.amin(0))
            most = torch.maximum(most, piece.amax(0))
        low[t] = least
        high[t] = most
    return low, high


@tileflow.kernel
def totals(x):
    """The sum of each column."""
    rows, columns = x.shape
    out = torch.empty(columns, device=x.device)
    for t in tfl.tile(columns):
        total = tfl.zeros([t])
        for tr in tfl.tile(rows):
            total += x[tr, t].float().sum(0)
        out[t] = total
    return out


@tileflow.kernel
def last_sums(x):
    """What running sums of columns end with, chunk by chunk."""
    rows, columns = x.shape
    out = torch.empty(columns, device=x.device)
    for t in tfl.tile(columns):
        state = tfl.zeros([t])
        for tr in tfl.tile(rows):
            sums = torch.cumsum(x[tr, t].float() * state[None, :], 0)
            state = torch.where(tr.index[:, None] == tr.end - 1, sums, 0.0).sum(0)
        out[t] = state
    return out


@tileflow.kernel
def places(x):
    """Where the largest number of each column is."""
    out = torch.empty(x.size(1), dtype=torch.int64, device=x.device)
    for t in tfl.tile(x.size(1)):
        out[t] = x[:, t].argmax(0)
    return out


def default(kernel: tileflow.Kernel, rows: int, columns: int, dtype: torch.dtype, device: str = "h100-sxm") -> Config:
    x = torch.empty(rows, columns, dtype=dtype, device="meta")
    return kernel.lower((x,), target(f"nvidia-{device}")).default


@pytest.mark.parametrize(
    ("columns", "dtype", "block", "rows"),
    [
        (12288, torch.float16, 16, 128),  # few programs: a sector of each row
        (12288, torch.float32, 8, 256),
        (65536, torch.float16, 32, 64),
        (1 << 20, torch.float16, 64, 32),  # enough of them
    ],
)
def test_one_warp_reduces_the_rows_of_a_few_columns(columns: int, dtype: torch.dtype, block: int, rows: int) -> None:
    found = default(spans, 12288, columns, dtype)
    assert (found["block:t"], found["block:tr"], found["num_warps"]) == (block, rows, 1)


def test_short_columns_have_no_longer_turns() -> None:
    assert default(spans, 24, 12288, torch.float16)["block:tr"] == 32


def test_few_columns_have_several_warps_and_clusters() -> None:
    found = default(spans, 1 << 20, 32, torch.float32)
    assert (found["num_warps"], found["loop:tr.ctas"]) == (4, 8)


def test_sums_that_clusters_share_have_blocks_of_their_own() -> None:
    found = default(totals, 100000, 256, torch.float16)
    assert (found["num_warps"], int(found["loop:tr.ctas"]) > 1) == (4, True)


def test_turns_that_exchange_more_than_sums_keep_their_warps() -> None:
    assert default(last_sums, 12288, 12288, torch.float16)["num_warps"] != 1


@pytest.mark.parametrize("rows", [1 << 20, 100_000])
def test_a_run_that_does_not_fit_is_shorter_and_not_one_column(rows: int) -> None:
    """32 columns beside 4096 rows are more than shared memory holds; a column alone reads whole sectors. Of a card
    without clusters, which share the turns of such columns else."""
    assert default(places, rows, 256, torch.float32, "b200")["block:t"] == 8
    shared = default(places, rows, 256, torch.float32)
    assert (shared["block:t"], shared["loop:argmax#0.ctas"]) == (16, 8)
