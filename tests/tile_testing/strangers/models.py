"""Models of late and how they are trained: attention over few keys, gates, adapters, losses, decoding."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def make_latent(b: Any, h: Any, n: Any, r: Any, p: Any, dtype: Any = torch.float32) -> Any:
    lengths = torch.randint(n // 2, n + 1, (b,), dtype=torch.int32)
    return randn(b, h, r, dtype=dtype), randn(b, h, p, dtype=dtype), randn(b, n, r + p, dtype=dtype), lengths


def latent(q: Any, q_rope: Any, cache: Any, lengths: Any) -> Any:
    r = q.size(-1)
    scores = torch.cat([q, q_rope], -1).float() @ cache.float().mT / math.sqrt(cache.size(-1))
    there = torch.arange(cache.size(1))[None, None, :] < lengths[:, None, None]
    return (torch.softmax(scores.masked_fill(~there, float("-inf")), -1) @ cache[..., :r].float()).to(q.dtype)


@stranger(
    make_latent,
    latent,
    {"b": 2, "h": 16, "n": 37, "r": 32, "p": 16},
    {"b": 64, "h": 128, "n": 4096, "r": 512, "p": 64, "dtype": torch.bfloat16},
)
@tileflow.kernel
def latent_decode(q, q_rope, cache, lengths):
    """One query of each sequence over a compressed cache, whose first part is the values (arXiv:2405.04434)."""
    b, h, r = q.shape
    out = torch.empty_like(q)
    scale = 1 / math.sqrt(cache.size(2))
    for tb, th in tfl.tile([b, h], block_size=[1, None]):
        query, rotated = q[tb.begin, th, :], q_rope[tb.begin, th, :]
        top, total, acc = tfl.full([th], float("-inf")), tfl.zeros([th]), tfl.zeros([th, r])
        for tn in tfl.tile(lengths[tb.begin]):
            value = cache[tb.begin, tn, :r]
            scores = (query @ value.T + rotated @ cache[tb.begin, tn, r:].T).float() * scale
            high = torch.maximum(top, scores.amax(1))
            weights, shrink = torch.exp(scores - high[:, None]), torch.exp(top - high)
            total = total * shrink + weights.sum(1)
            acc = acc * shrink[:, None] + weights.to(value.dtype) @ value
            top = high
        out[tb.begin, th, :] = acc / total[:, None]
    return out


def make_differential(h: Any, t: Any, d: Any, dtype: Any = torch.float32) -> Any:
    return (
        randn(h, 2, t, d, dtype=dtype),
        randn(h, 2, t, d, dtype=dtype),
        randn(h, t, 2 * d, dtype=dtype),
        torch.rand(h),
        0.8,
    )


def differential(q: Any, k: Any, v: Any, lam: Any, init: Any) -> Any:
    t = q.size(2)
    scores = q.float() @ k.float().mT / math.sqrt(q.size(-1))
    scores = scores.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), float("-inf"))
    weights = torch.softmax(scores, -1)
    out = (weights[:, 0] - lam[:, None, None] * weights[:, 1]) @ v.float()
    return (F.rms_norm(out, out.shape[-1:], eps=1e-5) * (1 - init)).to(q.dtype)


@stranger(
    make_differential,
    differential,
    {"h": 2, "t": 37, "d": 16},
    {"h": 16, "t": 4096, "d": 64, "dtype": torch.bfloat16},
)
@tileflow.kernel
def differential_attention(q, k, v, lam, init):
    """The difference of two softmaxes, normalised (arXiv:2410.05258)."""
    h, _, t, d = q.shape
    out = torch.empty_like(v)
    for th, rows in tfl.tile([h, t], block_size=[1, None]):
        head = th.begin
        parts = []
        for i in range(2):
            query = q[head, i, rows, :]
            top, total, acc = tfl.full([rows], float("-inf")), tfl.zeros([rows]), tfl.zeros([rows, 2 * d])
            for others in tfl.tile(rows.end):
                scores = (query @ k[head, i, others, :].T).float() / math.sqrt(d)
                scores = torch.where(rows.index[:, None] >= others.index[None, :], scores, float("-inf"))
                high = torch.maximum(top, scores.amax(1))
                weights, shrink = torch.exp(scores - high[:, None]), torch.exp(top - high)
                total = total * shrink + weights.sum(1)
                acc = acc * shrink[:, None] + weights.to(v.dtype) @ v[head, others, :]
                top = high
            parts.append(acc / total[:, None])
        both = parts[0] - lam[head] * parts[1]
        out[head, rows, :] = F.rms_norm(both, (2 * d,), eps=1e-5) * (1 - init)
    return out


def make_chosen(h: Any, g: Any, blocks: Any, size: Any, few: Any, d: Any, dtype: Any = torch.float32) -> Any:
    t = blocks * size
    chosen = torch.rand(h, t, blocks).argsort(-1)[..., :few].int()
    return randn(h, t, g, d, dtype=dtype), randn(h, t, d, dtype=dtype), randn(h, t, d, dtype=dtype), chosen, size


def chosen_blocks(q: Any, k: Any, v: Any, chosen: Any, size: Any) -> Any:
    h, t, _g, _d = q.shape
    out = []
    for i in range(h):
        keep = torch.zeros(t, t // size, dtype=torch.bool).scatter(1, chosen[i].long(), True)
        keep = keep.repeat_interleave(size, 1)
        scores = torch.einsum("tgd,sd->gts", q[i].float(), k[i].float()) / math.sqrt(q.size(-1))
        weights = torch.softmax(scores.masked_fill(~keep, float("-inf")), -1)
        out.append(torch.einsum("gts,sd->tgd", weights, v[i].float()).to(q.dtype))
    return torch.stack(out)


@stranger(
    make_chosen,
    chosen_blocks,
    {"h": 2, "g": 16, "blocks": 5, "size": 16, "few": 3, "d": 16},
    {"h": 4, "g": 16, "blocks": 64, "size": 64, "few": 16, "d": 128, "dtype": torch.bfloat16},
)
@tileflow.kernel
def chosen_block_attention(q, k, v, chosen, size: tfl.constexpr):
    """Each query sees the blocks of keys that were chosen for it (arXiv:2502.11089)."""
    h, t, g, d = q.shape
    out = torch.empty_like(q)
    for ih, it in tfl.grid([h, t]):
        query = q[ih, it, :, :]
        top, total, acc = tfl.full([g], float("-inf")), tfl.zeros([g]), tfl.zeros([g, d])
        for j in tfl.grid(chosen.size(2)):
            start = chosen[ih, it, j] * size
            scores = (query @ k[ih, start : start + size, :].T).float() / math.sqrt(d)
            high = torch.maximum(top, scores.amax(1))
            weights, shrink = torch.exp(scores - high[:, None]), torch.exp(top - high)
            total = total * shrink + weights.sum(1)
            acc = acc * shrink[:, None] + weights.to(v.dtype) @ v[ih, start : start + size, :]
            top = high
        out[ih, it, :, :] = acc / total[:, None]
    return out


def index_scores(q: Any, k: Any, w: Any) -> Any:
    out = torch.zeros(q.size(0), k.size(0))
    for i in range(q.size(1)):
        out += torch.relu(q[:, i].float() @ k.float().T) * w[:, i, None]
    return out.masked_fill(torch.ones_like(out, dtype=torch.bool).triu(1), float("-inf"))


@stranger(
    lambda t, h, d, dtype=torch.float32: (randn(t, h, d, dtype=dtype), randn(t, d, dtype=dtype), randn(t, h)),
    index_scores,
    {"t": 37, "h": 3, "d": 16},
    {"t": 4096, "h": 32, "d": 128, "dtype": torch.bfloat16},
)
@tileflow.kernel
def indexer_scores(q, k, w):
    """Which keys a query should see, by few cheap heads (DeepSeek V3.2)."""
    t, h, _d = q.shape
    out = torch.empty(t, t, device=q.device)
    for rows, columns in tfl.tile([t, t]):
        key = k[columns, :]
        acc = tfl.zeros([rows, columns])
        for i in range(h):
            acc += torch.relu((q[rows, i, :] @ key.T).float()) * w[rows, i][:, None]
        out[rows, columns] = torch.where(rows.index[:, None] >= columns.index[None, :], acc, float("-inf"))
    return out


def sinkhorn_ref(x: Any, turns: Any) -> Any:
    x = torch.softmax(x, -1)
    for _ in range(turns):
        x = x / (x.sum(-2, keepdim=True) + 1e-6)
        x = x / (x.sum(-1, keepdim=True) + 1e-6)
    return x


@stranger(
    lambda b, n, turns: (randn(b, n, n), turns),
    sinkhorn_ref,
    {"b": 13, "n": 4, "turns": 20},
    {"b": 1 << 17, "n": 4, "turns": 20},
)
@tileflow.kernel
def sinkhorn(x, turns):
    """Small matrices made doubly stochastic (hyper-connections, arXiv:2512.24880)."""
    out = torch.empty_like(x)
    for tb in tfl.tile(x.size(0)):
        m = torch.softmax(x[tb, :, :], -1)
        for _ in range(turns):
            m = m / (m.sum(-2, keepdim=True) + 1e-6)
            m = m / (m.sum(-1, keepdim=True) + 1e-6)
        out[tb, :, :] = m
    return out


def gate_ref(logits: Any, bias: Any, groups: Any, few: Any, k: Any) -> Any:
    scores = torch.sigmoid(logits.float())
    biased = (scores + bias).unflatten(1, (groups, -1))
    best = biased.topk(2, -1).values.sum(-1).topk(few, -1).indices
    keep = torch.zeros(best.size(0), groups, dtype=torch.bool).scatter(1, best, True)
    index = biased.masked_fill(~keep[..., None], float("-inf")).flatten(1).topk(k, -1).indices
    weights = scores.gather(1, index)
    return weights / weights.sum(1, keepdim=True), index.int()


@stranger(
    lambda t, e, groups, few, k: (randn(t, e), randn(e) * 0.1, groups, few, k),
    gate_ref,
    {"t": 13, "e": 32, "groups": 4, "few": 2, "k": 4},
    {"t": 32768, "e": 256, "groups": 8, "few": 4, "k": 8},
)
@tileflow.kernel
def group_limited_gate(logits, bias, groups: tfl.constexpr, few: tfl.constexpr, k: tfl.constexpr):
    """Experts of the best groups only (DeepSeek V3, arXiv:2412.19437)."""
    t, e = logits.shape
    weights = torch.empty(t, k, device=logits.device)
    index = torch.empty(t, k, dtype=torch.int32, device=logits.device)
    for tt in tfl.tile(t):
        scores = torch.sigmoid(logits[tt, :])
        biased = (scores + bias[:][None, :]).unflatten(1, (groups, e // groups))
        of_group = biased.topk(2, -1).values.sum(-1)
        least = of_group.topk(few, -1).values[:, -1]
        allowed = torch.where((of_group >= least[:, None])[:, :, None], biased, float("-inf"))
        where = allowed.flatten(1).topk(k, -1).indices
        chosen = scores.gather(1, where)
        weights[tt, :] = chosen / chosen.sum(1, keepdim=True)
        index[tt, :] = where
    return weights, index


def make_grpo(b: Any, t: Any, v: Any, dtype: Any = torch.float32) -> Any:
    logits = randn(b, t, v, dtype=dtype)
    old = -torch.rand(b, t) * 2 - math.log(v)
    return logits, torch.randint(0, v, (b, t)), old, old + randn(b, t) * 0.1, randn(b), torch.rand(b, t) < 0.8


def grpo_ref(logits: Any, tokens: Any, old: Any, ref: Any, advantage: Any, mask: Any, low: Any = 0.2, high: Any = 0.28,
             beta: Any = 0.04) -> Any:  # fmt: skip
    new = torch.stack(
        [-F.cross_entropy(row.float(), i, reduction="none") for row, i in zip(logits, tokens, strict=True)]
    )
    ratio = torch.exp(new - old)
    a = advantage[:, None]
    gain = torch.minimum(ratio * a, ratio.clamp(1 - low, 1 + high) * a)
    apart = torch.exp(ref - new) - (ref - new) - 1
    loss = torch.where(mask, beta * apart - gain, 0.0)
    return loss, loss.sum(1) / mask.sum(1).clamp(min=1)


@stranger(
    make_grpo,
    grpo_ref,
    {"b": 3, "t": 7, "v": 37},
    {"b": 16, "t": 512, "v": 32000, "dtype": torch.bfloat16},
)
@tileflow.kernel
def grpo_loss(logits, tokens, old, ref, advantage, mask, low=0.2, high=0.28, beta=0.04):
    """Clipped ratios and a penalty for each token, and their mean for each answer (arXiv:2402.03300)."""
    b, t, _v = logits.shape
    loss = torch.empty(b, t, device=logits.device)
    for tb, tt in tfl.tile([b, t]):
        row = logits[tb, tt, :].float()
        picked = logits[tb.index[:, None], tt.index[None, :], tokens[tb, tt]].float()
        new = picked - torch.logsumexp(row, -1)
        ratio = torch.exp(new - old[tb, tt])
        a = advantage[tb][:, None]
        gain = torch.minimum(ratio * a, ratio.clamp(1 - low, 1 + high) * a)
        apart = torch.exp(ref[tb, tt] - new) - (ref[tb, tt] - new) - 1
        loss[tb, tt] = torch.where(mask[tb, tt], beta * apart - gain, 0.0)
    mean = torch.empty(b, device=logits.device)
    for tb in tfl.tile(b):
        mean[tb] = loss[tb, :].sum(1) / mask[tb, :].sum(1).clamp(min=1)
    return loss, mean


def prune_ref(w: Any) -> Any:
    n = w.size(1)
    place = w.abs().unflatten(1, (n // 4, 4)).argsort(dim=-1, descending=True, stable=True)[..., :2].sort(-1).values
    kept = w.unflatten(1, (n // 4, 4)).gather(-1, place).flatten(1)
    code = (place[..., 0] | place[..., 1] << 2).unflatten(1, (n // 8, 2))
    return kept, (code[..., 0] | code[..., 1] << 4).to(torch.uint8)


@stranger(
    lambda m, n, dtype=torch.float32: (randn(m, n, dtype=dtype),),
    prune_ref,
    {"m": 7, "n": 40},
    {"m": 8192, "n": 8192, "dtype": torch.bfloat16},
)
@tileflow.kernel
def prune_two_of_four(w):
    """The two largest of each four, and where they were, two places to a half byte."""
    m, n = w.shape
    kept = torch.empty(m, n // 2, dtype=w.dtype, device=w.device)
    codes = torch.empty(m, n // 8, dtype=torch.uint8, device=w.device)
    for rows in tfl.tile(m):
        fours = w[rows, :].unflatten(1, (n // 4, 4))
        place = fours.abs().topk(2, -1).indices.int().sort(-1).values
        kept[rows, :] = fours.gather(-1, place).flatten(1)
        code = (place[..., 0] | (place[..., 1] << 2)).unflatten(1, (n // 8, 2))
        codes[rows, :] = code[..., 0] | (code[..., 1] << 4)
    return kept, codes


def make_rotary(t: Any, hq: Any, hk: Any, d: Any, dtype: Any = torch.float32) -> Any:
    angle = torch.arange(t)[:, None] * 10000.0 ** (-torch.arange(d // 2) / (d // 2))[None, :]
    heads = hq + 2 * hk
    return randn(t, heads * d, dtype=dtype), randn(d), randn(d), torch.cos(angle), torch.sin(angle), hq, hk


def rotary_ref(qkv: Any, wq: Any, wk: Any, cos: Any, sin: Any, hq: Any, hk: Any) -> Any:
    t, d = qkv.size(0), wq.numel()
    x = qkv.view(t, -1, d).float()

    def turned(part: Any, weight: Any) -> Any:
        part = F.rms_norm(part, (d,), weight, 1e-6)
        a, b = part.chunk(2, -1)
        c, s = cos[:, None], sin[:, None]
        return torch.cat([a * c - b * s, b * c + a * s], -1).to(qkv.dtype)

    return turned(x[:, :hq], wq), turned(x[:, hq : hq + hk], wk), x[:, hq + hk :].to(qkv.dtype)


@stranger(
    make_rotary,
    rotary_ref,
    {"t": 13, "hq": 4, "hk": 2, "d": 16},
    {"t": 16384, "hq": 32, "hk": 8, "d": 128, "dtype": torch.bfloat16},
)
@tileflow.kernel
def rotary_qk_norm(qkv, wq, wk, cos, sin, hq: tfl.constexpr, hk: tfl.constexpr):
    """A fused projection split; queries and keys normalised, then rotated (Qwen 3)."""
    t, d = qkv.size(0), wq.size(0)
    x = qkv.view(t, hq + 2 * hk, d)
    q = torch.empty(t, hq, d, dtype=qkv.dtype, device=qkv.device)
    k = torch.empty(t, hk, d, dtype=qkv.dtype, device=qkv.device)
    v = torch.empty_like(k)

    def turned(part, weight, c, s):
        part = F.rms_norm(part.float(), (d,), weight, 1e-6)
        a, b = part.chunk(2, -1)
        return torch.cat([a * c - b * s, b * c + a * s], -1)

    for tt in tfl.tile(t):
        c, s = cos[tt, :][:, None, :], sin[tt, :][:, None, :]
        q[tt, :, :] = turned(x[tt, :hq, :], wq[:], c, s)
        k[tt, :, :] = turned(x[tt, hq : hq + hk, :], wk[:], c, s)
        v[tt, :, :] = x[tt, hq + hk :, :]
    return q, k, v


def make_lora(t: Any, n: Any, k: Any, r: Any, dtype: Any = torch.float32) -> Any:
    adapter = torch.randint(-1, n, (t,), dtype=torch.int32)
    return randn(t, k, dtype=dtype), randn(n, r, k, dtype=dtype) * k**-0.5, adapter


def lora_ref(x: Any, a: Any, adapter: Any) -> Any:
    out = torch.zeros(x.size(0), a.size(1))
    for i in range(a.size(0)):
        out = torch.where((adapter == i)[:, None], x.float() @ a[i].float().T, out)
    return out


@stranger(
    make_lora,
    lora_ref,
    {"t": 13, "n": 3, "k": 37, "r": 8},
    {"t": 1024, "n": 16, "k": 4096, "r": 16, "dtype": torch.bfloat16},
)
@tileflow.kernel
def lora_shrink(x, a, adapter):
    """Each token by the adapter that its request names, or by none (Punica, arXiv:2310.18547)."""
    t, k = x.shape
    r = a.size(1)
    out = torch.empty(t, r, device=x.device)
    for i in tfl.grid(t):
        which = adapter[i]
        acc = tfl.zeros([r])
        if which >= 0:
            for tk in tfl.tile(k):
                acc += (a[which, :, tk].float() * x[i, tk].float()[None, :]).sum(1)
        out[i, :] = acc
    return out


def lru_ref(x: Any, r: Any, i: Any, a: Any) -> Any:
    log_a = -8.0 * F.softplus(a) * torch.sigmoid(r.float())
    gated = x.float() * torch.sigmoid(i.float()) * torch.sqrt(-torch.expm1(2 * log_a))
    h, out = torch.zeros_like(gated[:, 0]), []
    for n in range(x.size(1)):
        h = torch.exp(log_a[:, n]) * h + gated[:, n]
        out.append(h)
    return torch.stack(out, 1).to(x.dtype)


@stranger(
    lambda b, t, c, dtype=torch.float32: (*(randn(b, t, c, dtype=dtype) for _ in range(3)), randn(c)),
    lru_ref,
    {"b": 2, "t": 21, "c": 13},
    {"b": 8, "t": 2048, "c": 2560, "dtype": torch.bfloat16},
)
@tileflow.kernel
def gated_linear_recurrence(x, r, i, a):
    """The RG-LRU of Griffin (arXiv:2402.19427), as a scan of pairs over time."""
    b, t, c = x.shape
    out = torch.empty_like(x)

    def after(left, right):
        return left[0] * right[0], left[1] * right[0] + right[1]

    for tb, tc in tfl.tile([b, c], block_size=[1, None]):
        rate = -8.0 * F.softplus(a[tc])
        h = tfl.zeros([tc])
        for tt in tfl.tile(t):
            log_a = rate[None, :] * torch.sigmoid(r[tb.begin, tt, tc].float())
            gate = torch.sigmoid(i[tb.begin, tt, tc].float()) * torch.sqrt(-torch.expm1(2 * log_a))
            product, states = tfl.associative_scan(after, (torch.exp(log_a), x[tb.begin, tt, tc].float() * gate), 0)
            states = states + product * h[None, :]
            out[tb.begin, tt, tc] = states
            h = states[-1, :]
    return out


def penalty_ref(logits: Any, history: Any, u: Any, penalty: Any, temperature: Any, min_p: Any) -> Any:
    seen = logits.gather(1, history)
    scores = logits.scatter(1, history, torch.where(seen > 0, seen / penalty, seen * penalty)) / temperature
    probs = torch.softmax(scores, 1)
    probs = torch.where(probs >= min_p * probs.amax(1, keepdim=True), probs, 0.0)
    sums = probs.cumsum(1)
    return scores, (sums < u[:, None] * sums[:, -1:]).sum(1)


@stranger(
    lambda b, v, n: (randn(b, v) * 3, torch.randint(0, v, (b, n)), torch.rand(b), 1.2, 0.7, 0.05),
    penalty_ref,
    {"b": 5, "v": 37, "n": 11},
    {"b": 256, "v": 32000, "n": 512},
)
@tileflow.kernel
def penalised_min_p_sample(logits, history, u, penalty, temperature, min_p):
    """Tokens said before made rarer, then a sample of those near the likeliest (arXiv:2407.01082)."""
    b = logits.size(0)
    scores = logits / temperature
    out = torch.empty(b, dtype=torch.int64, device=logits.device)
    for ib in tfl.grid(b):
        said = history[ib, :]
        seen = logits[ib, said] / temperature
        scores[ib, said] = torch.where(seen > 0, seen / penalty, seen * penalty)
    for tb in tfl.tile(b):
        probs = torch.softmax(scores[tb, :], 1)
        probs = torch.where(probs >= min_p * probs.amax(1, keepdim=True), probs, 0.0)
        sums = torch.cumsum(probs, 1)
        out[tb] = (sums < u[tb][:, None] * probs.sum(1, keepdim=True)).sum(1)
    return scores, out
