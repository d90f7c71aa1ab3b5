"""Databases: joins and groups by hashing, bitmaps, packed columns, sums of reports, distinct counts, texts."""

from __future__ import annotations

import itertools
import random
from typing import Any

import torch

import tileflow
import tileflow.compat.helion as helion
import tileflow.compat.helion.language as hl
import tileflow.language as tfl

from .stranger import stranger


def make_join(n: Any, m: Any, size: Any) -> Any:
    keys = torch.randperm(4 * n)[:n].int()
    return keys, torch.randint(0, 1000, (n,)).int(), torch.randint(0, 4 * n, (m,)).int(), size


def join_ref(keys: Any, values: Any, probes: Any, size: Any) -> Any:
    table = torch.full((4 * keys.numel(),), -1, dtype=torch.int32)
    table[keys.long()] = values
    found = table[probes.long()]
    return found, (found >= 0).sum(), found.clamp(min=0).sum()


@stranger(
    make_join,
    join_ref,
    {"n": 37, "m": 51, "size": 128},
    {"n": 1 << 22, "m": 1 << 24, "size": 1 << 24},
)
@tileflow.kernel
def hash_join(keys, values, probes, size: tfl.constexpr):
    """Open addresses: a key takes the first free slot after its own, and a probe walks the same way."""
    slots = torch.full([size], -1, dtype=torch.int32, device=keys.device)
    stored = torch.empty(size, dtype=torch.int32, device=keys.device)
    out = torch.empty_like(probes)
    matches = torch.zeros((), dtype=torch.int64, device=keys.device)
    total = torch.zeros((), dtype=torch.int64, device=keys.device)
    for t in tfl.tile(keys.numel()):
        key = keys[t]
        slot = ((key * 0x9E3779B1) >> 7) & (size - 1)
        waiting = key >= 0
        for _ in range(16):
            old = tfl.atomic_cas(slots, [slot], -1, key, extra_mask=waiting)
            won = waiting & (old == -1)
            tfl.store(stored, [slot], values[t], extra_mask=won)
            waiting = waiting & ~won
            slot = torch.where(waiting, (slot + 1) & (size - 1), slot)
    for t in tfl.tile(probes.numel()):
        key = probes[t]
        slot = ((key * 0x9E3779B1) >> 7) & (size - 1)
        found = tfl.full([t], -1, dtype=torch.int32)
        looking = key >= 0
        for _ in range(16):
            seen = tfl.load(slots, [slot], extra_mask=looking)
            hit = looking & (seen == key)
            found = torch.where(hit, tfl.load(stored, [slot], extra_mask=hit), found)
            looking = looking & (seen != key) & (seen != -1)
            slot = (slot + 1) & (size - 1)
        out[t] = found
        tfl.atomic_add(matches, [], (found >= 0).sum())
        tfl.atomic_add(total, [], found.clamp(min=0).sum())
    return out, matches, total


def group_ref(keys: Any, values: Any, groups: Any) -> Any:
    k = keys.long()
    count = torch.bincount(k, minlength=groups)
    zero = torch.zeros(groups, dtype=values.dtype)
    low = torch.full_like(zero, float("inf")).scatter_reduce(0, k, values, "amin")
    high = torch.full_like(zero, float("-inf")).scatter_reduce(0, k, values, "amax")
    return count.int(), zero.index_add(0, k, values) / count.clamp(min=1), low, high


@stranger(
    lambda n, groups: (torch.randint(0, groups, (n,)).int(), torch.rand(n) + 0.5, groups),
    group_ref,
    {"n": 201, "groups": 7},
    {"n": 1 << 24, "groups": 4096},
)
@tileflow.kernel
def group_by(keys, values, groups: int):
    count = torch.zeros(groups, dtype=torch.int32, device=keys.device)
    total = torch.zeros(groups, device=keys.device)
    low = torch.full([groups], float("inf"), device=keys.device)
    high = torch.full([groups], float("-inf"), device=keys.device)
    for t in tfl.tile(keys.numel()):
        k, x = keys[t], values[t]
        tfl.atomic_add(count, [k], 1)
        tfl.atomic_add(total, [k], x)
        tfl.atomic_min(low, [k], x)
        tfl.atomic_max(high, [k], x)
    mean = torch.empty_like(total)
    for t in tfl.tile(groups):
        mean[t] = total[t] / count[t].clamp(min=1)
    return count, mean, low, high


