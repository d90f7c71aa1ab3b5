"""Serving of language models: formats of weights, experts' queues, pages of caches, samplers, grammars, positions."""

from __future__ import annotations

import math
import random
from typing import Any

import torch

import tileflow
import tileflow.compat.helion as helion
import tileflow.compat.helion.language as hl
import tileflow.language as tfl

from .stranger import randn, stranger


def make_q4k(t: Any, n: Any, blocks: Any, dtype: Any = torch.float32) -> Any:
    return (
        randn(t, blocks * 256, dtype=dtype),
        (torch.rand(n, blocks) * 0.01).half(),
        (torch.rand(n, blocks) * 0.01).half(),
        torch.randint(0, 256, (n, blocks, 12), dtype=torch.uint8),
        torch.randint(0, 256, (n, blocks, 128), dtype=torch.uint8),
    )


def q4k_ref(x: Any, d: Any, dmin: Any, scales: Any, codes: Any) -> Any:
    s = scales.int()
    low, mid, high = s[..., :4], s[..., 4:8], s[..., 8:]
    sc = torch.cat([low & 63, (high & 15) | ((low >> 6) << 4)], -1)
    mn = torch.cat([mid & 63, (high >> 4) | ((mid >> 6) << 4)], -1)
    c = codes.view(*codes.shape[:2], 4, 32)
    q = torch.stack([c & 15, c >> 4], 3).flatten(2, 3)
    w = d.double()[..., None, None] * sc[..., None] * q - dmin[..., None, None] * mn[..., None]
    return (x.double() @ w.flatten(1).T).to(x.dtype)


