"""Particles, paths, and pictures: forces from lists of cells, simulated prices, periodic solves, boxes, clips."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def make_soft_nms(images: int, n: int) -> Any:
    corner = torch.rand(images, n, 2) * 20
    boxes = torch.cat([corner, corner + 1 + 9 * torch.rand(images, n, 2)], 2)
    return boxes, torch.rand(images, n), 0.5, 0.05


def soft_nms_ref(boxes: Any, scores: Any, sigma: float, least: float) -> Any:
    images, n, _ = boxes.shape
    order = torch.full((images, n), -1, dtype=torch.int64)
    final = torch.zeros(images, n, dtype=scores.dtype)
    for i in range(images):
        s, b = scores[i].clone(), boxes[i]
        area = (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])
        for step in range(n):
            at = int(s.argmax())
            if s[at] < least:
                break
            order[i, step], final[i, step] = at, s[at]
            size = (torch.minimum(b[:, 2:], b[at, 2:]) - torch.maximum(b[:, :2], b[at, :2])).clamp(min=0)
            both = size[:, 0] * size[:, 1]
            overlap = both / (area + area[at] - both)
            s = s * torch.exp(-(overlap**2) / sigma)
            s[at] = -1
    return order, final


@stranger(make_soft_nms, soft_nms_ref, {"images": 2, "n": 23}, {"images": 64, "n": 1000}, loops=True)
@tileflow.kernel
def soft_suppression(boxes, scores, sigma: float, least: float):
    """Bodla and others, 2017 (Soft-NMS): the best box lowers the scores of those it overlaps, until none is good."""
    images, n, _ = boxes.shape
    order = -torch.ones(images, n, dtype=torch.int64, device=boxes.device)
    final = torch.zeros_like(scores)
    for i in tfl.grid(images):
        x1, y1, x2, y2 = boxes[i, :, :].unbind(-1)
        area = (x2 - x1) * (y2 - y1)
        s = scores[i, :]
        step = 0
        while s.max() >= least:
            best, at = s.max(dim=0)
            order[i, step] = at
            final[i, step] = best
            w = (torch.minimum(x2, boxes[i, at, 2]) - torch.maximum(x1, boxes[i, at, 0])).clamp(min=0)
            h = (torch.minimum(y2, boxes[i, at, 3]) - torch.maximum(y1, boxes[i, at, 1])).clamp(min=0)
            overlap = w * h / (area + area[at] - w * h)
            s = s * torch.exp(-overlap * overlap / sigma)
            s = torch.where(torch.arange(n) == at, -1, s)
            step += 1
    return order, final


def make_clip(b: int, c: int, f: int, frames: int, h: int, w: int, dtype: torch.dtype = torch.float32) -> Any:
    x = randn(b, c, frames, h, w, dtype=dtype).to(memory_format=torch.channels_last_3d)
    return x, (torch.randn(f, c, 3, 3, 3) * (27 * c) ** -0.5).to(dtype), randn(f, dtype=dtype)


def clip_ref(x: Any, weight: Any, bias: Any) -> Any:
    wide = torch.promote_types(x.dtype, torch.float32)
    first = x[:, :, :1].expand(-1, -1, 2, -1, -1)
    padded = F.pad(torch.cat([first, x], 2), (1, 1, 1, 1))
    return F.conv3d(padded.to(wide), weight.to(wide), bias.to(wide)).to(x.dtype)


@stranger(
    make_clip,
    clip_ref,
    {"b": 2, "c": 5, "f": 7, "frames": 3, "h": 6, "w": 9},
    {"b": 1, "c": 128, "f": 128, "frames": 9, "h": 120, "w": 208, "dtype": torch.bfloat16},
)
@tileflow.kernel
def causal_convolution_3d(x, weight, bias):
    """Yu and others, 2023 (MAGVIT-v2): pictures of a clip and the two before each, of which the first is repeated."""
    b, c, frames, height, width = x.shape
    f = weight.size(0)
    out = torch.empty(b, f, frames, height, width, dtype=x.dtype, device=x.device)
    flat = out.flatten(3)
    for tb, tt, tp, tf in tfl.tile([b, frames, height * width, f], block_size=[1, 1, None, None]):
        i, t = tb.begin, tt.begin
        row, column = tp.index // width, tp.index % width
        acc = tfl.zeros([tp, tf])
        for dt in range(3):
            source = max(t + dt - 2, 0)
            for dy in range(3):
                for dx in range(3):
                    y, z = row + dy - 1, column + dx - 1
                    ok = (y >= 0) & (y < height) & (z >= 0) & (z < width)
                    for tc in tfl.tile(c):
                        patch = tfl.load(x, [i, tc, source, y, z], extra_mask=ok)
                        acc += patch.T @ weight[tf, tc, dt, dy, dx].T
        acc += bias[tf]
        flat[i, tf, t, tp] = acc.T
    return out


def make_cyclic(n: int, systems: int) -> Any:
    a, c = torch.rand(2, n, systems, dtype=torch.float64).unbind(0)
    return a, 2.5 + torch.rand(n, systems, dtype=torch.float64), c, torch.randn(n, systems, dtype=torch.float64)


def cyclic_ref(a: Any, b: Any, c: Any, d: Any) -> Any:
    n, systems = a.shape
    m = torch.zeros(systems, n, n, dtype=a.dtype)
    i = torch.arange(n)
    m[:, i, i] += b.T
    m[:, i, (i - 1) % n] += a.T
    m[:, i, (i + 1) % n] += c.T
    x = torch.linalg.solve(m, d.T[:, :, None])[:, :, 0].T
    d.copy_(x)
    return (a * x.roll(1, 0) + b * x + c * x.roll(-1, 0)).abs().amax(0), x


@stranger(make_cyclic, cyclic_ref, {"n": 17, "systems": 13}, {"n": 128, "systems": 1 << 17}, loops=True)
@tileflow.kernel
def periodic_tridiagonal(a, b, c, d):
    """Lines of a periodic grid, in float64 and in place: Thomas's sweeps, closed by Sherman and Morrison's formula."""
    n, systems = a.shape
    top = torch.empty_like(a)
    u = torch.empty_like(a)
    size = torch.empty(systems, dtype=a.dtype, device=a.device)
    for s in tfl.tile(systems):
        gamma = -b[0, s]
        corner = a[0, s] / gamma
        main = b[0, s] - gamma
        top[0, s] = c[0, s] / main
        d[0, s] = d[0, s] / main
        u[0, s] = gamma / main
        for i in range(1, n):
            main = b[i, s]
            right = torch.zeros_like(gamma)
            if i == n - 1:
                main = main - a[0, s] * c[n - 1, s] / gamma
                right = c[n - 1, s]
            main = main - a[i, s] * top[i - 1, s]
            top[i, s] = c[i, s] / main
            d[i, s] = (d[i, s] - a[i, s] * d[i - 1, s]) / main
            u[i, s] = (right - a[i, s] * u[i - 1, s]) / main
        for i in range(n - 2, -1, -1):
            d[i, s] -= top[i, s] * d[i + 1, s]
            u[i, s] -= top[i, s] * u[i + 1, s]
        share = (d[0, s] + corner * d[n - 1, s]) / (1 + u[0, s] + corner * u[n - 1, s])
        worst = torch.zeros_like(share)
        for i in range(n):
            d[i, s] -= share * u[i, s]
        for i in range(n):
            before, after = d[(i - 1) % n, s], d[(i + 1) % n, s]
            worst = torch.maximum(worst, (a[i, s] * before + b[i, s] * d[i, s] + c[i, s] * after).abs())
        size[s] = worst
    return size, d


def make_ewald(n: int, side: int, dtype: torch.dtype = torch.float32) -> Any:
    x = torch.rand(n, 3)
    cell = (x * side).long().clamp(max=side - 1)
    cell = (cell[:, 0] * side + cell[:, 1]) * side + cell[:, 2]
    order = cell.argsort()
    starts = torch.searchsorted(cell[order], torch.arange(side**3 + 1)).int()
    return (x[order] * side).to(dtype), torch.randn(n).to(dtype), cell[order].int(), starts, float(side), 2.5, side


def ewald_ref(x: Any, charge: Any, cell: Any, starts: Any, box: float, alpha: float, side: int) -> Any:
    diff = x[:, None] - x[None, :]
    diff = diff - box * torch.round(diff / box)
    r2 = (diff**2).sum(2)
    near = (r2 < 1) & (r2 > 0)
    r = torch.where(near, r2, 1).sqrt()
    pair = charge[:, None] * charge[None, :]
    energy = torch.where(near, pair * torch.erfc(alpha * r) / r, 0)
    pull = (torch.erfc(alpha * r) / r + 2 * alpha / math.pi**0.5 * torch.exp(-((alpha * r) ** 2))) / r**2
    force = (torch.where(near, pair * pull, 0)[:, :, None] * diff).sum(1)
    own = alpha / math.pi**0.5 * (charge**2).sum()
    return force, 0.5 * energy.sum() - own, near.sum(1).int()


@stranger(make_ewald, ewald_ref, {"n": 61, "side": 3}, {"n": 100_000, "side": 24})
@tileflow.kernel
def ewald_short_range(x, charge, cell, starts, box: float, alpha: float, side: int):
    """The short part of Ewald's sum, over cells of a periodic box: forces, energy, how many neighbours each has."""
    n = x.size(0)
    force = torch.zeros_like(x)
    energy = torch.zeros((), dtype=x.dtype, device=x.device)
    neighbours = torch.zeros(n, dtype=torch.int32, device=x.device)
    for here in tfl.grid(side**3):
        cx, cy, cz = here // (side * side), here // side % side, here % side
        for ti in tfl.tile(starts[here], starts[here + 1]):
            xi = x[ti, :]
            qi = charge[ti]
            f = torch.zeros_like(xi)
            e = torch.zeros_like(qi)
            count = torch.zeros_like(qi, dtype=torch.int32)
            for dx in range(-1, 2):
                for dy in range(-1, 2):
                    for dz in range(-1, 2):
                        other = ((cx + dx) % side * side + (cy + dy) % side) * side + (cz + dz) % side
                        for tj in tfl.tile(starts[other], starts[other + 1]):
                            diff = xi[:, None, :] - x[tj, :][None, :, :]
                            diff = diff - box * torch.round(diff / box)
                            r2 = diff.square().sum(-1)
                            near = (r2 < 1) & (ti.index[:, None] != tj.index[None, :])
                            r = torch.sqrt(torch.where(near, r2, 1.0))
                            pair = torch.where(near, qi[:, None] * charge[tj][None, :], 0)
                            tail = torch.erfc(alpha * r) / r
                            pull = (tail + 2 * alpha / math.sqrt(math.pi) * torch.exp(-((alpha * r) ** 2))) / (r * r)
                            f += ((pair * pull)[:, :, None] * diff).sum(1)
                            e += (pair * tail).sum(1)
                            count += near.sum(1)
            force[ti, :] = f
            neighbours[ti] = count
            tfl.atomic_add(energy, (), 0.5 * e.sum() - alpha / math.sqrt(math.pi) * (qi * qi).sum())
    return force, energy, neighbours


