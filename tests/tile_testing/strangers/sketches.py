"""Sketches, ciphers and matches: counts in little memory, signs of projections, keystreams, words that repeat."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import stranger


def mixed(x: Any, seed: Any) -> Any:
    x = (x ^ seed) & 0x7FFFFFFF
    x = ((x ^ (x >> 16)) * 0x45D9F3B) & 0x7FFFFFFF
    x = ((x ^ (x >> 16)) * 0x45D9F3B) & 0x7FFFFFFF
    return x ^ (x >> 16)


def count_min_ref(keys: Any, queries: Any, depth: int, width: int) -> Any:
    table = torch.stack(
        [torch.bincount(mixed(keys.long(), 7919 * (d + 1)) % width, minlength=width) for d in range(depth)]
    )
    found = [table[d][mixed(queries.long(), 7919 * (d + 1)) % width] for d in range(depth)]
    return table.int(), torch.stack(found).amin(0).int()


@stranger(
    lambda n, m, depth, width: (
        (torch.rand(n) ** 4 * (1 << 20)).int(),
        torch.randint(0, 1 << 20, (m,), dtype=torch.int32),
        depth,
        width,
    ),
    count_min_ref,
    {"n": 201, "m": 37, "depth": 3, "width": 64},
    {"n": 1 << 24, "m": 1 << 22, "depth": 4, "width": 1 << 16},
)
@tileflow.kernel
def count_min(keys, queries, depth: tfl.constexpr, width: tfl.constexpr):
    """Cormode and Muthukrishnan, 2005: a counter in each of a few rows, and the least of them."""
    table = torch.zeros(depth, width, dtype=torch.int32, device=keys.device)
    found = torch.empty(queries.numel(), dtype=torch.int32, device=keys.device)
    for t in tfl.tile(keys.numel()):
        key = keys[t].long()
        for d in range(depth):
            tfl.atomic_add(table, [d, mixed(key, 7919 * (d + 1)) % width], 1)
    for t in tfl.tile(queries.numel()):
        key = queries[t].long()
        least = table[0, mixed(key, 7919) % width]
        for d in range(1, depth):
            least = torch.minimum(least, table[d, mixed(key, 7919 * (d + 1)) % width])
        found[t] = least
    return table, found


def signs_ref(x: Any, planes: Any) -> Any:
    bits = (x.float() @ planes.float().T > 0).unflatten(1, (-1, 32)).long()
    code = (bits << torch.arange(32)).sum(-1)
    return torch.where(code >= 1 << 31, code - (1 << 32), code).int()


@stranger(
    lambda n, d, bits, dtype=torch.float32: (
        torch.randint(-4, 5, (n, d)).to(dtype) + 0.5,
        torch.randint(0, 2, (bits, d)).to(dtype) * 2 - 1 + torch.eye(bits, d).to(dtype) * 0.5,
    ),
    signs_ref,
    {"n": 19, "d": 16, "bits": 64},
    {"n": 1 << 17, "d": 256, "bits": 256, "dtype": torch.float16},
)
@tileflow.kernel
def sign_hashes(x, planes):
    """Charikar, 2002: on which side of each plane, 32 planes to an int."""
    n, _d = x.shape
    words = planes.size(0) // 32
    out = torch.empty(n, words, dtype=torch.int32, device=x.device)
    for t, w in tfl.tile([n, words], block_size=[None, 1]):
        side = tfl.dot(x[t, :], planes[w.begin * 32 : w.begin * 32 + 32, :].T) > 0
        out[t, w.begin] = (side.int() << tfl.arange(32)[None, :]).sum(1)
    return out


def turned_left(x: Any, n: int) -> Any:
    return (x << n) | ((x >> (32 - n)) & ((1 << n) - 1))


def quarter(x: list[Any], a: int, b: int, c: int, d: int) -> None:
    x[a] = x[a] + x[b]
    x[d] = turned_left(x[d] ^ x[a], 16)
    x[c] = x[c] + x[d]
    x[b] = turned_left(x[b] ^ x[c], 12)
    x[a] = x[a] + x[b]
    x[d] = turned_left(x[d] ^ x[a], 8)
    x[c] = x[c] + x[d]
    x[b] = turned_left(x[b] ^ x[c], 7)


QUARTERS = (
    (0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
    (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14),
)  # fmt: skip
SIGMA = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)


def cipher_ref(text: Any, key: Any, nonce: Any) -> Any:
    n = text.size(0)
    first = [torch.full((n,), s, dtype=torch.int32) for s in SIGMA]
    first += [k.expand(n) for k in key] + [torch.arange(n, dtype=torch.int32)] + [k.expand(n) for k in nonce]
    x = list(first)
    for _ in range(10):
        for q in QUARTERS:
            quarter(x, *q)
    return text ^ torch.stack([a + b for a, b in zip(x, first, strict=True)], 1)


@stranger(
    lambda n: tuple(torch.randint(-(1 << 31), 1 << 31, s).int() for s in ((n, 16), (8,), (3,))),
    cipher_ref,
    {"n": 37},
    {"n": 1 << 21},
)
@tileflow.kernel
def chacha20(text, key, nonce):
    """Bernstein, 2008 (RFC 8439): a block of sixteen words for each counter, over the text."""
    n = text.size(0)
    out = torch.empty_like(text)
    for t in tfl.tile(n):
        zero = tfl.zeros([t], dtype=torch.int32)
        first = [zero + s for s in SIGMA] + [zero + key[i] for i in range(8)]
        first += [zero + t.index] + [zero + nonce[i] for i in range(3)]
        x = list(first)
        for _ in range(10):
            for q in QUARTERS:
                quarter(x, *q)
        for i in range(16):
            out[t, i] = text[t, i] ^ (x[i] + first[i])
    return out


def repeats_ref(text: Any, window: int, most: int) -> Any:
    n = text.numel()
    i = torch.arange(n)
    padded = torch.cat([text.int(), torch.arange(-1, -most - 1, -1, dtype=torch.int32)])
    best, where = torch.zeros(n, dtype=torch.int32), torch.zeros(n, dtype=torch.int32)
    for back in range(1, window + 1):
        run, alive = torch.zeros(n, dtype=torch.int32), i >= back
        for k in range(most):
            alive = alive & (padded[i + k] == padded[(i + k - back).clamp(min=0)]) & (i + k < n)
            run += alive.int()
        better = run > best
        best, where = torch.where(better, run, best), torch.where(better, back, where)
    return best, where


@stranger(
    lambda n, window, most: (torch.randint(0, 4, (n,), dtype=torch.uint8), window, most),
    repeats_ref,
    {"n": 53, "window": 7, "most": 5},
    {"n": 1 << 21, "window": 64, "most": 16},
)
@tileflow.kernel
def longest_repeats(text, window, most: tfl.constexpr):
    """Ziv and Lempel, 1977: at each place, how long what follows was also there a little earlier."""
    n = text.numel()
    length = torch.empty(n, dtype=torch.int32, device=text.device)
    distance = torch.empty_like(length)
    for t in tfl.tile(n):
        best = tfl.zeros([t], dtype=torch.int32)
        where = tfl.zeros([t], dtype=torch.int32)
        for back in range(1, window + 1):
            run = tfl.zeros([t], dtype=torch.int32)
            alive = t.index >= back
            for k in range(most):
                place = t.index + k
                alive = alive & (place < n) & (text[place] == text[place - back])
                run += alive.int()
            where = torch.where(run > best, back, where)
            best = torch.maximum(best, run)
        length[t] = best
        distance[t] = where
    return length, distance


def common_ref(a: Any, b: Any) -> Any:
    row = torch.zeros(a.size(0), b.size(1) + 1, dtype=torch.int32)
    for i in range(a.size(1)):
        same = a[:, i, None] == b
        new = torch.maximum(row[:, 1:], row[:, :-1] + same)
        row = torch.cat([row[:, :1], new], 1).cummax(1).values
    return row[:, -1].int()


@stranger(
    lambda n, m, k: (
        torch.randint(97, 101, (n, m), dtype=torch.uint8),
        torch.randint(97, 101, (n, k), dtype=torch.uint8),
    ),
    common_ref,
    {"n": 19, "m": 13, "k": 21},
    {"n": 1 << 17, "m": 62, "k": 128},
)
@tileflow.kernel
def longest_common(a, b):
    """Hyyro, 2004: the longest common subsequence, a bit of an int64 for each letter of the first (at most 62)."""
    n, m = a.shape
    out = torch.empty(n, dtype=torch.int32, device=a.device)
    whole = (1 << m) - 1
    for t in tfl.tile(n):
        v = tfl.full([t], whole, dtype=torch.int64)
        for j in range(b.size(1)):
            letter = b[t, j]
            match = tfl.zeros([t], dtype=torch.int64)
            for i in range(m):
                match = match | ((a[t, i] == letter).long() << i)
            u = v & match
            v = ((v + u) | (v - u)) & whole
        zeros = tfl.zeros([t], dtype=torch.int32)
        for i in range(m):
            zeros += (1 - ((v >> i) & 1)).int()
        out[t] = zeros
    return out


def pairs_ref(tokens: Any, lengths: Any, vocabulary: int) -> Any:
    inside = torch.arange(tokens.size(1) - 1) + 1 < lengths[:, None]
    code = (tokens[:, :-1].long() * vocabulary + tokens[:, 1:])[inside]
    return torch.bincount(code, minlength=vocabulary**2).view(vocabulary, vocabulary).int()


@stranger(
    lambda b, n, vocabulary: (
        (torch.rand(b, n) ** 2 * vocabulary).to(torch.int16),
        torch.randint(n // 2, n + 1, (b,), dtype=torch.int32),
        vocabulary,
    ),
    pairs_ref,
    {"b": 5, "n": 23, "vocabulary": 16},
    {"b": 1 << 14, "n": 1024, "vocabulary": 1024},
)
@tileflow.kernel
def count_pairs(tokens, lengths, vocabulary: tfl.constexpr):
    """What a byte-pair encoder counts before each merge: neighbours in texts of many lengths."""
    b, n = tokens.shape
    counts = torch.zeros(vocabulary, vocabulary, dtype=torch.int32, device=tokens.device)
    for tb, tn in tfl.tile([b, n - 1]):
        inside = (tn.index + 1)[None, :] < lengths[tb][:, None]
        left, right = tokens[tb, tn].int(), tokens[tb, tn + 1].int()
        tfl.atomic_add(counts, [left, right], 1, extra_mask=inside)
    return counts
