"""Ranges of a few turns: products count for what they take to compile."""

from __future__ import annotations

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.ir.kinds import OpKind
from tileflow.target import target

H200 = target("nvidia-h200")


@tileflow.kernel
def powers(iq, cos, sin):
    """Two products of each turn by two matrices, as of a transform."""
    turns, p, r = iq.shape
    out = torch.empty(p, r, device=iq.device)
    for tile in tfl.tile(r):
        first, second, total = cos[:, :], sin[:, :], tfl.zeros([p, tile])
        for turn in range(turns):
            x = iq[turn, :, tile]
            real = tfl.dot(first, x) - tfl.dot(second, x * 2)
            imaginary = tfl.dot(first, x * 2) + tfl.dot(second, x)
            total += real * real + imaginary * imaginary
        out[:, tile] = total
    return out


@pytest.mark.parametrize(("turns", "products"), [(4, 16), (8, 32), (16, 4)])
def test_a_text_of_many_products_is_a_loop(turns: int, products: int) -> None:
    """64 products in one text took a minute to compile, and as a loop seconds."""
    like = (torch.empty(shape, dtype=torch.float16, device="meta") for shape in ((turns, 64, 4096), (64, 64), (64, 64)))
    (ir,) = powers.lower(tuple(like), H200).regions
    assert sum(op.kind is OpKind.DOT for op in ir.walk()) == products
    assert any(op.kind is OpKind.FOR for op in ir.walk()) is (products == 4)


def test_values_are_the_text_s() -> None:
    iq, cos, sin = torch.randn(16, 16, 20), torch.randn(16, 16), torch.randn(16, 16)
    torch.testing.assert_close(powers(iq, cos, sin), powers.run_eagerly(iq, cos, sin), atol=1e-2, rtol=1e-3)