class Heston:
    def __init__(self, kappa: float, theta: float, xi: float, rho: float) -> None:
        self.kappa, self.theta, self.xi, self.rho = kappa, theta, xi, rho

    def variance(self, v, dw, dt):  # type: ignore[no-untyped-def]
        up = torch.clamp(v, min=0)
        return v + self.kappa * (self.theta - up) * dt + self.xi * torch.sqrt(up * dt) * dw


def make_heston(paths: int, steps: int, strikes: int) -> Any:
    return (
        torch.randn(steps, 2, paths),
        torch.linspace(80, 120, strikes),
        Heston(1.5, 0.04, 0.3, -0.7),
        100.0,
        1.0,
        110.0,
    )


def heston_ref(normal: Any, strike: Any, model: Any, spot: float, expiry: float, barrier: float) -> Any:
    steps, _, paths = normal.shape
    dt = expiry / steps
    x = torch.full((paths,), math.log(spot), dtype=normal.dtype)
    v = torch.full((paths,), model.theta, dtype=normal.dtype)
    alive = torch.ones(paths, dtype=torch.bool)
    for i in range(steps):
        z1 = normal[i, 0]
        z2 = model.rho * z1 + math.sqrt(1 - model.rho**2) * normal[i, 1]
        up = v.clamp(min=0)
        x = x - 0.5 * up * dt + (up * dt).sqrt() * z1
        v = model.variance(v, z2, dt)
        alive &= x < math.log(barrier) + 0.3
    s = x.exp()
    pay = (s[:, None] - strike).clamp(min=0) * alive[:, None]
    return pay.mean(0), pay.std(0) / paths**0.5, alive.sum()


