"""What decoding keeps: caches, trees of drafts, packed sequences, near keys."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

import tileflow
import tileflow.compat.helion as helion
import tileflow.compat.helion.language as hl
import tileflow.language as tfl

from .stranger import randn, stranger


def make_nat(b, h, t, d, dtype=torch.float32):
    return tuple(randn(b, h, t, d, dtype=dtype) for _ in range(3))


def nat_ref(q, k, v, radius=3, dilation=2):
    t = q.size(2)
    i = torch.arange(t)
    gap = i[:, None] - i
    keep = (gap.abs() <= radius * dilation) & (gap % dilation == 0)
    s = (q.float() @ k.float().mT / math.sqrt(q.size(-1))).masked_fill(~keep, float("-inf"))
    return (s.softmax(-1) @ v.float()).to(q.dtype)


@stranger(
    make_nat,
    nat_ref,
    {"b": 2, "h": 2, "t": 37, "d": 16},
    {"b": 8, "h": 16, "t": 4096, "d": 64, "dtype": torch.bfloat16},
)
@tileflow.kernel
def neighbourhood_attention(q, k, v, radius: tfl.constexpr = 3, dilation: tfl.constexpr = 2):
    """arXiv:2204.07143, of a sequence, dilated: each query sees 2 * radius + 1 keys."""
    b, h, t, d = q.shape
    out = torch.empty_like(q)
    for tb, th, tt in tfl.tile([b, h, t], block_size=[1, 1, None]):
        ib, ih = tb.begin, th.begin
        query = q[ib, ih, tt, :].float() / math.sqrt(d)
        scores = []
        for step in tfl.static_range(-radius, radius + 1):
            at = tt.index + step * dilation
            there = (at >= 0) & (at < t)
            dots = (query * k[ib, ih, at, :]).sum(-1)
            scores.append(torch.where(there, dots, float("-inf")))
        weights = torch.softmax(torch.stack(scores, dim=-1), dim=-1)
        acc = tfl.zeros([tt, d])
        for n, step in enumerate(range(-radius, radius + 1)):
            acc += weights[:, n, None] * v[ib, ih, tt + step * dilation, :]
        out[ib, ih, tt, :] = acc
    return out


class Cache(NamedTuple):
    k: Any
    v: Any
    k_scale: Any
    v_scale: Any
    length: Any


def make_int8(b, h, n, d, dtype=torch.float32):
    c = Cache(
        torch.randint(-127, 128, (b, n, d), dtype=torch.int8),
        torch.randint(-127, 128, (b, n, d), dtype=torch.int8),
        torch.rand(b, n) / 50,
        torch.rand(b, n) / 50,
        torch.randint(1, n + 1, (b,)),
    )
    return randn(b, h, d, dtype=dtype), c


def int8_ref(q, c):
    k, v = c.k * c.k_scale[..., None], c.v * c.v_scale[..., None]
    s = q.float() @ k.mT / math.sqrt(q.size(-1))
    s = s.masked_fill(torch.arange(k.size(1)) >= c.length[:, None, None], float("-inf"))
    return (s.softmax(-1) @ v).to(q.dtype)


@stranger(
    make_int8,
    int8_ref,
    {"b": 3, "h": 16, "n": 37, "d": 16},
    {"b": 128, "h": 16, "n": 8192, "d": 128, "dtype": torch.bfloat16},
)
@tileflow.kernel
def int8_cache_decode(q, cache: Cache):
    """Multi-query decoding; a scale for each cached token."""
    b, h, d = q.shape
    out = torch.empty_like(q)
    for ib in tfl.grid(b):
        query = q[ib, :, :]
        best, total, acc = tfl.full([h], -math.inf), tfl.zeros([h]), tfl.zeros([h, d])
        for tn in tfl.tile(cache.length[ib]):
            key = cache.k[ib, tn, :].to(q.dtype)
            s = (query @ key.T) * cache.k_scale[ib, tn] / math.sqrt(d)
            new = torch.maximum(best, s.amax(-1))
            p, fade = torch.exp(s - new[:, None]), torch.exp(best - new)
            total = total * fade + p.sum(-1)
            p = p * cache.v_scale[ib, tn]
            acc = acc * fade[:, None] + p.to(q.dtype) @ cache.v[ib, tn, :].to(q.dtype)
            best = new
        out[ib, :, :] = acc / total[:, None]
    return out


def make_kvc(layers, b, n, d, keep, dtype=torch.float32):
    return [randn(b, n, d, dtype=dtype) for _ in range(2 * layers)], torch.rand(b, n), keep


def kvc_ref(caches, score, keep):
    idx = score.topk(keep, 1).indices.sort(1).values
    return [c.gather(1, idx[..., None].expand(-1, -1, c.size(2))) for c in caches], idx.int()


@stranger(
    make_kvc,
    kvc_ref,
    {"layers": 2, "b": 3, "n": 13, "d": 5, "keep": 6},
    {"layers": 4, "b": 8, "n": 1024, "d": 1024, "keep": 256, "dtype": torch.bfloat16},
)
@tileflow.kernel
def compact_cache(caches: list[torch.Tensor], score, keep: tfl.constexpr):
    """The best-scored tokens of each sequence, in order (H2O, arXiv:2306.14048)."""
    b = score.size(0)
    index = torch.empty(b, keep, dtype=torch.int32, device=score.device)
    out = [torch.empty(b, keep, c.size(2), dtype=c.dtype, device=c.device) for c in caches]
    for tb in tfl.tile(b):
        best = torch.topk(score[tb, :], keep, dim=-1).indices
        index[tb, :] = torch.sort(best.int(), dim=-1).values
    for new, old in zip(out, caches, strict=True):
        for tb, tk in tfl.tile([b, keep]):
            new[tb, tk, :] = old[tb.index[:, None], index[tb, tk], :]
    return out, index


def make_tree(b, n):
    with torch.device("cpu"):
        made = torch.stack(
            [torch.tensor([-1] + [int(torch.randint(0, i, ())) for i in range(1, n)]) for _ in range(b)]
        ).int()
    parent = torch.zeros(b, n, dtype=torch.int32).copy_(made)
    return parent, 6


def tree_ref(parent, depth):
    b, n = parent.shape
    mask = torch.zeros(b, n, n, dtype=torch.bool)
    level = torch.zeros(b, n, dtype=torch.int32)
    for s in range(b):
        for i in range(n):
            at = i
            for d in range(depth):
                if at < 0:
                    break
                mask[s, i, at] = True
                level[s, i] = d
                at = int(parent[s, at])
    return mask, level


@stranger(make_tree, tree_ref, {"b": 3, "n": 13}, {"b": 64, "n": 64})
@tileflow.kernel
def tree_mask(parent, depth: int):
    """Which drafted tokens each one sees: its ancestors (Medusa, SpecInfer)."""
    b, n = parent.shape
    mask = torch.zeros(b, n, n, dtype=torch.bool, device=parent.device)
    level = torch.zeros_like(parent)
    for tb, tn in tfl.tile([b, n], block_size=[1, None]):
        at = tn.index
        deep = torch.zeros_like(at)
        seen = torch.zeros(tn, n, dtype=torch.bool)
        for d in range(depth):
            seen = seen | (at[:, None] == torch.arange(n)[None, :])
            deep = torch.where(at >= 0, d, deep)
            at = torch.where(at >= 0, parent[tb.begin, at], -1)
        mask[tb.begin, tn, :] = seen
        level[tb.begin, tn] = deep
    return mask, level


def make_pack(b, t, d, dtype=torch.float32):
    lengths = torch.randint(1, t + 1, (b,), dtype=torch.int32)
    return randn(b, t, d, dtype=dtype), F.pad(lengths.cumsum(0), (1, 0)).int(), int(b * t)


def pack_ref(x, cu, total):
    b, _, d = x.shape
    out, pos, seq = (
        torch.zeros(total, d, dtype=x.dtype),
        torch.full((total,), -1, dtype=torch.int32),
        torch.full((total,), -1, dtype=torch.int32),
    )
    c = cu.tolist()
    for i in range(b):
        out[c[i] : c[i + 1]] = x[i, : c[i + 1] - c[i]]
        pos[c[i] : c[i + 1]] = torch.arange(c[i + 1] - c[i], dtype=torch.int32)
        seq[c[i] : c[i + 1]] = i
    return out, pos, seq


@stranger(make_pack, pack_ref, {"b": 3, "t": 11, "d": 5}, {"b": 64, "t": 2048, "d": 1024, "dtype": torch.bfloat16})
@helion.kernel(static_shapes=True)
def pack_sequences(x: torch.Tensor, cu: torch.Tensor, total: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    b, _, d = x.size()
    out = x.new_zeros([total, d])
    position = torch.full([total], -1, dtype=torch.int32, device=x.device)
    sequence = torch.full([total], -1, dtype=torch.int32, device=x.device)
    for i in hl.grid(b):
        start = cu[i]
        length = cu[i + 1] - start
        for tile_t in hl.tile(length):
            rows = start + tile_t.index
            out[rows, :] = x[i, tile_t, :]
            position[rows] = tile_t.index
            sequence[rows] = i
    return out, position, sequence
