"""Small and sparse systems: eigenvalues, bases, relaxation, coarser grids, diagonals, patterns of two in four."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def eigen_of_three(a: Any) -> Any:
    xx, xy, xz, yy, yz, zz = a.unbind(1)
    q = (xx + yy + zz) / 3
    p = ((xx - q) ** 2 + (yy - q) ** 2 + (zz - q) ** 2 + 2 * (xy * xy + xz * xz + yz * yz)).div(6).sqrt()
    m = a.clone()
    m[:, [0, 3, 5]] -= q[:, None]
    xx, xy, xz, yy, yz, zz = (m / p[:, None]).unbind(1)
    half = (xx * (yy * zz - yz * yz) - xy * (xy * zz - yz * xz) + xz * (xy * yz - yy * xz)) / 2
    angle = half.clamp(-1, 1).acos() / 3
    high, low = q + 2 * p * angle.cos(), q + 2 * p * (angle + 2 * math.pi / 3).cos()
    return torch.stack([low, 3 * q - high - low, high], 1)


@stranger(lambda n: (randn(n, 6, dtype=torch.float64),), eigen_of_three, {"n": 45}, {"n": 1 << 22})
@tileflow.kernel
def symmetric_eigenvalues(a):
    """Smith, 1961: of symmetric matrices of three by three, stored as six numbers, in float64 and in order."""
    out = torch.empty(a.size(0), 3, dtype=a.dtype, device=a.device)
    for t in tfl.tile(a.size(0)):
        xx, xy, xz, yy, yz, zz = torch.unbind(a[t, :], dim=1)
        q = (xx + yy + zz) / 3
        xx, yy, zz = xx - q, yy - q, zz - q
        p = torch.sqrt((xx**2 + yy**2 + zz**2 + 2 * (xy**2 + xz**2 + yz**2)) / 6)
        half = (xx * (yy * zz - yz**2) - xy * (xy * zz - yz * xz) + xz * (xy * yz - yy * xz)) / (2 * p**3)
        angle = torch.acos(half.clamp(-1, 1)) / 3
        high = q + 2 * p * torch.cos(angle)
        low = q + 2 * p * torch.cos(angle + 2 * math.pi / 3)
        out[t, :] = torch.stack([low, 3 * q - high - low, high], dim=1)
    return out


def basis_ref(x: Any) -> Any:
    q, r = torch.linalg.qr(x.double())
    return (q * torch.sign(torch.diagonal(r, dim1=1, dim2=2))[:, None, :]).float()


@stranger(
    lambda b, n, k: (randn(b, n, k),),
    basis_ref,
    {"b": 3, "n": 21, "k": 4},
    {"b": 4096, "n": 256, "k": 8},
)
@tileflow.kernel
def gram_schmidt(x):
    """The modified process: each column made orthogonal to those before it, which are read back."""
    b, _n, k = x.shape
    q = torch.empty_like(x)
    for i in tfl.grid(b):
        for j in range(k):
            v = x[i, :, j]
            for before in range(j):
                u = q[i, :, before]
                v = v - (u * v).sum() * u
            q[i, :, j] = v / torch.linalg.norm(v)
    return q


def relaxed_ref(u: Any, f: Any, omega: float) -> Any:
    n, m = u.shape[1:]
    red = (torch.arange(n)[:, None] + torch.arange(m)) % 2 == 0
    for colour in (red, ~red):
        p = F.pad(u, (1, 1, 1, 1))
        near = p[:, :-2, 1:-1] + p[:, 2:, 1:-1] + p[:, 1:-1, :-2] + p[:, 1:-1, 2:]
        u = torch.where(colour, (1 - omega) * u + omega * 0.25 * (near - f), u)
    return u


@stranger(
    lambda b, n, m: (randn(b, n, m), randn(b, n, m), 1.5),
    relaxed_ref,
    {"b": 2, "n": 9, "m": 13},
    {"b": 8, "n": 2048, "m": 2048},
)
@tileflow.kernel
def red_black_sweep(u, f, omega):
    """Successive over-relaxation of Poisson's equation: one colour of the board after the other, in place."""
    b, n, m = u.shape
    out = u.clone()
    for colour in range(2):
        for tb, ty, tx in tfl.tile([b, n, m]):
            old = out[tb, ty, tx]
            near = out[tb, ty - 1, tx] + out[tb, ty + 1, tx] + out[tb, ty, tx - 1] + out[tb, ty, tx + 1]
            new = torch.lerp(old, 0.25 * (near - f[tb, ty, tx]), omega)
            mine = (ty.index[:, None] + tx.index[None, :]) % 2 == colour
            out[tb, ty, tx] = torch.where(mine[None, :, :], new, old)
    return out


def coarser_ref(u: Any, f: Any) -> Any:
    p = F.pad(u, (1,) * 6)
    c = slice(1, -1)
    near = sum(p.roll(s, d)[:, c, c, c] for s in (1, -1) for d in (1, 2, 3))
    rest = f - (near - 6 * u)
    w = torch.tensor([0.25, 0.5, 0.25])
    kernel = w[:, None, None] * w[:, None] * w
    return F.conv3d(rest[:, None], kernel[None, None], stride=2, padding=1)[:, 0]


