"""Diffusion and flows: guided steps, thresholds, losses of velocities, invertible layers and splines."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.compat.helion as helion
import tileflow.compat.helion.language as hl
import tileflow.language as tfl

from .stranger import randn, stranger


def make_guided(b: Any, c: Any, h: Any, dtype: Any = torch.float32) -> Any:
    now = torch.rand(b) * 0.8 + 0.1
    return [randn(b, c, h, h, dtype=dtype) for _ in range(3)] + [now, (now + 0.05).clamp(max=0.99), 7.5, 0.7]


def guided_ref(x: Any, cond: Any, free: Any, now: Any, after: Any, scale: Any, share: Any) -> Any:
    wide = x.double()
    a, b = now.double()[:, None, None, None], after.double()[:, None, None, None]
    guided = free.double() + scale * (cond.double() - free.double())
    spread = cond.double().std((1, 2, 3), keepdim=True) / guided.std((1, 2, 3), keepdim=True)
    eps = guided * (share * spread + 1 - share)
    first = (wide - (1 - a).sqrt() * eps) / a.sqrt()
    return (b.sqrt() * first + (1 - b).sqrt() * eps).to(x.dtype)


@stranger(make_guided, guided_ref, {"b": 3, "c": 2, "h": 5}, {"b": 512, "c": 4, "h": 128, "dtype": torch.float16})
@tileflow.kernel
def guided_step(x, cond, free, now, after, scale: float, share: float):
    """Lin et al., 2023, arXiv:2305.08891: guidance brought back to the spread of the condition's, then DDIM's step."""
    b = x.size(0)
    out = torch.empty_like(x)
    flat, one, two, result = x.view(b, -1), cond.view(b, -1), free.view(b, -1), out.view(b, -1)
    for t in tfl.tile(b):
        with_text, without = one[t, :].float(), two[t, :].float()
        guided = without + scale * (with_text - without)
        spread = with_text.std(dim=1, keepdim=True) / guided.std(dim=1, keepdim=True)
        eps = guided * (share * spread + 1 - share)
        a, later = now[t][:, None], after[t][:, None]
        first = (flat[t, :].float() - torch.sqrt(1 - a) * eps) / torch.sqrt(a)
        result[t, :] = torch.sqrt(later) * first + torch.sqrt(1 - later) * eps
    return out


def threshold_ref(x: Any, k: Any) -> Any:
    s = x.abs().kthvalue(k, dim=1).values.clamp(min=1)[:, None]
    return torch.minimum(torch.maximum(x, -s), s) / s, s[:, 0]


@stranger(
    lambda b, n: (randn(b, n) * 1.5, math.ceil(0.995 * n)), threshold_ref, {"b": 5, "n": 37}, {"b": 512, "n": 12288}
)
@tileflow.kernel
def dynamic_threshold(x, k: tfl.constexpr):
    """Imagen, arXiv:2205.11487: each picture is clamped at a percentile of its own, and scaled by it."""
    b, _n = x.shape
    out = torch.empty_like(x)
    limit = torch.empty(b, device=x.device)
    for t in tfl.tile(b):
        row = x[t, :]
        s = torch.kthvalue(row.abs(), k, dim=1).values.clamp(min=1)
        s2 = s[:, None]
        out[t, :] = torch.clamp(row, -s2, s2) / s2
        limit[t] = s
    return out, limit


def matching_ref(x0: Any, x1: Any, t: Any, v: Any) -> Any:
    error = v.double() - (x1.double() - x0.double())
    each = (error**2).mean(1)
    weight = 1 / ((1 - t.double()).clamp(min=0.05) ** 2).clamp(min=1.0)
    grad = 2 * error * weight[:, None] / error.numel()
    return (weight * each).mean().to(t.dtype), each.to(t.dtype), grad.to(v.dtype)


@stranger(
    lambda b, n, dtype=torch.float32: (
        randn(b, n, dtype=dtype),
        randn(b, n, dtype=dtype),
        torch.rand(b),
        randn(b, n, dtype=dtype),
    ),
    matching_ref,
    {"b": 5, "n": 45},
    {"b": 2048, "n": 16384, "dtype": torch.bfloat16},
)
@helion.kernel(static_shapes=True)
def flow_matching(
    x0: torch.Tensor, x1: torch.Tensor, t: torch.Tensor, v: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Lipman et al., 2022, arXiv:2210.02747: the loss of a predicted velocity and its gradient in one go."""
    b, n = x0.size()
    loss = torch.zeros([], dtype=torch.float32, device=x0.device)
    each = torch.empty([b], dtype=torch.float32, device=x0.device)
    grad = torch.empty_like(v)
    for tile_b in hl.tile(b):
        rest = (1 - t[tile_b]).clamp(min=0.05)
        weight = 1 / (rest * rest).clamp(min=1.0)
        total = hl.zeros([tile_b], dtype=torch.float32)
        for tile_n in hl.tile(n):
            velocity = x1[tile_b, tile_n].to(torch.float32) - x0[tile_b, tile_n].to(torch.float32)
            error = v[tile_b, tile_n].to(torch.float32) - velocity
            total = total + (error * error).sum(-1)
            grad[tile_b, tile_n] = (2.0 / (b * n) * weight[:, None] * error).to(grad.dtype)
        each[tile_b] = total / n
        hl.atomic_add(loss, [], (weight * total).sum() / (b * n))
    return loss, each, grad


