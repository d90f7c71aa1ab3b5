"""The first config of kernels that nobody tuned: what their blocks must be like, whatever the exact numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tile_testing.strangers import ALL

import tileflow
import tileflow.language as tfl
from tileflow.target import target

H200 = target("nvidia-h200")


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def default(function: Any, *args: Any) -> Any:
    return tileflow.kernel(function).lower(args, H200).default


def test_loops_one_after_the_other_do_not_share_a_budget() -> None:
    def two_passes(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        for tm in tfl.tile(x.size(0)):
            most = tfl.zeros([tm])
            for tn in tfl.tile(x.size(1)):
                most = torch.maximum(most, x[tm, tn].abs().amax(1))
            for tn in tfl.tile(x.size(1)):
                out[tm, tn] = x[tm, tn] / most[:, None]
        return out

    config = default(two_passes, meta(8192, 4096))
    assert config["block:tn"] == config["block:tn#1"] >= 512


def test_rows_that_a_loop_reduces_come_in_longer_blocks() -> None:
    """Their sums are over before the next block: few registers wait while more loads are in flight."""

    def total(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty(x.size(0), dtype=torch.float32, device=x.device)
        for tm in tfl.tile(x.size(0)):
            square, sums = tfl.zeros([tm]), tfl.zeros([tm])
            for tn in tfl.tile(x.size(1)):
                block = x[tm, tn].float()
                sums = sums + (block * 3).sum(1)
                square = square + (block * block).sum(1)
            out[tm] = square / sums
        return out

    def pointwise(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        for tm in tfl.tile(x.size(0)):
            for tn in tfl.tile(x.size(1)):
                block = x[tm, tn].float()
                out[tm, tn] = ((block * 3) + (block * block)).to(x.dtype)
        return out

    x = meta(8192, 65536, dtype=torch.bfloat16)
    assert default(total, x)["block:tn"] == 2 * default(pointwise, x)["block:tn"]


def test_both_sides_of_a_turned_matrix_have_runs() -> None:
    def turned(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty(x.size(1), x.size(0))
        for tm, tn in tfl.tile(x.shape):
            out[tn, tm] = x[tm, tn].T
        return out

    config = default(turned, meta(8192, 8192))
    assert min(config["block:tm"], config["block:tn"]) >= 32


def test_a_block_along_which_elements_lie_is_a_sector_long() -> None:
    def down_columns(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        for tn in tfl.tile(x.size(1)):
            out[:, tn] = x[:, tn].cumsum(0)
        return out

    assert default(down_columns, meta(2048, 4096))["block:tn"] >= 8


def test_programs_with_long_loops_are_enough() -> None:
    def column_sums(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty(x.size(1))
        for tn in tfl.tile(x.size(1)):
            total = tfl.zeros([tn])
            for tm in tfl.tile(x.size(0)):
                total += x[tm, tn].sum(0)
            out[tn] = total
        return out

    config = default(column_sums, meta(8192, 4096))
    assert 32 <= config["block:tn"] <= 64  # of 4096 columns and 132 multiprocessors
    assert config["block:tm"] >= 8


def test_what_is_left_of_a_program_goes_to_the_nearest_dimension() -> None:
    def doubled(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        for ta, tb, tc in tfl.tile(x.shape):
            out[ta, tb, tc] = x[ta, tb, tc] * 2
        return out

    config = default(doubled, meta(512, 512, 64))
    assert (config["block:ta"], config["block:tc"]) == (1, 64) and config["block:tb"] > 1


def gated(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), gate.size(1), dtype=x.dtype)
    for tm, tn in tfl.tile(out.shape):
        a, b = tfl.zeros([tm, tn]), tfl.zeros([tm, tn])
        for tk in tfl.tile(x.size(1)):
            a = torch.addmm(a, x[tm, tk], gate[tk, tn])
            b = torch.addmm(b, x[tm, tk], up[tk, tn])
        out[tm, tn] = a.sigmoid() * a * b
    return out


def scaled_blocks(x: torch.Tensor, y: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), y.size(1))
    for tm, tn in tfl.tile(out.shape):
        acc = tfl.zeros([tm, tn])
        for tk in tfl.tile(x.size(1), block_size=128):
            acc += tfl.dot(x[tm, tk], y[tk, tn]) * scale[tm, tk.id][:, None]
        out[tm, tn] = acc
    return out


def low_rank_beside(x: torch.Tensor, w: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), w.size(1), dtype=x.dtype)
    for tm, tn in tfl.tile(out.shape):
        acc, low = tfl.zeros([tm, tn]), tfl.zeros([tm, a.size(1)])
        for tk in tfl.tile(x.size(1)):
            acc = torch.addmm(acc, x[tm, tk], w[tk, tn])
            low = torch.addmm(low, x[tm, tk], a[tk, :])
        out[tm, tn] = acc + 0.5 * tfl.dot(low.to(x.dtype), b[:, tn])
    return out


def test_two_sums_a_program_have_registers() -> None:
    """Two sums of 128 by 256 elements are all the registers that eight warps may have."""
    half = meta(4096, 4096, dtype=torch.float16)
    calls: list[tuple[Any, ...]] = [
        (gated, half, half, half),
        (scaled_blocks, half, half, meta(4096, 32)),
        (low_rank_beside, half, half, half[:, :16], half[:16]),
    ]
    for function, *args in calls:
        config = tileflow.kernel(function).lower(tuple(args), H200).default_pipelined
        threads = config["num_warps"] * 32
        assert config["num_warps"] == 8, function
        assert 64 <= 2 * config["block:tm"] * config["block:tn"] / threads <= 192, function
        assert not config.get("flatten", False), function


def test_products_in_full_precision_are_short() -> None:
    def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.empty(x.size(0), y.size(1))
        for tm, tn in tfl.tile(out.shape):
            acc = tfl.zeros([tm, tn])
            for tk in tfl.tile(x.size(1)):
                acc = torch.addmm(acc, x[tm, tk], y[tk, tn])
            out[tm, tn] = acc
        return out

    def whole(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.empty(x.size(0), y.size(0))
        for tm, tn in tfl.tile(out.shape):
            out[tm, tn] = x[tm, :] @ y[tn, :].T
        return out

    for function, args in ((product, (meta(4096, 4096),) * 2), (whole, (meta(8192, 128),) * 2)):
        config = default(function, *args)
        inner = config["block:tk"] if function is product else config["cut:dot#0"]
        assert config["block:tm"] * config["block:tn"] * inner <= 1 << 19, function


@pytest.mark.parametrize("name", ["trapezoid_decode", "test_time_linear"])
def test_small_results_of_the_author_s_sizes_have_four_warps(name: str) -> None:
    """662 and 517 us by eight warps, 409 and 430 by four (H200)."""
    one = ALL[name]
    assert one.kernel.lower(one.arguments("large", "meta"), target("nvidia-h200")).default["num_warps"] == 4


def test_no_product_in_full_precision_is_left_to_multiply_adds() -> None:
    """The second of two was, which spilled 2360 bytes a thread; and two sums of parts need eight warps."""
    single = meta(4096, 4096)
    config = default(gated, single, single.t(), single.t())
    precisions = [choice for name, choice in config.items if name.endswith(".precision")]
    assert precisions == ["tf32x3", "tf32x3"]
    assert 2 * config["block:tm"] * config["block:tn"] <= 96 * 32 * config["num_warps"]


def test_a_block_size_that_host_code_counts_parts_by_is_chosen_so_that_all_parts_fit() -> None:
    """14.6: a tile as wide as there are parts was held against the parts of the first block size alone."""

    @tileflow.kernel
    def scan_of_parts(x: torch.Tensor) -> torch.Tensor:
        m, n = x.shape
        b = tfl.register_block_size(m)
        part = torch.empty([(m + b - 1) // b, n], dtype=torch.float32, device=x.device)
        for tm in tfl.tile(m, block_size=b):
            part[tm.id, :] = x[tm, :].sum(0)
        out = torch.empty_like(part)
        for tn in tfl.tile(n):
            out[:, tn] = torch.cumsum(part[:, tn], 0)
        return out

    for mode in ("static", "dynamic"):
        lowered = scan_of_parts.lower((meta(3_000_000, 64),), H200, mode)
        config = lowered.default
        block = config["block:b"]
        assert isinstance(block, int) and -(-3_000_000 // block) <= 65536
        assert len(lowered.emit(config)) >= 2
        for smaller in (block // 2, block // 4):  # whose parts do not fit
            broken = lowered.space.violations(config.with_({"block:b": smaller}))
            assert any("registers" in constraint.reason for constraint in broken)


def test_all_block_sizes_that_host_code_counts_by_are_asked() -> None:
    """14.6: the first one alone was. The parts of either may not fit, and only choices of both together do."""

    @tileflow.kernel
    def scans_of_parts(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a, b, n = tfl.register_block_size(x.size(0)), tfl.register_block_size(y.size(0)), x.size(1)
        first, second = x.new_empty((x.size(0) + a - 1) // a, n), y.new_empty((y.size(0) + b - 1) // b, n)
        for tile in tfl.tile(x.size(0), block_size=a):
            first[tile.id, :] = x[tile, :].sum(0)
        for tile in tfl.tile(y.size(0), block_size=b):
            second[tile.id, :] = y[tile, :].sum(0)
        for tile in tfl.tile(n):
            first[:, tile] = torch.cumsum(first[:, tile], 0)
        for tile in tfl.tile(n):
            second[:, tile] = torch.cumsum(second[:, tile], 0)
        return first, second

    lowered = scans_of_parts.lower((meta(3_000_000, 64), meta(5_000_000, 64)), H200, "static")
    config = lowered.default
    assert len(lowered.emit(config)) == 4
    for name, size in (("block:a", 3_000_000), ("block:b", 5_000_000)):
        block = config[name]
        assert isinstance(block, int) and -(-size // block) <= 65536
        broken = lowered.space.violations(config.with_({name: block // 4}))
        assert any("registers" in constraint.reason for constraint in broken)


def test_short_runs_of_an_authors_own_blocks_are_loaded_few_at_a_time() -> None:
    """197 us with 32 elements a thread, 156 with 8: memory moves 32 bytes of each row that a thread loads of."""

    def amax_of_groups(x: torch.Tensor, size: tfl.constexpr) -> torch.Tensor:
        out = torch.empty(x.size(0), x.size(1) // size, dtype=x.dtype, device=x.device)
        for rows, groups in tfl.tile([x.size(0), x.size(1)], block_size=[None, size]):
            out[rows, groups.id] = x[rows, groups].abs().amax(1)
        return out

    def elements(size: int, columns: int = 8192) -> int:
        config = default(amax_of_groups, meta(8192, columns, dtype=torch.bfloat16), size)
        return int(config["block:rows"]) * size // (32 * int(config["num_warps"]))

    assert elements(16) * 4 == elements(64) and elements(32) * 2 == elements(64)
    assert elements(16, columns=16) == elements(64), "whole rows lie next to each other"


def _scaled(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        most = x[t, :].amax(1)
        for n in tfl.tile(x.size(1)):
            out[t, n] = x[t, n] / most[:, None]
    return out


@pytest.mark.parametrize("row", [512, 4096, 16384, 65536, 262144])
def test_a_loop_behind_a_whole_row_has_blocks_of_its_own(row: int) -> None:
    """The row is gone by then: it had left such a loop 1 to 8 elements a turn, of which 16384 took as many turns."""
    assert default(_scaled, meta(1 << 26 >> row.bit_length() - 1, row))["block:n"] == min(row, 2048)


@tileflow.kernel
def scaled_points(points, scale):
    b, n, _ = points.shape
    out = torch.empty_like(points)
    for tb, tn in tfl.tile([b, n]):
        out[tb, tn, :] = points[tb, tn, :] * scale[tb][:, None, None]
    return out


@pytest.mark.parametrize(("width", "dtype"), [(3, torch.float32), (4, torch.float32), (3, torch.uint8)])
def test_rows_of_few_bytes_lie_along_memory_whatever_vector_is_beside(width: int, dtype: torch.dtype) -> None:
    """A number for each picture lay side by side, so that a program had one pixel of each of 512 pictures."""
    points = torch.empty(4096, 1200, width, dtype=dtype, device="meta")
    for name in ("nvidia-h200", "amd-mi300x"):
        found = scaled_points.lower((points, torch.empty(4096, device="meta")), target(name)).default
        pictures, pixels = found["block:tb"], found["block:tn"]
        assert isinstance(pictures, int) and isinstance(pixels, int)
        assert pixels >= 128 > pictures


def test_long_rows_leave_the_vector_its_run() -> None:
    """Rows of whole transactions lie well either way."""
    points = torch.empty(4096, 1200, 64, device="meta")
    found = scaled_points.lower((points, torch.empty(4096, device="meta")), target("nvidia-h200")).default
    pictures = found["block:tb"]
    assert isinstance(pictures, int)
    assert pictures > found["block:tn"] == 1
