"""Small matrices, one for each element of a batch, and transforms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def make_spd(b: Any, n: Any, dtype: Any = torch.float32) -> Any:
    x = torch.randn(b, n, n, dtype=dtype)
    return (x @ x.mT + n * torch.eye(n, dtype=dtype),)


@stranger(make_spd, lambda x: torch.linalg.cholesky(x), {"b": 5, "n": 6}, {"b": 65536, "n": 16})
@tileflow.kernel
def small_cholesky(a):
    b, n, _ = a.shape
    out = torch.zeros_like(a)
    for tb in tfl.tile(b):
        m = a[tb, :, :]
        rows = tfl.arange(n)
        for k in tfl.static_range(n):
            pivot = torch.sqrt(m[:, k, k])
            col = torch.where(rows[None, :] >= k, m[:, :, k] / pivot[:, None], 0.0)
            out[tb, :, k] = col
            m = m - col[:, :, None] * col[:, None, :]
    return out


def make_tri(b: Any, n: Any, k: Any) -> Any:
    return torch.tril(randn(b, n, n)) + 3 * torch.eye(n), randn(b, n, k)


@stranger(
    make_tri,
    lambda a, y: torch.linalg.solve_triangular(a, y, upper=False),
    {"b": 3, "n": 9, "k": 5},
    {"b": 4096, "n": 64, "k": 64},
)
@tileflow.kernel
def triangular_solve(a, y):
    b, n, k = y.shape
    x = torch.zeros_like(y)
    for tb, tk in tfl.tile([b, k], block_size=[1, None]):
        ib = tb.begin
        done = tfl.zeros([n, tk])
        rows = tfl.arange(n)
        for i in range(n):
            s = (a[ib, i, :][:, None] * done).sum(0)
            xi = (y[ib, i, tk] - s) / a[ib, i, i]
            done = torch.where(rows[:, None] == i, xi[None, :], done)
        x[ib, :, tk] = done
    return x


def make_sq(b: Any, n: Any, dtype: Any = torch.float64) -> Any:
    return (torch.randn(b, n, n, dtype=dtype),)


@stranger(make_sq, lambda x: torch.linalg.det(x), {"b": 5, "n": 5}, {"b": 65536, "n": 8})
@tileflow.kernel
def determinant(a):
    """By elimination with row pivots, in float64."""
    b, n, _ = a.shape
    out = torch.empty(b, dtype=a.dtype, device=a.device)
    for tb in tfl.tile(b):
        m = a[tb, :, :]
        rows = tfl.arange(n)
        det = tfl.full([tb], 1.0, dtype=a.dtype)
        for k in range(n):
            col = torch.where(rows[None, :] >= k, m[:, :, k].abs(), -1.0)
            p = col.argmax(1)
            is_p, is_k = rows[None, :] == p[:, None], rows[None, :] == k
            row_p = torch.where(is_p[:, :, None], m, 0.0).sum(1)
            row_k = m[:, k, :]
            det = det * row_p[:, k] * torch.where(p == k, 1.0, -1.0)
            m = torch.where(is_p[:, :, None], row_k[:, None, :], m)
            m = torch.where(is_k[:, :, None], row_p[:, None, :], m)
            factor = torch.where(rows[None, :] > k, m[:, :, k] / row_p[:, k][:, None], 0.0)
            m = m - factor[:, :, None] * row_p[:, None, :]
        out[tb] = det
    return out


@stranger(
    lambda b, n: (torch.view_as_real(torch.randn(b, n, dtype=torch.complex64)).contiguous(),),
    lambda x: torch.view_as_real(torch.fft.fft(torch.view_as_complex(x))),
    {"b": 3, "n": 16},
    {"b": 16384, "n": 1024},
)
@tileflow.kernel
def fft(x):
    """Stockham, radix 2."""
    b, n, _ = x.shape
    out = torch.empty_like(x)
    steps = n.bit_length() - 1
    for tb in tfl.tile(b):
        re, im = x[tb, :, 0], x[tb, :, 1]
        for s in tfl.static_range(steps):
            m = 1 << s
            half = n // (2 * m)
            ar, ai = re.reshape(tb, 2, half, m), im.reshape(tb, 2, half, m)
            r0, r1, i0, i1 = ar[:, 0], ar[:, 1], ai[:, 0], ai[:, 1]
            angle = -math.pi * tfl.arange(half) / half
            c, d = torch.cos(angle)[None, :, None], torch.sin(angle)[None, :, None]
            dr, di = r0 - r1, i0 - i1
            re = torch.stack([r0 + r1, dr * c - di * d], 2).reshape(tb, n)
            im = torch.stack([i0 + i1, dr * d + di * c], 2).reshape(tb, n)
        out[tb, :, 0] = re
        out[tb, :, 1] = im
    return out


def make_cg(n: Any, c: Any, a: Any, b: Any, o: Any) -> Any:
    return randn(n, c, a), randn(n, c, b), randn(a, b, o)


@stranger(
    make_cg,
    lambda x, y, w: torch.einsum("nca,ncb,abo->nco", x, y, w),
    {"n": 5, "c": 7, "a": 3, "b": 5, "o": 3},
    {"n": 16384, "c": 128, "a": 5, "b": 5, "o": 9},
)
@tileflow.kernel
def tensor_product(x, y, w):
    n, c, a = x.shape
    b, o = y.size(2), w.size(2)
    out = torch.empty(n, c, o, device=x.device, dtype=x.dtype)
    for tn, tc in tfl.tile([n, c]):
        for k in range(o):
            acc = tfl.zeros([tn, tc])
            for i in range(a):
                for j in range(b):
                    acc += w[i, j, k] * x[tn, tc, i] * y[tn, tc, j]
            out[tn, tc, k] = acc
    return out


@dataclass
class Gaussians:
    mean: torch.Tensor
    quat: torch.Tensor
    scale: torch.Tensor


def make_gs(n: Any) -> Any:
    return (Gaussians(randn(n, 3), randn(n, 4), torch.rand(n, 3)),)


def gs_ref(g: Any) -> Any:
    w, x, y, z = F.normalize(g.quat, dim=-1).unbind(-1)
    R = torch.stack(
        [
            1 - 2 * (y * y + z * z),
            2 * (x * y - w * z),
            2 * (x * z + w * y),
            2 * (x * y + w * z),
            1 - 2 * (x * x + z * z),
            2 * (y * z - w * x),
            2 * (x * z - w * y),
            2 * (y * z + w * x),
            1 - 2 * (x * x + y * y),
        ],
        -1,
    ).unflatten(-1, (3, 3))
    M = R * g.scale[:, None, :]
    return M @ M.mT


@stranger(make_gs, gs_ref, {"n": 37}, {"n": 1 << 20})
@tileflow.kernel
def gaussian_covariance(g: Gaussians):
    n = g.quat.size(0)
    out = torch.empty(n, 3, 3, device=g.quat.device)
    for t in tfl.tile(n):
        q = g.quat[t, :]
        q = q / torch.sqrt((q * q).sum(-1, keepdim=True))
        w, x, y, z = q.unbind(-1)
        r = [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
        s = [g.scale[t, k] for k in range(3)]
        for i in range(3):
            for j in range(3):
                out[t, i, j] = sum(r[i][k] * r[j][k] * s[k] * s[k] for k in range(3))
    return out


def make_rope2d(b: Any, h: Any, w: Any, nh: Any, d: Any) -> Any:
    return (randn(b, h * w, nh, d), h, w)


def rope2d_ref(x: Any, h: Any, w: Any) -> Any:
    d = x.size(-1)
    q = d // 4
    inv = 100.0 ** (-torch.arange(q, device=x.device).float() / q)
    y = torch.arange(h * w, device=x.device) // w
    z = torch.arange(h * w, device=x.device) % w
    ang = torch.cat([y[:, None] * inv, z[:, None] * inv], -1)[None, :, None]
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * ang.cos() - b * ang.sin(), a * ang.sin() + b * ang.cos()], -1).flatten(-2)


@stranger(
    make_rope2d, rope2d_ref, {"b": 2, "h": 3, "w": 5, "nh": 2, "d": 16}, {"b": 64, "h": 32, "w": 32, "nh": 16, "d": 64}
)
@tileflow.kernel
def rope_2d(x, h, w):
    b, n, heads, d = x.shape
    out = torch.empty_like(x)
    for tb, tn, th in tfl.tile([b, n, heads]):
        q = d // 4
        freq = 100.0 ** (-tfl.arange(q) / q)
        row = (tn.index // w)[:, None] * freq[None, :]
        col = (tn.index % w)[:, None] * freq[None, :]
        ang = torch.cat([row, col], dim=-1)[None, :, None, :]
        even, odd = x[tb, tn, th, 0::2], x[tb, tn, th, 1::2]
        out[tb, tn, th, 0::2] = even * ang.cos() - odd * ang.sin()
        out[tb, tn, th, 1::2] = even * ang.sin() + odd * ang.cos()
    return out
