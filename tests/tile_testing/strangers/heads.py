"""Attention of other kinds: it forgets, breaks sticks, mixes heads, buckets distances, sees channels, fills slots."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def make_heads(b: int, t: int, d: int, dtype: torch.dtype = torch.float32) -> Any:
    return tuple(randn(b, t, d, dtype=dtype) for _ in range(3))


def forgetting_ref(q: Any, k: Any, v: Any, gate: Any) -> Any:
    out = []
    for i in range(q.size(0)):
        total = F.logsigmoid(gate[i]).cumsum(0)
        scores = q[i].float() @ k[i].float().T / math.sqrt(q.size(-1)) + total[:, None] - total
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
        out.append(torch.softmax(scores, -1) @ v[i].float())
    return torch.stack(out).to(q.dtype)


@stranger(
    lambda b, t, d, dtype=torch.float32: (*make_heads(b, t, d, dtype), randn(b, t) + 3),
    forgetting_ref,
    {"b": 2, "t": 37, "d": 16},
    {"b": 64, "t": 2048, "d": 64, "dtype": torch.bfloat16},
)
@tileflow.kernel
def forgetting_attention(q, k, v, gate):
    """Lin et al., 2025, arXiv:2503.02130: the running sum of the gates' logarithms is a bias of the scores."""
    b, t, d = q.shape
    decay = torch.empty(b, t, device=q.device)
    for tb in tfl.tile(b):
        decay[tb, :] = torch.cumsum(F.logsigmoid(gate[tb, :]), 1)
    out = torch.empty_like(q)
    for ib, tq in tfl.tile([b, t], block_size=[1, None]):
        i = ib.begin
        query, mine = q[i, tq, :], decay[i, tq]
        top, total, acc = tfl.full([tq], float("-inf")), tfl.zeros([tq]), tfl.zeros([tq, d])
        for tk in tfl.tile(tq.end):
            scores = tfl.dot(query, k[i, tk, :].T) / math.sqrt(d)
            scores = scores + mine[:, None] - decay[i, tk][None, :]
            scores = torch.where(tk.index[None, :] <= tq.index[:, None], scores, float("-inf"))
            high = torch.maximum(top, scores.amax(1))
            p = torch.exp(scores - high[:, None])
            shrink = torch.exp(top - high)
            total = total * shrink + p.sum(1)
            acc = acc * shrink[:, None] + tfl.dot(p.to(v.dtype), v[i, tk, :])
            top = high
        out[i, tq, :] = acc / total[:, None]
    return out


def stick_ref(q: Any, k: Any, v: Any) -> Any:
    out = []
    for i in range(q.size(0)):
        z = q[i].float() @ k[i].float().T / math.sqrt(q.size(-1))
        before = torch.ones_like(z, dtype=torch.bool).tril(-1)
        stay = torch.where(before, F.logsigmoid(-z), 0.0)
        later = stay.flip(1).cumsum(1).flip(1) - stay
        a = torch.where(before, torch.exp(F.logsigmoid(z) + later), 0.0)
        out.append(a @ v[i].float())
    return torch.stack(out).to(q.dtype)


@stranger(make_heads, stick_ref, {"b": 2, "t": 29, "d": 16}, {"b": 128, "t": 512, "d": 64, "dtype": torch.bfloat16})
@tileflow.kernel
def stick_breaking(q, k, v):
    """Tan et al., 2024, arXiv:2410.17980: each key, the nearest first, takes a share of what is left."""
    b, t, d = q.shape
    out = torch.empty_like(q)
    for ib, tq in tfl.tile([b, t], block_size=[1, None]):
        i = ib.begin
        z = (q[i, tq, :] @ k[i, :, :].T).float() / math.sqrt(d)
        before = tfl.arange(t)[None, :] < tq.index[:, None]
        stay = torch.where(before, -F.softplus(z), 0.0)
        later = tfl.cumsum(stay, 1, reverse=True) - stay
        a = torch.where(before, torch.exp(-F.softplus(-z) + later), 0.0)
        out[i, tq, :] = a.to(v.dtype) @ v[i, :, :]
    return out


def talking_ref(q: Any, k: Any, v: Any, before: Any, after: Any) -> Any:
    scores = torch.einsum("bqhd,bkhd->bhqk", q.float(), k.float()) / math.sqrt(q.size(-1))
    p = torch.softmax(torch.einsum("bhqk,hg->bgqk", scores, before), -1)
    return torch.einsum("bgqk,gh,bkhd->bqhd", p, after, v.float()).to(q.dtype)


@stranger(
    lambda b, t, h, d, dtype=torch.float32: (
        *(randn(b, t, h, d, dtype=dtype) for _ in range(3)),
        randn(h, h) * h**-0.5,
        randn(h, h) * h**-0.5,
    ),
    talking_ref,
    {"b": 1, "t": 16, "h": 4, "d": 16},
    {"b": 128, "t": 196, "h": 8, "d": 64, "dtype": torch.float16},
)
@tileflow.kernel
def talking_heads(q, k, v, before, after):
    """Shazeer et al., 2020, arXiv:2003.02436: heads mix before the softmax and after it, in whole rows of keys."""
    b, t, h, d = q.shape
    out = torch.empty_like(q)
    for ib, tq in tfl.tile([b, t], block_size=[1, None]):
        i = ib.begin
        scores = [(q[i, tq, g, :] @ k[i, :, g, :].T).float() / math.sqrt(d) for g in range(h)]
        shares = [torch.softmax(sum(before[f, g] * scores[f] for f in range(h)), -1) for g in range(h)]
        for g in range(h):
            mixed = sum(after[f, g] * shares[f] for f in range(h))
            out[i, tq, g, :] = mixed.to(v.dtype) @ v[i, :, g, :]
    return out


