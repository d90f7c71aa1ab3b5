"""Bits and bytes: checksums, hashes, filters of keys, codes along a curve, texts."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import stranger


def crc_ref(x: Any) -> Any:
    out = []

    for row in x.cpu().numpy():
        v = zlib.crc32(row.tobytes())
        out.append(v - (1 << 32) if v >= 1 << 31 else v)
    return torch.tensor(out, dtype=torch.int32)


def crc_table() -> Any:
    t = []
    for i in range(256):
        for _ in range(8):
            i = (i >> 1) ^ (0xEDB88320 if i & 1 else 0)
        t.append(i)
    return torch.tensor(t)


@stranger(
    lambda b, n: (torch.randint(0, 256, (b, n), dtype=torch.uint8), crc_table()),
    lambda x, t: crc_ref(x),
    {"b": 7, "n": 13},
    {"b": 65536, "n": 64},
)
@tileflow.kernel
def crc32(x, table):
    b, n = x.shape
    out = torch.empty(b, dtype=torch.int32, device=x.device)
    for tb in tfl.tile(b):
        crc = tfl.full([tb], 0xFFFFFFFF, dtype=torch.int64)
        for i in range(n):
            crc = table[(crc ^ x[tb, i]) & 0xFF] ^ (crc >> 8)
        out[tb] = (crc ^ 0xFFFFFFFF).to(torch.int32)
    return out


def murmur_py(keys: Any, seed: Any) -> Any:
    M = 0xFFFFFFFF
    h = torch.full_like(keys[:, 0].long(), seed)
    for i in range(keys.size(1)):
        k = keys[:, i].long() & M
        k = k * 0xCC9E2D51 & M
        k = (k << 15 | k >> 17) & M
        k = k * 0x1B873593 & M
        h = h ^ k
        h = (h << 13 | h >> 19) & M
        h = (h * 5 + 0xE6546B64) & M
    h = h ^ 4 * keys.size(1)
    h = h ^ h >> 16
    h = h * 0x85EBCA6B & M
    h = h ^ h >> 13
    h = h * 0xC2B2AE35 & M
    h = h ^ h >> 16
    return h.to(torch.uint32)


@stranger(
    lambda b, n: (torch.randint(-(1 << 31), 1 << 31, (b, n)).to(torch.int32), 42),
    murmur_py,
    {"b": 37, "n": 3},
    {"b": 1 << 22, "n": 4},
)
@tileflow.kernel
def murmur3(keys, seed):
    b, n = keys.shape
    out = torch.empty(b, dtype=torch.uint32, device=keys.device)
    for tb in tfl.tile(b):
        h = tfl.full([tb], seed, dtype=torch.uint32)
        for i in range(n):
            k = keys[tb, i].to(torch.uint32)
            k = k * 0xCC9E2D51
            k = (k << 15) | (k >> 17)
            k = k * 0x1B873593
            h = h ^ k
            h = (h << 13) | (h >> 19)
            h = h * 5 + 0xE6546B64
        h = h ^ (4 * n)
        h = h ^ (h >> 16)
        h = h * 0x85EBCA6B
        h = h ^ (h >> 13)
        h = h * 0xC2B2AE35
        h = h ^ (h >> 16)
        out[tb] = h
    return out


def hash32(x: Any) -> Any:
    x = ((x >> 16) ^ x) * 0x45D9F3B
    x = ((x >> 16) ^ x) * 0x45D9F3B
    return (x >> 16) ^ x


def bloom_ref(keys: Any, queries: Any, bits: Any, probes: Any) -> Any:
    def places(k):
        h = k.int()
        h1 = hash32(h)
        h2 = hash32(h1 ^ 0x5BD1E995)
        return [(h1 + i * h2) % bits for i in range(probes)]

    filt = torch.zeros(bits, dtype=torch.bool)
    for p in places(keys):
        filt[p.long()] = True
    hit = torch.ones(queries.numel(), dtype=torch.bool)
    for p in places(queries):
        hit &= filt[p.long()]
    return hit


@stranger(
    lambda n, m, bits, probes: (
        torch.randint(0, 1 << 20, (n,), dtype=torch.int32),
        torch.randint(0, 1 << 20, (m,), dtype=torch.int32),
        bits,
        probes,
    ),
    bloom_ref,
    {"n": 37, "m": 51, "bits": 256, "probes": 3},
    {"n": 1 << 20, "m": 1 << 22, "bits": 1 << 24, "probes": 4},
)
@tileflow.kernel
def bloom_filter(keys, queries, bits, probes: tfl.constexpr):
    words = torch.zeros(bits // 32, dtype=torch.int32, device=keys.device)
    hit = torch.empty(queries.numel(), dtype=torch.bool, device=keys.device)
    for t in tfl.tile(keys.numel()):
        h1 = hash32(keys[t])
        h2 = hash32(h1 ^ 0x5BD1E995)
        for i in range(probes):
            place = (h1 + i * h2) % bits
            tfl.atomic_or(words, [place // 32], 1 << (place % 32))
    for t in tfl.tile(queries.numel()):
        h1 = hash32(queries[t])
        h2 = hash32(h1 ^ 0x5BD1E995)
        found = tfl.full([t], True, dtype=torch.bool)
        for i in range(probes):
            place = (h1 + i * h2) % bits
            found &= (words[place // 32] >> (place % 32)) & 1 == 1
        hit[t] = found
    return hit


def spread_py(v: Any) -> Any:
    out = torch.zeros_like(v)
    for i in range(21):
        out |= ((v >> i) & 1) << (3 * i)
    return out


def morton_ref(p: Any, lo: Any, hi: Any) -> Any:
    q = ((p - lo) / (hi - lo) * (1 << 21)).clamp(0, (1 << 21) - 1).long()
    return spread_py(q[:, 0]) | spread_py(q[:, 1]) << 1 | spread_py(q[:, 2]) << 2


def spread(v: Any) -> Any:
    v = (v | v << 32) & 0x1F00000000FFFF
    v = (v | v << 16) & 0x1F0000FF0000FF
    v = (v | v << 8) & 0x100F00F00F00F00F
    v = (v | v << 4) & 0x10C30C30C30C30C3
    return (v | v << 2) & 0x1249249249249249


@stranger(lambda n: (torch.rand(n, 3) * 4 - 2, -2.0, 2.0), morton_ref, {"n": 37}, {"n": 1 << 22})
@tileflow.kernel
def morton_codes(points, lo, hi):
    n, _ = points.shape
    out = torch.empty(n, dtype=torch.int64, device=points.device)
    for t in tfl.tile(n):
        q = ((points[t, :] - lo) / (hi - lo) * (1 << 21)).clamp(0, (1 << 21) - 1).long()
        code = spread(q)
        out[t] = (code << tfl.arange(3)[None, :]).sum(1)
    return out


def base64_ref(x: Any) -> Any:
    return torch.tensor([list(base64.b64encode(bytes(row))) for row in x.tolist()], dtype=torch.uint8)


@stranger(
    lambda b, n: (torch.randint(0, 256, (b, n), dtype=torch.uint8),),
    base64_ref,
    {"b": 5, "n": 33},
    {"b": 4096, "n": 3072},
)
@tileflow.kernel
def base64_encode(x):
    b, n = x.shape
    groups = n // 3
    out = torch.empty(b, groups * 4, dtype=torch.uint8, device=x.device)
    for tb, tg in tfl.tile([b, groups]):
        at = tg.index * 3
        v = x[tb, at].int() << 16 | x[tb, at + 1].int() << 8 | x[tb, at + 2].int()
        for k in range(4):
            s = (v >> (18 - 6 * k)) & 63
            c = torch.where(
                s < 26, s + 65, torch.where(s < 52, s + 71, torch.where(s < 62, s - 4, torch.where(s == 62, 43, 47)))
            )
            out[tb, tg.index * 4 + k] = c.to(torch.uint8)
    return out


def utf8_ref(x: Any) -> Any:
    ok = []
    for r in x.cpu().numpy():
        try:
            r.tobytes().decode()
            ok.append(True)
        except UnicodeDecodeError:
            ok.append(False)
    return torch.tensor(ok)


def make_utf8(b: Any, n: Any) -> Any:
    rows = []
    g = torch.Generator().manual_seed(1)
    for i in range(b):
        s = b""
        while len(s) < n:
            lim = [0x7F, 0x7FF, 0xD7FF, 0x10FFFF][int(torch.randint(0, 4, (1,), generator=g, device="cpu"))]
            c = int(torch.randint(0, lim, (1,), generator=g, device="cpu"))
            if 0xD800 <= c <= 0xDFFF:
                continue
            e = chr(c).encode()
            s += e if len(s) + len(e) <= n else b"a"
        s = bytearray(s)
        if i % 3 == 1:
            s[i % n] ^= 0x80
        rows.append(torch.frombuffer(s, dtype=torch.uint8))
    return (torch.stack(rows),)


@stranger(
    lambda b, n: make_utf8(b, n) if b < 100 else (torch.randint(0, 128, (b, n), dtype=torch.uint8),),
    utf8_ref,
    {"b": 17, "n": 29},
    {"b": 65536, "n": 256},
)
@tileflow.kernel
def utf8_valid(x):
    """A state machine over the bytes of each row: how many continuations are to come, and in what range the next is."""
    b, n = x.shape
    ok = torch.empty(b, dtype=torch.bool, device=x.device)
    for tb in tfl.tile(b):
        left = tfl.zeros([tb], dtype=torch.int32)
        low = tfl.full([tb], 0x80, dtype=torch.int32)
        high = tfl.full([tb], 0xBF, dtype=torch.int32)
        bad = tfl.zeros([tb], dtype=torch.bool)
        for i in range(n):
            c = x[tb, i].int()
            inside = left > 0
            bad = bad | (inside & ((c < low) | (c > high)))
            bad |= ~inside & (((c >= 0x80) & (c < 0xC2)) | (c > 0xF4))
            follow = torch.where(c < 0x80, 0, torch.where(c < 0xE0, 1, torch.where(c < 0xF0, 2, 3)))
            low = torch.where(~inside & (c == 0xE0), 0xA0, torch.where(~inside & (c == 0xF0), 0x90, 0x80))
            high = torch.where(~inside & (c == 0xED), 0x9F, torch.where(~inside & (c == 0xF4), 0x8F, 0xBF))
            left = torch.where(inside, left - 1, follow)
        ok[tb] = ~bad & (left == 0)
    return ok


def rle_ref(x: Any) -> Any:
    b = x.size(0)
    vals, lens, runs = torch.full_like(x, -1), torch.zeros_like(x), []
    for r in range(b):
        v, c = torch.unique_consecutive(x[r], return_counts=True)
        vals[r, : len(v)] = v
        lens[r, : len(v)] = c.to(x.dtype)
        runs.append(len(v))
    return vals, lens, torch.tensor(runs, dtype=torch.int32)


@stranger(
    lambda b, n: (torch.randint(0, 3, (b, n), dtype=torch.int32),), rle_ref, {"b": 3, "n": 37}, {"b": 16384, "n": 1024}
)
@tileflow.kernel
def run_lengths(x):
    b, n = x.shape
    values, lengths = torch.full_like(x, -1), torch.zeros_like(x)
    runs = torch.empty(b, dtype=torch.int32, device=x.device)
    for ib in tfl.grid(b):
        i = tfl.arange(n)
        v = x[ib, :]
        first = (i == 0) | (v != v.roll(1, 0))
        place = torch.cumsum(first.int(), 0) - 1
        tfl.store(values, [ib, place], v, extra_mask=first)
        tfl.atomic_add(lengths, [ib, place], 1)
        runs[ib] = place[-1] + 1
    return values, lengths, runs
