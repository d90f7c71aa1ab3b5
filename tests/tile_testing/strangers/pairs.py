"""All pairs of rows: products and distances in other algebras than that of the matrix units."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


@stranger(
    lambda m, n, k: (randn(m, k), randn(k, n)),
    lambda a, b: torch.stack([(row[:, None] + b).amin(0) for row in a]),
    {"m": 9, "n": 13, "k": 5},
    {"m": 1024, "n": 1024, "k": 1024},
)
@tileflow.kernel
def min_plus(a, b):
    m, k = a.shape
    n = b.size(1)
    out = torch.empty(m, n, device=a.device)
    for tm, tn in tfl.tile([m, n]):
        acc = tfl.full([tm, tn], float("inf"))
        for i in range(k):
            acc = torch.minimum(acc, a[tm, i][:, None] + b[i, tn][None, :])
        out[tm, tn] = acc
    return out


@stranger(
    lambda m, n, d: (randn(m, d), randn(n, d)),
    lambda x, y: torch.cdist(x, y, p=1.0),
    {"m": 7, "n": 11, "d": 5},
    {"m": 4096, "n": 4096, "d": 64},
)
@tileflow.kernel
def l1_distances(x, y):
    m, d = x.shape
    n = y.size(0)
    out = torch.empty(m, n, device=x.device)
    for tm, tn in tfl.tile([m, n]):
        acc = tfl.zeros([tm, tn])
        for td in tfl.tile(d):
            acc += (x[tm, td][:, None, :] - y[tn, td][None, :, :]).abs().sum(-1)
        out[tm, tn] = acc
    return out


@stranger(
    lambda m, n, d: (randn(m, d).softmax(-1), randn(n, d).softmax(-1)),
    lambda p, q: torch.stack([_divergence(row, q) for row in p]),
    {"m": 7, "n": 5, "d": 9},
    {"m": 1024, "n": 1024, "d": 128},
)
@tileflow.kernel
def jensen_shannon(p, q):
    m, d = p.shape
    n = q.size(0)
    out = torch.empty(m, n, device=p.device)
    for tm, tn in tfl.tile([m, n]):
        acc = tfl.zeros([tm, tn])
        for i in range(d):
            a, b = p[tm, i][:, None], q[tn, i][None, :]
            middle = torch.log((a + b) / 2)
            acc += a * (torch.log(a) - middle) + b * (torch.log(b) - middle)
        out[tm, tn] = acc / 2
    return out


def _divergence(p: Any, q: Any) -> Any:
    middle = ((p + q) / 2).log()
    return (p * (p.log() - middle) + q * (q.log() - middle)).sum(-1) / 2


@stranger(
    lambda n, m: (randn(n, 3), randn(m, 3), randn(m), 0.5),
    lambda x, y, w, width: torch.cat(
        [
            torch.exp(-(torch.cdist(part, y, compute_mode="donot_use_mm_for_euclid_dist") ** 2) / width) @ w
            for part in x.split(512)
        ]
    ),
    {"n": 13, "m": 9},
    {"n": 16384, "m": 16384},
)
@tileflow.kernel
def kernel_density(x, y, w, width):
    out = torch.empty(x.size(0), device=x.device)
    for tx in tfl.tile(x.size(0)):
        acc = tfl.zeros([tx])
        for ty in tfl.tile(y.size(0)):
            far = tfl.zeros([tx, ty])
            for i in tfl.static_range(3):
                far = far + (x[tx, i][:, None] - y[ty, i][None, :]) ** 2
            acc += (torch.exp(-far / width) * w[ty][None, :]).sum(-1)
        out[tx] = acc
    return out


@stranger(
    lambda b, m, n, w: (
        torch.randint(-(2**31), 2**31, (b, m, w)).int(),
        torch.randint(-(2**31), 2**31, (b, n, w)).int(),
    ),
    lambda x, y: torch.stack([_common(rows, y[i]) for i, rows in enumerate(x)]),
    {"b": 2, "m": 5, "n": 7, "w": 3},
    {"b": 8, "m": 1024, "n": 1024, "w": 32},
)
@tileflow.kernel
def tanimoto(x, y):
    b, m, w = x.shape
    n = y.size(1)
    out = torch.empty(b, m, n, device=x.device)
    for tb, tm, tn in tfl.tile([b, m, n], block_size=[1, None, None]):
        both = tfl.zeros([tm, tn], dtype=torch.int32)
        some = tfl.zeros([tm, tn], dtype=torch.int32)
        for i in range(w):
            p, q = x[tb.begin, tm, i][:, None], y[tb.begin, tn, i][None, :]
            both += _bits(p & q)
            some += _bits(p | q)
        out[tb.begin, tm, tn] = both / some
    return out


def _bits(v: Any) -> Any:
    v = v - ((v >> 1) & 0x55555555)
    v = (v & 0x33333333) + ((v >> 2) & 0x33333333)
    v = (v + (v >> 4)) & 0x0F0F0F0F
    return (v * 0x01010101) >> 24


def _common(x: Any, y: Any) -> Any:
    bits = [1 << i for i in range(31)] + [-(1 << 31)]
    left, right = (torch.stack([(t & bit) != 0 for bit in bits], -1).flatten(-2).float() for t in (x, y))
    both = left @ right.t()
    return both / (left.sum(-1)[:, None] + right.sum(-1)[None, :] - both)
