"""A row that is too long for registers says which line needs all of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.errors import ConfigError
from tileflow.target import target

VOCABULARY = 128256


def in_place(x, out, index):
    for t in tfl.tile(x.size(0)):
        row = x[t, :]
        x[t, :] = torch.softmax(row, -1)


def picked(x, out, index):
    for t in tfl.tile(x.size(0)):
        row = torch.log_softmax(x[t, :], -1)
        out[t, :] = torch.gather(row, 1, index[t, :])


def summed_up(x, out, index):
    for t in tfl.tile(x.size(0)):
        total = torch.softmax(x[t, :], -1)
        out[t, 0] = (total.cumsum(1) < 0.5).sum(1).float()


def sorted_row(x, out, index):
    for t in tfl.tile(x.size(0)):
        row = x[t, :]
        out[t, :] = torch.topk(row, 8, dim=-1)[0]


def carried(x, out, index):
    for t in tfl.tile(x.size(0)):
        total = tfl.zeros([t, x.size(1)])
        for i in range(100):
            total = total * 0.5 + x[t, :] * i
        out[t, 0] = total.sum(1)


@pytest.mark.parametrize(
    ("function", "reason", "line"),
    [
        (in_place, "loads, beside a store into the same tensor, all of it", "row = x[t, :]"),
        (picked, "gathers out of all of it", "out[t, :] = torch.gather(row, 1, index[t, :])"),
        (summed_up, "adds up, step by step, all of it", "out[t, 0] = (total.cumsum(1) < 0.5).sum(1).float()"),
        (sorted_row, "sorts all of it", "out[t, :] = torch.topk(row, 8, dim=-1)[0]"),
        (carried, "carries, from turn to turn, all of it", "for i in range(100):"),
    ],
)
def test_the_line_that_needs_a_long_row_in_one_piece_is_named(
    function: Callable[..., Any], reason: str, line: str
) -> None:
    """The error named the row's load, from which nobody could tell what kept it out of a loop. (Of Hopper the blocks of
    a cluster hold some of these rows.)"""
    args = [torch.empty(64, n, device="meta") for n in (VOCABULARY, 8)]
    index = torch.empty(64, 8, dtype=torch.int64, device="meta")
    lowered = tileflow.kernel(function).lower((*args, index), target("nvidia-b200"))
    with pytest.raises(ConfigError, match="its longest dimension is no loop, since this line") as caught:
        lowered.emit(lowered.default)
    assert reason in str(caught.value) and f"    {line}" in str(caught.value)


@pytest.mark.parametrize("function", [in_place, carried], ids=lambda f: f.__name__)
def test_blocks_of_a_cluster_hold_a_row_that_is_no_loop(function: Callable[..., Any]) -> None:
    """There was no config: a vocabulary's row that is changed in place, or handed on from turn to turn."""
    args = [torch.empty(64, n, device="meta") for n in (VOCABULARY, 8)]
    index = torch.empty(64, 8, dtype=torch.int64, device="meta")
    lowered = tileflow.kernel(function).lower((*args, index), target("nvidia-h200"))
    (source,) = lowered.emit(lowered.default)
    assert source.cluster == lowered.default["ctas"] > 1


def near(q, k, p, out):
    for t in tfl.tile(q.size(0)):
        by_place = (q[t, :] @ p[:, :].T).float()
        offset = q.size(0) - 1 - t.index[:, None] + tfl.arange(k.size(0))[None, :]
        scores = (q[t, :] @ k[:, :].T).float() + torch.gather(by_place, 1, offset)
        out[t, :] = torch.softmax(scores, 1).to(k.dtype) @ k[:, :]


def ordered(q, k, p, out):
    for t in tfl.tile(q.size(0)):
        out[t, :] = torch.sort((q[t, :] @ p[:, :].T).float(), 1)[0][:, :64].to(q.dtype) @ k[:64, :]


@pytest.mark.parametrize(
    ("function", "reason", "line"),
    [
        (near, "gathers out of all of it (store it into a tensor in a tile loop before", "torch.gather(by_place"),
        (ordered, "sorts all of it", "torch.sort((q[t, :]"),
    ],
)
def test_the_line_that_needs_a_long_product_in_one_piece_is_named(
    function: Callable[..., Any], reason: str, line: str
) -> None:
    """The error named the product, and advised a loop, which its author could not write for what is gathered out of."""
    sizes = (1500, 64), (1500, 64), (2999, 64), (1500, 64)
    args = [torch.empty(size, dtype=torch.bfloat16, device="meta") for size in sizes]
    lowered = tileflow.kernel(function).lower(tuple(args), target("nvidia-h200"))
    with pytest.raises(ConfigError, match="their longest dimension is no loop, since this line") as caught:
        lowered.emit(lowered.default)
    assert reason in str(caught.value) and line in str(caught.value)


def test_a_row_that_loops_read_has_no_such_reason() -> None:
    def summed(x, out):
        for t in tfl.tile(x.size(0)):
            out[t] = x[t, :].exp().sum(1)

    args = torch.empty(64, VOCABULARY, device="meta"), torch.empty(64, device="meta")
    lowered = tileflow.kernel(summed).lower(args, target("nvidia-h200"))
    assert lowered.emit(lowered.default)
    assert not any("is no loop" in c.reason for c in lowered.space.constraints)