@stranger(
    make_heston, heston_ref, {"paths": 131, "steps": 7, "strikes": 5}, {"paths": 1 << 20, "steps": 64, "strikes": 8}
)
@tileflow.kernel
def heston_barrier_calls(normal, strike, model, spot: float, expiry: float, barrier: float):
    """Heston's model by Euler's steps with truncation: prices of calls that die above a barrier, and their errors."""
    steps, _, paths = normal.shape
    dt = expiry / steps
    sums = torch.zeros(2, len(strike), dtype=normal.dtype, device=normal.device)
    living = torch.zeros((), dtype=torch.int64, device=normal.device)
    limit = math.log(barrier) + 0.3
    for t in tfl.tile(paths):
        x = tfl.full([t], math.log(spot), dtype=normal.dtype)
        v = torch.full_like(x, model.theta)
        alive = torch.ones_like(x, dtype=torch.bool)
        for i in range(steps):
            z1 = normal[i, 0, t]
            z2 = model.rho * z1 + math.sqrt(1 - model.rho**2) * normal[i, 1, t]
            up = v.clamp(min=0)
            x += -0.5 * up * dt + torch.sqrt(up * dt) * z1
            v = model.variance(v, z2, dt)
            alive &= x < limit
        pay = torch.relu(x.exp()[:, None] - strike[None, :]) * alive[:, None]
        pay = torch.where((t.index < paths)[:, None], pay, 0)
        tfl.atomic_add(sums, [0, slice(None)], pay.sum(0))
        tfl.atomic_add(sums, [1, slice(None)], (pay * pay).sum(0))
        tfl.atomic_add(living, [], alive.sum())
    mean = sums[0] / paths
    deviation = ((sums[1] / paths - mean**2) * paths / (paths - 1)).clamp(min=0).sqrt()
    return mean, deviation / paths**0.5, living