def bucket_of(apart: Any) -> Any:
    """T5's, causal: 16 distances of their own, then 16 that grow to 128."""
    far = 16 + (torch.log(apart.clamp(min=1).float() / 16) / math.log(8) * 16 + 1e-4).int()
    return torch.where(apart < 16, apart, far.clamp(max=31))


def bucket_ref(q: Any, k: Any, v: Any, table: Any) -> Any:
    t = q.size(2)
    apart = torch.arange(t)[:, None] - torch.arange(t)
    bias = table[:, bucket_of(apart.clamp(min=0)).long()]
    scores = (q.float() @ k.float().mT + bias).masked_fill(apart < 0, float("-inf"))
    return (torch.softmax(scores, -1) @ v.float()).to(q.dtype)


@stranger(
    lambda b, h, t, d, dtype=torch.float32: (
        *(randn(b, h, t, d, dtype=dtype) * d**-0.25 for _ in range(3)),
        randn(h, 32),
    ),
    bucket_ref,
    {"b": 1, "h": 2, "t": 41, "d": 16},
    {"b": 8, "h": 12, "t": 1024, "d": 64, "dtype": torch.float16},
)
@tileflow.kernel
def bucketed_attention(q, k, v, table):
    """Raffel et al., 2020, arXiv:1910.10683: no scale, and a learned number for each bucket of distances."""
    b, h, t, d = q.shape
    out = torch.empty_like(q)
    for ib, ih, tq in tfl.tile([b, h, t], block_size=[1, 1, None]):
        i, j = ib.begin, ih.begin
        query = q[i, j, tq, :]
        top, total, acc = tfl.full([tq], float("-inf")), tfl.zeros([tq]), tfl.zeros([tq, d])
        for tk in tfl.tile(0, tq.end):
            apart = tq.index[:, None] - tk.index[None, :]
            bias = table[j, bucket_of(torch.clamp(apart, min=0))]
            scores = tfl.dot(query, k[i, j, tk, :].T) + bias
            scores = torch.where(apart >= 0, scores, float("-inf"))
            high = torch.maximum(top, scores.amax(1))
            p = torch.exp(scores - high[:, None])
            shrink = torch.exp(top - high)
            total = total * shrink + p.sum(1)
            acc = torch.addmm(acc * shrink[:, None], p.to(v.dtype), v[i, j, tk, :])
            top = high
        out[i, j, tq, :] = acc / total[:, None]
    return out


def channels_ref(q: Any, k: Any, v: Any, temperature: Any) -> Any:
    a, b = F.normalize(q.float(), dim=1), F.normalize(k.float(), dim=1)
    p = torch.softmax(a.mT @ b * temperature[:, None, None], -1)
    return (v.float() @ p.mT).to(q.dtype)


@stranger(
    lambda b, t, d, dtype=torch.float32: (*make_heads(b, t, d, dtype), torch.rand(b) + 0.5),
    channels_ref,
    {"b": 3, "t": 37, "d": 16},
    {"b": 512, "t": 784, "d": 64, "dtype": torch.bfloat16},
)
@tileflow.kernel
def channel_attention(q, k, v, temperature):
    """XCiT, arXiv:2106.09681: the softmax is over channels, whose scores are products of whole columns."""
    b, t, d = q.shape
    out = torch.empty_like(q)
    for i in tfl.grid(b):
        scores = tfl.zeros([d, d])
        qq, kk = tfl.zeros([d]), tfl.zeros([d])
        for tt in tfl.tile(t):
            x, y = q[i, tt, :], k[i, tt, :]
            scores = tfl.dot(x.T, y, acc=scores)
            qq += (x.float() ** 2).sum(0)
            kk += (y.float() ** 2).sum(0)
        scores = scores * torch.rsqrt(qq)[:, None] * torch.rsqrt(kk)[None, :] * temperature[i]
        p = torch.softmax(scores, -1).to(v.dtype)
        for tt in tfl.tile(t):
            out[i, tt, :] = v[i, tt, :] @ p.T
    return out


def slots_ref(x: Any, phi: Any) -> Any:
    logits = x.float() @ phi.float()
    return (torch.softmax(logits, 1).mT @ x.float()).to(x.dtype), torch.softmax(logits, 2).to(x.dtype)


@stranger(
    lambda b, t, d, s, dtype=torch.float32: (randn(b, t, d, dtype=dtype), randn(d, s, dtype=dtype) * d**-0.5),
    slots_ref,
    {"b": 2, "t": 21, "d": 16, "s": 8},
    {"b": 64, "t": 576, "d": 768, "s": 64, "dtype": torch.bfloat16},
)
@tileflow.kernel
def soft_dispatch(x, phi):
    """Puigcerver et al., 2023, arXiv:2308.00951: each slot takes a mean of all tokens; the way back beside it."""
    b, t, d = x.shape
    s = phi.size(1)
    slots = torch.empty(b, s, d, dtype=x.dtype, device=x.device)
    combine = torch.empty(b, t, s, dtype=x.dtype, device=x.device)
    logits = torch.empty(b, t, s, device=x.device)
    for ib, tt in tfl.tile([b, t], block_size=[1, None]):
        row = tfl.dot(x[ib.begin, tt, :], phi[:, :])
        logits[ib.begin, tt, :] = row
        combine[ib.begin, tt, :] = torch.softmax(row, -1)
    for ib, td in tfl.tile([b, d], block_size=[1, None]):
        share = torch.softmax(logits[ib.begin, :, :], 0).to(x.dtype)
        slots[ib.begin, :, td] = share.T @ x[ib.begin, :, td]
    return slots, combine
