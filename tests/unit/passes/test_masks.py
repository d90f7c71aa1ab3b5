"""Masks of lanes beyond a size: which fall away, which loads fill, and which stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tile_testing.regions import kinds, largest, lower, masked, meta, ops, region, total, total_and_largest

import tileflow.language as tfl
from tileflow.ir.attributes import LoadAttrs, PointwiseAttrs, WhereMaskAttrs
from tileflow.passes.masks import MaskedValues


def product(x):
    out = torch.empty_like(x[:, 0])
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile, :].prod(1)
    return out


def total_of_exp(x):
    out = torch.empty_like(x[:, 0])
    for tile in tfl.tile(x.size(0)):
        out[tile] = torch.exp(x[tile, :]).sum(1)
    return out


def total_of_squares(x):
    out = torch.empty_like(x[:, 0])
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :].float()
        out[tile] = (row * row * 2 - row).sum(1)
    return out


@pytest.mark.parametrize(
    ("function", "other"), [(total, 0.0), (largest, float("-inf")), (product, 1.0), (total_of_squares, 0.0)]
)
def test_the_load_fills_the_lanes(function: Callable[..., Any], other: float) -> None:
    """With what the reduction needs, also through casts and arithmetic that keeps it."""
    ir = masked(function)
    assert kinds(ir)["where_mask"] == 0
    (load,) = ops(ir, "load")
    assert LoadAttrs.of(load).other == other


def test_a_mask_that_is_needed_stays() -> None:
    """exp(0) is 1."""
    ir = masked(total_of_exp)
    (where,) = ops(ir, "where_mask")
    assert where.inputs[1] == 0 and WhereMaskAttrs.of(where).axes == (1,)
    (reduce,) = ops(ir, "reduce")
    assert reduce.inputs[0] == where.output


def test_one_load_fills_for_one_reader() -> None:
    ir = masked(total_and_largest)
    (load,) = ops(ir, "load")
    (where,) = ops(ir, "where_mask")
    assert {LoadAttrs.of(load).other, where.inputs[1]} == {0.0, float("-inf")}


def test_a_power_of_two_has_no_lanes_to_mask() -> None:
    assert kinds(masked(total_of_exp, meta(100, 2048)))["where_mask"] == 0
    assert kinds(masked(total_of_exp, meta(100, 2049)))["where_mask"] == 1


def test_masks_vanish_where_the_block_divides_the_size() -> None:
    def add_one(x):
        for tile in tfl.tile(x.size(0)):
            x[tile] = x[tile] + 1
        return x

    it = lower(add_one, meta(4096))
    assert "mask" not in it.emit(it.default.with_({"block:tile": 1024}))[0].code
    it = lower(add_one, meta(4000))
    assert it.emit(it.default.with_({"block:tile": 1024}))[0].code.count("mask=") == 2


def test_masks_of_products() -> None:
    def plain(x, y):
        for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
            acc = tfl.zeros([tile_m, tile_n])
            for tile_k in tfl.tile(x.size(1)):
                acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
            x[tile_m, tile_n] = acc

    def of_exp(x, y):
        for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
            acc = tfl.zeros([tile_m, tile_n])
            for tile_k in tfl.tile(x.size(1)):
                acc = torch.addmm(acc, torch.exp(x[tile_m, tile_k]), y[tile_k, tile_n])
            x[tile_m, tile_n] = acc

    args = meta(100, 300), meta(300, 200)
    assert kinds(masked(plain, *args))["where_mask"] == 0
    (where,) = ops(masked(of_exp, *args), "where_mask")
    assert WhereMaskAttrs.of(where).axes == (1,), "the inner dimension only"


def test_what_masked_lanes_hold() -> None:
    """A constant along the axis is known; what is broadcast along it is not."""

    def several(x, y):
        for tile in tfl.tile(x.size(0)):
            row = x[tile, :]
            a = (row * 3 - 1).relu()
            b = row + y[tile, 0][:, None]
            c = torch.where(row > 1, row, 5.0)
            x[tile, :] = a + b + c

    ir = region(several, meta(100, 300), meta(100, 4))
    known = MaskedValues(ir)
    by_fn = {PointwiseAttrs.of(op).fn: op.output for op in ops(ir, "pointwise")}
    assert known.at(by_fn["relu"], 1) == 0.0
    assert known.at(by_fn["where"], 1) == 5.0
    assert known.at(by_fn["gt"], 1) == 0.0
    sums = [op for op in ops(ir, "pointwise") if PointwiseAttrs.of(op).fn == "add"]
    assert known.at(sums[0].output, 1) is None