@stranger(
    make_q4k,
    q4k_ref,
    {"t": 2, "n": 21, "blocks": 3},
    {"t": 4, "n": 14336, "blocks": 32, "dtype": torch.float16},
)
@tileflow.kernel
def q4k_linear(x, d, dmin, scales, codes):
    """llama.cpp's Q4_K: blocks of 256 weights, eight scales and eight minima of six bits in twelve bytes."""
    t = x.size(0)
    n, blocks = d.shape
    out = torch.empty(t, n, dtype=x.dtype, device=x.device)
    for tn in tfl.tile(n):
        acc = tfl.zeros([t, tn])
        for b in range(blocks):
            big, least = d[tn, b].float(), dmin[tn, b].float()
            for j in range(8):
                if j < 4:
                    sc = scales[tn, b, j].int() & 63
                    mn = scales[tn, b, j + 4].int() & 63
                else:
                    tail = scales[tn, b, j + 4].int()
                    sc = (tail & 15) | ((scales[tn, b, j - 4].int() >> 6) << 4)
                    mn = (tail >> 4) | ((scales[tn, b, j].int() >> 6) << 4)
                byte = codes[tn, b, 32 * (j // 2) : 32 * (j // 2) + 32]
                q = (byte >> 4) if j % 2 else (byte & 15)
                w = (big * sc)[:, None] * q.float() - (least * mn)[:, None]
                start = b * 256 + j * 32
                part = x[:, start : start + 32].float()
                acc += (part[:, None, :] * w[None, :, :]).sum(-1)
        out[:, tn] = acc
    return out


def make_choices(t: Any, k: Any, e: Any, block: Any) -> Any:
    return torch.rand(t, e).topk(k, 1).indices.int(), e, block


def queues_ref(choice: Any, e: Any, block: Any) -> Any:
    flat = choice.flatten().long()
    counts = torch.bincount(flat, minlength=e)
    padded = (counts + block - 1) // block * block
    ends = padded.cumsum(0)
    order = flat.argsort(stable=True)
    rank = torch.arange(flat.numel()) - (counts.cumsum(0) - counts)[flat[order]]
    out = torch.full((flat.numel() + e * block,), -1, dtype=torch.int32)
    out[(ends - padded)[flat[order]] + rank] = order.int()
    return out, ends.int(), counts.int()


@stranger(make_choices, queues_ref, {"t": 13, "k": 2, "e": 5, "block": 4}, {"t": 65536, "k": 8, "e": 128, "block": 64})
@tileflow.kernel
def expert_queues(choice, e: tfl.constexpr, block: tfl.constexpr):
    """Places of a batch's choices, expert by expert, each queue padded to whole blocks, as grouped products want."""
    flat = choice.view(-1)
    n = flat.numel()
    counts = torch.zeros(e, dtype=torch.int32, device=flat.device)
    ends = torch.empty(e, dtype=torch.int32, device=flat.device)
    out = torch.full([n + e * block], -1, dtype=torch.int32, device=flat.device)
    for t in tfl.tile(n):
        tfl.atomic_add(counts, [flat[t]], 1)
    for _ in tfl.grid(1):
        padded = (counts[:] + block - 1) // block * block
        ends[:] = torch.cumsum(padded, 0).int()
    for ie in tfl.grid(e):
        at = ends[ie] - (counts[ie] + block - 1) // block * block
        for t in tfl.tile(n):
            mine = flat[t] == ie
            place = at + torch.cumsum(mine.int(), 0) - 1
            tfl.store(out, [place], t.index, extra_mask=mine)
            at = at + mine.int().sum()
    return out, ends, counts


def make_pages(b: Any, h: Any, g: Any, d: Any, most: Any, dtype: Any = torch.float32) -> Any:
    lengths = random.Random(0)
    low, high = torch.sort(torch.randn(2, b * most, h, d), 0).values.to(dtype)
    return (
        randn(b, h * g, d, dtype=dtype),
        low,
        high,
        torch.randperm(b * most).view(b, most).int(),
        torch.tensor([lengths.randint(1, most) for _ in range(b)], dtype=torch.int32),
    )


def pages_ref(q: Any, low: Any, high: Any, table: Any, pages: Any) -> Any:
    h = low.size(1)
    out = []
    for i, n in enumerate(pages.tolist()):
        x, mine = q[i].float().unflatten(0, (h, 1, -1)), table[i].long()
        bound = torch.maximum(x * low[mine].transpose(0, 1)[:, :, None], x * high[mine].transpose(0, 1)[:, :, None])
        score = bound.sum(-1).amax(-1)
        out.append(torch.where(torch.arange(mine.numel()) < n, score, float("-inf")))
    return torch.stack(out).float()


@stranger(
    make_pages,
    pages_ref,
    {"b": 2, "h": 2, "g": 3, "d": 16, "most": 7},
    {"b": 64, "h": 8, "g": 4, "d": 128, "most": 512, "dtype": torch.bfloat16},
)
@tileflow.kernel
def page_bounds(q, low, high, table, pages):
    """Quest, arXiv:2406.10774: what a page of keys can score at most, from its least and largest coordinates."""
    b, heads, d = q.shape
    h = low.size(1)
    most = table.size(1)
    groups = q.view(b, h, heads // h, d)
    out = torch.empty(b, h, most, device=q.device)
    for ib, ih in tfl.grid([b, h]):
        for tp in tfl.tile(most):
            where = table[ib, tp]
            x = groups[ib, ih, :, :].float()[None, :, :]
            one = x * low[where, ih, :].float()[:, None, :]
            two = x * high[where, ih, :].float()[:, None, :]
            score = torch.maximum(one, two).sum(-1).amax(-1)
            out[ib, ih, tp] = torch.where(tp.index < pages[ib], score, float("-inf"))
    return out


def eta_ref(logits: Any, noise: Any, epsilon: Any) -> Any:
    log_p = torch.log_softmax(logits.float() if logits.dtype != torch.float64 else logits, -1)
    entropy = -(log_p.exp() * log_p).sum(-1)
    floor = torch.clamp(math.sqrt(epsilon) * torch.exp(-entropy), max=epsilon)
    kept = log_p.exp() >= torch.minimum(floor, log_p.exp().amax(-1))[:, None]
    race = torch.where(kept, log_p - torch.log(noise), float("-inf"))
    return race.argmax(-1), kept.to(entropy.dtype).mean(-1), entropy


@stranger(
    lambda b, v, dtype=torch.float32: (randn(b, v, dtype=dtype) * 3, -torch.log(torch.rand(b, v) + 1e-9), 3e-4),
    eta_ref,
    {"b": 5, "v": 45},
    {"b": 512, "v": 128256},
)
@tileflow.kernel
def eta_sample(logits, noise, epsilon: float):
    """Hewitt, Manning and Liang, 2022, arXiv:2210.15191: words below a floor that the entropy sets are out."""
    b, v = logits.shape
    token = torch.empty(b, dtype=torch.int64, device=logits.device)
    share = torch.empty(b, device=logits.device)
    entropy = torch.empty(b, device=logits.device)
    for tb in tfl.tile(b):
        top = tfl.full([tb], float("-inf"))
        total, mean = tfl.zeros([tb]), tfl.zeros([tb])
        for tv in tfl.tile(v):
            x = logits[tb, tv].float()
            new = torch.maximum(top, x.amax(1))
            e, fade = torch.exp(x - new[:, None]), torch.exp(top - new)
            total = total * fade + e.sum(1)
            mean = mean * fade + (e * x).sum(1)
            top = new
        lse = top + torch.log(total)
        h = lse - mean / total
        floor = torch.clamp(math.sqrt(epsilon) * torch.exp(-h), max=epsilon)
        floor = torch.minimum(floor, torch.exp(top - lse))
        best = tfl.full([tb], float("-inf"))
        winner = tfl.zeros([tb], dtype=torch.int64)
        count = tfl.zeros([tb], dtype=torch.int32)
        for tv in tfl.tile(v):
            log_p = logits[tb, tv].float() - lse[:, None]
            keep = log_p >= torch.log(floor)[:, None]
            race = torch.where(keep, log_p - torch.log(noise[tb, tv]), float("-inf"))
            high, place = torch.max(race, dim=1)
            winner = torch.where(high > best, tv.begin + place, winner)
            best = torch.maximum(best, high)
            count += keep.int().sum(1)
        token[tb] = winner
        share[tb] = count / v
        entropy[tb] = h
    return token, share, entropy


def make_grammar(b: Any, v: Any, dtype: Any = torch.float32) -> Any:
    words = torch.randint(-(1 << 31), 1 << 31, (b, (v + 31) // 32)).int()
    words[:, 0] |= 1
    return randn(b, v, dtype=dtype) * 2, words, torch.rand(b) + 0.5, randn(v)


def grammar_ref(logits: Any, words: Any, temperature: Any, bias: Any) -> Any:
    i = torch.arange(logits.size(1))
    allowed = ((words[:, i // 32] >> (i % 32).int()) & 1).bool()
    x = torch.where(allowed, (logits + bias) / temperature[:, None], float("-inf"))
    return torch.log_softmax(x, -1).to(logits.dtype), allowed.sum(1).int()


@stranger(make_grammar, grammar_ref, {"b": 5, "v": 77}, {"b": 512, "v": 151936, "dtype": torch.bfloat16})
@tileflow.kernel
def grammar_log_probs(logits, words, temperature, bias):
    """A bit for each word says whether the grammar allows it (XGrammar)."""
    b, v = logits.shape
    out = torch.empty_like(logits)
    count = torch.empty(b, dtype=torch.int32, device=logits.device)
    for tb in tfl.tile(b):
        top = tfl.full([tb], -1e30)
        total = tfl.zeros([tb])
        n = tfl.zeros([tb], dtype=torch.int32)
        for tv in tfl.tile(v):
            allowed = ((words[tb, tv.index // 32] >> (tv.index % 32)) & 1) == 1
            x = (logits[tb, tv].float() + bias[tv]) / temperature[tb][:, None]
            x = torch.where(allowed, x, float("-inf"))
            new = torch.maximum(top, x.amax(1))
            total = total * torch.exp(top - new) + torch.exp(x - new[:, None]).sum(1)
            top = new
            n += allowed.int().sum(1)
        lse = top + torch.log(total)
        count[tb] = n
        for tv in tfl.tile(v):
            allowed = ((words[tb, tv.index // 32] >> (tv.index % 32)) & 1) == 1
            x = (logits[tb, tv].float() + bias[tv]) / temperature[tb][:, None]
            out[tb, tv] = torch.where(allowed, x - lse[:, None], float("-inf"))
    return out, count


def merge_ref(a: Any, lse_a: Any, b: Any, lse_b: Any) -> Any:
    both = torch.logaddexp(lse_a, lse_b)
    out = a * torch.exp(lse_a - both)[..., None] + b * torch.exp(lse_b - both)[..., None]
    return out.to(a.dtype), both


@stranger(
    lambda t, h, d, dtype=torch.float32: (
        randn(t, h, d, dtype=dtype), randn(t, h) * 3, randn(t, h, d, dtype=dtype), randn(t, h) * 3,
    ),
    merge_ref,
    {"t": 5, "h": 3, "d": 20},
    {"t": 16384, "h": 32, "d": 128, "dtype": torch.bfloat16},
)  # fmt: skip
@helion.kernel(static_shapes=True)
def merge_states(
    a: torch.Tensor, lse_a: torch.Tensor, b: torch.Tensor, lse_b: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention over two parts of the keys as one (FlashInfer's cascades)."""
    t, h, _ = a.shape
    out = torch.empty_like(a)
    lse = torch.empty_like(lse_a)
    for tile_t, tile_h in hl.tile([t, h]):
        one, two = lse_a[tile_t, tile_h], lse_b[tile_t, tile_h]
        top = torch.maximum(one, two)
        wa, wb = torch.exp(one - top), torch.exp(two - top)
        total = wa + wb
        x = a[tile_t, tile_h, :].to(torch.float32) * (wa / total)[:, :, None]
        y = b[tile_t, tile_h, :].to(torch.float32) * (wb / total)[:, :, None]
        out[tile_t, tile_h, :] = (x + y).to(out.dtype)
        lse[tile_t, tile_h] = torch.log(total) + top
    return out, lse


def swiglu_ref(x: Any, bias: Any, alpha: Any = 1.702, limit: Any = 7.0) -> Any:
    y = x.float() + bias.float()
    gate, up = y[..., ::2].clamp(max=limit), y[..., 1::2].clamp(-limit, limit)
    h = (gate * torch.sigmoid(alpha * gate) * (up + 1)).unflatten(-1, (-1, 128))
    scale = h.abs().amax(-1).clamp(min=1e-6) / 448
    return (h / scale[..., None]).flatten(-2).to(torch.float32).to(torch.float8_e4m3fn), scale


@stranger(
    lambda t, d, dtype=torch.float32: (randn(t, 2 * d, dtype=dtype) * 3, randn(2 * d, dtype=dtype)),
    swiglu_ref,
    {"t": 5, "d": 256},
    {"t": 16384, "d": 2944, "dtype": torch.bfloat16},
)
@tileflow.kernel
def clamped_swiglu_fp8(x, bias, alpha=1.702, limit=7.0):
    """gpt-oss's experts: gates and values next to one another, clamped, then scaled by groups of 128 into float8."""
    t, d = x.size(0), x.size(1) // 2
    groups = d // 128
    out = torch.empty(t, groups, 128, dtype=torch.float8_e4m3fn, device=x.device)
    scales = torch.empty(t, groups, dtype=torch.float32, device=x.device)
    pairs, shift = x.view(t, groups, 128, 2), bias.view(groups, 128, 2)
    for tt, tg in tfl.tile([t, groups]):
        gate = pairs[tt, tg, :, 0].float() + shift[tg, :, 0]
        up = pairs[tt, tg, :, 1].float() + shift[tg, :, 1]
        gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
        h = gate * torch.sigmoid(alpha * gate) * (up + 1)
        scale = h.abs().amax(-1).clamp(min=1e-6) / 448
        scales[tt, tg] = scale
        out[tt, tg, :] = (h / scale[..., None]).to(torch.float8_e4m3fn)
    return out.view(t, d), scales


def make_mrope(t: Any, h: Any, d: Any, sections: Any, dtype: Any = torch.float32) -> Any:
    return randn(t, h, d, dtype=dtype), torch.randint(0, 2000, (3, t)).int(), sections


def mrope_ref(q: Any, position: Any, sections: Any, base: Any = 10000.0) -> Any:
    half = q.size(-1) // 2
    rate = base ** (-torch.arange(half, dtype=torch.float64) / half)
    axis = torch.repeat_interleave(torch.arange(3), torch.tensor(sections))
    angle = (position[axis].T * rate)[:, None]
    a, b = q[..., :half], q[..., half:]
    c, s = angle.cos(), angle.sin()
    return torch.cat([a * c - b * s, b * c + a * s], -1).to(q.dtype)


@stranger(
    make_mrope,
    mrope_ref,
    {"t": 7, "h": 3, "d": 16, "sections": (2, 3, 3)},
    {"t": 32768, "h": 32, "d": 128, "sections": (16, 24, 24), "dtype": torch.bfloat16},
)
@tileflow.kernel
def multimodal_rope(q, position, sections, base=10000.0):
    """Qwen2-VL, arXiv:2409.12191: time, row and column each turn their own share of the pairs."""
    t, h, d = q.shape
    half = d // 2
    out = torch.empty_like(q)
    for tt, th in tfl.tile([t, h]):
        i = tfl.arange(half)
        axis = torch.where(i < sections[0], 0, torch.where(i < sections[0] + sections[1], 1, 2))
        rate = torch.exp(i.float() * (-math.log(base) / half))
        angle = position[axis, tt].T.float() * rate
        c, s = angle.cos()[:, None, :], angle.sin()[:, None, :]
        a, b = q[tt, th, :half].float(), q[tt, th, half:].float()
        out[tt, th, :half] = a * c - b * s
        out[tt, th, half:] = b * c + a * s
    return out
