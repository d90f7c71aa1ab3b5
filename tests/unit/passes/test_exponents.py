"""Exponents of scores: which become one multiply-add, and which stay, each for a reason."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.ir.attributes import PointwiseAttrs
from tileflow.ir.graph import KernelIR
from tileflow.ir.kinds import OpKind
from tileflow.ir.verify import verify
from tileflow.target import target

H200 = target("nvidia-h200")
HALVES = tuple(torch.empty(128, 64, dtype=torch.bfloat16, device="meta") for _ in range(3))
FLOATS = tuple(torch.empty(128, 64, device="meta") for _ in range(3))
MASK = torch.empty(128, 128, device="meta")


def of(ir: KernelIR) -> list[str]:
    """The functions of tiles of scores in the loop, branches left out, in order."""
    (loop,) = (op for op in ir.walk() if op.kind is OpKind.FOR)
    found = []
    for op in loop.regions[0].ops:
        if op.kind is OpKind.POINTWISE and {d.tile for d in op.output.dims} == {"tm", "tn"}:
            found.append(PointwiseAttrs.of(op).fn)
    return found


def attention(score: Callable[..., Any], base: str = "exp", mode: str = "static", args: Any = HALVES) -> KernelIR:
    """``score``: of the product, the tiles, a mask in memory, and a number of the call."""
    power = getattr(torch, base)

    @tileflow.kernel
    def attend(q, k, v, mask, scale: float):
        out = torch.empty_like(q)
        for tm in tfl.tile(q.size(0)):
            top, total, acc = tfl.full([tm], float("-inf")), tfl.zeros([tm]), tfl.zeros([tm, v.size(1)])
            for tn in tfl.tile(k.size(0)):
                s = score(tfl.dot(q[tm, :], k[tn, :].T), tm, tn, mask, scale)
                new = torch.maximum(top, s.amax(1))
                p, shrink = power(s - new[:, None]), power(top - new)
                total = total * shrink + p.sum(1)
                acc = tfl.dot(p.to(v.dtype), v[tn, :], acc=acc * shrink[:, None])
                top = new
            out[tm, :] = (acc / total[:, None]).to(out.dtype)
        return out

    (ir,) = attend.lower((*args, MASK, 0.5), H200, mode=mode).regions
    verify(ir, "the passes")
    return ir


def causal(tm: Any, tn: Any) -> Any:
    return tm.index[:, None] >= tn.index[None, :]


FUSED = {
    "a product": lambda s, m, n, *_: s,
    "scaled": lambda s, m, n, *_: s * 0.125,
    "divided": lambda s, m, n, *_: s / math.sqrt(64),
    "scaled, then masked": lambda s, m, n, *_: torch.where(causal(m, n), s * 0.1, float("-inf")),
    "scaled, then filled": lambda s, m, n, *_: (s * 0.1).masked_fill(~causal(m, n), float("-inf")),
    "masked, then scaled": lambda s, m, n, *_: torch.where(causal(m, n), s, float("-inf")) * 0.1,
}


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("base", ["exp", "exp2"])
@pytest.mark.parametrize("name", FUSED)
def test_an_exponent_is_a_multiply_add(name: str, base: str, mode: str) -> None:
    """The scale, the difference and the change of base were three."""
    wanted = ["sub", "exp2"] if name == "a product" and base == "exp2" else ["mul", "sub", "exp2"]
    assert of(attention(FUSED[name], base, mode)) == wanted


def test_a_mask_between_scale_and_maximum_stays_behind_the_scale_that_waits() -> None:
    """The author's own branch passes it on."""

    def branched(s: Any, tm: Any, tn: Any, *_: Any) -> Any:
        s = s * 0.1
        if tn.end > tm.begin:
            s = torch.where(causal(tm, tn), s, float("-inf"))
        return s

    assert of(attention(branched)) == ["mul", "sub", "exp2"]


NOT_SUNK = {
    "by a negative number": (lambda s, m, n, *_: s * -0.5, ["mul", "mul", "sub", "exp2"]),
    "a bounded score": (lambda s, m, n, *_: torch.tanh(s) * 30.0 + 1.0, ["tanh", "mul", "add", "mul", "sub", "exp2"]),
}


@pytest.mark.parametrize("name", NOT_SUNK)
def test_another_scale_stays_above_the_maximum(name: str) -> None:
    score, wanted = NOT_SUNK[name]
    assert of(attention(score)) == wanted


STAY = {
    "masked by a large number": lambda s, m, n, *_: torch.where(causal(m, n), s * 0.1, -1e30),
    "with a mask in memory": lambda s, m, n, mask, _: s * 0.1 + mask[m, n],
    "by a number of the call": lambda s, m, n, mask, scale: s * scale,
    "by a temperature of the call": lambda s, m, n, mask, scale: s / scale,
    "by a large number": lambda s, m, n, *_: s * 1e9,
    "with a number in memory": lambda s, m, n, mask, _: s * 0.1 + mask[0, 0],
    "with a mask that the product adds to": lambda s, m, n, mask, _: s + mask[m, n],
    "with a bias of positions": lambda s, m, n, *_: s * 0.1 + (m.index[:, None] - n.index[None, :]).float(),
}


@pytest.mark.parametrize("name", STAY)
def test_what_may_be_large_without_the_product_stays(name: str) -> None:
    """The rounding of a difference of large numbers would be its result."""
    assert of(attention(STAY[name]))[-2:] == ["sub", "exp"]


def test_scores_of_float32_stay() -> None:
    assert of(attention(FUSED["scaled"], args=FLOATS)) == ["mul", "sub", "exp"]


def test_a_scale_that_something_else_reads_stays() -> None:
    @tileflow.kernel
    def attend(q, k, v):
        out, scores = torch.empty_like(q), torch.empty(q.size(0), k.size(0), device=q.device)
        for tm in tfl.tile(q.size(0)):
            top, acc = tfl.full([tm], float("-inf")), tfl.zeros([tm, v.size(1)])
            for tn in tfl.tile(k.size(0)):
                s = tfl.dot(q[tm, :], k[tn, :].T) * 0.125
                scores[tm, tn] = s
                top = torch.maximum(top, s.amax(1))
                acc = tfl.dot(torch.exp(s - top[:, None]).to(v.dtype), v[tn, :], acc=acc)
            out[tm, :] = acc.to(out.dtype)
        return out, scores

    (ir,) = attend.lower(HALVES, H200).regions
    assert of(ir) == ["mul", "mul", "sub", "exp2"]
