"""The first config of chained products: attention and its gradients, by head size and device."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from tile_testing.strangers import ALL

import tileflow
import tileflow.language as tfl
from tileflow.api import load_kernel
from tileflow.build.compile import build
from tileflow.lowered import Lowered
from tileflow.target import target

KEYS = ("tile_n@1", "block_m"), "@1"  # the gradients of keys and values
QUERIES = ("tile_m@2", "block_n"), "@2"
FORWARD = ("tile_m", "block_n"), ""


def lowered(name: str, d: int, causal: bool, device: str = "nvidia-h200", heads: int = 32) -> Lowered:
    kernel = load_kernel(f"examples.attention:{name}")
    return kernel.lower(kernel.inputs(device="meta", batch=1, heads=heads, m=4096, d=d, causal=causal), target(device))


def blocks(it: Lowered, launch: tuple[tuple[str, str], str]) -> tuple[Any, ...]:
    """Rows, columns, warps, stages."""
    (rows, columns), region = launch
    names = (f"block:{rows}", f"block:{columns}", f"num_warps{region}", f"num_stages{region}")
    return tuple(it.default[name] for name in names)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("d", "expected"),
    [(64, (64, 128, 4, 2)), (96, (64, 64, 4, 3)), (128, (64, 64, 4, 3)), (256, (128, 64, 8, 2))],
)
def test_attention_has_few_rows_where_two_programs_share_a_multiprocessor(
    d: int, expected: tuple[int, ...], causal: bool
) -> None:
    """A head of 96 takes as many registers as one of 128; of 256, one program fills the shared memory. Of one head
    there are fewer tiles than multiprocessors, which the pipelined schedule has, and blocks of clusters share the keys
    of a tile: alone on a multiprocessor, they have four stages where two had two. Half of a causal tile of keys is
    masked on the diagonal: it is short."""
    it = lowered("attention", d, causal, heads=1)
    if d == 64:
        expected = (64, 64, 4, 3) if causal else (64, 128, 4, 4)
    assert it.default["schedule"] == "pipelined" and blocks(it, FORWARD) == expected
    assert it.default["loop:tile_n.ctas"] == (1 if causal or d == 256 else 2)


def test_what_is_added_to_scores_is_no_operand() -> None:
    kernel = load_kernel("examples.attention:attention_scored")
    args = kernel.inputs(device="meta", batch=1, heads=1, m=4096, n=4096, d=128)
    it = kernel.lower(args, target("nvidia-h200"))
    assert blocks(it, (("tile_m", "tile_n"), "")) == (64, 64, 4, 3)


@pytest.mark.parametrize("d", [96, 128])
def test_gradients_of_wide_heads(d: int) -> None:
    """Two sums a program leave no registers for 128 rows; one does."""
    it = lowered("attention_backward", d, causal=True, heads=1)
    assert blocks(it, KEYS) == (64, 64, 4, 2)
    assert blocks(it, QUERIES) == (128, 32, 8, 3)


@pytest.mark.parametrize("d", [32, 64])
@pytest.mark.parametrize(("causal", "rows", "keys"), [(False, 192, 128), (True, 256, 64)])
def test_narrow_heads_have_more_groups(d: int, causal: bool, rows: int, keys: int) -> None:
    """Without spills. Not where some multiprocessors would have a tile more than others, nor for any size."""
    it = lowered("attention", d, causal, heads=96)
    assert (it.default["schedule"], it.default["block:tile_m"], it.default["block:block_n"]) == (
        "warp_specialised", rows, keys,
    )  # fmt: skip
    assert build(it.emit(it.default)[0], it.target).resources.spills == 0
    for other in (lowered("attention", d, causal, heads=7), replace(it, mode="dynamic")):
        assert other.default["block:tile_m"] in (64, 128)


@pytest.mark.parametrize(
    ("causal", "m", "heads", "expected"),
    [
        (False, 3333, 20, (128, 128)),  # 2.7 waves of 192 rows: 1.03 of torch's speed by two groups
        (False, 3000, 32, (192, 64)),  # 3.9: 1.17, and 1.07 by pipelined programs
        (False, 1500, 80, (64, 128)),  # pipelined: 1.10, and 1.03 by three groups
        (True, 2000, 32, (256, 64)),  # see test_causal_rows.py
        (True, 4000, 32, (256, 64)),
        (True, 513, 64, (64, 64)),  # 0.97 pipelined, 0.85 by two groups
    ],
)
def test_narrow_heads_of_any_length(causal: bool, m: int, heads: int, expected: tuple[int, int]) -> None:
    """What masks cost, and a diagonal that lies across tiles of 256 rows (H200, docs/measurements/performance.md)."""
    kernel = load_kernel("examples.attention:attention")
    args = kernel.inputs(device="meta", batch=1, heads=heads, m=m, d=64, causal=causal)
    it = kernel.lower(args, target("nvidia-h200"))
    assert (it.default["block:tile_m"], it.default["block:block_n"]) == expected
    assert it.emit(it.default)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("d", "m"), [(64, 1), (64, 100), (64, 130), (64, 200), (128, 1), (128, 100)])
def test_short_calls_have_no_tiles_of_padding(d: int, m: int, causal: bool) -> None:
    """Of many heads with few rows: programs of smaller blocks walked, one a multiprocessor."""
    kernel = load_kernel("examples.attention:attention")
    args = kernel.inputs(device="meta", batch=8, heads=33, m=m, d=d, causal=causal)
    it = kernel.lower(args, target("nvidia-h200"))
    assert it.default["block:tile_m"] <= 128
    assert it.default["persistent"] == 0
    assert it.emit(it.default)


@pytest.mark.parametrize(
    ("heads", "m", "walks"),
    [(128, 4096, True), (128, 1024, True), (64, 5504, False), (8, 2048, False), (2, 4096, False)],
)
def test_causal_programs_walk_where_their_tiles_come_out_even(heads: int, m: int, walks: bool) -> None:
    """43 tiles of a head for 132 programs give the longest 1.2 times the mean's work, though there are 20 for each."""
    kernel = load_kernel("examples.attention:attention")
    args = kernel.inputs(device="meta", batch=1, heads=heads, m=m, d=128, causal=True)
    it = kernel.lower(args, target("nvidia-h200"))
    assert it.default["persistent"] == int(walks)
    assert it.default["schedule"] == "pipelined" or it.default["ping_pong"] is walks


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [64, 80, 128])
def test_the_gradient_of_queries_is_warp_specialised_where_each_multiprocessor_has_a_tile(d: int, causal: bool) -> None:
    """As it measured faster; keys and values gained nothing."""
    it = lowered("attention_backward", d, causal)
    assert (it.default["schedule@1"], it.default["schedule@2"]) == ("pipelined", "warp_specialised")
    (rows, columns), region = QUERIES
    chosen = (it.default[f"block:{rows}"], it.default[f"block:{columns}"], it.default[f"num_stages{region}"])
    assert chosen == (128, 128, 2)
    assert lowered("attention_backward", d, causal, heads=4).default["schedule@2"] == "pipelined"  # 128 tiles of 132


