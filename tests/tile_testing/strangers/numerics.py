"""Numerical methods and physics on grids: factorisations, series, steps of solvers, spins, charges, mixtures."""

from __future__ import annotations

import math
from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def qr_ref(a: Any) -> Any:
    q, r = torch.linalg.qr(a)
    s = torch.sign(torch.diagonal(r, dim1=-2, dim2=-1))
    return q * s[:, None, :], r * s[:, :, None]


@stranger(lambda b, m, n: (randn(b, m, n),), qr_ref, {"b": 5, "m": 7, "n": 4}, {"b": 65536, "m": 16, "n": 8})
@tileflow.kernel
def householder_qr(a):
    """Q and R with a positive diagonal, by reflections."""
    b, m, n = a.shape
    q_out = torch.empty(b, m, n, device=a.device, dtype=a.dtype)
    r_out = torch.empty(b, n, n, device=a.device, dtype=a.dtype)
    for tb in tfl.tile(b):
        r = a[tb, :, :]
        rows = tfl.arange(m)
        q = (rows[:, None] == rows[None, :]).float()[None]
        for k in range(n):
            x = torch.where(rows >= k, r[:, :, k], 0.0)
            norm = torch.linalg.norm(x, dim=1)
            alpha = -torch.sign(r[:, k, k]) * norm
            v = x - alpha[:, None] * (rows == k).float()[None, :]
            v = v / torch.linalg.norm(v, dim=1, keepdim=True)
            r = r - 2 * v[:, :, None] * (v[:, :, None] * r).sum(1, keepdim=True)
            q = q - 2 * (q * v[:, None, :]).sum(2, keepdim=True) * v[:, None, :]
        sign = torch.sign(torch.diagonal(r[:, :n, :], dim1=1, dim2=2))
        q_out[tb, :, :] = q[:, :, :n] * sign[:, None, :]
        r_out[tb, :, :] = torch.triu(r[:, :n, :]) * sign[:, :, None]
    return q_out, r_out


def clenshaw_ref(c: Any, x: Any) -> Any:
    k = torch.arange(c.size(1))
    t = torch.cos(k * torch.acos(x.double())[..., None])
    return torch.einsum("pk,pnk->pn", c.double(), t).to(x.dtype)


@stranger(
    lambda p, k, n: (randn(p, k), torch.rand(p, n) * 2 - 1),
    clenshaw_ref,
    {"p": 3, "k": 9, "n": 37},
    {"p": 256, "k": 32, "n": 65536},
)
@tileflow.kernel
def chebyshev(c, x):
    """Each row's own series at its own places, by Clenshaw's recurrence."""
    _p, k = c.shape
    out = torch.empty_like(x)
    for tp, tn in tfl.tile(x.shape):
        y = x[tp, tn]
        b1 = b2 = torch.zeros_like(y)
        for j in range(k - 1, 0, -1):
            b1, b2 = c[tp, j, None] + 2 * y * b1 - b2, b1
        out[tp, tn] = c[tp, 0][:, None] + y * b1 - b2
    return out


def levinson_ref(r: Any) -> Any:
    n = r.size(1) - 1
    i = torch.arange(n)
    R = r[:, (i[:, None] - i[None]).abs()]
    return torch.linalg.solve(R, -r[:, 1:, None])[..., 0]


def make_levinson(b: Any, n: Any, t: Any) -> Any:
    x = torch.randn(b, t, dtype=torch.float64)
    r = torch.stack([(x[:, : t - k] * x[:, k:]).sum(1) for k in range(n + 1)], 1)
    return (r.float(),)


@stranger(make_levinson, levinson_ref, {"b": 5, "n": 6, "t": 64}, {"b": 65536, "n": 24, "t": 32})
@tileflow.kernel
def levinson_durbin(r):
    """Coefficients of linear prediction from autocorrelations: each turn flips the row up to its order."""
    b, n = r.size(0), r.size(1) - 1
    out = torch.empty(b, n, device=r.device)
    for tb in tfl.tile(b):
        i = tfl.arange(n + 1)
        row = r[tb, :]
        a = torch.where(i[None, :] == 0, 1.0, torch.zeros_like(row))
        error = r[tb, 0]
        for k in range(1, n + 1):
            back = (k - i).clamp(min=0)
            shifted = torch.where(i <= k, row[:, back], 0.0)
            reflection = -(a * shifted).sum(1) / error
            mirrored = torch.where(i <= k, a[:, back], 0.0)
            a = a + reflection[:, None] * mirrored
            error *= 1 - reflection**2
        out[tb, :] = a[:, 1:]
    return out


def cg_ref(a: Any, x: Any, r: Any, p: Any) -> Any:
    ap = a @ p
    rr = r @ r
    alpha = rr / (p @ ap)
    x2, r2 = x + alpha * p, r - alpha * ap
    return x2, r2, r2 + (r2 @ r2) / rr * p


def make_cg(n: Any) -> Any:
    a = randn(n, n)
    return a @ a.T / n + torch.eye(n), randn(n), randn(n), randn(n)


@stranger(make_cg, cg_ref, {"n": 45}, {"n": 8192})
@tileflow.kernel
def conjugate_gradient_step(a, x, r, p):
    n = x.numel()
    ap = torch.empty_like(x)
    dots = torch.zeros(3, device=x.device)
    x2, r2, p2 = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
    for t in tfl.tile(n):
        q = a[t, :] @ p[:]
        ap[t] = q
        tfl.atomic_add(dots, [0], torch.dot(p[t], q))
        tfl.atomic_add(dots, [1], torch.dot(r[t], r[t]))
    for t in tfl.tile(n):
        alpha = dots[1] / dots[0]
        x2[t] = x[t] + alpha * p[t]
        new = r[t] - alpha * ap[t]
        r2[t] = new
        tfl.atomic_add(dots, [2], (new * new).sum())
    for t in tfl.tile(n):
        p2[t] = r2[t] + dots[2] / dots[1] * p[t]
    return x2, r2, p2


