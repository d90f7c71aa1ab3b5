"""Neighbours in memory that no tile names: where a row begins is added to a tile's lanes."""

from __future__ import annotations

import pytest
import torch
from tile_testing.strangers import ALL

import tileflow
import tileflow.language as tfl
from tileflow.config import Config
from tileflow.ir.analysis import likely_length, mean_length, steps_of, tile_length
from tileflow.ir.attributes import AccessAttrs
from tileflow.ir.graph import KernelIR, ValueIndex
from tileflow.ir.kinds import OpKind
from tileflow.target import target

H100 = target("nvidia-h100-sxm")


def _lowered(name: str) -> tuple[KernelIR, Config]:
    one = ALL[name]
    lowered = one.kernel.lower(one.arguments("large", "meta"), H100)
    return lowered.regions[0], lowered.default


def test_rows_of_a_jagged_tile_are_as_long_as_the_mean() -> None:
    """16384 documents of 1024 tokens in the mean: by a token of 32 documents 1598 us, by a document 92 (H100)."""
    ir, default = _lowered("document_means")
    assert tile_length(ir, "tj") == 1 << 24 and mean_length(ir, "tj") == 1024 and likely_length(ir, "tj") == 1024
    assert int(default["block:td"]) <= 2 and default["block:tj"] == default["block:tj#1"] == 1024


def test_a_transpose_of_short_elements_keeps_sectors() -> None:
    """Float8 beside bfloat16: turned, each number by itself is a sector. 1757 us by rows, 349 so (H100)."""
    _, default = _lowered("gelu_backward_fp8")
    assert int(default["block:tm"]) >= 32 and int(default["block:tn"]) >= 32


@pytest.mark.parametrize(
    ("index", "tiles"),
    [
        (lambda t, s, row: t.index + 3, {"t"}),
        (lambda t, s, row: (t.index - row).to(torch.int64), {"t"}),
        (lambda t, s, row: row + t.index, {"t"}),
        (lambda t, s, row: t.index * 2, set()),
        (lambda t, s, row: row - t.index, set()),
        (lambda t, s, row: t.index + t.index, set()),
        (lambda t, s, row: s.index[:, None] * 64 + t.index[None, :], {"t"}),
        (lambda t, s, row: s.index[:, None] + t.index[None, :], {"s", "t"}),
        (lambda t, s, row: t.index // 2, set()),
    ],
)
def test_what_counts_by_one(index: object, tiles: set[str]) -> None:
    assert callable(index)

    @tileflow.kernel
    def gathered(x, rows, out):
        for i, s, t in tfl.tile([rows.size(0), 64, 64], block_size=[1, None, None]):
            at = index(t, s, rows[i.id])
            total = x[at]
            out[i.id, s, t] = total + tfl.zeros([s, t])

    like = torch.empty(1 << 20, device="meta"), torch.empty(7, dtype=torch.int32, device="meta")
    (ir,) = gathered.lower((*like, torch.empty(7, 64, 64, device="meta")), H100).regions
    loads = [op for op in ir.walk() if op.kind is OpKind.LOAD and AccessAttrs.of(op).tensor == "x"]
    (item,) = AccessAttrs.of(loads[0]).index
    assert isinstance(item, ValueIndex)
    assert steps_of(ir, loads[0].inputs[item.input]) == tiles