def make_filters(b: int, steps: int, n: int, m: int) -> Any:
    observed = torch.rand(b, steps) < 0.8
    f = 0.9 * torch.eye(n) + 0.1 * torch.eye(n).roll(1, 0)  # keeps what a filter rounds from growing
    h, noise = torch.randn(m, n), 0.1 * torch.eye(n)
    return torch.randn(b, steps, m), observed, f, h, noise, 0.5 + torch.rand(m), torch.zeros(n)


def filters_ref(y: Any, observed: Any, f: Any, h: Any, q: Any, r: Any, x0: Any) -> Any:
    b, steps, m = y.shape
    x = x0.expand(b, -1)
    p = torch.eye(x0.numel(), dtype=y.dtype).expand(b, -1, -1)
    likelihood = torch.zeros(b, dtype=y.dtype)
    for t in range(steps):
        x, p = x @ f.T, f @ p @ f.T + q
        for j in range(m):
            ph = p @ h[j]
            s = ph @ h[j] + r[j]
            e = y[:, t, j] - x @ h[j]
            see = observed[:, t]
            likelihood = likelihood - torch.where(see, 0.5 * (torch.log(2 * math.pi * s) + e * e / s), 0)
            k = torch.where(see[:, None], ph / s[:, None], 0)
            x = x + k * e[:, None]
            p = p - k[:, :, None] * ph[:, None, :]
    return x, p, likelihood


@stranger(
    make_filters,
    filters_ref,
    {"b": 5, "steps": 6, "n": 3, "m": 2},
    {"b": 65536, "steps": 64, "n": 6, "m": 3},
)
@tileflow.kernel
def sequential_kalman(y, observed, f, h, q, r, x0):
    """Kalman's filter, an observation at a time, missing ones skipped: states, covariances and likelihoods."""
    b, steps, m = y.shape
    n = x0.numel()
    state = torch.empty(b, n, dtype=y.dtype, device=y.device)
    covariance = torch.empty(b, n, n, dtype=y.dtype, device=y.device)
    likelihood = torch.empty(b, dtype=y.dtype, device=y.device)
    for tb in tfl.tile(b):
        x = x0[:][None, :].expand(tb, n)
        p = torch.eye(n)[None].expand(tb, n, n)
        ll = tfl.zeros([tb])
        for t in range(steps):
            x = torch.einsum("ij,bj->bi", f[:, :], x)
            p = torch.einsum("ij,bjk,lk->bil", f[:, :], p, f[:, :]) + q[:, :]
            seen = observed[tb, t]
            for j in range(m):
                row = h[j, :]
                ph = (p * row).sum(-1)
                s = (ph * row).sum(-1) + r[j]
                e = y[tb, t, j] - (x * row).sum(-1)
                ll -= torch.where(seen, 0.5 * (torch.log(2 * math.pi * s) + e * e / s), 0.0)
                k = torch.where(seen[:, None], ph / s[:, None], 0.0)
                x = x + k * e[:, None]
                p = p - k[:, :, None] * ph[:, None, :]
        state[tb, :] = x
        covariance[tb] = p
        likelihood[tb] = ll
    return state, covariance, likelihood
