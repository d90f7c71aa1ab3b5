"""Parts of recent models: mixers of tokens, routing, compressed caches, gates and formats of few bits."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def slots_ref(q: Any, k: Any, v: Any, forget: Any) -> Any:
    b, h, t, d = q.shape
    m = forget.size(-1)
    keys, values, out = torch.zeros(b, h, m, d), torch.zeros(b, h, m, v.size(-1)), []
    for i in range(t):
        keep = forget[:, :, i, :, None]
        keys = torch.lerp(k[:, :, i, None, :].expand_as(keys), keys, keep)
        values = torch.lerp(v[:, :, i, None, :].expand_as(values), values, keep)
        weights = torch.einsum("bhmd,bhd->bhm", keys, q[:, :, i]).softmax(-1)
        out.append(torch.einsum("bhm,bhme->bhe", weights, values))
    return torch.stack(out, 2)


@stranger(
    lambda b, h, t, d, e, m: (
        randn(b, h, t, d) * d**-0.5, randn(b, h, t, d), randn(b, h, t, e), torch.rand(b, h, t, m) ** 0.125,
    ),
    slots_ref,
    {"b": 1, "h": 2, "t": 7, "d": 16, "e": 12, "m": 5},
    {"b": 8, "h": 16, "t": 512, "d": 64, "e": 64, "m": 64},
)  # fmt: skip
@tileflow.kernel
def gated_slot_attention(q, k, v, forget):
    """Zhang et al., 2024, arXiv:2409.07146: a few slots forget at their own pace, and a softmax reads them."""
    b, h, t, d = q.shape
    m, e = forget.size(3), v.size(3)
    out = torch.empty_like(v)
    for ib, ih in tfl.grid([b, h]):
        keys = tfl.zeros([m, d])
        values = tfl.zeros([m, e])
        for i in range(t):
            keep = forget[ib, ih, i, :][:, None]
            keys = keep * keys + (1 - keep) * k[ib, ih, i, :][None, :]
            values = keep * values + (1 - keep) * v[ib, ih, i, :][None, :]
            weights = torch.softmax(keys @ q[ib, ih, i, :], 0)
            out[ib, ih, i, :] = weights @ values
    return out


def gating_ref(x: Any, gain: Any, shift: Any, w: Any, bias: Any) -> Any:
    u, z = x.float().chunk(2, -1)
    z = F.layer_norm(z, gain.shape, gain.float(), shift.float(), 1e-5)
    return (u * (torch.einsum("ts,bsc->btc", w.float(), z) + bias.float()[:, None])).to(x.dtype)


@stranger(
    lambda b, t, c, dtype=torch.float32: (
        randn(b, t, 2 * c, dtype=dtype), randn(c, dtype=dtype), randn(c, dtype=dtype),
        (torch.randn(t, t) * t**-0.5).to(dtype), torch.ones(t, dtype=dtype),
    ),
    gating_ref,
    {"b": 2, "t": 19, "c": 21},
    {"b": 64, "t": 1024, "c": 512, "dtype": torch.float16},
)  # fmt: skip
@tileflow.kernel
def spatial_gating(x, gain, shift, w, bias):
    """gMLP (Liu et al., 2021, arXiv:2105.08050): half of the channels, mixed over time, gates the other."""
    b, t, c = x.size(0), x.size(1), x.size(2) // 2
    out = torch.empty(b, t, c, dtype=x.dtype, device=x.device)
    mean = torch.empty(b, t, device=x.device)
    scale = torch.empty(b, t, device=x.device)
    for tb, tt in tfl.tile([b, t]):
        var, mu = torch.var_mean(x[tb, tt, c:].float(), -1, correction=0)
        mean[tb, tt] = mu
        scale[tb, tt] = torch.rsqrt(var + 1e-5)
    for tb, tt, tc in tfl.tile([b, t, c], block_size=[1, None, None]):
        acc = tfl.zeros([tt, tc])
        for ts in tfl.tile(t):
            z = x[tb.begin, ts, tc + c].float()
            z = (z - mean[tb.begin, ts][:, None]) * scale[tb.begin, ts][:, None] * gain[tc] + shift[tc]
            acc += w[tt, ts] @ z.to(w.dtype)
        out[tb.begin, tt, tc] = x[tb.begin, tt, tc] * (acc + bias[tt][:, None])
    return out


def choice_ref(logits: Any, k: Any) -> Any:
    g, n, e = logits.shape
    gates, tokens = logits.softmax(-1).transpose(1, 2).topk(k, -1)
    load = torch.zeros(g, n, dtype=torch.int32)
    load.scatter_add_(1, tokens.flatten(1), torch.ones(g, e * k, dtype=torch.int32))
    return gates, tokens.int(), load


@stranger(
    lambda g, n, e, k: (randn(g, n, e), k),
    choice_ref,
    {"g": 2, "n": 37, "e": 5, "k": 8},
    {"g": 64, "n": 2048, "e": 64, "k": 64},
)
@tileflow.kernel
def expert_choice(logits, k: tfl.constexpr):
    """Zhou et al., 2022, arXiv:2202.09368: each expert takes its best tokens, and a token may be with many or none."""
    g, n, e = logits.shape
    scores = torch.empty(g, e, n, device=logits.device)
    gates = torch.empty(g, e, k, device=logits.device)
    tokens = torch.empty(g, e, k, dtype=torch.int32, device=logits.device)
    load = torch.zeros(g, n, dtype=torch.int32, device=logits.device)
    for tg, tn in tfl.tile([g, n]):
        scores[tg, :, tn] = torch.softmax(logits[tg, tn, :], -1).transpose(1, 2)
    for tg, te in tfl.tile([g, e]):
        best, where = scores[tg, te, :].topk(k, -1)
        gates[tg, te, :] = best
        tokens[tg, te, :] = where
        tfl.atomic_add(load, [tg.index[:, None, None], where], 1)
    return gates, tokens, load


def snap_ref(q: Any, k: Any, keep: Any, width: Any) -> Any:
    weights = torch.softmax(q.float() @ k.float().mT / math.sqrt(q.size(-1)), -1).mean(1)
    smooth = F.avg_pool1d(weights[:, None], width, 1, width // 2, count_include_pad=True)[:, 0]
    best = smooth.topk(keep, -1)
    return smooth, best.values


@stranger(
    lambda h, w, n, d, keep, width, dtype=torch.float32: (
        randn(h, w, d, dtype=dtype), randn(h, n, d, dtype=dtype), keep, width,
    ),
    snap_ref,
    {"h": 3, "w": 7, "n": 41, "d": 16, "keep": 6, "width": 5},
    {"h": 128, "w": 32, "n": 8192, "d": 128, "keep": 512, "width": 7, "dtype": torch.bfloat16},
)  # fmt: skip
@tileflow.kernel
def snap_votes(q, k, keep: tfl.constexpr, width: tfl.constexpr):
    """SnapKV (Li et al., 2024, arXiv:2404.14469): the last queries vote for keys, neighbours share their votes."""
    h, w, d = q.shape
    n = k.size(1)
    lse = torch.empty(h, w, device=q.device)
    votes = torch.empty(h, n, device=q.device)
    smooth = torch.empty(h, n, device=q.device)
    best = torch.empty(h, keep, device=q.device)
    for ih in tfl.grid(h):
        query = q[ih, :, :]
        top = tfl.full([w], float("-inf"))
        total = tfl.zeros([w])
        for tn in tfl.tile(n):
            scores = (query @ k[ih, tn, :].T).float() / math.sqrt(d)
            high = torch.maximum(top, scores.amax(1))
            total = total * torch.exp(top - high) + torch.exp(scores - high[:, None]).sum(1)
            top = high
        lse[ih, :] = top + torch.log(total)
    for th, tn in tfl.tile([h, n], block_size=[1, None]):
        scores = (q[th.begin, :, :] @ k[th.begin, tn, :].T).float() / math.sqrt(d)
        votes[th.begin, tn] = torch.exp(scores - lse[th.begin, :][:, None]).mean(0)
    for th, tn in tfl.tile([h, n]):
        total = tfl.zeros([th, tn])
        for j in range(width):
            total += votes[th, tn + (j - width // 2)]
        smooth[th, tn] = total / width
    for th in tfl.tile(h):
        best[th, :] = smooth[th, :].topk(keep, -1).values
    return smooth, best


def nvfp4_ref(x: Any) -> Any:
    values = x.float()
    whole = values.abs().max() / (6.0 * 448.0)
    blocks = values.unflatten(1, (-1, 16))
    scale = (blocks.abs().amax(-1) / 6.0 / whole).to(torch.float8_e4m3fn)
    step = scale.float() * whole
    y = torch.where(step[..., None] > 0, blocks / step[..., None], 0.0).flatten(1)
    edges = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0])
    low, high = torch.searchsorted(edges, y.abs()), torch.searchsorted(edges, y.abs(), right=True)
    code = torch.where(low % 2 == 0, low, high) + 8 * (y < 0)
    return (code[:, ::2] + 16 * code[:, 1::2]).to(torch.uint8), scale, whole[None]


@stranger(
    lambda m, n, dtype=torch.float32: (randn(m, n, dtype=dtype),),
    nvfp4_ref,
    {"m": 5, "n": 48},
    {"m": 8192, "n": 8192, "dtype": torch.bfloat16},
)
@tileflow.kernel
def nvfp4_pack(x):
    """NVIDIA, 2025, arXiv:2509.25149: four bits a number, a float8 for each sixteen of them, one float for all."""
    m, n = x.shape
    largest = torch.zeros(1, device=x.device)
    whole = torch.empty(1, device=x.device)
    packed = torch.empty(m, n // 2, dtype=torch.uint8, device=x.device)
    scales = torch.empty(m, n // 16, dtype=torch.float8_e4m3fn, device=x.device)
    for tm, tn in tfl.tile([m, n]):
        tfl.atomic_max(largest, [0], x[tm, tn].float().abs().amax())
    blocks = x.view(m, n // 16, 16)
    bytes_ = packed.view(m, n // 16, 8)
    for tm, tg in tfl.tile([m, n // 16]):
        all_scale = largest[0] / (6.0 * 448.0)
        values = blocks[tm, tg, :].float()
        scale = (values.abs().amax(-1) / 6.0 / all_scale).to(torch.float8_e4m3fn)
        step = scale.float() * all_scale
        y = torch.where(step[:, :, None] > 0, values / step[:, :, None], 0.0)
        a = y.abs()
        code = (a > 0.25).int() + (a >= 0.75).int() + (a > 1.25).int() + (a >= 1.75).int()
        code = code + (a > 2.5).int() + (a >= 3.5).int() + (a > 5.0).int() + 8 * (y < 0).int()
        low, high = tfl.split(code.unflatten(2, (8, 2)))
        bytes_[tm, tg, :] = (low | (high << 4)).to(torch.uint8)
        scales[tm, tg] = scale
    for _ in tfl.grid(1):
        whole[0] = largest[0] / (6.0 * 448.0)
    return packed, scales, whole


def attention_free_ref(q: Any, k: Any, v: Any, w: Any) -> Any:
    pair = torch.exp(w.double()).tril()
    weight = torch.exp(k.double())
    return (torch.sigmoid(q.double()) * (pair @ (weight * v)) / (pair @ weight)).to(q.dtype)


@stranger(
    lambda b, t, d: (randn(b, t, d), randn(b, t, d), randn(b, t, d), randn(t, t)),
    attention_free_ref,
    {"b": 2, "t": 23, "d": 18},
    {"b": 16, "t": 1024, "d": 256},
)
@tileflow.kernel
def attention_free(q, k, v, w):
    """Zhai et al., 2021, arXiv:2105.14103: keys weigh values by channels, with a bias for each two places."""
    b, t, d = q.shape
    out = torch.empty_like(q)
    for tb, rows, tc in tfl.tile([b, t, d], block_size=[1, None, None]):
        top = k[tb.begin, :, tc].amax(0)
        above, below = tfl.zeros([rows, tc]), tfl.zeros([rows, tc])
        for ts in tfl.tile(rows.end):
            seen = rows.index[:, None] >= ts.index[None, :]
            pair = torch.where(seen, torch.exp(w[rows, ts]), 0.0)
            weight = torch.exp(k[tb.begin, ts, tc] - top[None, :])
            above += pair @ (weight * v[tb.begin, ts, tc])
            below += pair @ weight
        out[tb.begin, rows, tc] = torch.sigmoid(q[tb.begin, rows, tc]) * above / below
    return out


def poly_ref(x: Any, weight: Any, bias: Any) -> Any:
    y = x.float()
    total = sum(weight[i] * F.rms_norm(y ** (3 - i), y.shape[-1:], eps=1e-6) for i in range(3))
    return (total + bias).to(x.dtype)


@stranger(
    lambda t, d, dtype=torch.float32: (randn(t, d, dtype=dtype), torch.rand(3), torch.rand(1)),
    poly_ref,
    {"t": 7, "d": 45},
    {"t": 16384, "d": 5504, "dtype": torch.bfloat16},
)
@tileflow.kernel
def poly_norm(x, weight, bias):
    """Zhuo et al., 2024, arXiv:2411.03884: powers of the inputs, each of unit mean square, as an activation."""
    t, _d = x.shape
    out = torch.empty_like(x)
    for tt in tfl.tile(t):
        one = x[tt, :].float()
        two = one * one
        three = two * one

        def normed(y):
            return y * torch.rsqrt((y * y).mean(-1, keepdim=True) + 1e-6)

        out[tt, :] = weight[0] * normed(three) + weight[1] * normed(two) + weight[2] * normed(one) + bias[0]
    return out


def test_time_ref(q: Any, k: Any, v: Any, rate: Any, start: Any) -> Any:
    w, out = start.expand(q.size(0), *start.shape), []
    for at in range(0, q.size(2), 16):
        qi, ki, vi, ri = (x[:, :, at : at + 16] for x in (q, k, v, rate))
        error = torch.einsum("bhtd,bhde->bhte", ki, w) - vi
        change = torch.einsum("bht,bhtd,bhte->bhtde", ri, ki, error).cumsum(2)
        out.append(torch.einsum("bhtd,bhtde->bhte", qi, w[:, :, None] - change))
        w = w - change[:, :, -1]
    return torch.cat(out, 2)


@stranger(
    lambda b, h, t, d: (
        randn(b, h, t, d) * d**-0.5, randn(b, h, t, d) * d**-0.5, randn(b, h, t, d), torch.rand(b, h, t) * 0.1,
        torch.randn(h, d, d) * 0.1,
    ),
    test_time_ref,
    {"b": 1, "h": 2, "t": 37, "d": 16},
    {"b": 8, "h": 16, "t": 2048, "d": 64},
)  # fmt: skip
@tileflow.kernel
def test_time_linear(q, k, v, rate, start):
    """Sun et al., 2024, arXiv:2407.04620: the state is a linear model that a step of descent teaches."""
    b, h, t, _d = q.shape
    out = torch.empty_like(v)
    for ib, ih in tfl.grid([b, h]):
        w = start[ih, :, :]
        for tt in tfl.tile(t, block_size=16):
            query, key = q[ib, ih, tt, :], k[ib, ih, tt, :]
            error = (key @ w - v[ib, ih, tt, :]) * rate[ib, ih, tt][:, None]
            inner = torch.where(tt.index[:, None] >= tt.index[None, :], query @ key.T, 0.0)
            out[ib, ih, tt, :] = query @ w - inner @ error
            w = w - key.T @ error
    return out
