"""Ranges of a few turns: products count for what they take to compile."""

from __future__ import annotations

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.errors import MissingAttribute
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


def test_products_that_are_normalised_each_are_a_loop() -> None:
    """16 heads' scores with a softmax each: 15 s to compile as one text, with 3424 bytes a thread spilled; 6.6 s and
    none as a loop, 1.3 s where tiles are smaller."""

    @tileflow.kernel
    def of_heads(q, means):
        heads, t, _ = q.shape
        out = torch.empty(t, means.size(0), device=q.device)
        for tile in tfl.tile(t):
            total = tfl.zeros([tile, means.size(0)])
            for head in range(heads):
                total += torch.softmax(tfl.dot(q[head, tile, :], means[:, :].T), 1)
            out[tile, :] = total
        return out

    def loops(heads: int) -> list[OpKind]:
        like = (torch.empty(shape, dtype=torch.float16, device="meta") for shape in ((heads, 4096, 64), (128, 64)))
        (ir,) = of_heads.lower(tuple(like), H200).regions
        return [op.kind for op in ir.walk() if op.kind is OpKind.FOR]

    assert loops(16) == [OpKind.FOR] and not loops(8)


@pytest.mark.parametrize(("width", "is_loop"), [(64, False), (32000, True)])
def test_turns_that_reduce_long_rows_are_a_loop(width: int, is_loop: bool) -> None:
    """Eight layers' distributions over 32000 words: 58 s to compile as one text, with 5856 bytes a thread spilled."""

    @tileflow.kernel
    def furthest_layer(last, early):
        layers, n, _ = early.shape
        out = torch.empty(n, device=last.device)
        for t in tfl.tile(n):
            p = torch.log_softmax(last[t, :], 1)
            most = tfl.full([t], -1.0)
            for j in range(layers):
                q = torch.log_softmax(early[j, t, :], 1)
                most = torch.maximum(most, (p.exp() * (p - q)).sum(1) + (q.exp() * (q - p)).sum(1))
            out[t] = most
        return out

    like = (torch.empty(shape, device="meta") for shape in ((256, width), (8, 256, width)))
    (ir,) = furthest_layer.lower(tuple(like), H200).regions
    assert any(op.kind is OpKind.FOR for op in ir.walk()) is is_loop


def test_values_are_the_text_s() -> None:
    iq, cos, sin = torch.randn(16, 16, 20), torch.randn(16, 16), torch.randn(16, 16)
    torch.testing.assert_close(powers(iq, cos, sin), powers.run_eagerly(iq, cos, sin), atol=1e-2, rtol=1e-3)


@tileflow.kernel
def delayed(x, history):
    out = torch.empty_like(x)
    for t in tfl.tile(x.size(1)):
        rows = [x[i, t] for i in range(x.size(0))]
        for i in range(history.size(0)):
            out[i, t] = rows[i] * 2
    return out


@tileflow.kernel
def summed(x, history):
    out = torch.empty_like(x[0])
    for t in tfl.tile(x.size(1)):
        total = tfl.zeros([t])
        for i in range(history.size(0)):
            total += x[i, t]
        out[t] = total
    return out


def test_turns_by_a_small_size_that_only_python_can_take_are_written_out() -> None:
    """In dynamic mode the list's index was refused, which a static size takes."""
    x, history = torch.randn(4, 40), torch.empty(4)
    lowered = delayed.lower((x, history), H200, mode="dynamic")
    assert not any(op.kind is OpKind.FOR for op in lowered.regions[0].walk())
    torch.testing.assert_close(delayed.run_eagerly(x, history), 2 * x)


def test_others_by_a_size_are_a_loop() -> None:
    lowered = summed.lower((torch.randn(4, 40), torch.empty(4)), H200, mode="dynamic")
    assert any(op.kind is OpKind.FOR for op in lowered.regions[0].walk())


def test_turns_that_are_wrong_either_way_are_refused_once_in_the_words_of_the_loop() -> None:
    @tileflow.kernel
    def wrong(x, history):
        out = torch.empty_like(x)
        for t in tfl.tile(x.size(1)):
            for i in range(history.size(0)):
                out[i, t] = x[i, t].no_such_method()
        return out

    with pytest.raises(MissingAttribute, match="no_such_method"):
        wrong.lower((torch.randn(4, 40), torch.empty(4)), H200, mode="dynamic")
