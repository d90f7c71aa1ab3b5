"""What loops and branches carry: types that reach a fixpoint, and objects that stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tile_testing.regions import meta, ops, region

import tileflow.language as tfl
from tileflow.ir.attributes import LoadAttrs


def carried(function: Callable[..., Any], *args: Any) -> tuple[str, int]:
    """dtype and rank of the only value that the only loop carries."""
    (loop,) = ops(region(function, *args), "for")
    (value,) = loop.outputs
    return value.type.dtype, len(value.dims)


def test_carried_types_reach_a_fixpoint() -> None:  # noqa: C901
    def number(x):
        for tile in tfl.tile(x.size(0)):
            acc = 0
            for tile_n in tfl.tile(x.size(1)):
                acc = acc * 2 + x[tile, tile_n].sum(1)
            x[tile, 0] = acc

    def promoted(x):
        for tile in tfl.tile(x.size(0)):
            acc = tfl.zeros([tile], dtype=torch.bfloat16)
            for tile_n in tfl.tile(x.size(1)):
                acc = acc * 2 + x[tile, tile_n].sum(1)
            x[tile, 0] = acc

    def kept(x):
        for tile in tfl.tile(x.size(0)):
            acc = tfl.zeros([tile], dtype=torch.bfloat16)
            for tile_n in tfl.tile(x.size(1)):
                acc *= x[tile, tile_n].sum(1)
            x[tile, 0] = acc

    def grown(x):
        for tile in tfl.tile(x.size(0)):
            acc = tfl.zeros([1, 1])
            for tile_n in tfl.tile(x.size(1)):
                acc = acc * 2 + x[tile, tile_n].sum(1, keepdim=True)
            x[tile, :] = acc

    def chained(x):
        """The second name's type follows the first one's, a round later."""
        for tile in tfl.tile(x.size(0)):
            a = b = c = 0
            for tile_n in tfl.tile(x.size(1)):
                c = b
                b = a
                a = a + x[tile, tile_n].sum(1)
            x[tile, 0] = c

    assert carried(number) == ("float32", 1)
    assert carried(promoted) == ("float32", 1)
    assert carried(kept) == ("bfloat16", 1)
    assert carried(grown) == ("float32", 2)
    (loop,) = ops(region(chained), "for")
    assert [(v.type.dtype, len(v.dims)) for v in loop.outputs] == [("float32", 1)] * 3


def test_unchanged_objects_are_invariant() -> None:
    def invariant(x):
        for tile in tfl.tile(x.size(0)):
            scale, name = 2.0, "plain"
            total = tfl.zeros([tile])
            for tile_n in tfl.tile(x.size(1)):
                total = total * scale + x[tile, tile_n].sum(1)
            x[tile, 0] = total if name == "plain" else 0.0

    assert carried(invariant) == ("float32", 1)


def test_a_retraced_body_leaves_no_names_behind() -> None:
    """Sites are counted once however often the types were tried."""

    def retried(x):
        for tile in tfl.tile(x.size(0)):
            acc = 0
            for tile_n in tfl.tile(x.size(1)):
                acc = acc + x[tile, tile_n].sum(1)
            x[tile, 0] = acc

    ir = region(retried)
    assert [LoadAttrs.of(op).site for op in ops(ir, "load")] == ["load:x#0"]
    assert ir.blocks and [b.name for b in ir.blocks] == ["block:tile", "block:tile_n"]
    assert set(ir.tiles) == {"tile", "tile_n"}


def test_a_branch_merges_by_promotion() -> None:
    def merged(x, flag):
        for tile in tfl.tile(x.size(0)):
            y = 0
            if flag[0] > 0:
                y = x[tile, 0]
            x[tile, 0] = y

    (branch,) = ops(region(merged, meta(100, 30), meta(1, dtype=torch.int32)), "if")
    assert [(v.type.dtype, len(v.dims)) for v in branch.outputs] == [("float32", 1)]
