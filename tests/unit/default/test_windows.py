"""Defaults of windows, of rows that are summed over a middle dimension, of products with a tile a multiprocessor."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tileflow_benchmarks.ratios.module_cases import CASES

import tileflow
import tileflow.language as tfl
from tileflow.default.windows import fitting, neighbour_config, window_loads
from tileflow.lowered import Lowered
from tileflow.target import target

H200 = target("nvidia-h200")


def lowered(name: str) -> Lowered:
    (case,) = (case for case in CASES if case.name.startswith(name))
    return case.loaded.lower(case.args("meta"), H200)


def chosen(found: Lowered) -> dict[str, Any]:
    """The blocks of more than one element, and the warps."""
    config = found.default.to_dict()
    blocks = {k.partition(":")[2]: v for k, v in config.items() if k.startswith("block:") and v != 1}
    return blocks | {"warps": config["num_warps"]}


@pytest.mark.parametrize(
    ("name", "loads", "expected"),
    [
        ("windows avg_pool_1d float32", 4, {"tx": 2048, "warps": 4}),  # few loads of each
        ("windows max_pool_1d float32", 8, {"tx": 256, "warps": 4}),
        ("windows avg_pool_2d bfloat16", 9, {"tx": 256, "ty": 2, "warps": 4}),
        ("windows max_pool_2d float32", 9, {"tx": 256, "ty": 2, "warps": 4}),  # rows of 129 whole
        ("windows avg_pool_3d float32", 27, {"tx": 64, "ty": 2, "warps": 4}),
        ("windows five_points float32", 0, {"tx": 512, "ty": 4, "warps": 4}),  # neighbours, which are no elements apart
    ],
)
def test_a_thread_has_few_elements_of_a_window(name: str, loads: int, expected: dict[str, int]) -> None:
    """Each had 16: nine of ten loads of a warp touched 32 sectors."""
    found = lowered(name)
    assert window_loads(found.regions[0]) == loads
    assert chosen(found) == expected


def test_a_gather_is_no_window() -> None:
    """How far apart a loaded index is, nobody knows."""
    (case,) = (c for c in CASES if c.name.startswith("chains bias_relu bfloat16"))
    assert window_loads(case.loaded.lower(case.args("meta"), H200).regions[0]) == 0


@pytest.mark.parametrize(
    ("length", "most", "size"),
    [(129, 256, 64), (256, 256, 256), (2731, 256, 256), (33, 512, 64), (7, 256, 8), (1, 256, 1)],
)
def test_a_block_that_fits(length: int, most: int, size: int) -> None:
    assert fitting(length, most) == size


@pytest.mark.parametrize(
    ("name", "columns", "warps"),
    [
        ("windows middle_sum float32", 32, 16),
        ("windows middle_sum bfloat16", 32, 8),
        ("windows middle_softmax float32", 8, 8),  # which holds its rows
        ("windows middle_cumsum bfloat16", 32, 8),  # of which a lane scans 128 numbers
    ],
)
def test_rows_that_are_only_summed_have_32_columns(name: str, columns: int, warps: int) -> None:
    """Sectors of 8 took 1.3 times as long."""
    assert chosen(lowered(name)) == {"tc": columns, "warps": warps}


def test_a_lone_tile_of_64_rows_has_turns_twice_as_long() -> None:
    """With turns of 64 each multiprocessor waited for memory: 24.0 us, not 17.4."""
    assert chosen(lowered("chains minimum_subtract bfloat16"))["tile_k"] == 128
    assert chosen(lowered("chains bias_relu bfloat16"))["tile_k"] == 64


@tileflow.kernel
def least_of_neighbours(x: torch.Tensor, reach: tfl.constexpr) -> torch.Tensor:
    out = torch.empty_like(x)
    for ty, tx in tfl.tile(x.shape):
        least = x[ty, tx]
        for dx in range(-reach, reach + 1):
            least = torch.minimum(least, tfl.load(x, [ty, tx + dx], other=1.0))
        out[ty, tx] = least
    return out


def test_lanes_have_fewer_elements_where_each_loads_many_neighbours() -> None:
    """Openings of 20 neighbours took 475 us and take 385, flows of 24 318 and 189, rolling statistics 346 and 187; of
    five to nine neighbours half as many elements took 1.1 to 1.2 times as long (H100)."""

    def block(reach: int, device: str = "nvidia-h100-sxm") -> int:
        x = torch.empty(4096, 4096, device="meta")
        return int(least_of_neighbours.lower((x, reach), target(device)).default["block:tx"])

    assert block(8) == block(2) // 2
    assert block(8, "amd-mi300x") == block(2, "amd-mi300x")  # unmeasured


@tileflow.kernel
def sums_of_pairs_of_neighbours(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x[0])
    for tx in tfl.tile(x.size(1)):
        total = tfl.zeros([tx])
        for ty in tfl.tile(x.size(0)):
            total = total + (x[ty, tx] * tfl.load(x, [ty, tx + 1], other=0.0)).sum(0)
        out[tx] = total
    return out


def test_a_loop_over_blocks_has_a_load_a_turn_not_one_for_each_row() -> None:
    region = sums_of_pairs_of_neighbours.lower((torch.empty(4096, 4096, device="meta"),), H200).regions[0]
    assert neighbour_config(region, {"block:tx": 4096, "block:ty": 1}, 4, H200) == {}
