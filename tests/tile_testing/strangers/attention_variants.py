"""Attention as papers vary it."""

from __future__ import annotations

import math
from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger

SMALL, LARGE = {"h": 3, "t": 37, "d": 16}, {"h": 64, "t": 4096, "d": 128, "dtype": torch.bfloat16}


def make_qkv(h: int, t: int, d: int, dtype: torch.dtype = torch.float32) -> tuple[Any, ...]:
    return tuple(randn(h, t, d, dtype=dtype) for _ in range(3))


def capped(q: Any, k: Any, v: Any, cap: float = 20.0) -> torch.Tensor:
    scores = torch.tanh(q.float() @ k.float().mT / math.sqrt(q.size(-1)) / cap) * cap
    above = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
    return (torch.softmax(scores.masked_fill(above, float("-inf")), -1) @ v.float()).to(q.dtype)


@stranger(make_qkv, capped, SMALL, LARGE)
@tileflow.kernel
def softcapped_attention(q, k, v, cap=20.0):
    """Causal, with scores kept small by tanh (Gemma 2, arXiv:2408.00118)."""
    heads, t, d = q.shape
    out = torch.empty_like(q)
    for head, rows in tfl.tile([heads, t], block_size=[1, None]):
        query = q[head.begin, rows, :]
        top, total, acc = tfl.full([rows], float("-inf")), tfl.zeros([rows]), tfl.zeros([rows, d])
        for others in tfl.tile(rows.end):
            scores = tfl.dot(query, k[head.begin, others, :].T) * (1 / math.sqrt(d))
            scores = torch.tanh(scores / cap) * cap
            scores = torch.where(rows.index[:, None] >= others.index[None, :], scores, float("-inf"))
            high = torch.maximum(top, scores.amax(1))
            weights, shrink = torch.exp(scores - high[:, None]), torch.exp(top - high)
            total = total * shrink + weights.sum(1)
            acc = tfl.dot(weights.to(v.dtype), v[head.begin, others, :], acc=acc * shrink[:, None])
            top = high
        out[head.begin, rows, :] = acc / total[:, None]
    return out


def sigmoid_scores(q: Any, k: Any, v: Any) -> torch.Tensor:
    scores = q.float() @ k.float().mT / math.sqrt(q.size(-1)) - math.log(k.size(1))
    return (torch.sigmoid(scores) @ v.float()).to(q.dtype)


@stranger(make_qkv, sigmoid_scores, SMALL, LARGE)
@tileflow.kernel
def sigmoid_attention(q, k, v):
    """No sums over keys (Ramapuram et al., 2024, arXiv:2409.04431)."""
    heads, t, d = q.shape
    out = torch.empty_like(q)
    bias = math.log(k.size(1))
    for head, rows in tfl.tile([heads, t], block_size=[1, None]):
        acc = tfl.zeros([rows, d])
        for others in tfl.tile(k.size(1)):
            scores = tfl.dot(q[head.begin, rows, :], k[head.begin, others, :].T)
            weights = torch.sigmoid(scores / math.sqrt(d) - bias)
            acc = tfl.dot(weights.to(v.dtype), v[head.begin, others, :], acc=acc)
        out[head.begin, rows, :] = acc
    return out


def make_biased(h: int, t: int, d: int, dtype: torch.dtype = torch.float32) -> tuple[Any, ...]:
    return *make_qkv(h, t, d, dtype), 2.0 ** -(8 * (torch.arange(h).float() + 1) / h)


def alibi(q: Any, k: Any, v: Any, slopes: Any) -> torch.Tensor:
    place = torch.arange(q.size(1), device=q.device)
    scores = q.float() @ k.float().mT / math.sqrt(q.size(-1))
    scores = scores - slopes[:, None, None] * (place[:, None] - place[None, :]).abs()
    return (torch.softmax(scores, -1) @ v.float()).to(q.dtype)


