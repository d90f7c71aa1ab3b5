"""Programs that hold little: woven stores, small matrices, recurrences whose lanes wait. Figures are in the rules."""

from __future__ import annotations

import pytest
import torch
from tile_testing.strangers import ALL

import tileflow
import tileflow.language as tfl
from tileflow.config import Config
from tileflow.default.small_tiles import woven_limits
from tileflow.target import target

H100 = target("nvidia-h100-sxm")


def default(name: str) -> Config:
    args = ALL[name].arguments("large")
    meta = tuple(a.to("meta") if isinstance(a, torch.Tensor) else a for a in args)
    return ALL[name].kernel.lower(meta, H100).default


def test_rows_of_woven_stores_are_few() -> None:
    """Nine stores of a row of 36 bytes; even and odd elements of a row of 256."""
    assert default("gaussian_covariance")["block:t"] == 32
    found = default("rope_2d")
    assert int(found["block:tb"]) * int(found["block:tn"]) * int(found["block:th"]) == 4


@pytest.mark.parametrize("name", ["tensor_product", "gravity", "gaussian_splat"])
def test_woven_stores_behind_much_work_are_left_alone(name: str) -> None:
    """75 operations a store, or loops: the stores are not what takes long."""
    args = ALL[name].arguments("large")
    meta = tuple(a.to("meta") if isinstance(a, torch.Tensor) else a for a in args)
    (ir,) = ALL[name].kernel.lower(meta, H100).regions
    assert woven_limits(ir, {block.name: 1 << 12 for block in ir.blocks}) == {}


def test_one_store_of_a_column_is_not_woven() -> None:
    @tileflow.kernel
    def column(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        for tile in tfl.tile(x.size(0)):
            out[tile, 1] = x[tile] * 2
        return out

    args = (torch.empty(1 << 20, device="meta"), torch.empty(1 << 20, 4, device="meta"))
    (ir,) = column.lower(args, H100).regions
    assert woven_limits(ir, {"block:tile": 1 << 12}) == {}


@pytest.mark.parametrize(
    ("name", "block", "matrices"),
    [
        ("determinant", "tb", 8),  # 8 x 8 of eight bytes: 27.5 us, 33.3 by 16 and 36.2 by four
        ("small_cholesky", "tb", 1),  # woven stores
        ("householder_qr", "tb", 4),  # 16 x 8: 53 us, 60 by two
        ("sudoku_singles", "t", 4),  # 9 x 9: 3340 us, 3392 by two
        ("nodal_voltages", "t", 4),  # 12 x 12: 540 instructions a matrix, 800 by two
        ("neighbourhood_attention", "tt", 8),  # rows of 64, no matrices: 96 us, 108 by 16
    ],
)
def test_matrices_in_registers_have_a_warp(name: str, block: str, matrices: int) -> None:
    """Their sides have two elements a lane."""
    found = default(name)
    assert (found[f"block:{block}"], found["num_warps"]) == (matrices, 1)


def test_few_matrices_leave_no_scheduler_idle() -> None:
    few = ALL["nodal_voltages"].make(1024, 12)
    meta = tuple(a.to("meta") for a in few)
    assert ALL["nodal_voltages"].kernel.lower(meta, H100).default["block:t"] == 2


def test_a_recurrence_with_few_programs_has_more_warps() -> None:
    """64 programs over 1024 boxes; with a warp each lane had 32 of six tiles."""
    assert default("nms")["num_warps"] == 8
    assert default("gated_delta_rule")["num_warps"] == 1  # programs are enough


def test_flags_are_copied_ahead_by_fours() -> None:
    assert (default("gae")["block:tn"], default("gae")["num_warps"]) == (128, 1)
    assert default("rwkv")["num_warps"] == 4  # numbers of four bytes
    assert default("gaussian_splat")["num_warps"] == 1  # turns load numbers alone


def test_what_is_summed_at_once_asks_for_no_warps() -> None:
    """Sixteen columns of 2048 digits each had 32 warps, as many as hold them."""
    assert default("radix_counts")["num_warps"] == 4


@tileflow.kernel
def ridges(offsets, x, y):
    out = torch.empty(offsets.size(0) - 1, 4, device=x.device)
    for i in tfl.grid(offsets.size(0) - 1):
        normal, right = tfl.zeros([4, 4]), tfl.zeros([4])
        for t in tfl.tile(offsets[i], offsets[i + 1]):
            row = x[t, :]
            normal += row.T @ row
            right += (row * y[t][:, None]).sum(0)
        a = [[normal[j, k] for k in range(4)] + [right[j]] for j in range(4)]
        for k in range(4):
            for j in range(k + 1, 4):
                f = a[j][k] / a[k][k]
                a[j] = [a[j][m] - f * a[k][m] for m in range(5)]
        for k in range(4):
            out[i, k] = a[k][4] / a[k][k]
    return out


@pytest.mark.parametrize(("rows", "warps"), [(1 << 16, 1), (64, 4)])
def test_sums_of_products_that_are_taken_apart_have_one_warp(rows: int, warps: int) -> None:
    meta = {"device": "meta"}
    args = (
        torch.empty(rows + 1, dtype=torch.int32, **meta),
        torch.empty(rows * 124, 4, **meta),
        torch.empty(rows * 124, **meta),
    )
    default = ridges.lower(args, target("nvidia-h100-sxm")).default
    assert default["num_warps"] == warps
    assert (default["block:t"] == 64) == (warps == 1)
