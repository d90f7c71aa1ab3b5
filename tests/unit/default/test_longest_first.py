"""Causal tiles of several heads: the longest come first where they would come out uneven otherwise."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import tileflow
import tileflow.language as tfl
from tileflow.api import load_kernel
from tileflow.default.longest_first import dealt, taken, turns_in_order
from tileflow.lowered import Lowered
from tileflow.target import target

AUTHORS = "0,1,2,3"


def lowered(batch: int, heads: int, m: int, d: int, device: str = "nvidia-h200", **more: Any) -> Lowered:
    name = more.pop("name", "attention")
    kernel = load_kernel(f"examples.attention:{name}")
    sizes = {"batch": batch, "heads": heads, "m": m, "d": d, "causal": True} | more
    return kernel.lower(kernel.inputs(device="meta", **sizes), target(device))


@given(of_a_head=st.integers(1, 9), heads=st.integers(1, 9), section=st.integers(1, 9), count=st.integers(1, 9))
def test_an_order_has_each_tile_once(of_a_head: int, heads: int, section: int, count: int) -> None:
    turns = list(turns_in_order(of_a_head, heads, section))
    assert sorted(turns) == sorted(list(range(1, of_a_head + 1)) * heads)
    whole = heads if section >= heads else section
    assert turns[:whole] == [of_a_head] * whole
    for of in (dealt, taken):
        assert of(turns, count) >= 1 or of(turns, count) == pytest.approx(1)
    # no program waits while tiles are left, so that none ends later than by the longest tile
    assert taken(turns, count) <= 1 + of_a_head * count / sum(turns)


def test_the_longest_of_all_heads_first_ends_evenly() -> None:
    """16 heads of 32 tiles on 132 multiprocessors: head after head the last one ends over a quarter later."""
    by_head, by_length = (taken(turns_in_order(32, 16, section), 132) for section in (1, 16))
    assert by_head > 1.25
    assert by_length < 1.05


@pytest.mark.parametrize(
    ("batch", "heads", "m", "d", "order"),
    [
        (1, 16, 4000, 64, "3,0,1,2"),  # 1.13 of torch's speed, and 0.78 in the author's order
        (1, 8, 8192, 64, "3,0,1,2"),  # 1.31 and 0.87
        (1, 16, 2048, 128, "3,0,1,2"),  # 1.40 and 1.07
        (2, 16, 3500, 128, "0,3,1,2"),  # 1.07 and 0.98: the tiles of one item of the batch are enough
        (1, 16, 3333, 256, "3,0,1,2"),
        (4, 32, 4096, 128, AUTHORS),  # they come out even, and walk
        (1, 1, 4096, 128, AUTHORS),  # fewer tiles than multiprocessors
    ],
)
def test_attention(batch: int, heads: int, m: int, d: int, order: str) -> None:
    it = lowered(batch, heads, m, d)
    assert it.default["order"] == order
    assert it.default["descending"] is True
    assert it.emit(it.default)


def test_short_rows_are_pipelined_in_that_order() -> None:
    it = lowered(4, 16, 384, 64)
    assert (it.default["schedule"], it.default["order"]) == ("pipelined", "3,0,1,2")


@pytest.mark.parametrize(("heads", "order"), [(16, "3,0,1,2"), (128, AUTHORS)])
def test_gradients(heads: int, order: str) -> None:
    """Their loops begin at the tile of keys: the first ones are long, as they come."""
    it = lowered(1, heads, 4096, 128, name="attention_backward_fused")
    assert it.default["order@1"] == order
    assert it.default["order"] == it.default["order@2"] == AUTHORS


def test_heads_whose_keys_do_not_fit_the_cache_stay_apart() -> None:
    """Of 64 heads of 4 MB two programs would read each at one time."""
    assert lowered(1, 64, 8192, 128).default["order"] != "3,0,1,2"


def test_equal_loops_and_other_vendors_keep_the_authors_order() -> None:
    assert lowered(1, 16, 4000, 64, causal=False).default["order"] == AUTHORS
    assert lowered(1, 16, 4000, 64, device="amd-mi300x").default["order"] == AUTHORS


@pytest.mark.parametrize("m", [1 << 20, (1 << 21) + 64])
def test_a_million_rows_have_a_default(m: int) -> None:
    it = lowered(1, 1, m, 128)
    assert it.default["persistent"] in (0, 1)
    assert it.emit(it.default)


def test_heads_in_blocks_of_the_authors() -> None:
    """More heads than tiles: their axis has an eighth of the heads."""

    def eight_heads(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(q)
        for th, tm in tfl.tile([q.size(0), q.size(1)], block_size=[8, None]):
            acc = tfl.zeros([th, tm, q.size(2)])
            for tn in tfl.tile(tm.end):
                scores = torch.bmm(q[th, tm, :], k[th, tn, :].transpose(1, 2))
                acc = acc + torch.bmm(torch.exp(scores.float()).to(k.dtype), k[th, tn, :])
            out[th, tm, :] = acc.to(out.dtype)
        return out

    args = tuple(torch.empty(4096, 32, 64, dtype=torch.bfloat16, device="meta") for _ in range(2))
    it = tileflow.kernel(eight_heads).lower(args, target("nvidia-h200"))
    assert it.emit(it.default)