def make_ising(h: Any, w: Any) -> Any:
    return (torch.randint(0, 2, (h, w), dtype=torch.int8) * 2 - 1, torch.rand(2, h, w), 0.44)


def ising_ref(spins: Any, u: Any, beta: Any) -> Any:
    s = spins.clone()
    i, j = torch.arange(s.size(0))[:, None], torch.arange(s.size(1))[None]
    for colour in range(2):
        near = s.roll(1, 0) + s.roll(-1, 0) + s.roll(1, 1) + s.roll(-1, 1)
        flip = u[colour] < torch.exp(-2 * beta * (s * near).float())
        s = torch.where(((i + j) % 2 == colour) & flip, -s, s)
    return s


@stranger(make_ising, ising_ref, {"h": 10, "w": 14}, {"h": 8192, "w": 8192})
@tileflow.kernel
def ising_sweep(spins, u, beta):
    """One Metropolis sweep of a torus: the black sites, then the white ones."""
    h, w = spins.shape
    s = spins.clone()
    for colour in range(2):
        for ty, tx in tfl.tile([h, w]):
            i, j = ty.index, tx.index
            here = s[ty, tx]
            near = s[(i - 1) % h, tx] + s[(i + 1) % h, tx] + s[ty, (j - 1) % w] + s[ty, (j + 1) % w]
            flip = u[colour, ty, tx] < torch.exp(-2 * beta * (here * near).float())
            turn = ((i[:, None] + j[None, :]) % 2 == colour) & flip
            tfl.store(s, [ty, tx], -here, extra_mask=turn)
    return s


def pic_ref(x: Any, q: Any, h: Any, w: Any) -> Any:
    out = torch.zeros(h * w, dtype=x.dtype)
    px, py = x[:, 0] * w, x[:, 1] * h
    ix, iy = px.floor().long(), py.floor().long()
    fx, fy = px - ix, py - iy
    for dy in range(2):
        for dx in range(2):
            wt = (fx if dx else 1 - fx) * (fy if dy else 1 - fy)
            out.index_add_(0, (iy + dy) % h * w + (ix + dx) % w, wt * q)
    return out.view(h, w)


@stranger(
    lambda n, h, w: (torch.rand(n, 2), randn(n), h, w),
    pic_ref,
    {"n": 201, "h": 7, "w": 11},
    {"n": 1 << 24, "h": 512, "w": 512},
)
@tileflow.kernel
def charge_deposit(place, charge, h, w):
    """Cloud in cell on a torus."""
    rho = torch.zeros(h, w, device=place.device)
    for t in tfl.tile(place.size(0)):
        px, py = place[t, 0] * w, place[t, 1] * h
        ix, iy = torch.floor(px).int(), torch.floor(py).int()
        fx, fy = px - ix, py - iy
        q = charge[t]
        for dy, wy in ((0, 1 - fy), (1, fy)):
            for dx, wx in ((0, 1 - fx), (1, fx)):
                tfl.atomic_add(rho, [(iy + dy) % h, (ix + dx) % w], q * wx * wy)
    return rho


def gmm_ref(x: Any, mu: Any, var: Any, pi: Any) -> Any:
    lp = -0.5 * (((x[:, None] - mu) ** 2 / var).sum(-1) + torch.log(2 * math.pi * var).sum(-1)) + pi.log()
    ll = torch.logsumexp(lp, 1)
    g = (lp - ll[:, None]).exp()
    nk = g.sum(0)
    m = g.T @ x / nk[:, None]
    v = g.T @ (x * x) / nk[:, None] - m * m
    return m, v, nk / x.size(0), ll.mean()


@stranger(
    lambda n, k, d: (randn(n, d) * 2 + 1, randn(k, d), torch.rand(k, d) + 1, torch.softmax(randn(k), 0)),
    gmm_ref,
    {"n": 101, "k": 5, "d": 3},
    {"n": 1 << 20, "k": 16, "d": 16},
)
@tileflow.kernel
def gaussian_mixture(x, mu, var, pi):
    """One step of expectation and maximisation, with diagonal covariances."""
    n, k = x.size(0), mu.size(0)
    s0 = torch.zeros(k, device=x.device)
    s1, s2 = torch.zeros_like(mu), torch.zeros_like(mu)
    likelihood = torch.zeros((), device=x.device)
    for t in tfl.tile(n):
        p = x[t, :]
        m, v = mu[:, :], var[:, :]
        z = (p[:, None, :] - m) ** 2 / v + torch.log(2 * math.pi * v)
        log_p = -0.5 * z.sum(-1) + torch.log(pi[:])
        total = torch.logsumexp(log_p, 1)
        g = torch.exp(log_p - total[:, None])
        tfl.atomic_add(s0, [slice(None)], g.sum(0))
        tfl.atomic_add(s1, [slice(None), slice(None)], g.T @ p)
        tfl.atomic_add(s2, [slice(None), slice(None)], g.T @ (p * p))
        tfl.atomic_add(likelihood, [], total.sum())
    mean = s1 / s0[:, None]
    return mean, s2 / s0[:, None] - mean * mean, s0 / n, likelihood / n
