"""First blocks of all pairs. Figures are in docs/measurements/default-rules.md#tiles-of-pairs."""

from __future__ import annotations

import pytest
import torch
from tile_testing.strangers import ALL

import tileflow
import tileflow.language as tfl
from tileflow.config import Config
from tileflow.ir.graph import KernelIR
from tileflow.target import target

H100 = target("nvidia-h100-sxm")
Lowered = tuple[KernelIR, Config]


def default(name: str, **sizes: int) -> Config:
    one = ALL[name]
    args = one.make(**(one.large | sizes))
    return one.kernel.lower(tuple(a.to("meta") if isinstance(a, torch.Tensor) else a for a in args), H100).default


def blocks(found: Config, *names: str) -> tuple[object, ...]:
    return tuple(found[name] for name in (*names, "num_warps", "num_stages"))


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("xnor_matmul", (64, 64, 1, 1)),
        ("tanimoto", (64, 64, 8, 1)),
        ("jensen_shannon", (32, 32, 8, 1)),
        ("min_plus", (32, 32, 8, 1)),
    ],
)
def test_pairs_of_a_loop_are_squares_enough_for_all(name: str, chosen: tuple[int, ...]) -> None:
    assert blocks(default(name), "block:tm", "block:tn") == chosen


def test_fewer_pairs_have_smaller_squares() -> None:
    assert blocks(default("min_plus", m=512, n=512), "block:tm", "block:tn") == (16, 16, 8, 1)


def test_each_turn_has_one_element_of_three_dimensions() -> None:
    assert blocks(default("l1_distances"), "block:tm", "block:tn", "block:td") == (64, 128, 1, 2, 1)


def test_where_loads_are_across_memory_a_lane_has_many_pairs() -> None:
    """64 x 64 by four warps took 324, 1859 and 23 us where these take 178, 970 and 14; of sums whose right side lies
    along memory, four warps are faster (635 us, 713 by one)."""
    assert blocks(default("nearest_centre"), "block:rows", "block:others") == (64, 64, 1, 1)
    assert blocks(default("l1_distances", m=1001, n=3001, d=17), "block:tm", "block:tn") == (32, 64, 1, 1)
    assert blocks(default("min_plus", m=4096, n=4096, k=256), "block:tm", "block:tn") == (64, 64, 4, 1)


@tileflow.kernel
def distances(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), y.size(0), device=x.device)
    for tm, tn in tfl.tile([x.size(0), y.size(0)]):
        out[tm, tn] = (x[tm, :][:, None, :] - y[tn, :][None, :, :]).abs().sum(-1)
    return out


def test_a_whole_dimension_of_pairs_becomes_a_loop() -> None:
    found = distances.lower((torch.empty(4096, 64, device="meta"), torch.empty(4096, 64, device="meta")), H100)
    assert blocks(found.default, "block:tm", "block:tn", "reduce:sum#0") == (64, 64, 1, 1, 1)
    centres = default("nearest_centre")
    assert blocks(centres, "block:rows", "block:others", "reduce:sum#0") == (64, 64, 1, 1, 1)


def test_a_row_of_a_matrix_is_no_pair() -> None:
    """A load has all of what is summed: blocks of 128 and more are offered, as before."""
    knobs = {k.name: k for k in ALL["quantise_rows"].kernel.lower(ALL["quantise_rows"].arguments(), H100).space.knobs}
    assert all(1 not in k.choices for name, k in knobs.items() if name.startswith("reduce:"))


def test_pairs_that_are_summed_keep_few_rows() -> None:
    """Where each lane sums its own, four pairs; where each turn has an extremum and its place, 64, in as few warps as
    there are schedulers for."""
    assert blocks(default("gravity"), "block:mine", "block:others") == (4, 128, 4, 1)
    assert blocks(default("kernel_density"), "block:tx", "block:ty") == (4, 128, 4, 1)
    assert blocks(default("kernel_density", n=256, m=65536), "block:tx", "block:ty") == (4, 256, 8, 1)
    assert blocks(default("match_barcodes"), "block:tn", "block:tm") == (8, 256, 1, 3)


