"""Default blocks that no product's sizes say: of loops beside products, and of the grid's axes."""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl
from tileflow.lowered import Lowered
from tileflow.target import target

H200 = target("nvidia-h200")


@tileflow.kernel
def mixed_columns(x, weight):
    """A product of each row, and then pairs of its columns with those of the row: n x n for each column."""
    m, n, d = x.shape
    flat = x.view(m, n * d)
    out = torch.empty(m, n, d, device=x.device)
    for rows in tfl.tile(m):
        total = tfl.zeros([rows, n * n])
        for inner in tfl.tile(weight.size(0)):
            total = torch.addmm(total, flat[rows, inner], weight[inner, :])
        mix = total.reshape(rows, n, n)
        for columns in tfl.tile(d):
            out[rows, :, columns] = (mix[:, :, :, None] * x[rows, :, columns].float()[:, None, :, :]).sum(2)
    return out


def mixed(n: int) -> Lowered:
    x = torch.empty(8192, n, 2048, dtype=torch.bfloat16, device="meta")
    return mixed_columns.lower((x, torch.empty(n * 2048, n * n, dtype=torch.bfloat16, device="meta")), H200)


def test_a_lane_holds_32_elements_of_a_turn_beside_a_product() -> None:
    """128 of 64 rows, 4 x 4 pairs and 32 columns were spilled: 3147 us where 8 columns take 510 (an H200)."""
    for n in (4, 8):
        default = mixed(n).default
        rows, columns, warps = default["block:rows"], default["block:columns"], default["num_warps"]
        assert isinstance(rows, int) and isinstance(columns, int) and isinstance(warps, int)
        assert rows * n * n * columns <= 32 * 32 * warps and columns < 32, default


@tileflow.kernel
def sums_of_chunks(k, v):
    """A state of each head between chunks, whose columns are an axis of the grid."""
    heads, t, d = k.shape
    out = torch.empty(heads, d, d, device=k.device)
    for head, columns in tfl.tile([heads, d], block_size=[1, None]):
        state = tfl.zeros([d, columns])
        for rows in tfl.tile(t):
            scores = tfl.dot(k[head.begin, rows, :], k[head.begin, rows, :].T)
            value = tfl.dot(scores.to(v.dtype), v[head.begin, rows, columns]).to(v.dtype)
            state = tfl.dot(k[head.begin, rows, :].T, value, acc=state)
        out[head.begin, :, columns] = state
    return out


def test_an_axis_is_divided_where_multiprocessors_are_idle() -> None:
    def columns(heads: int) -> object:
        k = torch.empty(heads, 2048, 128, dtype=torch.bfloat16, device="meta")
        return sums_of_chunks.lower((k, k), H200).default["block:columns"]

    assert columns(512) == 128  # programs enough
    assert columns(64) == 64  # 64 of 132 multiprocessors had a program: 160 us for 138
    assert columns(8) == 32
