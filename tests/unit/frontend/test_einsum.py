"""Equations of several rows, columns and inner letters are matrix products of tiles, as their authors' own would be."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.ir.kinds import OpKind
from tileflow.target import target

H200 = target("nvidia-h200")


@tileflow.kernel
def linear(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    out = x.new_empty(x.size(0), x.size(1), w.size(0))
    for b, s, o in tfl.tile(out.shape):
        acc = tfl.zeros([b, s, o])
        for d in tfl.tile(x.size(2)):
            acc += torch.einsum("bsd,od->bso", x[b, s, d], w[o, d])
        out[b, s, o] = acc
    return out


@tileflow.kernel
def linear_by_hand(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    out = x.new_empty(x.size(0), x.size(1), w.size(0))
    for b, s, o in tfl.tile(out.shape):
        acc = tfl.zeros([b, s, o])
        for d in tfl.tile(x.size(2)):
            acc += x[b, s, d] @ w[o, d].T
        out[b, s, o] = acc
    return out


@tileflow.kernel
def into_heads(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    out = x.new_empty(x.size(0), x.size(1), w.size(0), w.size(2))
    for b, s, h in tfl.tile(out.shape[:3]):
        acc = tfl.zeros([b, s, h, w.size(2)])
        for d in tfl.tile(x.size(2)):
            acc += torch.einsum("bsd,hdk->bshk", x[b, s, d], w[h, d, :])
        out[b, s, h, :] = acc
    return out


@tileflow.kernel
def out_of_heads(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    out = x.new_empty(x.size(0), x.size(1), w.size(2))
    for b, s, d in tfl.tile(out.shape):
        acc = tfl.zeros([b, s, d])
        for h in tfl.tile(x.size(2)):
            acc += torch.einsum("bshk,hkd->bsd", x[b, s, h, :], w[h, :, d])
        out[b, s, d] = acc
    return out


@tileflow.kernel
def small_matrices(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Of three rows and columns, which the matrix units would fill up to 16."""
    out = torch.empty_like(x)
    for b in tfl.tile(x.size(0)):
        out[b, :, :] = torch.einsum("bij,jk->bik", x[b, :, :], w[:, :])
    return out


def lowered(kernel: Any, *shapes: tuple[int, ...]) -> Any:
    return kernel.lower([torch.empty(shape, dtype=torch.bfloat16, device="meta") for shape in shapes], H200)


def products(it: Any) -> int:
    return sum(op.kind is OpKind.DOT for op in it.regions[0].walk())


def test_an_equation_is_what_its_author_would_write_by_hand() -> None:
    """Of two letters for rows each pair was multiplied and summed: no matrix unit saw it."""
    shapes = (16, 2048, 1024), (4096, 1024)
    one, other = lowered(linear, *shapes), lowered(linear_by_hand, *shapes)
    assert products(one) == products(other) == 1
    blocks = ("block:", "num_")
    assert [x for x in one.default.items if x[0].startswith(blocks)] == [
        x for x in other.default.items if x[0].startswith(blocks)
    ]


@pytest.mark.parametrize(
    ("kernel", "shapes"),
    [(into_heads, ((8, 2048, 1024), (32, 1024, 128))), (out_of_heads, ((8, 2048, 32, 128), (32, 128, 1024)))],
    ids=["into", "out of"],
)
def test_heads_are_a_product_each(kernel: Any, shapes: Any) -> None:
    """Also where the right operand has them: of two heads a program, sums took 4700 bytes a thread of local memory."""
    it = lowered(kernel, *shapes)
    assert products(it) == 1
    chosen = dict(it.default.items)
    assert chosen["block:b"] == chosen["block:h"] == 1 and chosen["block:s"] >= 64
    (source,) = it.emit(it.default)
    assert "tl.sum" not in source.text


def test_small_matrices_stay_sums() -> None:
    assert products(lowered(small_matrices, (1 << 20, 3, 3), (3, 3))) == 0
