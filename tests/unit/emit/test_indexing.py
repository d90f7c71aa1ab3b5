"""What indices become: masks only where they are needed, 64 bits only where they are needed, errors with the remedy."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.emit.source import TritonSource
from tileflow.errors import KernelError, ShapeError, TraceError
from tileflow.target import target

H200 = target("nvidia-h200")


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def sources(function: Callable[..., Any], *args: Any, mode: str = "static", **blocks: int) -> tuple[TritonSource, ...]:
    lowered = tileflow.kernel(function).lower(args, H200, mode=mode)
    config = lowered.default.with_({f"block:{name}": size for name, size in blocks.items()})
    return lowered.emit(lowered.space.repair(config))


def text(function: Callable[..., Any], *args: Any, mode: str = "static", **blocks: int) -> str:
    return sources(function, *args, mode=mode, **blocks)[0].text


def masks(source: str, op: str = "load") -> list[str]:
    """The mask of each load or store, or an empty string."""
    lines = [line for line in source.splitlines() if f"tl.{op}(" in line]
    return [found[1] if (found := re.search(r"mask=(.*?)(, other=.*)?\)$", line)) else "" for line in lines]


# ---- masks --------------------------------------------------------------------------------------


def by_block(x, out):
    b = tfl.register_block_size(64)
    for t in tfl.tile(x.size(0), block_size=b):
        out[2 * t.begin : 2 * t.begin + 2 * b] = x[2 * t.begin : 2 * t.begin + 2 * b]


def test_a_slice_by_block_size_is_compared_with_the_tensors_end_where_it_may_pass_it() -> None:
    """16 tiles of 4 pass 64 elements and stay inside 128; 13 of 8 pass 200. What sizes do not settle is compared."""

    def stored(mode: str, m: int, n: int, b: int) -> list[str]:
        return [re.sub(r"v\d+", "v", m) for m in masks(text(by_block, meta(m), meta(n), mode=mode, b=b), "store")]

    (read,) = masks(text(by_block, meta(64), meta(128), b=4))
    assert re.fullmatch(r"\(v\d+ < 64\)", read)
    assert stored("static", 64, 128, 4) == [""]
    assert stored("static", 100, 200, 8) == ["(v < 200)"]
    assert stored("dynamic", 64, 128, 4) == ["(v < out_shape_0)"]


def before(x, out):
    b = tfl.register_block_size(64)
    for t in tfl.tile(x.size(0), block_size=b):
        out[t] = x[t.begin - 1 : t.begin - 1 + b] + x[t.begin : t.begin + b]


def test_a_slice_that_may_start_before_the_tensor_is_compared_with_its_begin() -> None:
    first, second = masks(text(before, meta(64), meta(64), b=16))
    assert ">= 0" in first and "< 64" not in first
    assert second == ""


def shifted(x, y, out):
    for t in tfl.tile(out.size(0)):
        out[t] = x[t + 2] + y[t + 2] + x[t - 1]


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_a_shifted_tile_is_compared_where_it_may_leave_the_tensor(mode: str) -> None:
    """``x`` holds what ``t + 2`` reads, ``y`` does not; each launch checks that of ``x`` again."""
    source = sources(shifted, meta(66), meta(65), meta(64), mode=mode, t=16)[0]
    inside, above, below = (m.replace("t_mask", "").strip("& ") for m in masks(source.text))
    assert inside == ""
    assert re.fullmatch(r"\(v\d+ < (65|y_shape_0)\)", above)
    assert re.fullmatch(r"\(v\d+ >= 0\)", below)
    if mode == "dynamic":
        sizes = {"begin.0": 0, "end.0": 64, "out.shape.0": 64, "y.shape.0": 65}
        facts = dict.fromkeys(source.guards.symbols(), 1) | sizes
        assert [source.guards.evaluate(facts | {"x.shape.0": n}) for n in (66, 65)] == [1, 0]


def from_begin_to_end(x, out):
    for t in tfl.tile(x.size(0)):
        out[t.begin : t.end] = x[t.begin : t.end]


def test_begin_to_end_is_the_tile() -> None:
    assert masks(text(from_begin_to_end, meta(100), meta(100), t=16)) == ["t_mask"]
    assert masks(text(from_begin_to_end, meta(64), meta(64), t=16)) == [""]


def gather(x, rows, out):
    for t in tfl.tile(rows.size(0)):
        out[t, :] = x[rows[t] * 2, :]


def test_the_lanes_of_a_tail_gather_nothing() -> None:
    load, through = masks(text(gather, meta(9, 32), meta(100, dtype=torch.int64), meta(100, 32), t=16))
    assert load == "t_mask" and through == "t_mask[:, None] & (v1[:, None] >= 0) & (v1[:, None] < 9)"


def loaded_twice(x, offsets, out):
    b = tfl.register_block_size(64)
    for t in tfl.tile(out.size(0), block_size=b):
        out[t] = x[offsets[3] : offsets[3] + b].sum()


def stored_in_between(x, offsets, out):
    b = tfl.register_block_size(64)
    for t in tfl.tile(out.size(0), block_size=b):
        start = offsets[3]
        offsets[3] = 5
        out[t] = x[start : offsets[3] + b].sum()


def test_two_loads_are_one_number_unless_a_store_stands_between() -> None:
    args = meta(64), meta(9, dtype=torch.int64), meta(4)
    assert ">= 0" in masks(text(loaded_twice, *args, b=4))[-1]
    with pytest.raises(TraceError, match="a slice has a length in sizes and block sizes"):
        text(stored_in_between, *args)


# ---- jagged tiles -------------------------------------------------------------------------------


def jagged(x, lengths, out):
    for t in tfl.tile(x.size(0)):
        best = tfl.zeros([t])
        for j in tfl.jagged_tile(lengths[t]):
            best = torch.maximum(best, x[t, j].amax(1))
        out[t] = best


def test_every_lane_of_the_parent_has_lanes_of_its_own() -> None:
    """Also where the blocks divide the sizes, and in blocks of one."""
    for block in (1, 16):
        found = masks(text(jagged, meta(64, 64), meta(64, dtype=torch.int32), meta(64), t=16, j=block))
        assert re.fullmatch(r"\(j_idx\[None, :\] < v\d+\[:, None\]\) & \(j_idx\[None, :\] < 64\)", found[1])
    assert "other=float('-inf')" in text(jagged, meta(64, 64), meta(64, dtype=torch.int32), meta(64))


def test_a_jagged_tile_needs_lengths_over_a_tile() -> None:
    def whole(x, lengths, out):
        for t in tfl.tile(x.size(0)):
            for j in tfl.jagged_tile(lengths[:]):
                out[t] = x[t, j].sum(1)

    def averaged(x, lengths, out):
        for t in tfl.tile(x.size(0)):
            for j in tfl.jagged_tile(lengths[t]):
                out[t] = x[t, j].mean(1)

    args = meta(64, 64), meta(64, dtype=torch.int32), meta(64)
    with pytest.raises(TraceError, match="jagged_tile takes a 1-D tile of ints over the tile of a loop around it"):
        text(whole, *args)
    with pytest.raises(TraceError, match="statistics over a jagged tile are made of sums"):
        text(averaged, *args)


def merged(x, lengths, out):
    for t in tfl.tile(x.size(0)):
        for j in tfl.jagged_tile(lengths[t]):
            out[t] = x[t, j, :].reshape(t, -1).sum(1)


def test_a_jagged_tile_keeps_its_dimension() -> None:
    args = torch.ones(8, 8, 4), torch.full((8,), 3), torch.ones(8)
    with pytest.raises(TraceError, match="a reshape keeps a jagged tile's dimension"):
        text(merged, *args)
    with pytest.raises(TraceError, match="a reshape keeps a jagged tile's dimension"):
        tileflow.kernel(merged).run_eagerly(*args)


# ---- 64 bits ------------------------------------------------------------------------------------

HUGE = 2**31 + 70


def flat(x, out):
    for tile in tfl.tile(x.numel()):
        out[tile] = x[tile]


def rows(x, index, out):
    for tile_m, tile_n in tfl.tile([index.size(0), out.size(1)]):
        out[tile_m, tile_n] = x[index[tile_m], tile_n]


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_indices_have_64_bits_where_the_loop_goes_beyond_32(mode: str) -> None:
    long = text(flat, meta(HUGE), meta(HUGE), mode=mode)
    assert "tile_begin = tl.cast(pid, tl.int64) * BLOCK_TILE" in long
    assert "int64" not in text(flat, meta(4096), meta(4096), mode=mode)


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_offsets_have_64_bits_before_they_are_multiplied(mode: str) -> None:
    index, out = meta(64, dtype=torch.int32), meta(64, 64)
    wide = text(rows, meta(70000, 40000), index, out, mode=mode)
    converted = re.search(r"(\w+) = v0\.to\(tl\.int64\)", wide)
    assert converted is not None and f"x_ptr + {converted[1]}[:, None] * " in wide
    assert "int64" not in text(rows, meta(700, 400), index, out, mode=mode)


def test_a_kernel_of_32_bits_refuses_a_larger_tensor() -> None:
    """In dynamic mode, by its guards: the launcher then declines, and another variant is compiled."""
    for source in sources(flat, meta(4096), meta(4096), mode="dynamic"):
        facts = dict.fromkeys(source.guards.symbols(), 1) | {"begin.0": 0}
        small = facts | {"x.shape.0": 4096, "out.shape.0": 4096, "end.0": 4096}
        large = facts | {"x.shape.0": HUGE - 6, "out.shape.0": HUGE - 6, "end.0": HUGE - 6}
        assert source.guards.evaluate(small) and not source.guards.evaluate(large)


def product(x, out):
    for _ in tfl.grid(1):
        out[0] = x.size(0) * x.size(1)


def test_products_of_sizes_are_made_in_64_bits_where_they_do_not_fit_32() -> None:
    wide = text(product, meta(70000, 40000), meta(1, dtype=torch.int64), mode="dynamic")
    assert "tl.cast(x_shape_0, tl.int64) * tl.cast(x_shape_1, tl.int64)" in wide
    narrow = sources(product, meta(70, 40), meta(1, dtype=torch.int64), mode="dynamic")[0]
    assert "tl.cast(x_shape" not in narrow.text and "x.shape.0 * x.shape.1) <= 2147483647" in str(narrow.guards)


# ---- errors -------------------------------------------------------------------------------------


def boolean_mask(x):
    for tile in tfl.tile(x.size(0)):
        x[x[tile] > 0] = 1.0


def to_the_end(x):
    for tile in tfl.tile(x.size(0)):
        x[tile.begin :] = 1.0


def of_a_loaded_length(x):
    for tile in tfl.tile(x.size(0)):
        x[tile.begin : tile.begin + x[0].int()] = 1.0


def from_the_end(x):
    for tile in tfl.tile(x.size(0)):
        x[tile] = x[-tile.block_size :].sum()


def between_floats(x):
    for tile in tfl.tile(x.size(0)):
        x[tile] = x[x[0] : x[0] + 4].sum()


def past_the_end(x):
    for tile in tfl.tile(x.size(0)):
        x[tile] = x[64]


def before_the_begin(x):
    for tile in tfl.tile(x.size(0)):
        x[tile] = x[-65]


def two_ellipses(x):
    for tile in tfl.tile(x.size(0)):
        x[..., tile, ...] = 1.0


def stored_across_none(x):
    for tile in tfl.tile(x.size(0)):
        x[tile, None] = x[tile]


@pytest.mark.parametrize(
    ("function", "error", "says"),
    [
        (boolean_mask, TraceError, "boolean masks select with torch.where"),
        (to_the_end, TraceError, "loop over what only the kernel knows"),
        (of_a_loaded_length, TraceError, "a slice has a length in sizes and block sizes"),
        (from_the_end, TraceError, "a slice by block sizes counts from the start"),
        (between_floats, TraceError, "a slice is between ints, sizes and integer scalars"),
        (past_the_end, ShapeError, "an index must lie inside x, but got 64"),
        (before_the_begin, ShapeError, "an index must lie inside x, but got -65"),
        (two_ellipses, TraceError, "an index has one ellipsis"),
        (stored_across_none, ShapeError, "what is stored has size 1 where the index has None"),
    ],
)
@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_an_index_that_cannot_be(function: Any, error: type[KernelError], says: str, mode: str) -> None:
    with pytest.raises(error, match=re.escape(says)):
        text(function, meta(64), mode=mode)
