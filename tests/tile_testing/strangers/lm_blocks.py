"""Parts of language models of late years: short convolutions, delta rules, routers, chosen blocks, bytes as n-grams."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def make_short(b: int, t: int, c: int, documents: int, dtype: torch.dtype = torch.float32) -> Any:
    document = torch.randint(0, documents, (b, t)).sort(1).values.int()
    return randn(b, t, 2 * c, dtype=dtype), randn(c, 4, dtype=dtype) * 0.5, randn(c, dtype=dtype), document


def short_ref(zx: Any, w: Any, bias: Any, document: Any) -> Any:
    z, x = zx.chunk(2, 2)
    taps, t = w.size(1), x.size(1)
    y = bias.expand_as(x).clone()
    for lag in range(min(taps, t)):
        same = document[:, lag:] == document[:, : t - lag]
        y[:, lag:] += torch.where(same[:, :, None], x[:, : t - lag] * w[:, taps - 1 - lag], 0.0)
    return F.silu(y) * F.silu(z)


@stranger(
    make_short,
    short_ref,
    {"b": 2, "t": 37, "c": 13, "documents": 3},
    {"b": 2, "t": 8192, "c": 4096, "documents": 8, "dtype": torch.bfloat16},
)
@tileflow.kernel
def gated_short_convolution(zx, w, bias, document):
    """Dao and Gu, 2024 (Mamba-2): four taps over time, SiLU, and a gate, which see one document of a pack."""
    b, t, c = zx.size(0), zx.size(1), zx.size(2) // 2
    taps = w.size(1)
    out = torch.empty(b, t, c, dtype=zx.dtype, device=zx.device)
    for tb, tt, tc in tfl.tile([b, t, c]):
        acc = tfl.zeros([tb, tt, tc]) + bias[tc]
        for lag in tfl.static_range(taps):
            same = document[tb, tt - lag] == document[tb, tt]
            x = zx[tb, tt - lag, tc + c].float() * w[tc, taps - 1 - lag]
            acc += torch.where(same[:, :, None], x, 0.0)
        out[tb, tt, tc] = F.silu(acc) * F.silu(zx[tb, tt, tc].float())
    return out


def make_decode(n: int, pool: int, h: int, d: int, e: int, dtype: torch.dtype = torch.float32) -> Any:
    q, k, v = randn(n, h, d, dtype=dtype), randn(n, h, d, dtype=dtype), randn(n, h, e, dtype=dtype)
    return q, k, v, F.logsigmoid(randn(n, h, d) + 3), torch.rand(n, h), randn(pool, h, d, e), torch.randperm(pool)[:n]


def decode_ref(q: Any, k: Any, v: Any, gate: Any, beta: Any, states: Any, slots: Any) -> Any:
    q, k = F.normalize(q, dim=2) * q.size(2) ** -0.5, F.normalize(k, dim=2)
    state = states[slots] * gate.exp()[..., None]
    change = beta[..., None] * (v - torch.einsum("nhd,nhde->nhe", k.to(state.dtype), state))
    state = state + k[..., None] * change[:, :, None]
    states[slots] = state
    return torch.einsum("nhd,nhde->nhe", q.to(state.dtype), state).to(q.dtype)


@stranger(
    make_decode,
    decode_ref,
    {"n": 5, "pool": 7, "h": 3, "d": 19, "e": 21},
    {"n": 128, "pool": 160, "h": 32, "d": 128, "e": 128, "dtype": torch.bfloat16},
)
@tileflow.kernel
def channel_delta_decode(q, k, v, gate, beta, states, slots):
    """Kimi Team, 2025 (Kimi Delta Attention): one token for each sequence, whose state forgets by channel."""
    n, h, d = q.shape
    out = torch.empty_like(v)
    for i, ih in tfl.grid([n, h]):
        slot = slots[i]
        query = F.normalize(q[i, ih, :].float(), dim=0) * d**-0.5
        key = F.normalize(k[i, ih, :].float(), dim=0)
        state = states[slot, ih, :, :] * torch.exp(gate[i, ih, :])[:, None]
        change = beta[i, ih] * (v[i, ih, :] - key @ state)
        state = state + key[:, None] * change[None, :]
        states[slot, ih, :, :] = state
        out[i, ih, :] = query @ state
    return out


def make_lightning(h: int, t: int, d: int, chunk: int, dtype: torch.dtype = torch.float32) -> Any:
    q, k, v = (randn(h, t, d, dtype=dtype) for _ in range(3))
    slope = 2.0 ** (-8 * (torch.arange(h) + 1.0) / h)
    return q, k, v, randn(h, t // chunk, d, d, dtype=dtype), slope, chunk


def lightning_ref(q: Any, k: Any, v: Any, kv: Any, slope: Any, chunk: int) -> Any:
    q, k, v = (x.unflatten(1, (-1, chunk)) for x in (q, k, v))
    i = torch.arange(chunk)
    apart, slope = i[:, None] - i[None, :], slope[:, None, None, None].to(q.dtype)
    decay = torch.where(apart >= 0, torch.exp(-slope * apart), 0.0)
    within = (q @ k.mT * decay) @ v
    before = (q * torch.exp(-slope * (i[:, None] + 1))) @ kv
    return (within + before).flatten(1, 2)


@stranger(
    make_lightning,
    lightning_ref,
    {"h": 2, "t": 63, "d": 16, "chunk": 21},
    {"h": 64, "t": 8192, "d": 128, "chunk": 256, "dtype": torch.bfloat16},
)
@tileflow.kernel
def lightning_chunks(q, k, v, kv, slope, chunk: int):
    """Qin and others, 2024 (lightning attention): a decaying product in each chunk, and the state of those before."""
    heads, t, d = q.shape
    out = torch.empty_like(q)
    q4, k4, v4, o4 = (x.view(heads, t // chunk, chunk, d) for x in (q, k, v, out))
    for th, tc, rows in tfl.tile([heads, t // chunk, chunk], block_size=[1, 1, None]):
        h, c = th.id, tc.id
        rate = slope[h]
        query = q4[h, c, rows, :]
        acc = tfl.dot(query, kv[h, c, :, :]) * torch.exp(-rate * (rows.index + 1))[:, None]
        for columns in tfl.tile(rows.end):
            apart = rows.index[:, None] - columns.index[None, :]
            decay = torch.where(apart >= 0, torch.exp(-rate * apart), 0.0)
            scores = tfl.dot(query, k4[h, c, columns, :].T) * decay
            acc = tfl.dot(scores.to(v.dtype), v4[h, c, columns, :], acc=acc)
        o4[h, c, rows, :] = acc
    return out


def make_choice(h: int, g: int, t: int, d: int, size: int, few: int, dtype: torch.dtype = torch.float32) -> Any:
    k = torch.randint(-2, 3, (h, t, d)).to(dtype)  # whose means are exact in bfloat16, so that the choice is
    return randn(h, g, t, d, dtype=dtype), k, size, few


def choose_ref(q: Any, k: Any, size: int, few: int) -> Any:
    t, d = k.shape[1:]
    means = k.unflatten(1, (-1, size)).mean(2)
    own, b = torch.arange(t)[:, None] // size, torch.arange(t // size)[None, :]
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = (q.to(wide) @ means[:, None].to(wide).mT * d**-0.5).masked_fill(b > own, float("-inf"))
    scores = scores.softmax(3).sum(1).masked_fill(b > own, -1.0).masked_fill(b == own, 1e9)
    best = scores.topk(few, 2)
    return means, torch.where(best.values >= 0, best.indices, -1).int()


@stranger(
    make_choice,
    choose_ref,
    {"h": 2, "g": 3, "t": 77, "d": 16, "size": 7, "few": 4},
    {"h": 4, "g": 16, "t": 8192, "d": 128, "size": 64, "few": 16, "dtype": torch.bfloat16},
)
@tileflow.kernel
def choose_key_blocks(q, k, size: int, few: tfl.constexpr):
    """Yuan and others, 2025 (native sparse attention): blocks of keys as their means, and the best for each query."""
    heads, groups, t, d = q.shape
    blocks = t // size
    means = torch.empty(heads, blocks, d, dtype=k.dtype, device=k.device)
    chosen = torch.empty(heads, t, few, dtype=torch.int32, device=k.device)
    parts = k.view(heads, blocks, size, d)
    for th, tb in tfl.tile([heads, blocks]):
        means[th, tb, :] = parts[th, tb, :, :].float().mean(2)
    for th, tt in tfl.tile([heads, t], block_size=[1, None]):
        h = th.id
        b = tfl.arange(blocks)[None, :]
        own = (tt.index // size)[:, None]
        total = tfl.zeros([tt, blocks])
        for g in range(groups):
            scores = tfl.dot(q[h, g, tt, :], means[h, :, :].T) * d**-0.5
            total += torch.softmax(torch.where(b > own, float("-inf"), scores), 1)
        total = torch.where(b > own, -1.0, total)
        total = torch.where(b == own, 1e9, total)
        for j in range(few):
            best = total.argmax(1)
            chosen[h, tt, j] = torch.where(total.amax(1) >= 0, best, -1)
            total = torch.where(b == best[:, None], -1.0, total)
    return means, chosen


def make_merge(t: int, d: int, words: int, dtype: torch.dtype = torch.float32) -> Any:
    w = (torch.randn(d, 2 * d) * (2 * d) ** -0.5).to(dtype)
    gains = (torch.rand(2, d) + 0.5).to(dtype)
    return randn(t, d, dtype=dtype), torch.randint(0, words, (t,)), randn(words, d, dtype=dtype), gains, w


def merge_ref(hidden: Any, token: Any, table: Any, gains: Any, w: Any) -> Any:
    d = hidden.size(1)
    following = F.pad(table[token[1:]], (0, 0, 0, 1))
    both = [F.rms_norm(x, (d,), gain, 1e-6) for x, gain in zip((hidden, following), gains, strict=True)]
    return torch.cat(both, 1) @ w.T


@stranger(
    make_merge,
    merge_ref,
    {"t": 37, "d": 24, "words": 11},
    {"t": 4096, "d": 4096, "words": 32768, "dtype": torch.bfloat16},
)
@tileflow.kernel
def next_token_merge(hidden, token, table, gains, w):
    """DeepSeek-AI, 2024 (V3's multi-token prediction): a state and the next word, normalised, through one matrix."""
    t, d = hidden.shape
    out = torch.empty_like(hidden)
    scale = torch.empty(2, t, device=hidden.device)
    for tt in tfl.tile(t):
        following = tfl.load(table, [token[tt + 1], slice(None)], extra_mask=(tt.index + 1 < t)[:, None]).float()
        scale[0, tt] = torch.rsqrt(hidden[tt, :].float().square().mean(1) + 1e-6)
        scale[1, tt] = torch.rsqrt(following.square().mean(1) + 1e-6)
    for tt, to in tfl.tile([t, d]):
        row = token[tt + 1]
        left, right = scale[0, tt][:, None], torch.where(tt.index + 1 < t, scale[1, tt], 0.0)[:, None]
        acc = tfl.zeros([tt, to])
        for tk in tfl.tile(d):
            a = hidden[tt, tk] * left * gains[0, tk]
            b = table[row, tk] * right * gains[1, tk]
            acc = tfl.dot(a.to(w.dtype), w[to, tk].T, acc=acc)
            acc = tfl.dot(b.to(w.dtype), w[to, tk + d].T, acc=acc)
        out[tt, to] = acc
    return out


def make_down(t: int, k: int, e: int, f: int, d: int, dtype: torch.dtype = torch.float32) -> Any:
    w = (torch.randn(e, d, f) * f**-0.5).to(dtype)
    return randn(t, k, f, dtype=dtype), w, torch.randint(0, e, (t, k)).int(), torch.rand(t, k)


def down_ref(x: Any, w: Any, expert: Any, gate: Any) -> Any:
    rows = [
        sum(p * (w[e] @ v) for v, e, p in zip(*row, strict=True))
        for row in zip(x, expert.long(), gate.to(x.dtype), strict=True)
    ]
    return torch.stack(rows)


@stranger(
    make_down,
    down_ref,
    {"t": 3, "k": 2, "e": 5, "f": 37, "d": 21},
    {"t": 16, "k": 6, "e": 64, "f": 1408, "d": 2048, "dtype": torch.bfloat16},
)
@tileflow.kernel
def expert_down_decode(x, w, expert, gate):
    """Dai and others, 2024 (DeepSeekMoE): a few tokens, each through the last matrix of its experts, weighted."""
    t, k, _ = x.shape
    d = w.size(1)
    out = torch.empty(t, d, dtype=x.dtype, device=x.device)
    for tt, td in tfl.tile([t, d], block_size=[1, None]):
        i = tt.id
        acc = tfl.zeros([td])
        for j in range(k):
            acc += gate[i, j] * (w[expert[i, j], td, :].float() * x[i, j, :].float()).sum(1)
        out[i, td] = acc
    return out


def route_ref(logits: Any, bias: Any, k: int, scale: float) -> Any:
    scores = torch.sigmoid(logits)
    index = (scores + bias).topk(k, 1).indices
    weight = scores.gather(1, index)
    load = torch.bincount(index.flatten(), minlength=logits.size(1))
    return weight / weight.sum(1, keepdim=True) * scale, index.int(), load.int()


@stranger(
    lambda t, e, k: (randn(t, e), randn(e) * 0.1, k, 2.5),
    route_ref,
    {"t": 37, "e": 21, "k": 4},
    {"t": 65536, "e": 256, "k": 8},
)
@tileflow.kernel
def balanced_router(logits, bias, k: tfl.constexpr, scale: float):
    """Wang and others, 2024 (balance without a loss): a bias chooses experts, and has no part in their weights."""
    t, e = logits.shape
    weight = torch.empty(t, k, device=logits.device)
    index = torch.empty(t, k, dtype=torch.int32, device=logits.device)
    load = torch.zeros(e, dtype=torch.int32, device=logits.device)
    for tt in tfl.tile(t):
        scores = torch.sigmoid(logits[tt, :])
        left = scores + bias[:]
        total = tfl.zeros([tt])
        picked = []
        for j in range(k):
            best = left.argmax(1)
            mine = tfl.arange(e)[None, :] == best[:, None]
            picked.append(torch.where(mine, scores, 0.0).sum(1))
            total += picked[j]
            left = torch.where(mine, float("-inf"), left)
            index[tt, j] = best
            tfl.atomic_add(load, [best], 1)
        for j in range(k):
            weight[tt, j] = picked[j] / total * scale
    return weight, index, load


PRIME = 1_000_000_007


def ngram_ref(text: Any, table: Any, tables: Any) -> Any:
    total, code = table[text.long()], torch.zeros_like(text, dtype=torch.long)
    for n in range(tables.size(0) + 2):
        code = code * PRIME + F.pad(text.long(), (n, 0))[:, : text.size(1)]
        if n >= 2:
            total = total + tables[n - 2][code % tables.size(1)]
    return total / (tables.size(0) + 1)


@stranger(
    lambda b, t, d, sizes, rows, dtype=torch.float32: (
        torch.randint(0, 256, (b, t), dtype=torch.uint8), randn(256, d, dtype=dtype),
        randn(sizes, rows, d, dtype=dtype),
    ),
    ngram_ref,
    {"b": 2, "t": 19, "d": 21, "sizes": 3, "rows": 41},
    {"b": 8, "t": 8192, "d": 512, "sizes": 6, "rows": 50021, "dtype": torch.bfloat16},
)  # fmt: skip
@tileflow.kernel
def byte_ngrams(text, table, tables):
    """Pagnoni and others, 2024 (byte latent transformer): a byte is itself and its n-grams, each hashed to a row."""
    b, t = text.shape
    sizes, rows, d = tables.shape
    out = torch.empty(b, t, d, dtype=table.dtype, device=table.device)
    for tb, tt, td in tfl.tile([b, t, d]):
        total = table[text[tb, tt].long(), td].float()
        code = tfl.zeros([tb, tt], dtype=torch.int64)
        for n in tfl.static_range(sizes + 2):
            code = code * PRIME + text[tb, tt - n].long()
            if n >= 2:
                total += tables[n - 2, code % rows, td]
        out[tb, tt, td] = total / (sizes + 1)
    return out