def test_pairs_of_a_batch_keep_few_rows_too() -> None:
    """Its axis has one element a program: 128 x 8 and 64 x 32 took 116 and 933 us, these take 54 and 346 (H100)."""
    found = default("chamfer")
    assert blocks(found, "block:tn", "block:tm") == (4, 128, 4, 1)
    assert (found["block:tm@1"], found["block:tn@1"], found["num_warps@1"]) == (4, 128, 4)
    assert blocks(default("kendall_tau"), "block:ti", "block:tj") == (8, 256, 1, 3)


def test_neighbours_share_what_does_not_lie_side_by_side() -> None:
    """Taps, an element of a row each: 351 us by a row each, 184 by four (H100). Codes are gathered, 16 in a program
    without loops: 84 us by four rows of 512, 66 by an element a lane."""
    assert blocks(default("adc_scan"), "block:tq", "block:tn")[:2] == (1, 128)
    assert blocks(default("resample_polyphase"), "block:tc", "block:tm")[:2] == (4, 256)


def test_a_loop_that_loads_nothing_of_its_own_has_no_pairs() -> None:
    """A step of an iteration over a plane reads the plane's sides, the same in each turn."""
    assert default("mandelbrot")["block:tx"] == 512


@pytest.mark.parametrize("n", [5, 32, 100])
def test_pairs_with_a_short_vector_are_in_one_piece(n: int) -> None:
    """The only choice of its reduction is 0: the default ended with a ValueError."""

    def products(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        for t in tfl.tile(x.size(0)):
            out[t] = (x[t][:, None] * y[:][None, :]).sum(1)
        return out

    args = torch.empty(999, device="meta"), torch.empty(n, device="meta")
    it = tileflow.kernel(products).lower(args, target("nvidia-h200"))
    assert it.default["reduce:sum#0"] == 0
    assert it.emit(it.default)


@pytest.mark.parametrize("device", ["nvidia-h200", "amd-mi300x"])
def test_what_shares_loads_leaves_programs_for_all_multiprocessors(device: str) -> None:
    """Of a block that two rules limit, the less counts: rows of 512 for shared loads left 16 programs."""
    one = ALL["close_approaches"]
    lowered = one.kernel.lower(one.arguments("large", "meta"), target(device))
    rows, others = lowered.default["block:ti"], lowered.default["block:tj"]
    assert isinstance(rows, int) and isinstance(others, int)
    assert others > 1
    assert 2 * -(-one.large["n"] // rows) > target(device).sm_count


@pytest.mark.parametrize("rows", [2, 64, 65, 129, 1024])
def test_distances_to_a_table_of_any_length_have_a_space(rows: int) -> None:
    """A loop of one element a turn stood twice among the choices of 65 rows and more, which was a ConfigError."""

    @tileflow.kernel
    def to_table(x, y):
        out = torch.empty(x.size(0), y.size(0), device=x.device)
        for i in tfl.tile(x.size(0)):
            out[i, :] = (x[i, :][:, None, :] - y[:, :]).square().sum(-1)
        return out

    like = torch.empty(100, 64, device="meta"), torch.empty(rows, 64, device="meta")
    assert to_table.lower(like, H100).default


@tileflow.kernel
def bands(x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), dtype=torch.int64)
    for t in tfl.tile(x.size(0)):
        out[t] = torch.bucketize(x[t], edges[:])
    return out


@tileflow.kernel
def weighted(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        out[t] = (x[t][:, None] * weights[:]).sum(1)
    return out


@pytest.mark.parametrize("kernel", [bands, weighted], ids=lambda k: k.name.split(":")[1])
@pytest.mark.parametrize("length", [2, 3, 16, 60])
def test_pairs_with_a_short_table_are_rows(kernel: tileflow.Kernel, length: int) -> None:
    """Four rows a program were kept of them, as beside long others: of three edges 12 pairs for 128 lanes."""
    x, table = torch.empty(1 << 20, device="meta"), torch.empty(length, device="meta")
    found = dict(kernel.lower((x, table), H100).default.items)
    rows, warps = found["block:t"], found["num_warps"]
    assert isinstance(rows, int) and isinstance(warps, int)
    assert 4 * 32 * warps <= rows * length <= 64 * 32 * warps


@pytest.mark.parametrize("length", [1000, 5000])
def test_pairs_with_a_long_table_stay_pairs(length: int) -> None:
    x, table = torch.empty(1 << 20, device="meta"), torch.empty(length, device="meta")
    found = weighted.lower((x, table), H100).default
    assert blocks(found, "block:t", "reduce:sum#0") == (4, 128, 4, 1)