@stranger(make_biased, alibi, SMALL, LARGE)
@tileflow.kernel
def alibi_attention(q, k, v, slopes):
    """Press et al., 2021, arXiv:2108.12409."""
    heads, t, d = q.shape
    out = torch.empty_like(q)
    for head, rows in tfl.tile([heads, t], block_size=[1, None]):
        slope, query = slopes[head.begin], q[head.begin, rows, :]
        top, total, acc = tfl.full([rows], float("-inf")), tfl.zeros([rows]), tfl.zeros([rows, d])
        for others in tfl.tile(t):
            apart = (rows.index[:, None] - others.index[None, :]).abs()
            scores = tfl.dot(query, k[head.begin, others, :].T) * (1 / math.sqrt(d)) - slope * apart
            high = torch.maximum(top, scores.amax(1))
            weights, shrink = torch.exp(scores - high[:, None]), torch.exp(top - high)
            total = total * shrink + weights.sum(1)
            acc = tfl.dot(weights.to(v.dtype), v[head.begin, others, :], acc=acc * shrink[:, None])
            top = high
        out[head.begin, rows, :] = acc / total[:, None]
    return out


def make_sinks(h: int, t: int, d: int, window: int, dtype: torch.dtype = torch.float32) -> tuple[Any, ...]:
    return *make_qkv(h, t, d, dtype), randn(h), window


def with_sinks(q: Any, k: Any, v: Any, sink: Any, window: int) -> torch.Tensor:
    i = torch.arange(q.size(1), device=q.device)
    keep = (i[None, :] <= i[:, None]) & (i[None, :] > i[:, None] - window)
    scores = (q.float() @ k.float().mT / math.sqrt(q.size(-1))).masked_fill(~keep, float("-inf"))
    more = torch.cat([scores, sink.float()[:, None, None].expand(-1, q.size(1), 1)], -1)
    return (torch.softmax(more, -1)[..., :-1] @ v.float()).to(q.dtype)


@stranger(make_sinks, with_sinks, SMALL | {"window": 9}, LARGE | {"window": 512})
@tileflow.kernel
def sink_attention(q, k, v, sink, window):
    """A window, and a learned logit that takes weight and gives nothing (gpt-oss; arXiv:2309.17453)."""
    heads, t, d = q.shape
    out = torch.empty_like(q)
    for head, rows in tfl.tile([heads, t], block_size=[1, None]):
        top = tfl.zeros([rows]) + sink[head.begin]
        total, acc = tfl.zeros([rows]) + 1.0, tfl.zeros([rows, d])
        for others in tfl.tile(max(rows.begin - window + 1, 0), rows.end):
            scores = tfl.dot(q[head.begin, rows, :], k[head.begin, others, :].T) * (1 / math.sqrt(d))
            apart = rows.index[:, None] - others.index[None, :]
            scores = torch.where((apart >= 0) & (apart < window), scores, float("-inf"))
            high = torch.maximum(top, scores.amax(1))
            weights, shrink = torch.exp(scores - high[:, None]), torch.exp(top - high)
            total = total * shrink + weights.sum(1)
            acc = tfl.dot(weights.to(v.dtype), v[head.begin, others, :], acc=acc * shrink[:, None])
            top = high
        out[head.begin, rows, :] = acc / total[:, None]
    return out


def make_lengths(h: int, t: int, n: int, d: int, dtype: torch.dtype = torch.float32) -> tuple[Any, ...]:
    return randn(h, t, d, dtype=dtype), randn(h, n, d, dtype=dtype), torch.randint(1, n + 1, (h,), dtype=torch.int32)


def squared(q: Any, k: Any, lengths: Any) -> torch.Tensor:
    there = torch.arange(k.size(1), device=q.device)[None, None, :] < lengths[:, None, None]
    scores = torch.relu(q.float() @ k.float().mT / math.sqrt(q.size(-1))) ** 2
    return (scores.masked_fill(~there, 0.0) @ k.float() / lengths[:, None, None]).to(q.dtype)


@stranger(make_lengths, squared, {"h": 3, "t": 21, "n": 37, "d": 16},
          {"h": 64, "t": 2048, "n": 2048, "d": 128, "dtype": torch.bfloat16})  # fmt: skip
@tileflow.kernel
def squared_relu_attention(q, k, lengths):
    """Keys that are their own values, a different number for each head (arXiv:2109.08668)."""
    heads, t, d = q.shape
    out = torch.empty_like(q)
    for head, rows in tfl.tile([heads, t], block_size=[1, None]):
        length = lengths[head.begin]
        acc = tfl.zeros([rows, d])
        for others in tfl.tile(length):
            key = k[head.begin, others, :]
            scores = torch.relu(tfl.dot(q[head.begin, rows, :], key.T) / math.sqrt(d))
            acc = tfl.dot((scores * scores).to(key.dtype), key, acc=acc)
        out[head.begin, rows, :] = acc / length
    return out
