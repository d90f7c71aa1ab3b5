"""Scaled dot-product attention, forward and backward, without the matrix of scores in memory.

The forward pass keeps a running maximum and a running sum of each query's weights (Milakov and Gimelshein, 2018,
arXiv:1805.02867) and takes keys and values block by block (Dao et al., 2022, arXiv:2205.14135). The backward pass, from
the same paper, makes the weights again from the logarithms of the sums: a softmax passes back
``weights * (grad_weights - delta)``, where ``delta`` is a query's ``sum(out * grad_out)``. Exponentials have the base
2, which is what the hardware computes, so that ``log2(e)`` is part of the scale of the scores.

Causal loops end at a tile's own diagonal: blocks above it are not visited, and only those on it are masked.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

LOG2_E = 1 / math.log(2)


def inputs(
    batch: int,
    heads: int,
    m: int,
    d: int,
    dtype: torch.dtype = torch.bfloat16,
    causal: bool = False,
    with_lse: bool = False,
    device: str = "cpu",
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, bool, bool]:
    """Random queries, keys and values ``(batch, heads, m, d)``, and whether to mask and to return the logarithms of the
    sums."""
    q, k, v = (torch.randn(batch, heads, m, d, dtype=dtype, device=device) for _ in range(3))
    return q, k, v, causal, with_lse


def shared_heads(x: torch.Tensor, heads: int) -> torch.Tensor:
    """Keys or values for each of ``heads`` heads of queries, neighbours of which share one of ``x``."""
    return x if x.size(1) == heads else x.repeat_interleave(heads // x.size(1), dim=1)


def by_key_head(x: torch.Tensor, key_heads: int) -> torch.Tensor:
    """``(batch, heads, ...)`` as ``(batch, key_heads, heads that share one, ...)``."""
    shared: torch.Tensor = x.unflatten(1, (key_heads, group_of(x.size(1), key_heads)))
    return shared


def group_of(heads: int, key_heads: int) -> int:
    """How many heads share one of the keys; none of none."""
    return heads // max(key_heads, 1)


def scaled_scores(q: torch.Tensor, k: torch.Tensor, causal: bool) -> torch.Tensor:
    """``q @ k.mT / sqrt(d)``, ``(batch, heads, m, n)``, negative infinity above the diagonal if ``causal``."""
    scores = q @ shared_heads(k, q.size(1)).mT / math.sqrt(q.size(-1))
    above = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
    return scores.masked_fill(above, float("-inf")) if causal else scores


def reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, with_lse: bool = False) -> Any:
    """torch's attention; ``with_lse`` also ``(batch, heads, m)``, the logarithm of each query's sum of exponentials."""
    out = F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.size(1) != k.size(1))
    return (out, torch.logsumexp(scaled_scores(q, k, causal), dim=-1)) if with_lse else out


def absorb(peak, total, acc, scores, value, scale):  # type: ignore[no-untyped-def]
    """The online softmax of one more block of keys: rescale what there is to the new maximum, and add the block."""
    new_peak = torch.maximum(peak, torch.amax(scores, dim=1) * scale)
    weights = torch.exp2(scores * scale - new_peak[:, None])
    shrink = torch.exp2(peak - new_peak)
    acc = tfl.dot(weights.to(value.dtype), value, acc=acc * shrink[:, None])
    return new_peak, total * shrink + weights.sum(dim=1), acc


@tileflow.kernel(inputs=inputs, reference=reference)
def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, with_lse: bool = False
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """(batch, heads, m, d) by (batch, key heads, n, d), neighbouring heads sharing keys where there are fewer of them.
    ``with_lse``: also, for each query, the logarithm of the sum of the exponentials of its scores, in float32, which
    the backward pass takes. The output lies in memory as the queries do."""
    heads, m, d = q.shape[1:]
    batch, key_heads, n, _ = k.shape
    assert not causal or m == n, "causal attention is of as many queries as keys"
    out = torch.empty_like(q)
    lse = torch.empty(batch, heads, m if with_lse else 0, dtype=torch.float32, device=q.device)
    q, out, lse = (by_key_head(x, key_heads) for x in (q, out, lse))
    block_n = tfl.register_block_size(n)
    group = group_of(heads, key_heads)
    for row, head, member, tile_m in tfl.tile([batch, key_heads, group, m], block_size=[1, 1, 1, None]):
        at, keys = (row.begin, head.begin, member.begin), (row.begin, head.begin)
        scale = 1 / (math.log(2) * math.sqrt(k.size(3)))  # here a constant, where sizes are
        query = q[*at, tile_m, :]
        peak, total = tfl.full([tile_m], float("-inf")), tfl.zeros([tile_m])
        acc = tfl.zeros([tile_m, d])
        for tile_n in tfl.tile(tile_m.end if causal else n, block_size=block_n):
            scores = tfl.dot(query, k[*keys, tile_n, :].T)
            if causal and tile_n.end > tile_m.begin:
                scores = torch.where(tile_m.index[:, None] >= tile_n.index[None, :], scores, float("-inf"))
            peak, total, acc = absorb(peak, total, acc, scores, v[*keys, tile_n, :], scale)
        out[*at, tile_m, :] = acc / total[:, None]
        if with_lse:
            lse[*at, tile_m] = (peak + torch.log2(total)) * math.log(2)
    out = out.flatten(1, 2)
    return (out, lse.flatten(1, 2)) if with_lse else out


def backward_inputs(
    batch: int,
    heads: int,
    m: int,
    d: int,
    dtype: torch.dtype = torch.bfloat16,
    causal: bool = False,
    device: str = "cpu",
) -> tuple[Any, ...]:
    """The forward pass's inputs and results, and a random gradient of its output."""
    q, k, v, *_ = inputs(batch, heads, m, d, dtype, device=device)
    out, lse = reference(q.float(), k.float(), v.float(), causal, with_lse=True)
    # torch's own attention may return a transposed tensor, by device
    return q, k, v, out.to(dtype).contiguous(), lse, torch.randn_like(q), causal


