"""Numbers that serving language models makes of others: weights and keys of few bits, tokens out of logits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def make_awq(n: int, k: int, group: int, dtype: torch.dtype = torch.float32) -> Any:
    return randn(k, n, dtype=dtype).T, group


ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


def awq_ref(w: Any, group: int) -> Any:
    n, k = w.shape
    x = w.to(torch.float32).reshape(n, k // group, group)
    low, high = x.amin(2), x.amax(2)
    scale = ((high - low) / 15).clamp(min=1e-5)
    zero = torch.round(-low / scale).clamp(0, 15)
    code = (torch.round(x / scale[:, :, None]) + zero[:, :, None]).clamp(0, 15).reshape(n, k).long()

    def packed(code: Any) -> Any:
        code = code.reshape(*code.shape[:-1], -1, 8)
        bits = sum(code[..., place] << (4 * i) for i, place in enumerate(ORDER))
        return torch.where(bits >= 1 << 31, bits - (1 << 32), bits).int()

    return packed(code.T.contiguous()), packed(zero.long().T.contiguous()), scale.to(w.dtype).T


@stranger(
    make_awq, awq_ref, {"n": 40, "k": 96, "group": 32}, {"n": 4096, "k": 8192, "group": 128, "dtype": torch.float16}
)
@tileflow.kernel
def awq_pack(w, group: int):
    """Lin and others, 2023 (AWQ): four bits a weight with zero points, eight neighbours in an int32, evens first."""
    n, k = w.shape
    assert k % group == 0, f"k={k} must be whole groups of {group}"
    q = torch.empty(k, n // 8, dtype=torch.int32, device=w.device)
    zeros = torch.empty(k // group, n // 8, dtype=torch.int32, device=w.device)
    scales = torch.empty(k // group, n, dtype=w.dtype, device=w.device)
    wide = w.view(n // 8, 8, k // group, group)
    q_groups, wide_scales = q.view(k // group, group, n // 8), scales.view(k // group, n // 8, 8)

    def pack(codes):  # [words, 8, ...] -> [words, ...]
        word = codes[:, 0] & 0
        for shift, place in enumerate([0, 2, 4, 6, 1, 3, 5, 7]):
            word |= codes[:, place] << (4 * shift)
        return word

    for tn, tg in tfl.tile([n // 8, k // group]):
        x = wide[tn, :, tg, :].float()
        lo, hi = x.aminmax(dim=-1)
        scale = ((hi - lo) / 15).clamp(min=1e-5)
        zero = (-lo / scale).round().clamp(0, 15)
        code = (x / scale[..., None]).round() + zero[..., None]
        code = code.clamp(0, 15).to(torch.int32)
        for_store = pack(code)  # [tn, tg, group]
        q_groups[tg, :, tn] = for_store.permute(1, 2, 0)
        zeros[tg, tn] = pack(zero.to(torch.int32)).T
        wide_scales[tg, tn, :] = scale.permute(2, 0, 1)
    return q, zeros, scales


def make_both_ways(m: int, n: int, dtype: torch.dtype = torch.float32) -> Any:
    x = randn(m, n, dtype=dtype)
    x[0] = 0
    x[:, n // 2] *= 1000
    return (x,)


def both_ways_ref(x: Any) -> Any:
    wide = x.to(torch.float32)

    def quantise(x: Any) -> Any:  # along the last dimension
        amax = x.reshape(x.size(0), -1, 32).abs().amax(2).clamp(min=1e-12)
        exponent = torch.ceil(torch.log2(amax / 448)).clamp(-127, 127)
        scaled = x.reshape(x.size(0), -1, 32) / torch.exp2(exponent)[:, :, None]
        return scaled.reshape(x.shape).to(torch.float8_e4m3fn), (exponent + 127).to(torch.uint8)

    across, down = quantise(wide), quantise(wide.T.contiguous())
    return across[0], across[1], down[0], down[1]


@stranger(make_both_ways, both_ways_ref, {"m": 64, "n": 96}, {"m": 8192, "n": 4096, "dtype": torch.bfloat16})
@tileflow.kernel
def mxfp8_both_ways(x):
    """An activation in mxfp8, along its rows, and along its columns and transposed, for a product and a gradient."""
    m, n = x.shape
    block = 32
    a = torch.empty(m, n, dtype=torch.float8_e4m3fn, device=x.device)
    b = torch.empty(n, m, dtype=torch.float8_e4m3fn, device=x.device)
    a_scale = torch.empty(m, n // block, dtype=torch.uint8, device=x.device)
    b_scale = torch.empty(n, m // block, dtype=torch.uint8, device=x.device)

    def quantise(t, dim):
        amax = t.abs().amax(dim=dim, keepdim=True).clamp(min=1e-12)
        e = torch.ceil(torch.log2(amax / 448.0)).clamp(-127, 127)
        return (t / torch.exp2(e)).to(torch.float8_e4m3fn), (e + 127).to(torch.uint8).squeeze(dim)

    for tm, tn in tfl.tile([m, n], block_size=[block, block]):
        t = x[tm, tn].float()
        a[tm, tn], a_scale[tm, tn.id] = quantise(t, 1)
        qt, st = quantise(t, 0)
        b[tn, tm] = qt.T
        b_scale[tn, tm.id] = st
    return a, a_scale, b, b_scale


def make_rotate(t: int, heads: int, d: int, slots: int, dtype: torch.dtype = torch.float32) -> Any:
    slot = torch.randperm(slots)[:t].to(torch.int64)
    slot[t // 3] = -1
    cache = torch.zeros(heads, slots, d, dtype=torch.int8).transpose(0, 1)
    kv = randn(t, heads, 2, d, dtype=dtype)
    return kv[:, :, 0], cache, torch.zeros(slots, heads), slot


def rotate_ref(k: Any, cache: Any, scales: Any, slot: Any) -> Any:
    d = k.size(2)
    h = torch.ones(1, 1)
    while h.size(0) < d:
        h = torch.cat([torch.cat([h, h], 1), torch.cat([h, -h], 1)], 0)
    rotated = k.to(torch.float32) @ h.to(torch.float32) * d**-0.5
    scale = rotated.abs().amax(2) / 127
    code = torch.round(rotated / scale[:, :, None].clamp(min=1e-8)).clamp(-127, 127).to(torch.int8)
    keep = slot >= 0
    cache[slot[keep]] = code[keep]
    scales[slot[keep]] = scale[keep].to(scales.dtype)
    return cache, scales


@stranger(
    make_rotate,
    rotate_ref,
    {"t": 11, "heads": 3, "d": 32, "slots": 20},
    {"t": 8192, "heads": 8, "d": 128, "slots": 16384, "dtype": torch.bfloat16},
)
@tileflow.kernel
def rotate_into_cache(k, cache, scales, slot):
    """Ashkboos and others, 2024 (QuaRot): keys by Walsh's and Hadamard's rotation as int8, into slots of a cache."""
    t, heads, d = k.shape
    for tt, h in tfl.tile([t, heads], block_size=[None, 1]):
        x = k[tt, h.begin, :].float()
        half = 1
        while half < d:
            x = x.reshape(-1, d // (2 * half), 2, half)
            a, b = x[:, :, 0], x[:, :, 1]
            x = torch.stack([a + b, a - b], dim=2).reshape(-1, d)
            half *= 2
        x = x / math_sqrt(d)
        scale = x.abs().amax(-1) / 127
        code = torch.round(x / scale.clamp(min=1e-8)[:, None]).clamp(-127, 127).to(torch.int8)
        where = slot[tt]
        tfl.store(cache, [where, h.begin, slice(None)], code, extra_mask=(where >= 0)[:, None])
        tfl.store(scales, [where, h.begin], scale, extra_mask=where >= 0)
    return cache, scales


def math_sqrt(x: int) -> float:
    return float(x) ** 0.5


def make_typical(b: int, vocabulary: int, dtype: torch.dtype = torch.float32) -> Any:
    return randn(b, vocabulary, dtype=dtype) * 3, torch.rand(b), 0.6 + 0.3 * torch.rand(b), torch.arange(b) % 3 != 1


def typical_ref(logits: Any, u: Any, mass: Any, active: Any) -> Any:
    wide = torch.promote_types(logits.dtype, torch.float32)
    logp = logits.to(wide).log_softmax(1)
    p = logp.exp()
    entropy = -(p * logp).sum(1, keepdim=True)
    shift = (-logp - entropy).abs()
    order = shift.argsort(dim=1, stable=True)
    sums = p.gather(1, order).cumsum(1)
    keep = torch.zeros_like(p, dtype=torch.bool).scatter(1, order, sums - p.gather(1, order) < mass[:, None].to(wide))
    q = torch.where(keep, p, 0)
    sums = q.cumsum(1)
    token = (sums <= u[:, None].to(wide) * sums[:, -1:]).sum(1).clamp(max=p.size(1) - 1)
    greedy = logits.argmax(1)
    token = torch.where(active, token, greedy)
    return token, torch.where(active, keep.sum(1), 1).int()


@stranger(make_typical, typical_ref, {"b": 7, "vocabulary": 61}, {"b": 128, "vocabulary": 16000})
@tileflow.kernel
def typical_sample(logits, u, mass, active):
    """Meister and others, 2022: tokens about as surprising as expected, until they hold a part of the probability."""
    b, vocabulary = logits.shape
    token = torch.empty(b, dtype=torch.int64, device=logits.device)
    kept = torch.empty(b, dtype=torch.int32, device=logits.device)
    for i in tfl.grid(b):
        x = logits[i, :].float()
        if active[i]:
            logp = F.log_softmax(x, dim=-1)
            p = logp.exp()
            entropy = -(p * logp).sum()
            shift, order = torch.sort(torch.abs(-logp - entropy))
            ranked = p[order]
            inside = ranked.cumsum(0) - ranked < mass[i]
            count = inside.sum()
            cutoff = torch.where(inside, shift, -1.0).amax()
            q = torch.where(torch.abs(-logp - entropy) <= cutoff, p, 0.0)
            sums = q.cumsum(0)
            token[i] = (sums <= u[i] * q.sum()).sum().clamp(max=vocabulary - 1)
            kept[i] = count
        else:
            token[i] = x.argmax()
            kept[i] = 1
    return token, kept


@dataclass(frozen=True)
class Penalties:
    repetition: float
    frequency: float
    presence: float


def make_penalties(b: int, vocabulary: int, prompt: int, output: int, dtype: torch.dtype = torch.float32) -> Any:
    prompts = torch.randint(0, vocabulary, (b, prompt))
    outputs = torch.randint(0, vocabulary, (b, output))
    outputs[torch.arange(output)[None, :] >= torch.randint(0, output, (b, 1))] = vocabulary  # padding
    allowed = torch.randint(-(2**31), 2**31, (b, -(-vocabulary // 32))).int()
    logits = randn(b, vocabulary + 5, dtype=dtype)[:, :vocabulary]
    return logits, prompts, outputs, allowed, Penalties(1.2, 0.3, 0.1), torch.tensor(2), vocabulary - 1


def penalties_ref(logits: Any, prompts: Any, outputs: Any, allowed: Any, by: Any, least: Any, end: int) -> Any:
    b, vocabulary = logits.shape
    wide = torch.promote_types(logits.dtype, torch.float32)
    count = torch.zeros(b, vocabulary + 1, dtype=torch.int32)
    count.scatter_add_(1, outputs, torch.ones_like(outputs, dtype=torch.int32))
    count = count[:, :vocabulary]
    seen = torch.zeros(b, vocabulary, dtype=torch.bool).scatter(1, prompts, True) | (count > 0)
    x = logits.to(wide)
    x = torch.where(seen, torch.where(x > 0, x / by.repetition, x * by.repetition), x)
    x = x - by.frequency * count - by.presence * (count > 0)
    v = torch.arange(vocabulary)
    x = torch.where((allowed[:, v // 32] >> (v % 32)) & 1 == 1, x, float("-inf"))
    early = (outputs < vocabulary).sum(1) < least
    x[early, end] = float("-inf")
    logits.copy_(x)
    return logits


@stranger(
    make_penalties,
    penalties_ref,
    {"b": 5, "vocabulary": 101, "prompt": 17, "output": 9},
    {"b": 256, "vocabulary": 128256, "prompt": 2048, "output": 512, "dtype": torch.float16},
)
@tileflow.kernel
def apply_penalties_(logits, prompts, outputs, allowed, by, least, end: int):
    """What servers do to logits before sampling: penalties for tokens seen, a grammar's bits, no early end."""
    b, vocabulary = logits.shape
    counts = torch.zeros(b, vocabulary, dtype=torch.int32, device=logits.device)
    seen = torch.zeros(b, vocabulary, dtype=torch.bool, device=logits.device)
    written = torch.zeros(b, dtype=torch.int32, device=logits.device)
    for tb, to in tfl.tile([b, outputs.shape[1]]):
        token = outputs[tb, to]
        real = token < vocabulary
        tfl.atomic_add(counts, [tb.index[:, None], token], real.int(), extra_mask=real)
        tfl.atomic_add(written, [tb], real.sum(1).int())
    for tb, tp in tfl.tile([b, prompts.shape[1]]):
        seen[tb.index[:, None], prompts[tb, tp]] = True
    for tb, tv in tfl.tile([b, vocabulary]):
        x = logits[tb, tv].float()
        count = counts[tb, tv]
        x = torch.where(seen[tb, tv] | (count > 0), torch.where(x > 0, x / by.repetition, x * by.repetition), x)
        x -= by.frequency * count + by.presence * (count > 0)
        bit = allowed[tb, tv.index // 32] >> (tv.index % 32)
        x = torch.where(bit & 1 == 0, float("-inf"), x)
        x = torch.where((tv.index == end)[None, :] & (written[tb] < least)[:, None], float("-inf"), x)
        logits[tb, tv] = x
    return logits
