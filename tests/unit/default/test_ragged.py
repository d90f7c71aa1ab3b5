"""Default blocks of loops whose bounds are loaded: rows of a ragged tensor."""

from __future__ import annotations

import pytest
import torch
from tile_testing.strangers import ALL

import tileflow
import tileflow.language as tfl
from tileflow.ir.analysis import is_of_loaded_length
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


def chosen(name: str, **sizes: int) -> dict[str, object]:
    one = ALL[name]
    args = one.make(**(one.large | sizes))
    meta = tuple(a.to("meta") if isinstance(a, torch.Tensor) else a for a in args)
    items = one.kernel.lower(meta, target("nvidia-h200")).default.items
    return {k: v for k, v in items if k.startswith(("block", "num_"))}


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("csr_vector", {"block:part": 64}),
        ("segment_softmax", {"block:part": 512, "block:part#1": 512}),
        ("csr_matrix", {"block:part": 16, "block:tile_k": 128}),
        ("neighbour_mean", {"block:edges": 16, "block:columns": 128}),
        ("segment_max", {"block:rows": 32, "block:columns": 64}),
    ],
)
def test_many_ragged_rows_have_a_warp_each(name: str, wanted: dict[str, int]) -> None:
    """Four warps two or three turns ahead took 107, 30, 180, 534 and 231 us where these take 45, 15, 35, 68 and 131."""
    ahead = 3 if name == "segment_max" else 1  # rows of neighbours; the others are numbers, or rows from anywhere
    assert chosen(name) == wanted | {"num_warps": 1, "num_stages": ahead}


def test_few_ragged_rows_are_split_by_columns_and_loaded_ahead() -> None:
    wanted = {"block:rows": 64, "block:columns": 64, "num_warps": 2, "num_stages": 3}
    assert chosen("segment_max", count=64, n=512) == wanted


@pytest.mark.parametrize(("rows", "warps", "block", "stages"), [(65536, 1, 64, 1), (512, 4, 2048, 1), (16, 8, 2048, 3)])
def test_rows_of_numbers_have_as_many_warps_as_programs_leave(rows: int, warps: int, block: int, stages: int) -> None:
    mean = 64 if rows == 65536 else 1 << 14
    args = torch.empty(rows + 1, dtype=torch.int32, device="meta"), torch.empty(rows * mean, device="meta")
    found = row_sums.lower(args, target("nvidia-h200")).default
    assert (found["num_warps"], found["block:part"], found["num_stages"]) == (warps, block, stages)


@tileflow.kernel
def means(x, lengths):
    out = torch.empty(x.size(0), device=x.device)
    for row in tfl.grid(x.size(0)):
        total = 0.0
        for part in tfl.tile(lengths[row]):
            total += x[row, part].sum()
        out[row] = total / lengths[row]
    return out


@tileflow.kernel
def causal_sums(x):
    out = torch.empty_like(x)
    for rows in tfl.tile(x.size(0)):
        total = tfl.zeros([rows])
        for part in tfl.tile(rows.end):
            total += torch.where(part.index[None, :] <= rows.index[:, None], x[part][None, :], 0.0).sum(1)
        out[rows] = total
    return out


def test_rows_that_are_filled_up_count_as_ragged_ones() -> None:
    """16384 rows of up to 1024 numbers: 43.5 us by four warps three turns ahead, 14.5 so."""
    args = torch.empty(16384, 1024, device="meta"), torch.empty(16384, dtype=torch.int64, device="meta")
    found = means.lower(args, target("nvidia-h200")).default
    assert (found["num_warps"], found["block:part"], found["num_stages"]) == (1, 512, 1)


def test_a_bound_that_a_tile_has_makes_no_ragged_row() -> None:
    lowered = causal_sums.lower((torch.empty(1 << 16, device="meta"),), target("nvidia-h200"))
    (ir,) = lowered.regions
    assert not any(is_of_loaded_length(ir, name) for name in ir.tiles)


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


def test_a_block_of_windows_has_an_element_a_lane() -> None:
    """Rows from one tensor's numbers to another's may overlap, so that their mean length says nothing: a warp went
    through a zone of stars one by one."""
    assert chosen("match_stars") == {"block:tk": 32, "num_warps": 1, "num_stages": 1}
    few = chosen("match_stars", known=5)["block:tk"]  # no more than there are
    assert isinstance(few, int) and few <= 8


def test_rows_that_meet_each_other_leave_a_lane_few_pairs() -> None:
    """Ranks within rings took 3992 us by 128 x 128, 680 by 16 x 128 in one warp (H100)."""
    one = ALL["ring_doses"]
    found = one.kernel.lower(one.arguments("large", "meta"), target("nvidia-h100-sxm")).default
    assert (found["block:ta"], found["block:tb"], found["num_warps"]) == (16, 128, 1)


def test_rows_that_meet_whole_dimensions_leave_a_lane_few_elements() -> None:
    """Edges of 3 x 40 numbers each: 128 elements a lane, of 16 edges, took 1089 us, 64 took 500 (H200, 2026-11-30)."""
    args = ALL["graph_attention"].arguments("large", "meta")
    default = ALL["graph_attention"].kernel.lower(args, target("nvidia-h200")).default
    assert (default["block:te"], default["num_warps"]) == (8, 1)


@tileflow.kernel
def cell_forces(starts, x):
    out = torch.zeros_like(x)
    cells = starts.size(0) - 1
    for here in tfl.grid(cells):
        for one in tfl.tile(starts[here], starts[here + 1]):
            force = tfl.zeros([one])
            for step in range(-13, 14):
                cell = (here + step) % cells
                for other in tfl.tile(starts[cell], starts[cell + 1]):
                    apart = x[one][:, None] - x[other][None, :]
                    force += torch.where(apart.abs() > 0.1, 1 / apart, 0.0).sum(1)
            out[one] = force
    return out


@pytest.mark.parametrize(("mean", "stages"), [(7, 1), (2000, 3)])
def test_rows_that_a_turn_holds_are_not_loaded_ahead(mean: int, stages: int) -> None:
    """A loop over cells around them left them three turns ahead: 2751 us, and 26 s of compiling, where these take 1552
    and 3 (27 cells of particles in three dimensions, an H200)."""
    args = torch.empty(10_001, dtype=torch.int32, device="meta"), torch.empty(10_000 * mean, device="meta")
    lowered = cell_forces.lower(args, target("nvidia-h200"))
    assert lowered.default["num_stages"] == stages
