"""Small passes: products and their accumulators, dead code, sizes that are one, graphs that print equally."""

from __future__ import annotations

import torch
from tile_testing.regions import kinds, meta, ops, region

import tileflow.language as tfl
from tileflow.expr import Expr
from tileflow.ir.printer import render


def test_the_sum_of_a_product_becomes_its_accumulator() -> None:
    def fused(x, y):
        for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
            acc = tfl.zeros([tile_m, tile_n])
            for tile_k in tfl.tile(x.size(1)):
                acc += tfl.dot(x[tile_m, tile_k], y[tile_k, tile_n])
            x[tile_m, tile_n] = acc

    def operator(x, y):
        for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
            acc = tfl.zeros([tile_m, tile_n])
            for tile_k in tfl.tile(x.size(1)):
                acc = acc + x[tile_m, tile_k] @ y[tile_k, tile_n]
            x[tile_m, tile_n] = acc

    args = meta(64, 64, dtype=torch.bfloat16), meta(64, 64, dtype=torch.bfloat16)

    def used_twice(x, y):
        for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
            product = tfl.dot(x[tile_m, :], y[:, tile_n])
            x[tile_m, tile_n] = (tfl.zeros([tile_m, tile_n]) + product) * product

    for function in (fused, operator):
        (dot,) = ops(region(function, *args), "dot")
        assert len(dot.inputs) == 3 and kinds(region(function, *args))["pointwise"] == 0
    (dot,) = ops(region(used_twice, *args), "dot")
    assert len(dot.inputs) == 2


def test_dead_code_goes() -> None:
    def wasteful(x):
        for tile in tfl.tile(x.size(0)):
            unused = torch.exp(x[tile, :]).sum(1)  # noqa: F841
            x[tile, 0] = 1.0

    assert kinds(region(wasteful)).keys() == {"full", "store"}


def test_sizes_that_a_guard_proves_equal_are_one() -> None:
    def scaled(x, w):
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            out[tile, :] = (x[tile, :] * w[:]).sum(1, keepdim=True) + x[tile, :]
        return out

    ir = region(scaled, meta(100, 300), meta(300), mode="dynamic")
    extents = {d.extent for op in ir.walk() for v in op.outputs for d in v.dims if d.tile is None}
    assert len(extents - {Expr.of(1)}) == 1


def test_equal_graphs_print_equally_wherever_they_stand() -> None:
    def first(x):
        for tile in tfl.tile(x.size(0)):
            x[tile, :] = x[tile, :] * 2

    one = region(first)

    def first(x):
        # elsewhere
        for tile in tfl.tile(x.size(0)):
            x[tile, :] = x[tile, :] * 2

    assert render(one) == render(region(first)) and one.hash == region(first).hash