def backward_reference(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    grad_out: torch.Tensor,
    causal: bool,
) -> tuple[torch.Tensor, ...]:
    """By the chain rule over whole matrices, from the same ``out`` and ``lse`` as the kernel."""
    k, v = shared_heads(k, q.size(1)), shared_heads(v, q.size(1))
    weights = torch.exp(scaled_scores(q, k, causal) - lse[..., None]).to(q.dtype)
    grad_scores = weights * (grad_out @ v.mT - (out * grad_out).sum(-1, keepdim=True)) / math.sqrt(q.size(-1))
    return grad_scores @ k, grad_scores.mT @ q, weights.mT @ grad_out


def empty_gradient(x: torch.Tensor, heads: int) -> torch.Tensor:
    """Memory for a gradient of keys or values by each of ``heads`` heads of queries, which lies as ``x`` does where no
    two share."""
    return torch.empty_like(x) if x.size(1) == heads else x.new_empty(x.size(0), heads, x.size(2), x.size(3))


@tileflow.kernel(inputs=backward_inputs, reference=backward_reference)
def attention_backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    grad_out: torch.Tensor,
    causal: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Three launches: ``delta``, and ``lse`` in powers of two; the gradients of keys and values, a tile of keys over
    all queries; that of queries."""
    heads, m, d = q.shape[1:]
    batch, key_heads, n, _ = k.shape
    assert not causal or m == n, "causal attention is of as many queries as keys"
    delta, lse2 = torch.empty_like(lse), torch.empty_like(lse)
    grad_q, grad_k, grad_v = torch.empty_like(q), empty_gradient(k, heads), empty_gradient(v, heads)
    scale, sizes = 1 / math.sqrt(d), [batch, key_heads, group_of(heads, key_heads)]
    q, k, v, out, lse, grad_out, delta, lse2, grad_q, grad_k, grad_v = (
        by_key_head(x, key_heads) for x in (q, k, v, out, lse, grad_out, delta, lse2, grad_q, grad_k, grad_v)
    )

    for row, head, member, tile_m in tfl.tile([*sizes, m], block_size=[1, 1, 1, None]):
        at = (row.begin, head.begin, member.begin)
        delta[*at, tile_m] = (out[*at, tile_m, :].float() * grad_out[*at, tile_m, :]).sum(dim=1)
        lse2[*at, tile_m] = lse[*at, tile_m] * LOG2_E

    block_m = tfl.register_block_size(m)
    for row, head, member, tile_n in tfl.tile([*sizes, n], block_size=[1, 1, 1, None]):
        at, keys = (row.begin, head.begin, member.begin), (row.begin, head.begin, 0)
        key, value = k[*keys, tile_n, :], v[*keys, tile_n, :]
        sum_k, sum_v = tfl.zeros([tile_n, d]), tfl.zeros([tile_n, d])
        for tile_m in tfl.tile(tile_n.begin if causal else 0, m, block_size=block_m):
            query, grad = q[*at, tile_m, :], grad_out[*at, tile_m, :]
            scores = tfl.dot(key, query.T) * (scale * LOG2_E)
            weights = torch.exp2(scores - lse2[*at, tile_m][None, :])
            if causal and tile_m.begin < tile_n.end:
                weights = torch.where(tile_m.index[None, :] >= tile_n.index[:, None], weights, 0.0)
            inner = weights * (tfl.dot(value, grad.T) - delta[*at, tile_m][None, :])
            sum_v = tfl.dot(weights.to(grad.dtype), grad, acc=sum_v)
            sum_k = tfl.dot(inner.to(query.dtype), query, acc=sum_k)
        grad_k[*at, tile_n, :] = sum_k * scale
        grad_v[*at, tile_n, :] = sum_v

    block_n = tfl.register_block_size(n)
    for row, head, member, tile_m in tfl.tile([*sizes, m], block_size=[1, 1, 1, None]):
        at, keys = (row.begin, head.begin, member.begin), (row.begin, head.begin, 0)
        query, grad = q[*at, tile_m, :], grad_out[*at, tile_m, :]
        row_lse, row_delta = lse2[*at, tile_m][:, None], delta[*at, tile_m][:, None]
        sum_q = tfl.zeros([tile_m, d])
        for tile_n in tfl.tile(tile_m.end if causal else n, block_size=block_n):
            key, value = k[*keys, tile_n, :], v[*keys, tile_n, :]
            weights = torch.exp2(tfl.dot(query, key.T) * (scale * LOG2_E) - row_lse)
            if causal and tile_n.end > tile_m.begin:
                weights = torch.where(tile_m.index[:, None] >= tile_n.index[None, :], weights, 0.0)
            inner = weights * (tfl.dot(grad, value.T) - row_delta)
            sum_q = tfl.dot(inner.to(key.dtype), key, acc=sum_q)
        grad_q[*at, tile_m, :] = sum_q * scale
    return grad_q.flatten(1, 2), grad_k.flatten(1, 2), grad_v.flatten(1, 2)


@tileflow.kernel(inputs=backward_inputs, reference=backward_reference)
def attention_backward_fused(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    grad_out: torch.Tensor,
    causal: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """:func:`attention_backward` with one launch for all three gradients, of five products in place of seven: a tile of
    keys adds to the gradients of all its queries, in float32 and in any order, as FlashAttention-3 does (Shah et al.,
    2024, arXiv:2407.08608). Launches before and behind it write zeros for the sums, and round them."""
    heads, m, d = q.shape[1:]
    batch, key_heads, n, _ = k.shape
    assert not causal or m == n, "causal attention is of as many queries as keys"
    delta, lse2 = torch.empty_like(lse), torch.empty_like(lse)
    sum_q = torch.empty(q.shape, dtype=torch.float32, device=q.device)
    grad_q, grad_k, grad_v = torch.empty_like(q), empty_gradient(k, heads), empty_gradient(v, heads)
    scale, sizes = 1 / math.sqrt(d), [batch, key_heads, group_of(heads, key_heads)]
    q, k, v, out, lse, grad_out, delta, lse2, sum_q, grad_q, grad_k, grad_v = (
        by_key_head(x, key_heads) for x in (q, k, v, out, lse, grad_out, delta, lse2, sum_q, grad_q, grad_k, grad_v)
    )

    for row, head, member, tile_m in tfl.tile([*sizes, m], block_size=[1, 1, 1, None]):
        at = (row.begin, head.begin, member.begin)
        delta[*at, tile_m] = (out[*at, tile_m, :].float() * grad_out[*at, tile_m, :]).sum(dim=1)
        lse2[*at, tile_m] = lse[*at, tile_m] * LOG2_E
        sum_q[*at, tile_m, :] = tfl.zeros([tile_m, d])

    block_m = tfl.register_block_size(m)
    for row, head, member, tile_n in tfl.tile([*sizes, n], block_size=[1, 1, 1, None]):
        at, keys = (row.begin, head.begin, member.begin), (row.begin, head.begin, 0)
        key, value = k[*keys, tile_n, :], v[*keys, tile_n, :]
        sum_k, sum_v = tfl.zeros([tile_n, d]), tfl.zeros([tile_n, d])
        for tile_m in tfl.tile(tile_n.begin if causal else 0, m, block_size=block_m):
            query, grad = q[*at, tile_m, :], grad_out[*at, tile_m, :]
            scores = tfl.dot(key, query.T) * (scale * LOG2_E)
            weights = torch.exp2(scores - lse2[*at, tile_m][None, :])
            if causal and tile_m.begin < tile_n.end:
                weights = torch.where(tile_m.index[None, :] >= tile_n.index[:, None], weights, 0.0)
            inner = weights * (tfl.dot(value, grad.T) - delta[*at, tile_m][None, :])
            sum_v = tfl.dot(weights.to(grad.dtype), grad, acc=sum_v)
            inner = inner.to(query.dtype)
            tfl.atomic_add(sum_q, [*at, tile_m, slice(None)], tfl.dot(inner.T, key))
            sum_k = tfl.dot(inner, query, acc=sum_k)
        grad_k[*at, tile_n, :] = sum_k * scale
        grad_v[*at, tile_n, :] = sum_v

    for row, head, member, tile_m in tfl.tile([*sizes, m], block_size=[1, 1, 1, None]):
        at = (row.begin, head.begin, member.begin)
        grad_q[*at, tile_m, :] = sum_q[*at, tile_m, :] * scale
    return grad_q.flatten(1, 2), grad_k.flatten(1, 2), grad_v.flatten(1, 2)