def ones(x: Any) -> Any:
    x = x - ((x >> 1) & 0x55555555)
    x = (x & 0x33333333) + ((x >> 2) & 0x33333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F
    return ((x * 0x01010101) >> 24) & 0xFF


def bitmaps_ref(maps: Any, chosen: Any, deleted: Any) -> Any:
    rows = ~deleted
    for group in chosen.tolist():
        either = maps[group[0]]
        for i in group[1:]:
            either = either | maps[i]
        rows = rows & either
    return rows, ones(rows).sum()


@stranger(
    lambda m, w, a, b: (
        torch.randint(-(1 << 31), 1 << 31, (m, w)).int(),
        torch.randint(0, m, (a, b)).int(),
        torch.randint(0, 1 << 31, (w,)).int(),
    ),
    bitmaps_ref,
    {"m": 6, "w": 45, "a": 2, "b": 3},
    {"m": 48, "w": 1 << 21, "a": 4, "b": 6},
)
@tileflow.kernel
def bitmap_filter(maps, chosen, deleted):
    """Rows for which each of several conditions holds, a condition being any of several bitmaps."""
    w = maps.size(1)
    a, b = chosen.shape
    out = torch.empty_like(deleted)
    count = torch.zeros((), dtype=torch.int64, device=maps.device)
    for t in tfl.tile(w):
        rows = ~deleted[t]
        for i in range(a):
            either = tfl.zeros([t], dtype=torch.int32)
            for j in range(b):
                either = either | maps[chosen[i, j], t]
            rows = rows & either
        out[t] = rows
        tfl.atomic_add(count, [], ones(rows).sum())
    return out, count


def make_packed(blocks: Any) -> Any:
    choose = random.Random(0)
    widths = [choose.randint(1, 20) for _ in range(blocks)]
    starts = list(itertools.accumulate([4 * w for w in widths], initial=0))
    words = torch.randint(-(1 << 31), 1 << 31, (starts[-1] + 1,)).int()
    return words, torch.tensor(widths).int(), torch.tensor(starts[:-1]).int(), torch.randint(0, 1000, (blocks,)).int()


def packed_ref(words: Any, widths: Any, starts: Any, base: Any) -> Any:
    w = words.long() & 0xFFFFFFFF
    bit = torch.arange(128) * widths[:, None]
    word = starts[:, None] + bit // 32
    both = w[word] | (w[word + 1] << 32)
    delta = (both >> (bit % 32)) & ((1 << widths[:, None].long()) - 1)
    return (base[:, None] + delta.cumsum(1)).int()


@stranger(make_packed, packed_ref, {"blocks": 7}, {"blocks": 1 << 18})
@tileflow.kernel
def unpack_deltas(words, widths, starts, base):
    """Lemire and Boytsov, 2012: blocks of 128 ints, each with bits of its own width, as differences."""
    blocks = widths.size(0)
    out = torch.empty(blocks, 128, dtype=torch.int32, device=words.device)
    for t in tfl.tile(blocks):
        width = widths[t].long()[:, None]
        bit = tfl.arange(128)[None, :] * width
        place = starts[t][:, None] + bit // 32
        low = words[place].long() & 0xFFFFFFFF
        high = words[place + 1].long() & 0xFFFFFFFF
        both = low | (high << 32)
        delta = (both >> (bit % 32)) & ((1 << width) - 1)
        out[t, :] = base[t][:, None] + torch.cumsum(delta, 1)
    return out


def make_lines(n: Any) -> Any:
    return (
        torch.randint(1, 51, (n,)).float(),
        torch.rand(n) * 1000,
        torch.randint(0, 11, (n,)).float() / 100,
        torch.randint(0, 9, (n,)).float() / 100,
        torch.randint(0, 6, (n,), dtype=torch.int8),
        torch.randint(0, 2500, (n,), dtype=torch.int16),
        2400,
    )


def summary_ref(quantity: Any, price: Any, discount: Any, tax: Any, group: Any, date: Any, last: Any) -> Any:
    g = torch.where(date <= last, group.long(), 6)
    net = price * (1 - discount)
    columns = torch.stack([quantity, price, net, net * (1 + tax), discount, torch.ones_like(tax)], 1)
    return torch.zeros(7, 6, dtype=columns.dtype).index_add(0, g, columns)[:6].clone()


@stranger(make_lines, summary_ref, {"n": 201}, {"n": 1 << 25})
@helion.kernel()
def pricing_summary(
    quantity: torch.Tensor,
    price: torch.Tensor,
    discount: torch.Tensor,
    tax: torch.Tensor,
    group: torch.Tensor,
    date: torch.Tensor,
    last: int,
) -> torch.Tensor:
    """The first query of TPC-H: sums of several columns for each of six groups."""
    out = torch.zeros([6, 6], dtype=torch.float32, device=price.device)
    for tile in hl.tile(price.size(0)):
        kept = date[tile] <= last
        net = price[tile] * (1 - discount[tile])
        charge = net * (1 + tax[tile])
        for g in hl.static_range(6):
            mine = kept & (group[tile] == g)
            hl.atomic_add(out, [g, 0], torch.where(mine, quantity[tile], 0.0).sum())
            hl.atomic_add(out, [g, 1], torch.where(mine, price[tile], 0.0).sum())
            hl.atomic_add(out, [g, 2], torch.where(mine, net, 0.0).sum())
            hl.atomic_add(out, [g, 3], torch.where(mine, charge, 0.0).sum())
            hl.atomic_add(out, [g, 4], torch.where(mine, discount[tile], 0.0).sum())
            hl.atomic_add(out, [g, 5], mine.to(torch.float32).sum())
    return out


def spread(x: Any) -> Any:
    x = (x ^ (x >> 30)) * -0x40A7B892E31B1A47
    x = (x ^ ((x >> 27) & 0x1FFFFFFFFF)) * -0x6B2FB644ECCEEE15
    return x ^ ((x >> 31) & 0x1FFFFFFFF)


def distinct_ref(keys: Any, p: Any) -> Any:
    h = spread(keys) & 0x7FFFFFFFFFFFFFFF
    slot, rest = h & (2**p - 1), h >> p
    rank = torch.ones_like(rest, dtype=torch.int32)
    free = torch.ones_like(rest, dtype=torch.bool)
    for i in range(40):
        free = free & (((rest >> i) & 1) == 0)
        rank += free.int()
    registers = torch.zeros(2**p, dtype=torch.int32).scatter_reduce(0, slot, rank, "amax")
    m = 2**p
    return registers, (0.7213 / (1 + 1.079 / m) * m * m / torch.exp2(-registers.double()).sum()).float()


@stranger(lambda n, p: (torch.randint(0, 1 << 62, (n,)), p), distinct_ref, {"n": 201, "p": 4}, {"n": 1 << 25, "p": 14})
@tileflow.kernel
def distinct_count(keys, p: tfl.constexpr):
    """HyperLogLog (Flajolet et al., 2007): each register keeps the longest run of zeros among its hashes."""
    m = 2**p
    registers = torch.zeros(m, dtype=torch.int32, device=keys.device)
    estimate = torch.empty((), device=keys.device)
    for t in tfl.tile(keys.numel()):
        h = spread(keys[t]) & 0x7FFFFFFFFFFFFFFF
        rest = h >> p
        lowest = (rest & -rest) & 0xFFFFFFFFFF
        zeros = torch.where(lowest == 0, 40, (torch.log2(lowest.double()) + 0.5).int())
        tfl.atomic_max(registers, [h & (m - 1)], zeros + 1)
    for _ in tfl.grid(1):
        total = torch.exp2(-registers[:].float()).sum()
        estimate[()] = 0.7213 / (1 + 1.079 / m) * m * m / total
    return registers, estimate


def make_texts(n: Any, width: Any) -> Any:
    return (
        torch.randint(97, 101, (n, width), dtype=torch.uint8),
        torch.randint(0, width + 1, (n,), dtype=torch.int32),
        torch.tensor([97, 99, 98, 97, 100], dtype=torch.uint8),
    )


def texts_ref(text: Any, length: Any, word: Any) -> Any:
    w = word.numel()
    n = text.size(1) - w + 1
    same = torch.ones(text.size(0), n, dtype=torch.bool)
    for j in range(w):
        same &= text[:, j : j + n] == word[j]
    same &= torch.arange(n) + w <= length[:, None]
    first = torch.where(same, torch.arange(n), n).amin(1)
    return torch.where(first < n, first, -1).int(), same.sum(1).int()


@stranger(make_texts, texts_ref, {"n": 13, "width": 37}, {"n": 1 << 22, "width": 64})
@tileflow.kernel
def find_word(text, length, word):
    """Where a column of texts has a word first, and how often."""
    n, width = text.shape
    w = word.numel()
    first = torch.empty(n, dtype=torch.int32, device=text.device)
    times = torch.empty(n, dtype=torch.int32, device=text.device)
    for t in tfl.tile(n):
        i = tfl.arange(width - w + 1)
        same = (i + w)[None, :] <= length[t][:, None]
        for j in range(w):
            same = same & (text[t, j : j + width - w + 1] == word[j])
        place = torch.where(same, i, width).amin(1)
        first[t] = torch.where(place < width, place, -1)
        times[t] = same.sum(1)
    return first, times