def coupling_ref(x: Any, net: Any, scale: Any) -> Any:
    a, b = x.chunk(2, 1)
    s, t = net.chunk(2, 1)
    s = scale * torch.tanh(s)
    return torch.cat([b * s.exp() + t, a], 1), s.sum(1)


@stranger(
    lambda b, d: (randn(b, 2 * d), randn(b, 2 * d), randn(d)), coupling_ref, {"b": 7, "d": 13}, {"b": 65536, "d": 384}
)
@tileflow.kernel
def coupling_layer(x, net, scale):
    """RealNVP, arXiv:1605.08803: one half is moved by what a network made of the other, then both change places."""
    b, d = x.size(0), x.size(1) // 2
    y = torch.empty_like(x)
    volume = torch.empty(b, device=x.device)
    for t in tfl.tile(b):
        s = scale[:] * torch.tanh(net[t, :d])
        y[t, :d] = x[t, d:] * torch.exp(s) + net[t, d:]
        y[t, d:] = x[t, :d]
        volume[t] = s.sum(1)
    return y, volume


def spline_ref(x: Any, widths: Any, heights: Any, slopes: Any, bound: Any = 3.0) -> Any:
    k = widths.size(-1)
    w = 1e-3 + (1 - 1e-3 * k) * widths.softmax(-1)
    h = 1e-3 + (1 - 1e-3 * k) * heights.softmax(-1)
    kx = 2 * bound * F.pad(w.cumsum(-1), (1, 0)) - bound
    ky = 2 * bound * F.pad(h.cumsum(-1), (1, 0)) - bound
    d = F.pad(1e-3 + F.softplus(slopes), (1, 1), value=1.0)
    i = (x[..., None] >= kx[..., 1:-1]).sum(-1, keepdim=True)

    def at(z: Any, j: Any) -> Any:
        return z.gather(-1, j)[..., 0]

    x0, y0, d0, d1 = at(kx, i), at(ky, i), at(d, i), at(d, i + 1)
    dx, dy = at(kx, i + 1) - x0, at(ky, i + 1) - y0
    s, z = dy / dx, (x - x0) / dx
    bottom = s + (d1 + d0 - 2 * s) * z * (1 - z)
    y = y0 + dy * (s * z * z + d0 * z * (1 - z)) / bottom
    slope = 2 * s.log() + (d1 * z * z + 2 * s * z * (1 - z) + d0 * (1 - z) ** 2).log() - 2 * bottom.log()
    inside = x.abs() <= bound
    return torch.where(inside, y, x), torch.where(inside, slope, 0.0).sum(-1)


@stranger(
    lambda b, d, k: (randn(b, d) * 2, randn(b, d, k), randn(b, d, k), randn(b, d, k - 1)),
    spline_ref,
    {"b": 5, "d": 3, "k": 4},
    {"b": 65536, "d": 32, "k": 8},
)
@tileflow.kernel
def rational_spline(x, widths, heights, slopes, bound=3.0):
    """Neural spline flows, arXiv:1906.04032: bins of quotients of parabolas, the identity outside."""
    b, d = x.shape
    k = widths.size(2)
    y = torch.empty_like(x)
    volume = torch.zeros(b, device=x.device)
    for tb, td in tfl.tile([b, d]):
        here = x[tb, td]
        w = 2 * bound * (1e-3 + (1 - 1e-3 * k) * torch.softmax(widths[tb, td, :], -1))
        h = 2 * bound * (1e-3 + (1 - 1e-3 * k) * torch.softmax(heights[tb, td, :], -1))
        right, top = torch.cumsum(w, -1) - bound, torch.cumsum(h, -1) - bound
        bins = tfl.arange(k)
        i = ((here[:, :, None] >= right) & (bins < k - 1)).sum(-1)
        hot = bins == i[:, :, None]
        dx, dy = torch.where(hot, w, 0.0).sum(-1), torch.where(hot, h, 0.0).sum(-1)
        x0, y0 = torch.where(hot, right, 0.0).sum(-1) - dx, torch.where(hot, top, 0.0).sum(-1) - dy
        inner = tfl.arange(k - 1)
        steep = 1e-3 + F.softplus(slopes[tb, td, :])
        d0 = torch.where(i == 0, 1.0, torch.where(inner == i[:, :, None] - 1, steep, 0.0).sum(-1))
        d1 = torch.where(i == k - 1, 1.0, torch.where(inner == i[:, :, None], steep, 0.0).sum(-1))
        s, z = dy / dx, (here - x0) / dx
        bottom = s + (d1 + d0 - 2 * s) * z * (1 - z)
        moved = y0 + dy * (s * z * z + d0 * z * (1 - z)) / bottom
        slope = d1 * z * z + 2 * s * z * (1 - z) + d0 * (1 - z) * (1 - z)
        inside = here.abs() <= bound
        y[tb, td] = torch.where(inside, moved, here)
        log_slope = 2 * torch.log(s) + torch.log(slope) - 2 * torch.log(bottom)
        tfl.atomic_add(volume, [tb], torch.where(inside, log_slope, 0.0).sum(1))
    return y, volume
