"""Linear attention of 2025: states of levels, powers of scores, states that are solved for."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def make_levels(b: int, t: int, heads: int, d: int, dtype: torch.dtype = torch.float32) -> Any:
    q, k, v = (randn(b, t, heads, d, dtype=dtype) for _ in range(3))
    gone = (-0.1 * torch.rand(b, t, heads)).cumsum(1)
    return q, k, v, gone, F.softplus(torch.randn(b, t, heads, (t - 1).bit_length() + 1))


def levels_ref(q: Any, k: Any, v: Any, gone: Any, weight: Any) -> Any:
    wide = torch.promote_types(q.dtype, torch.float32)
    b, t, heads, d = q.shape
    place = torch.arange(t)
    apart = place[:, None] ^ place[None]
    level = sum(((apart >> n) > 0).long() for n in range((t - 1).bit_length()))
    seen = place[:, None] >= place[None]
    out = torch.empty_like(q)
    for i in range(b):
        for h in range(heads):
            scores = q[i, :, h].to(wide) @ k[i, :, h].to(wide).T * d**-0.5
            decay = torch.exp((gone[i, :, None, h] - gone[i, None, :, h]).to(wide).masked_fill(~seen, -torch.inf))
            scores = scores * decay * weight[i, :, h].to(wide).gather(1, level)
            out[i, :, h] = (scores @ v[i, :, h].to(wide)).to(q.dtype)
    return out


@stranger(
    make_levels,
    levels_ref,
    {"b": 2, "t": 43, "heads": 2, "d": 16},
    {"b": 2, "t": 4096, "heads": 16, "d": 128, "dtype": torch.bfloat16},
)
@tileflow.kernel
def log_linear_attention(q, k, v, gone, weight):
    """Guo and others, 2025: a gated linear attention whose past is cut as Fenwick cuts it, a weight a level."""
    b, t, heads, d = q.shape
    out = torch.empty_like(q)
    for tb, th, tq in tfl.tile([b, heads, t], block_size=[1, 1, None]):
        i, h = tb.begin, th.begin
        queries = q[i, tq, h, :]
        here = gone[i, tq, h]
        weights = weight[i, tq, h, :]
        acc = tfl.zeros([tq, d])
        for tk in tfl.tile(tq.end):
            apart = tq.index[:, None] ^ tk.index[None, :]
            _, level = torch.frexp(apart.float())
            decay = torch.exp(here[:, None] - gone[i, tk, h][None, :]) * torch.gather(weights, 1, level.long())
            decay = torch.where(tq.index[:, None] >= tk.index[None, :], decay, 0.0)
            scores = (queries @ k[i, tk, h, :].T) * d**-0.5 * decay
            acc += scores.to(v.dtype) @ v[i, tk, h, :]
        out[i, tq, h, :] = acc
    return out


def make_powers(b: int, t: int, heads: int, groups: int, d: int, dtype: torch.dtype = torch.float32) -> Any:
    q = randn(b, t, heads, d, dtype=dtype)
    k, v = (randn(b, t, groups, d, dtype=dtype) for _ in range(2))
    return q, k, v, F.logsigmoid(torch.randn(b, t, groups) + 4).cumsum(1), 4


def powers_ref(q: Any, k: Any, v: Any, gone: Any, degree: int) -> Any:
    wide = torch.promote_types(q.dtype, torch.float32)
    _, t, heads, d = q.shape
    out = torch.empty_like(q)
    seen = torch.ones(t, t).tril() > 0
    for h in range(heads):
        g = h * k.size(2) // heads
        scores = (q[:, :, h].to(wide) @ k[:, :, g].to(wide).mT * d**-0.5) ** degree
        fade = (gone[:, :, None, g] - gone[:, None, :, g]).to(wide).masked_fill(~seen, -torch.inf)
        scores = scores * torch.exp(fade)
        out[:, :, h] = (scores @ v[:, :, g].to(wide) / (scores.sum(-1, keepdim=True) + 1e-5)).to(q.dtype)
    return out


@stranger(
    make_powers,
    powers_ref,
    {"b": 2, "t": 39, "heads": 4, "groups": 2, "d": 16},
    {"b": 2, "t": 4096, "heads": 16, "groups": 4, "d": 64, "dtype": torch.bfloat16},
)
@tileflow.kernel
def power_attention(q, k, v, gone, degree: tfl.constexpr):
    """Buckman, Gelada and Zhang, 2024 (power transformers): even powers of scores in place of exponentials."""
    b, t, heads, d = q.shape
    shared = heads // k.size(2)
    out = torch.empty_like(q)
    for tb, th, tq in tfl.tile([b, heads, t], block_size=[1, 1, None]):
        i, h = tb.begin, th.begin
        g = h // shared
        queries = q[i, tq, h, :]
        here = gone[i, tq, g]
        acc = tfl.zeros([tq, d])
        total = tfl.zeros([tq])
        for tk in tfl.tile(tq.end):
            scores = (queries @ k[i, tk, g, :].T * d**-0.5) ** degree
            fade = torch.exp(here[:, None] - gone[i, tk, g][None, :])
            scores = torch.where(tq.index[:, None] >= tk.index[None, :], scores * fade, 0.0)
            total += scores.sum(1)
            acc += scores.to(v.dtype) @ v[i, tk, g, :]
        out[i, tq, h, :] = acc / (total[:, None] + 1e-5)
    return out


def make_mesa(b: int, heads: int, d: int, dtype: torch.dtype = torch.float32) -> Any:
    q, k = (F.normalize(torch.randn(b, heads, d), dim=-1).to(dtype) for _ in range(2))
    past = F.normalize(torch.randn(b, heads, 2 * d, d), dim=-1)
    gate, rate = torch.sigmoid(torch.randn(2, b, heads))
    states = torch.randn(b, heads, d, d), past.mT @ past
    return q, k, randn(b, heads, d, dtype=dtype), gate, rate, 0.5 + torch.rand(heads, d), *states, 20


def mesa_ref(q: Any, k: Any, v: Any, gate: Any, rate: Any, ridge: Any, g: Any, h: Any, turns: int) -> Any:
    wide = g.dtype
    key, value, query = k.to(wide), v.to(wide), q.to(wide)
    gate, rate = gate[..., None, None].to(wide), rate[..., None, None].to(wide)
    g.copy_(gate * g + rate * value[..., None] * key[..., None, :])
    h.copy_(gate * h + rate * key[..., None] * key[..., None, :])
    whole = h + torch.diag_embed(ridge.to(wide))
    x = query / whole.diagonal(dim1=-2, dim2=-1)
    rest = query - (whole @ x[..., None])[..., 0]
    way, size = rest, rest.square().sum(-1, keepdim=True)
    for _ in range(turns):
        there = (whole @ way[..., None])[..., 0]
        length = size / ((way * there).sum(-1, keepdim=True) + 1e-20)
        x, rest = x + length * way, rest - length * there
        new = rest.square().sum(-1, keepdim=True)
        way, size = rest + new / (size + 1e-20) * way, new
    return (g @ x[..., None])[..., 0].to(q.dtype), g, h


@stranger(
    make_mesa,
    mesa_ref,
    {"b": 3, "heads": 2, "d": 16},
    {"b": 64, "heads": 16, "d": 128, "dtype": torch.bfloat16},
)
@tileflow.kernel
def mesa_decode(q, k, v, gate, rate, ridge, g, h, turns: tfl.constexpr):
    """Von Oswald and others, 2025 (MesaNet): a token; least squares over all that was seen, by conjugate gradients."""
    b, heads, _ = q.shape
    out = torch.empty_like(q)
    for tb, th in tfl.tile([b, heads], block_size=[1, 1]):
        i, n = tb.begin, th.begin
        key, value, query = k[i, n, :].float(), v[i, n, :].float(), q[i, n, :].float()
        values = gate[i, n] * g[i, n, :, :] + rate[i, n] * torch.outer(value, key)
        keys = gate[i, n] * h[i, n, :, :] + rate[i, n] * torch.outer(key, key)
        g[i, n, :, :] = values
        h[i, n, :, :] = keys
        whole = keys + torch.diag(ridge[n, :])
        x = query / torch.diagonal(whole)
        rest = query - whole @ x
        way = rest
        size = (rest * rest).sum()
        for _ in range(turns):
            there = whole @ way
            length = size / (torch.dot(way, there) + 1e-20)
            x = x + length * way
            rest = rest - length * there
            new = (rest * rest).sum()
            way = rest + new / (size + 1e-20) * way
            size = new
        out[i, n, :] = values @ x
    return out, g, h
