"""First configs of recurrences and of tiles of pairs."""

from __future__ import annotations

from typing import Any

import torch
from tile_testing.strangers import ALL
from tileflow_benchmarks.tuning.default_neighbours import StrangerCase

import tileflow
import tileflow.language as tfl
from tileflow.default.recurrences import recurrences
from tileflow.lowered import Lowered
from tileflow.target import target

H200 = target("nvidia-h200")


def meta(*shape: int) -> torch.Tensor:
    return torch.empty(*shape, device="meta")


def of(name: str, *args: Any) -> Lowered:
    return ALL[name].kernel.lower(args, H200)


def chosen(it: Lowered, *names: str) -> tuple[Any, ...]:
    return tuple(it.default[name] for name in names)


def test_a_recurrence_that_sums_over_its_state_has_a_warp() -> None:
    """Four warps meet at a barrier twice a step: 366 us of 240 with one, on an H200."""
    head = [meta(64, 512, 128) for _ in range(3)]
    it = of("gated_delta_rule", *head, meta(64, 512), meta(64, 512))
    assert chosen(it, "block:tile_v", "num_warps", "num_stages") == (8, 1, 6)
    channels = meta(8, 256, 2048), meta(8, 256, 2048), meta(2048, 16), meta(8, 256, 16), meta(8, 256, 16), meta(2048)
    it = of("selective_state_space", *channels)
    assert chosen(it, "block:tile_d", "num_warps", "num_stages") == (32, 1, 6)


def test_a_wide_state_has_more_warps() -> None:
    """A lane has 32 elements of it at the most, where the block cannot be smaller."""
    it = of("gated_delta_rule", *(meta(64, 512, 1024) for _ in range(3)), meta(64, 512), meta(64, 512))
    assert chosen(it, "block:tile_v", "num_warps") == (8, 8)


def test_lanes_that_are_alone_load_ahead_and_stay_together() -> None:
    """RWKV's: 150 us with loads two turns ahead, 85 with five."""
    it = of("rwkv", meta(2048), meta(2048), meta(8, 512, 2048), meta(8, 512, 2048))
    assert chosen(it, "block:tc", "num_warps", "num_stages") == (128, 4, 6)


def test_pairs_that_are_handed_on_are_a_square_of_one_warp() -> None:
    """Each turn loads both sides of 4096 x 8192 weights: rows of 1024 took 1619 us, 884 so (H100). Where programs would
    be few the square is smaller."""
    args = meta(100, 8192), meta(100, 4096), meta(4096, 8192), 0.9, 0.01, 0.012
    names = "block:tm", "block:tn", "num_warps", "num_stages"
    assert chosen(of("spike_timing", *args), *names) == (32, 128, 1, 1)
    args = meta(100, 512), meta(100, 512), meta(512, 512), 0.9, 0.01, 0.012
    assert chosen(of("spike_timing", *args), *names) == (8, 8, 1, 1)


def test_a_search_cannot_load_ahead() -> None:
    """Where it reads next follows from what it read: 1242 us loaded ahead, 635 not (H100)."""
    edges, x = meta(65536), meta(1 << 24)
    assert of("binary_search", edges, x, 17).default["num_stages"] == 1


def sums(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(1))
    for columns in tfl.tile(x.size(1)):
        total = tfl.zeros([columns])
        for i in range(x.size(0)):
            total = total + x[i, columns]
        out[columns] = total
    return out


def test_a_sum_is_no_recurrence() -> None:
    """Its turns wait for nothing, and move bytes as any loop does."""
    it = tileflow.kernel(sums).lower((meta(4096, 4096),), H200)
    assert not recurrences(it.regions[0]) and it.default["num_stages"] != 6


def test_pairs_share_what_is_loaded_for_one() -> None:
    """Boxes with boxes: 187 us of one with 1024 others, 97 of four with 256. Pairs in loops: test_pairs.py."""
    assert chosen(of("box_overlaps", meta(8192, 4)), "block:a", "block:b") == (4, 256)


def test_a_row_s_weight_leaves_its_block_as_it_is() -> None:
    """A load of both, a store of both, and one or two along the row: no tile of pairs."""
    it = ALL["lstm_cell"].kernel.lower((meta(8192, 4096), meta(4096), meta(8192, 1024)), H200)
    assert chosen(it, "block:tile_b", "block:tile_h") == (1, 1024)


@tileflow.kernel
def collected(x, rule):
    """Which of many rules' bits each number has, all of them put together."""
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        a = x[t]
        found = torch.zeros_like(a)
        for r in range(rule.size(0)):
            found |= (a >> rule[r]) & 1
        out[t] = found
    return out


def test_bits_that_are_put_together_are_no_recurrence() -> None:
    """A chart of 16384 sentences took 7.4 ms by one warp with turns ahead, 5.6 by four (H100, by hand, 2026-11-27)."""
    x, rule = torch.empty(16384, dtype=torch.int32, device="meta"), torch.empty(60, dtype=torch.uint8, device="meta")
    it = collected.lower((x, rule), target("nvidia-h100-sxm"))
    assert not recurrences(it.regions[0]) and it.default["num_warps"] == 4


def of_large(name: str) -> Lowered:
    return of(name, *ALL[name].arguments("large", "meta"))


def test_rows_that_lie_apart_have_several_warps_a_scheduler() -> None:
    """A queue at several servers took 1513 us by a warp of 64 rows for each scheduler, and 786 so (H100)."""
    for name, block, rows in (("many_servers", "tb", 16), ("first_fit", "t", 8), ("trellis_beliefs", "t", 32)):
        assert chosen(of_large(name), f"block:{block}", "num_warps", "num_stages") == (rows, 1, 1)
    # columns of a state take neighbours, and one warp's loads ahead
    assert chosen(of_large("gated_linear_attention"), "num_warps", "num_stages") == (1, 6)


def test_many_warps_load_nothing_ahead() -> None:
    """Volatilities' likelihoods took 4.5 ms by six stages, and 3.7 by one; few warps wait without (H100)."""
    assert of_large("garch_likelihood").default["num_stages"] == 1
    assert of_large("occupancy_grid").default["num_stages"] == 1
    assert of_large("close_approaches").default["num_stages"] == 6


def test_lone_warps_have_an_element_a_lane() -> None:
    """Where schedulers have no second warp: 540 us by 128 warps of 64 loops, 341 by 256 of 32 (H200, 2026-11-30)."""
    loops = StrangerCase("costas_loop").lowered(H200)
    assert chosen(loops, "block:t", "num_warps") == (32, 1)