@pytest.mark.parametrize("gradient", [False, True])
def test_a_loop_that_ends_among_the_keys_is_pipelined(gradient: bool) -> None:
    """The copy engine would bring the keys behind it, which the emission refuses: the default was such a config."""

    def half_of_the_keys(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(q)
        for head, tile_m in tfl.tile([q.size(0), q.size(1)], block_size=[1, None]):
            query, acc = q[head.begin, tile_m, :], tfl.zeros([tile_m, q.size(2)])
            for tile_n in tfl.tile(k.size(1) // 2):
                key, value = k[head.begin, tile_n, :], v[head.begin, tile_n, :]
                weights = torch.exp2(tfl.dot(query, key.T))
                if gradient:
                    weights = weights * tfl.dot(query, value.T)
                acc = tfl.dot(weights.to(q.dtype), value, acc=acc)
            out[head.begin, tile_m, :] = acc
        return out

    for rows, schedule in ((4000, "pipelined"), (4096, "warp_specialised")):  # 2000 keys are no whole blocks
        args = [torch.empty(32, rows, 128, dtype=torch.bfloat16, device="meta") for _ in range(3)]
        it = tileflow.kernel(half_of_the_keys).lower(tuple(args), target("nvidia-h200"))
        assert it.default["schedule"] == schedule
        assert it.emit(it.default)[0].language == ("gluon" if schedule == "warp_specialised" else "triton")


def test_single_warps_keep_narrow_blocks_of_two_sums() -> None:
    assert blocks(lowered("attention_backward", 128, causal=True, device="nvidia-a100"), KEYS)[:2] == (64, 32)


def test_two_programs_of_gradients_do_share_a_multiprocessor() -> None:
    """What the choice counts on, of the machine code."""
    it = lowered("attention_backward", 128, causal=True, heads=1)
    for source in it.emit(it.default):
        if source.region == 0:
            continue
        used, warps = build(source, it.target).resources, it.default[f"num_warps@{source.region}"]
        assert isinstance(warps, int)
        assert used.spills == 0
        assert 2 * used.registers * warps * it.target.warp_size <= it.target.regs_per_sm
        assert 2 * used.shared <= it.target.smem_per_sm


def test_a_loop_for_the_diagonal_alone_asks_for_fewer_programs() -> None:
    def two_loops(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(q)
        block_n = tfl.register_block_size(k.size(0))
        for tile_m in tfl.tile(q.size(0)):
            acc = tfl.zeros([tile_m, q.size(1)])
            for tile_n in tfl.tile(tile_m.begin, block_size=block_n):
                scores = tfl.dot(q[tile_m, :], k[tile_n, :].T)
                acc = tfl.dot(scores.to(v.dtype), v[tile_n, :], acc=acc)
            for tile_n in tfl.tile(tile_m.begin, tile_m.end, block_size=block_n):
                scores = tfl.dot(q[tile_m, :], k[tile_n, :].T)
                scores = torch.where(tile_m.index[:, None] >= tile_n.index[None, :], scores, 0.0)
                acc = tfl.dot(scores.to(v.dtype), v[tile_n, :], acc=acc)
            out[tile_m, :] = acc
        return out

    half = torch.empty(4096, 128, dtype=torch.bfloat16, device="meta")
    it = tileflow.kernel(two_loops).lower((half, half, half), target("nvidia-h200"))
    assert blocks(it, FORWARD) == (128, 64, 8, 2)


@tileflow.kernel
def chunk_of_whole_scores(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, chunk: tfl.constexpr) -> torch.Tensor:
    """As state-space models take chunks: sizes are the author's."""
    out = torch.empty_like(v)
    for tile in tfl.tile(q.size(0) // chunk, block_size=1):
        at = tile.begin * chunk
        scores = q[at : at + chunk, :] @ k[at : at + chunk, :].T
        out[at : at + chunk, :] = scores.exp().to(v.dtype) @ v[at : at + chunk, :]
    return out


@pytest.mark.parametrize(("chunk", "warps"), [(128, 4), (256, 8)])
def test_sizes_of_the_authors_have_warps_for_their_sums(chunk: int, warps: int) -> None:
    q, v = (torch.empty(4096, d, dtype=torch.bfloat16, device="meta") for d in (128, 64))
    assert chunk_of_whole_scores.lower((q, q, v, chunk), target("nvidia-h200")).default["num_warps"] == warps


@tileflow.kernel
def biased(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(q)
    for rows in tfl.tile(q.size(0)):
        acc = tfl.zeros([rows, q.size(1)])
        for others in tfl.tile(k.size(0)):
            apart = (rows.index[:, None] - others.index[None, :]).abs().clamp(max=31)
            scores = tfl.dot(q[rows, :], k[others, :].T) + table[apart]
            acc = tfl.dot(scores.sigmoid().to(v.dtype), v[others, :], acc=acc)
        out[rows, :] = acc
    return out


def test_scores_that_something_is_gathered_for_are_narrow() -> None:
    """An address for each takes the registers of a score."""
    q, table = torch.empty(4096, 64, dtype=torch.bfloat16, device="meta"), torch.empty(32, device="meta")
    device = target("nvidia-h200")
    it = biased.lower((q, q, q, table), device)
    assert (it.default["block:rows"], it.default["block:others"]) == (64, 64)
    assert all(build(source, device).resources.spills == 0 for source in it.emit(it.default))


@tileflow.kernel
def gathered_rows(x: torch.Tensor, y: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    out = torch.empty(rows.size(0), y.size(1), dtype=x.dtype, device=x.device)
    for m, n in tfl.tile(out.shape):
        acc = tfl.zeros([m, n])
        for inner in tfl.tile(x.size(1)):
            acc = tfl.dot(x[rows[m], inner], y[inner, n], acc=acc)
        out[m, n] = acc
    return out


def test_a_product_of_gathered_rows_does_not_walk_in_one_loop() -> None:
    """Its addresses are beside the sums of a tile, which leaves none for those of the next."""
    x, rows = torch.empty(4096, 4096, dtype=torch.bfloat16, device="meta"), torch.empty(4096, dtype=torch.int64)
    device = target("nvidia-h200")
    it = gathered_rows.lower((x, x, rows.to("meta")), device)
    assert it.default["flatten"] is False
    assert all(build(source, device).resources.spills == 0 for source in it.emit(it.default))


@pytest.mark.parametrize(("columns", "stages"), [(55, 1), (56, 2)])
def test_full_precision_copies_nothing_ahead_that_comes_an_element_at_a_time(columns: int, stages: int) -> None:
    """Rows of 55 numbers begin at any element: 1796 us two stages ahead, 644 by one (H200, 2026-11-30)."""
    one = ALL["stein_step"]
    x, _, *numbers = one.arguments("large", "meta")
    rows = torch.empty(x.size(0), columns, device="meta")
    assert one.kernel.lower((rows, rows, *numbers), target("nvidia-h200")).default["num_stages"] == stages


def test_vectors_beside_a_products_loop_are_loaded_ahead() -> None:
    """A number for each item, which no product takes: 799 us by the launch's stages, 474 by the loop's."""
    one = ALL["in_batch_softmax"]
    args = one.arguments("large", "meta")
    assert one.kernel.lower(args, target("nvidia-h200")).default["loop:ti.stages"] == 2
    assert one.kernel.lower(args, target("amd-mi300x")).default["loop:ti.stages"] == 0
