"""Signals, light, fields: filters, transforms of blocks, colours, rays, grids in time, systems of equations."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger

MEDIAN_OF_9 = (
    (1, 2), (4, 5), (7, 8), (0, 1), (3, 4), (6, 7), (1, 2), (4, 5), (7, 8), (0, 3),
    (5, 8), (4, 7), (3, 6), (1, 4), (2, 5), (4, 7), (4, 2), (6, 4), (4, 2),
)  # fmt: skip


@stranger(
    lambda b, h, w: (randn(b, h, w),),
    lambda x: F.unfold(F.pad(x[:, None], (1, 1, 1, 1), mode="replicate"), 3).median(1).values.view(x.shape),
    {"b": 2, "h": 7, "w": 11},
    {"b": 16, "h": 1024, "w": 1024},
)
@tileflow.kernel
def median_filter(x):
    b, h, w = x.shape
    out = torch.empty_like(x)
    for tb, ty, tx in tfl.tile([b, h, w]):
        v = []
        for dy in (-1, 0, 1):
            for dx in (-1, 0, 1):
                v.append(x[tb, (ty.index + dy).clamp(0, h - 1), (tx.index + dx).clamp(0, w - 1)])
        for i, j in MEDIAN_OF_9:
            v[i], v[j] = torch.minimum(v[i], v[j]), torch.maximum(v[i], v[j])
        out[tb, ty, tx] = v[4]
    return out


def make_jpeg(b: Any, h: Any, w: Any) -> Any:
    k, n = torch.arange(8.0)[:, None], torch.arange(8.0)[None]
    dct = torch.cos(math.pi * (2 * n + 1) * k / 16) * 0.5
    dct[0] *= 0.5**0.5
    return torch.rand(b, h, w) * 255, dct, torch.randint(4, 60, (8, 8)).float()


def jpeg_ref(x: Any, dct: Any, q: Any) -> Any:
    b, h, w = x.shape
    blocks = x.view(b, h // 8, 8, w // 8, 8).transpose(2, 3) - 128
    return ((dct @ blocks @ dct.t()) / q).transpose(2, 3).reshape(b, h, w)


@stranger(make_jpeg, jpeg_ref, {"b": 2, "h": 16, "w": 24}, {"b": 8, "h": 2048, "w": 2048})
@tileflow.kernel
def jpeg_blocks(x, dct, q):
    b, h, w = x.shape
    out = torch.empty_like(x)
    for ib, iy, ix in tfl.grid([b, h // 8, w // 8]):
        block = x[ib, iy * 8 : iy * 8 + 8, ix * 8 : ix * 8 + 8] - 128
        coefficients = dct[:, :] @ block @ dct[:, :].T
        out[ib, iy * 8 : iy * 8 + 8, ix * 8 : ix * 8 + 8] = coefficients / q[:, :]
    return out


def haar_ref(x: Any) -> Any:
    a, b, c, d = x[..., ::2, ::2], x[..., ::2, 1::2], x[..., 1::2, ::2], x[..., 1::2, 1::2]
    low, high = torch.cat([a + b + c + d, a - b + c - d], -1), torch.cat([a + b - c - d, a - b - c + d], -1)
    return torch.cat([low, high], -2) / 2


@stranger(lambda b, h, w: (randn(b, h, w),), haar_ref, {"b": 2, "h": 10, "w": 14}, {"b": 16, "h": 2048, "w": 2048})
@tileflow.kernel
def haar_level(x):
    b, h, w = x.shape
    h2, w2 = h // 2, w // 2
    out = torch.empty_like(x)
    for tb, ty, tx in tfl.tile([b, h2, w2]):
        y, c = ty.index * 2, tx.index * 2
        p, q, r, s = x[tb, y, c], x[tb, y, c + 1], x[tb, y + 1, c], x[tb, y + 1, c + 1]
        out[tb, ty, tx] = (p + q + r + s) / 2
        out[tb, ty, tx + w2] = (p - q + r - s) / 2
        out[tb, ty + h2, tx] = (p + q - r - s) / 2
        out[tb, ty + h2, tx + w2] = (p - q - r + s) / 2
    return out


def biquad_ref(x: Any, b: Any, a: Any) -> Any:
    z1, z2 = torch.zeros_like(x[:, 0]), torch.zeros_like(x[:, 0])
    out = []
    for n in range(x.size(1)):
        y = b[0] * x[:, n] + z1
        z1 = b[1] * x[:, n] - a[0] * y + z2
        z2 = b[2] * x[:, n] - a[1] * y
        out.append(y)
    return torch.stack(out, 1)


@stranger(
    lambda c, t: (randn(c, t), torch.tensor([0.067, 0.135, 0.067]), torch.tensor([-1.143, 0.413])),
    biquad_ref,
    {"c": 5, "t": 37},
    {"c": 16384, "t": 1024},
)
@tileflow.kernel
def biquad(x, b, a):
    channels, samples = x.shape
    y = torch.empty_like(x)
    b0, b1, b2 = b
    a1, a2 = a
    for tc in tfl.tile(channels):
        z1 = z2 = tfl.zeros([tc])
        for n in range(samples):
            v = x[tc, n]
            u = b0 * v + z1
            z1 = b1 * v - a1 * u + z2
            z2 = b2 * v - a2 * u
            y[tc, n] = u
    return y


def maxwell_ref(ez: Any, hx: Any, hy: Any, eps: Any, dt: Any) -> Any:
    hx, hy, ez = hx.clone(), hy.clone(), ez.clone()
    hx[:-1] -= dt * (ez[1:] - ez[:-1])
    hy[:, :-1] += dt * (ez[:, 1:] - ez[:, :-1])
    ez[1:, 1:] += dt / eps[1:, 1:] * (hy[1:, 1:] - hy[1:, :-1] - hx[1:, 1:] + hx[:-1, 1:])
    return ez, hx, hy


@stranger(
    lambda h, w: (randn(h, w), randn(h, w), randn(h, w), torch.rand(h, w) + 1, 0.5),
    maxwell_ref,
    {"h": 9, "w": 13},
    {"h": 4096, "w": 4096},
)
@tileflow.kernel
def maxwell_step(ez, hx, hy, eps, dt):
    h, w = ez.shape
    ez, hx, hy = ez.clone(), hx.clone(), hy.clone()
    for ty, tx in tfl.tile([h - 1, w]):
        hx[ty, tx] -= dt * (ez[ty + 1, tx] - ez[ty, tx])
    for ty, tx in tfl.tile([h, w - 1]):
        hy[ty, tx] += dt * (ez[ty, tx + 1] - ez[ty, tx])
    for ty, tx in tfl.tile([1, 1], [h, w]):
        curl = hy[ty, tx] - hy[ty, tx - 1] - hx[ty, tx] + hx[ty - 1, tx]
        ez[ty, tx] += dt / eps[ty, tx] * curl
    return ez, hx, hy


def make_rays(n: Any, m: Any) -> Any:
    toward = F.normalize(torch.cat([randn(n, 2) * 0.3, torch.ones(n, 1)], 1), dim=1)
    return randn(n, 3) * 0.1, toward, randn(m, 3) * 2 + torch.tensor([0.0, 0.0, 9.0]), torch.rand(m) * 0.5 + 0.2


def rays_ref(origin: Any, toward: Any, centre: Any, radius: Any) -> Any:
    depth, hit = [], []
    for o, d in zip(origin.split(1024), toward.split(1024), strict=True):
        oc = o[:, None] - centre
        b = (oc * d[:, None]).sum(-1)
        inside = b * b - (oc * oc).sum(-1) + radius**2
        t = -b - inside.clamp(min=0).sqrt()
        t = torch.where((inside > 0) & (t > 0), t, float("inf"))
        near, i = t.min(1)
        depth.append(near)
        hit.append(torch.where(near.isinf(), -1, i))
    return torch.cat(depth), torch.cat(hit).int()


@stranger(make_rays, rays_ref, {"n": 13, "m": 9}, {"n": 262144, "m": 512})
@tileflow.kernel
def ray_spheres(origin, toward, centre, radius):
    n, m = origin.size(0), centre.size(0)
    depth = torch.empty(n, device=origin.device)
    hit = torch.empty(n, dtype=torch.int32, device=origin.device)
    for t in tfl.tile(n):
        o, d = origin[t, :], toward[t, :]
        best = tfl.full([t], math.inf)
        which = tfl.full([t], -1, dtype=torch.int32)
        for i in range(m):
            oc = o - centre[i, :]
            b = (oc * d).sum(-1)
            inside = b * b - (oc * oc).sum(-1) + radius[i] ** 2
            far = -b - torch.sqrt(inside)
            nearer = (inside > 0) & (far > 0) & (far < best)
            best = torch.where(nearer, far, best)
            which = torch.where(nearer, i, which)
        depth[t] = best
        hit[t] = which
    return depth, hit


def lut_ref(x: Any, lut: Any) -> Any:
    grid = x.permute(0, 2, 3, 1).flip(-1)[:, None] * 2 - 1
    volume = lut.permute(3, 0, 1, 2).expand(x.size(0), -1, -1, -1, -1)
    return F.grid_sample(volume, grid, align_corners=True)[:, :, 0]


@stranger(
    lambda b, h, w, n: (torch.rand(b, 3, h, w), torch.rand(n, n, n, 3)),
    lut_ref,
    {"b": 2, "h": 5, "w": 7, "n": 4},
    {"b": 8, "h": 1080, "w": 1920, "n": 33},
)
@tileflow.kernel
def colour_lut(x, lut):
    b, _, h, w = x.shape
    n = lut.size(0)
    out = torch.empty_like(x)
    for tb, ty, tx in tfl.tile([b, h, w]):
        place, part = [], []
        for c in range(3):
            v = x[tb, c, ty, tx].clamp(0, 1) * (n - 1)
            low = v.long().clamp(max=n - 2)
            place.append(low)
            part.append(v - low)
        (r, g, bl), (fr, fg, fb) = place, part
        for c in range(3):
            acc = 0
            for i in range(8):
                dr, dg, db = i & 1, i >> 1 & 1, i >> 2
                weight = (fr if dr else 1 - fr) * (fg if dg else 1 - fg) * (fb if db else 1 - fb)
                acc += weight * lut[r + dr, g + dg, bl + db, c]
            out[tb, c, ty, tx] = acc
    return out


def correlation_ref(f: Any, g: Any, reach: Any) -> Any:
    _b, _c, h, w = f.shape
    g = F.pad(g, (reach,) * 4)
    side = range(2 * reach + 1)
    return torch.stack([(f * g[:, :, dy : dy + h, dx : dx + w]).mean(1) for dy in side for dx in side], 1)


@stranger(
    lambda b, c, h, w, reach: (randn(b, c, h, w), randn(b, c, h, w), reach),
    correlation_ref,
    {"b": 1, "c": 5, "h": 6, "w": 9, "reach": 2},
    {"b": 4, "c": 128, "h": 96, "w": 128, "reach": 4},
)
@tileflow.kernel
def correlation_volume(f, g, reach: tfl.constexpr):
    b, c, h, w = f.shape
    side = 2 * reach + 1
    out = torch.empty(b, side * side, h, w, device=f.device)
    for tb, td, ty, tx in tfl.tile([b, side * side, h, w], block_size=[1, 1, None, None]):
        ib, d = tb.begin, td.begin
        dy, dx = d // side - reach, d % side - reach
        acc = tfl.zeros([ty, tx])
        for k in range(c):
            acc += f[ib, k, ty, tx] * g[ib, k, ty + dy, tx + dx]
        out[ib, d, ty, tx] = acc / c
    return out


@stranger(
    lambda b, h, w: (torch.rand(b, h, w),),
    lambda x: x.cumsum(1).cumsum(2),
    {"b": 2, "h": 9, "w": 13},
    {"b": 16, "h": 1080, "w": 1920},
)
@tileflow.kernel
def integral_image(x):
    b, h, w = x.shape
    rows = torch.empty_like(x)
    out = torch.empty_like(x)
    for tb, ty in tfl.tile([b, h]):
        rows[tb, ty, :] = torch.cumsum(x[tb, ty, :], -1)
    for tb, tx in tfl.tile([b, w]):
        out[tb, :, tx] = torch.cumsum(rows[tb, :, tx], 1)
    return out


def philox(counter: Any, seed: Any) -> Any:
    mask = 0xFFFFFFFF
    c0, c1, c2, c3 = counter & mask, counter * 0, counter * 0, counter * 0
    key = counter * 0 + seed
    k0, k1 = key & mask, (key >> 32) & mask
    for _ in range(10):
        p, q = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1, c2, c3 = ((q >> 32) & mask) ^ c1 ^ k0, q & mask, ((p >> 32) & mask) ^ c3 ^ k1, p & mask
        k0, k1 = (k0 + 0x9E3779B9) & mask, (k1 + 0xBB67AE85) & mask
    return c0


@stranger(
    lambda n: (randn(n), 0.3, 1234567),
    lambda x, p, seed: torch.where(philox(torch.arange(x.numel()), seed) * 2.0**-32 >= p, x / (1 - p), 0),
    {"n": 1037},
    {"n": 1 << 25},
)
@tileflow.kernel
def philox_dropout(x, p, seed):
    out = torch.empty_like(x)
    for t in tfl.tile(x.numel()):
        u = philox(t.index.long(), seed) * 2.0**-32
        out[t] = torch.where(u >= p, x[t] / (1 - p), 0)
    return out


def paths_ref(d: Any) -> Any:
    for k in range(d.size(1)):
        d = torch.minimum(d, d[:, :, k, None] + d[:, k, None, :])
    return d


@stranger(lambda b, n: (torch.rand(b, n, n) * 10,), paths_ref, {"b": 2, "n": 11}, {"b": 1024, "n": 64})
@tileflow.kernel
def shortest_paths(graphs):
    b, n, _ = graphs.shape
    out = torch.empty_like(graphs)
    for i in tfl.grid(b):
        d = graphs[i, :, :]
        for k in range(n):
            d = torch.minimum(d, d[:, k][:, None] + d[k, :][None, :])
        out[i, :, :] = d
    return out


def tridiagonal_ref(low: Any, main: Any, up: Any, rhs: Any) -> Any:
    full = torch.diag_embed(main.t()) + torch.diag_embed(low[1:].t(), -1) + torch.diag_embed(up[:-1].t(), 1)
    return torch.linalg.solve(full, rhs.t()).t()


@stranger(
    lambda n, m: (randn(n, m), torch.rand(n, m) + 6, randn(n, m), randn(n, m)),
    tridiagonal_ref,
    {"n": 7, "m": 13},
    {"n": 128, "m": 32768},
)
@tileflow.kernel
def tridiagonal(low, main, up, rhs):
    n, m = rhs.shape
    c, x = torch.empty_like(rhs), torch.empty_like(rhs)
    for t in tfl.tile(m):
        c[0, t] = up[0, t] / main[0, t]
        x[0, t] = rhs[0, t] / main[0, t]
        for i in range(1, n):
            scale = 1 / (main[i, t] - low[i, t] * c[i - 1, t])
            c[i, t] = up[i, t] * scale
            x[i, t] = (rhs[i, t] - low[i, t] * x[i - 1, t]) * scale
        for i in range(n - 2, -1, -1):
            x[i, t] -= c[i, t] * x[i + 1, t]
    return x