@stranger(
    lambda b, n: (randn(b, n, n, n), randn(b, n, n, n)),
    coarser_ref,
    {"b": 1, "n": 8},
    {"b": 2, "n": 256},
)
@tileflow.kernel
def restrict_residual(u, f):
    """Multigrid's way down: what is left of Poisson's equation, then full weights on every second point."""
    b, n, _, _ = u.shape
    rest = torch.empty_like(u)
    for tb, tz, ty, tx in tfl.tile(u.shape):
        near = u[tb, tz - 1, ty, tx] + u[tb, tz + 1, ty, tx] + u[tb, tz, ty - 1, tx]
        near = near + u[tb, tz, ty + 1, tx] + u[tb, tz, ty, tx - 1] + u[tb, tz, ty, tx + 1]
        rest[tb, tz, ty, tx] = f[tb, tz, ty, tx] - (near - 6 * u[tb, tz, ty, tx])
    half = (n + 1) // 2
    out = torch.empty(b, half, half, half, device=u.device)
    weights = (0.25, 0.5, 0.25)
    for tb, tz, ty, tx in tfl.tile(out.shape):
        acc = tfl.zeros([tb, tz, ty, tx])
        for dz, wz in enumerate(weights):
            for dy, wy in enumerate(weights):
                for dx, wx in enumerate(weights):
                    near = rest[tb, tz.index * 2 + (dz - 1), ty.index * 2 + (dy - 1), tx.index * 2 + (dx - 1)]
                    acc += wz * wy * wx * near
        out[tb, tz, ty, tx] = acc
    return out


def diagonals_ref(values: Any, offsets: Any, x: Any) -> Any:
    n = x.size(0)
    out = torch.zeros_like(x)
    for k, o in enumerate(offsets.tolist()):
        i = torch.arange(max(0, -o), min(n, n - o))
        out[i] += values[k, i, None] * x[i + o]
    return out


@stranger(
    lambda n, k, d: (
        randn(d, n, dtype=torch.float64),
        ((torch.arange(d) - d // 2) * 3).int(),
        randn(n, k, dtype=torch.float64),
    ),
    diagonals_ref,
    {"n": 45, "k": 3, "d": 5},
    {"n": 1 << 20, "k": 8, "d": 27},
)
@tileflow.kernel
def diagonal_matrix(values, offsets, x):
    """A matrix of a few diagonals times several vectors."""
    n, k = x.shape
    out = torch.empty_like(x)
    for tn, tk in tfl.tile([n, k]):
        acc = torch.zeros_like(x[tn, tk])
        for d in range(values.size(0)):
            acc = acc + values[d, tn][:, None] * x[tn.index + offsets[d], tk]
        out[tn, tk] = acc
    return out


def pattern_ref(x: Any, kept: Any, place: Any) -> Any:
    n, half = kept.shape
    whole = torch.zeros(n, half // 2, 4, dtype=torch.float32)
    whole.scatter_(2, place.view(n, half // 2, 2).long(), kept.view(n, half // 2, 2).float())
    return (x.float() @ whole.flatten(1).T).to(x.dtype)


@stranger(
    lambda t, n, k, dtype=torch.float32: (
        randn(t, k, dtype=dtype),
        randn(n, k // 2, dtype=dtype) * k**-0.5,
        torch.rand(n, k // 4, 4).argsort(2)[..., :2].flatten(1).to(torch.uint8),
    ),
    pattern_ref,
    {"t": 13, "n": 21, "k": 32},
    {"t": 2048, "n": 4096, "k": 4096, "dtype": torch.float16},
)
@tileflow.kernel
def two_of_four_linear(x, kept, place):
    """Weights of which each four has two: spread out on their way to the product."""
    t, k = x.shape
    n = kept.size(0)
    out = torch.empty(t, n, dtype=x.dtype, device=x.device)
    fours_of_x = x.view(t, k // 4, 4)
    pairs, places = kept.view(n, k // 4, 2), place.view(n, k // 4, 2)
    for tt, tn in tfl.tile([t, n]):
        acc = tfl.zeros([tt, tn])
        for tk in tfl.tile(k // 4):
            hot = places[tn, tk, :].int()[..., None] == tfl.arange(4)
            w = torch.where(hot, pairs[tn, tk, :][..., None], 0.0).sum(2).to(x.dtype)
            acc = acc + fours_of_x[tt, tk, :].flatten(1) @ w.flatten(1).T
        out[tt, tn] = acc
    return out


def spread_ref(row: Any, column: Any, value: Any, x: Any, n: int) -> Any:
    out = torch.zeros(n, x.size(1))
    return out.index_add_(0, row.long(), value[:, None] * x[column.long()].float())


@stranger(
    lambda n, e, d, dtype=torch.float32: (
        torch.randint(0, n, (e,), dtype=torch.int32),
        torch.randint(0, n, (e,), dtype=torch.int32),
        randn(e),
        randn(n, d, dtype=dtype),
        n,
    ),
    spread_ref,
    {"n": 19, "e": 61, "d": 13},
    {"n": 1 << 17, "e": 1 << 20, "d": 64, "dtype": torch.float16},
)
@tileflow.kernel
def coordinate_product(row, column, value, x, n):
    """A sparse matrix in no order, by its coordinates, times a dense one."""
    out = torch.zeros(n, x.size(1), device=x.device)
    for te in tfl.tile(row.numel()):
        i, j = row[te], column[te]
        tfl.atomic_add(out, [i, slice(None)], value[te][:, None] * x[j, :].float())
    return out
