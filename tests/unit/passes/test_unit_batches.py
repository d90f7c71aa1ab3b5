"""Products whose batches are of the size 1: a constant one, or one that the config chooses."""

from __future__ import annotations

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.target import target

H200 = target("nvidia-h200")


def half(*shape: int) -> torch.Tensor:
    return torch.empty(shape, dtype=torch.float16, device="meta")


@tileflow.kernel
def of_four_dimensions(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    b, h, m, d = q.shape
    out = torch.empty_like(q)
    for tb, th, tm in tfl.tile([b, h, m], block_size=[1, 1, None]):
        highest = tfl.full([tb, th, tm], float("-inf"))
        total = torch.zeros_like(highest)
        acc = tfl.zeros([tb, th, tm, d])
        for tn in tfl.tile(k.size(2)):
            scores = torch.matmul(q[tb, th, tm, :], k[tb, th, tn, :].transpose(-1, -2)).float()
            new = torch.maximum(highest, scores.amax(-1))
            weights = torch.exp(scores - new[..., None])
            scale = torch.exp(highest - new)
            total = total * scale + weights.sum(-1)
            acc = acc * scale[..., None] + torch.matmul(weights.to(v.dtype), v[tb, th, tn, :])
            highest = new
        out[tb, th, tm, :] = (acc / total[..., None]).to(out.dtype)
    return out


@tileflow.kernel
def of_three(x: torch.Tensor, y: torch.Tensor, flag: torch.Tensor) -> torch.Tensor:
    b, m, k = x.shape
    out = torch.empty(b, m, y.size(2))
    for tb, tm, tn in tfl.tile(out.shape):
        acc = tfl.zeros([tb, tm, tn])
        for tk in tfl.tile(k):
            acc = torch.baddbmm(acc, x[tb, tm, tk], y[tb, tk, tn])
        if flag[0] > 0:
            acc = acc * 2
        out[tb, tm, tn] = acc - acc.mean(0, keepdim=True) / 2
    return out


def test_a_constant_size_leaves_no_trace() -> None:
    lowered = of_four_dimensions.lower([half(2, 3, 64, 32)] * 3, H200)
    (ir,) = lowered.regions
    inside = [op for op in ir.walk() for v in op.values if op.kind != "reshape" and len(v.dims) > 2]
    assert not inside and not [op for op in ir.walk() if op.kind == "reshape"]


@pytest.mark.parametrize("size", [1, 2])
def test_a_chosen_size_leaves_none_where_it_is_one(size: int) -> None:
    lowered = of_three.lower((half(4, 64, 64), half(4, 64, 64), torch.empty(1, device="meta")), H200)
    config = lowered.space.repair(lowered.default.with_({"block:tb": size}))
    assert config["block:tb"] == size
    (source,) = lowered.emit(config)
    products = [line for line in source.text.splitlines() if "tl.dot(" in line]
    sums = [line for line in source.text.splitlines() if "tl.full([" in line]
    assert len(products) == 1
    assert all(("BLOCK_TB" in line) == (size > 1) for line in sums)


def test_chained_products_take_one_batch() -> None:
    """Of several, no warp group could multiply."""

    @tileflow.kernel
    def scores_times_values(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(q)
        for tb, tm in tfl.tile([q.size(0), q.size(1)]):
            acc = tfl.zeros([tb, tm, q.size(2)])
            for tn in tfl.tile(k.size(1)):
                s = torch.bmm(q[tb, tm, :], k[tb, tn, :].transpose(1, 2))
                acc = torch.baddbmm(acc, s, v[tb, tn, :])
            out[tb, tm, :] = acc
        return out

    default = scores_times_values.lower([half(64, 1024, 64)] * 3, H200).default
    assert default["block:tb"] == 1
    assert default["block:tm"] >= 64 and default["block:tn"] >= 64


def test_chained_products_need_no_loop() -> None:
    @tileflow.kernel
    def once(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        out = torch.zeros(q.shape, device=q.device)
        for tm, tn in tfl.tile([q.size(0), k.size(0)]):
            s = tfl.dot(q[tm, :], k[tn, :].T)
            tfl.atomic_add(out, [tm, slice(None)], tfl.dot(s.half(), v[tn, :]))
        return out

    assert once.lower([half(1024, 64)] * 3, H200).default["block:tm"] >= 64


@tileflow.kernel
def over_heads(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    out = x.new_empty(x.size(0), w.size(2))
    for s, d in tfl.tile(out.shape):
        acc = tfl.zeros([s, d])
        for h in tfl.tile(x.size(1)):
            acc += (x[s, h, :].transpose(0, 1) @ w[h, :, d]).sum(0)
        out[s, d] = acc
    return out


@pytest.mark.parametrize("block", [1, 4])
def test_a_sum_over_one_matrix_is_that_matrix(block: int) -> None:
    """It stood between the product and the loop's sums, which the matrix unit then did not add to."""
    lowered = over_heads.lower([half(256, 8, 64), half(8, 64, 128)], H200)
    config = lowered.space.repair(lowered.default.with_({"block:h": block}))
    (source,) = lowered.emit(config)
    assert config["block:h"] == block and ("tl.sum" in source.text) == (block > 1)
