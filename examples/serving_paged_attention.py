"""Attention of one new token per sequence over a paged cache of keys and values: a decoder's step.

A table lists the pages of each sequence. The query heads that share a key's head are the rows of one product. Long
sequences are split into parts, each a program with an online softmax of its own (Dao et al., Flash-Decoding, 2023); a
second launch combines the parts, weighted by their sums.
"""

from __future__ import annotations

import math

import torch

import tileflow
import tileflow.language as tfl

LOG2_E = 1 / math.log(2)
PAGE = 16  # tokens
PROGRAMS = 264  # enough for two on each multiprocessor of the largest devices
LEAST_PART = 256  # tokens


def inputs(
    batch: int,
    h: int,
    hk: int,
    d: int,
    n: int,
    dtype: torch.dtype = torch.bfloat16,
    cache_dtype: torch.dtype | None = None,
    device: str = "cpu",
) -> tuple[torch.Tensor | float, ...]:
    """Return random queries and cache for sequences of 1 to ``n`` tokens, whose pages are in reverse order."""
    pages = -(-n // PAGE)
    cache = torch.randn(2, batch * pages, PAGE, hk, d, dtype=dtype, device=device).to(cache_dtype or dtype)
    table = torch.arange(batch * pages, device=device).flip(0).view(batch, pages).int()
    lengths = (n - torch.arange(batch, device=device) * (n - 1) // max(2 * batch, 1)).int()
    return torch.randn(batch, h, d, dtype=dtype, device=device), cache[0], cache[1], table, lengths, 1.0, 1.0


def reference(
    q: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    table: torch.Tensor,
    lengths: torch.Tensor,
    key_scale: float,
    value_scale: float,
) -> torch.Tensor:
    """Gather all pages of every sequence, and mask what lies past its end."""
    _, h, d = q.shape
    keys, values = (cache[table.long()].flatten(1, 2).to(q.dtype) for cache in (key_cache, value_cache))
    group = h // keys.size(2)
    keys, values = (x.repeat_interleave(group, dim=2).transpose(1, 2) for x in (keys, values))
    scores = (q[:, :, None] @ keys.mT) * (key_scale / math.sqrt(d))
    past = torch.arange(keys.size(2), device=q.device) >= lengths[:, None]
    weights = torch.softmax(scores.masked_fill(past[:, None, None], float("-inf")).float(), dim=-1)
    return (weights.to(q.dtype) @ values)[:, :, 0] * value_scale


def part_choices(programs: int, tokens: int) -> list[int]:
    """Parts that a sequence may be cut into, the most promising first."""
    wanted = max(min(PROGRAMS // max(programs, 1), tokens // LEAST_PART), 1)
    best = 1 << (wanted.bit_length() - 1)
    return [best, *(n for n in (1, 2, 4, 8, 16, 32, 64) if n != best)]


@tileflow.kernel(inputs=inputs, reference=reference)
def paged_attention(
    q: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    table: torch.Tensor,
    lengths: torch.Tensor,
    key_scale: float = 1.0,
    value_scale: float = 1.0,
) -> torch.Tensor:
    """(batch, heads, d) by caches (pages, tokens, key heads, d), of ``q``'s dtype or fp8 with a scale, to the same.
    ``table``: (batch, most pages); ``lengths``: at least 1 token of each."""
    batch, h, d = q.shape
    page, hk = key_cache.size(1), key_cache.size(2)
    assert h % hk == 0, f"{h} heads do not share {hk} evenly"
    group, most = h // hk, table.size(1) * page
    parts = tfl.register_tunable("parts", part_choices(batch * hk, most))
    length = -(-most // (parts * page)) * page
    is_whole = parts == 1
    out = torch.empty_like(q)
    q, heads_out = q.unflatten(1, (hk, group)), out.unflatten(1, (hk, group))
    sums = torch.empty(0 if is_whole else batch, hk, parts, group, d, dtype=torch.float32, device=q.device)
    peaks, totals = (torch.empty(sums.shape[:-1], dtype=torch.float32, device=q.device) for _ in range(2))
    scale = key_scale * LOG2_E / math.sqrt(d)
    block_n = tfl.register_block_size(16, 256)
    for b, head, part in tfl.grid([batch, hk, parts]):
        query = q[b, head, :, :]
        peak, total, acc = tfl.full([group], float("-inf")), tfl.zeros([group]), tfl.zeros([group, d])
        for tile_n in tfl.tile(part * length, min((part + 1) * length, lengths[b]), block_size=block_n):
            pages, rows = table[b, tile_n.index // page], tile_n.index % page
            scores = tfl.dot(query, key_cache[pages, rows, head, :].to(query.dtype).T) * scale
            new_peak = torch.maximum(peak, torch.amax(scores, dim=1))
            weights = torch.exp2(scores - new_peak[:, None])
            shrink = torch.exp2(peak - new_peak)
            value = value_cache[pages, rows, head, :].to(query.dtype)
            acc = tfl.dot(weights.to(query.dtype), value, acc=acc * shrink[:, None])
            total = total * shrink + weights.sum(dim=1)
            peak = new_peak
        if is_whole:
            heads_out[b, head, :, :] = acc / total[:, None] * value_scale
        else:
            sums[b, head, part, :, :] = acc
            peaks[b, head, part, :] = peak
            totals[b, head, part, :] = total
    if not is_whole:
        for b, head in tfl.grid([batch, hk]):
            peak = peaks[b, head, :, :]
            shares = torch.exp2(peak - torch.amax(peak, dim=0)[None, :])  # 0 of a part without tokens
            total = (totals[b, head, :, :] * shares).sum(dim=0)
            acc = (sums[b, head, :, :, :] * shares[:, :, None]).sum(dim=0)
            heads_out[b, head, :, :] = acc / total[:, None] * value_scale
    return out
