"""Around the layers of language models: drafts that are typical enough, experts by hashes, mixes with the past."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


class Typicality(NamedTuple):
    threshold: float = 0.09
    alpha: float = 0.3


def make_typicality(b: int, paths: int, depth: int, vocabulary: int, dtype: torch.dtype = torch.float32) -> Any:
    logits = randn(b, paths, depth, vocabulary, dtype=dtype) * 3
    others = torch.randint(vocabulary, (b, paths, depth))
    drafts = torch.where(torch.rand(b, paths, depth) < 0.7, logits.argmax(3), others)
    return logits, drafts, torch.randint(1, depth + 1, (b, paths), dtype=torch.uint8), Typicality()


def typicality_ref(logits: Any, drafts: Any, length: Any, rule: Typicality) -> Any:
    logp = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(3)
    p = logp.exp()
    entropy = -(p * logp).sum(3)
    bar = torch.clamp(rule.alpha * torch.exp(-entropy), max=rule.threshold)
    good = p.gather(3, drafts[..., None])[..., 0] > bar
    good &= torch.arange(drafts.size(2)) < length[..., None].long()
    accepted = good.long().cumprod(2).sum(2)
    score = torch.where(good.long().cumprod(2) > 0, logp.gather(3, drafts[..., None])[..., 0], 0).sum(2)
    best = torch.where(accepted == accepted.amax(1, keepdim=True), score, float("-inf")).argmax(1)
    rows = torch.arange(len(best))
    return best, accepted[rows, best].int(), accepted.bool()


@stranger(
    make_typicality,
    typicality_ref,
    {"b": 3, "paths": 5, "depth": 3, "vocabulary": 37},
    {"b": 8, "paths": 64, "depth": 4, "vocabulary": 32000, "dtype": torch.float16},
)
@tileflow.kernel
def typical_acceptance(logits, drafts, length, rule: Typicality):
    """Cai and others, 2024 (Medusa): drafted tokens stand where the model finds them typical; the longest path wins."""
    b, paths, depth, vocabulary = logits.shape
    accepted = logits.new_zeros((b, paths), dtype=torch.int32)
    score = logits.new_empty(b, paths, dtype=torch.float32)
    best = torch.full((b,), fill_value=-1, dtype=torch.int64, device=logits.device)
    count = torch.empty_like(best, dtype=torch.int32)
    any_accepted = torch.zeros_like(accepted, dtype=torch.bool)
    threshold, alpha = rule
    for i, p in tfl.grid([b, paths]):
        alive = torch.tensor(True)
        total = 0.0
        n = 0
        for d in range(depth):
            peak, z, weighted = torch.tensor(float("-inf")), torch.zeros(()), torch.zeros([])
            for tv in tfl.tile(vocabulary):
                row = logits[i, p, d, tv].float()
                new_peak = torch.maximum(peak, row.max())
                fade = (peak - new_peak).exp()
                e = (row - new_peak).exp()
                shifted = torch.where(e > 0, row - new_peak, 0.0)
                weighted = fade * (weighted + torch.where(z > 0, z * (peak - new_peak), 0.0)) + (e * shifted).sum()
                z = z * fade + e.sum()
                peak = new_peak
            entropy = z.log() - weighted / z
            logp = logits[i, p, d, drafts[i, p, d]].float() - peak - z.log()
            bar = (-entropy).exp().mul(alpha).clamp(max=threshold)
            alive = alive & (logp.exp() > bar) & (d < length[i, p])
            total += torch.where(alive, logp, 0)
            n += alive.int()
        accepted[i, p] = n
        score[i, p] = total
        any_accepted[i, p] = n.bool()
    tfl.barrier()
    for tb in tfl.tile(b):
        n = accepted[tb, :]
        longest = n.amax(dim=-1, keepdim=True)
        best[tb] = score[tb, :].masked_fill(n.ne(longest), float("-inf")).argmax(dim=-1)
        count[tb] = longest.squeeze(-1)
    return best, count, any_accepted


def make_hashed(t: int, d: int, experts: int, heads: int, dtype: torch.dtype = torch.float32) -> Any:
    words = torch.randint(0, 50_000, (t,))
    salts = torch.randint(1, 1 << 40, (heads,))
    w = randn(experts, d // heads, dtype=dtype)
    return randn(1, d, dtype=dtype).expand(t, d), words, salts, w


def hashed_ref(x: Any, words: Any, salts: Any, w: Any) -> Any:
    mixed = (words[:, None] + 1) * salts[None]
    mixed = mixed ^ (mixed >> 17)
    which = (mixed * 2654435761 % 2147483647) % w.size(0)
    out = x.unflatten(1, (salts.numel(), -1)) * w[which]
    return out.flatten(1), torch.bincount(which.flatten(), minlength=w.size(0))


@stranger(
    make_hashed,
    hashed_ref,
    {"t": 29, "d": 24, "experts": 7, "heads": 3},
    {"t": 65536, "d": 1024, "experts": 1000, "heads": 4, "dtype": torch.bfloat16},
)
@tileflow.kernel
def hash_layer(x, words, salts, w):
    """Roller and others, 2021 (hash layers): which expert takes a token is a hash of the word, with several hashes."""
    t, d = x.shape
    e, part = w.shape
    heads = d // part
    out = torch.empty((t, d), dtype=x.dtype, device=x.device)
    loads = torch.zeros(e, dtype=torch.long, device=x.device)
    by_head = out.view(t, heads, -1)
    x_heads = x.unflatten(-1, [heads, part])
    for tt, h in tfl.tile((t, heads), block_size=(None, 1)):
        key = words[tt].add(1) * salts[h.begin]
        key ^= key >> 17
        which = key.mul(2654435761).remainder(2147483647) % e
        by_head[tt, h.begin, ...] = x_heads[tt, h.begin, :] * w[which, :]
        tfl.atomic_add(loads, [which], 1)
    return out, loads


def make_shift(b: int, t: int, d: int, r: int, state: bool = True, dtype: torch.dtype = torch.float32) -> Any:
    last = randn(b, 1, d, dtype=dtype) if state else None
    down, up = randn(d, 5 * r, dtype=dtype) * d**-0.5, randn(5, r, d, dtype=dtype) * r**-0.5
    return randn(b, d, t, dtype=dtype).transpose(-1, -2), torch.rand(d), torch.rand(5, 1, d), down, up, last


def shift_ref(x: Any, base: Any, mix: Any, down: Any, up: Any, last: Any) -> Any:
    wide = torch.promote_types(x.dtype, torch.float32)
    first = torch.zeros_like(x[:, :1]) if last is None else last
    delta = torch.cat([first, x[:, :-1]], 1).to(wide) - x.to(wide)
    low = torch.tanh((x.to(wide) + delta * base.to(wide)) @ down.to(wide))
    low = low.unflatten(2, (5, -1)).permute(2, 0, 1, 3)
    offset = torch.einsum("kbtr,krd->kbtd", low, up.to(wide))
    return (x.to(wide) + delta * (mix[:, None].to(wide) + offset)).to(x.dtype), x[:, -1:].clone()


@stranger(
    make_shift,
    shift_ref,
    {"b": 2, "t": 9, "d": 20, "r": 16},
    {"b": 8, "t": 4096, "d": 2048, "r": 32, "dtype": torch.bfloat16},
)
@tileflow.kernel
def data_dependent_shift(x, base, mix, down, up, last=None):
    """Peng and others, 2024 (RWKV-6): five mixes of a token with the one before it, by what the two say themselves."""
    b, t, d = x.shape
    five, r, _ = up.shape
    out = x.new_empty(five, b, t, d)
    carried = torch.empty(b, 1, d, device=x.device, dtype=x.dtype)
    for tb, tt in tfl.tile([b, t], block_size=[1, None]):
        i = tb.begin
        low = tfl.zeros([tt, 5 * r], dtype=torch.float32)
        for td in tfl.tile(d):
            now = x[i, tt, td].float()
            before = tfl.load(x, [i, tt.index - 1, td], extra_mask=(tt.index >= 1)[:, None], other=0.0).float()
            if last is not None:
                before = torch.where((tt.index == 0)[:, None], last[i, 0, td].float()[None, :], before)
            mixed = torch.lerp(now, before, base[td])
            low = torch.addmm(low, mixed.to(down.dtype), down[td, :])
        low = low.tanh().to(up.dtype).view(-1, 5, r)
        for td in tfl.tile(d):
            now = x[i, tt, td].float()
            before = tfl.load(x, [i, tt.index - 1, td], extra_mask=(tt.index >= 1)[:, None], other=0.0).float()
            if last is not None:
                before = torch.where((tt.index == 0)[:, None], last[i, 0, td].float()[None, :], before)
            for k in range(5):
                weight = mix[k, 0, td] + low[:, k, :] @ up[k, :, td]
                out[k, i, tt, td] = torch.addcmul(now, weight, before - now)
    for tb, td in tfl.tile([b, d]):
        carried[tb, 0, td] = x[tb, -1, td]
    return out, carried
