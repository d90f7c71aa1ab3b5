"""Skies and scans: periodograms, pulses folded and dispersed, clipped stacks, tomography, beams of sound."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def periodogram_ref(t: Any, y: Any, w: Any, omega: Any) -> Any:
    found = []
    for part in omega.split(1 << 12):
        angle = part[:, None] * t
        c, s = torch.cos(angle), torch.sin(angle)
        yc, ys, cc, cs = (c * w * y).sum(1), (s * w * y).sum(1), (w * c * c).sum(1), (w * c * s).sum(1)
        ss = w.sum() - cc
        found.append((ss * yc**2 + cc * ys**2 - 2 * cs * yc * ys) / (cc * ss - cs**2))
    return torch.cat(found) / (w * y * y).sum()


@stranger(
    lambda n, f: (torch.rand(n) * 50, randn(n), torch.rand(n) + 0.5, 0.2 + torch.rand(f) * 3),
    periodogram_ref,
    {"n": 61, "f": 37},
    {"n": 4096, "f": 1 << 15},
)
@tileflow.kernel
def lomb_scargle(t, y, w, omega):
    """Zechmeister and Kuerster, 2009: power at each frequency of a series that is sampled at any times."""
    power = torch.empty_like(omega)
    for tf in tfl.tile(omega.numel()):
        yc, ys, cc, cs, ss, yy = (tfl.zeros([tf]) for _ in range(6))
        for tt in tfl.tile(t.numel()):
            angle = omega[tf][:, None] * t[tt][None, :]
            c, s = torch.cos(angle), torch.sin(angle)
            weight = w[tt][None, :]
            value = y[tt][None, :]
            yc += (weight * value * c).sum(1)
            ys += (weight * value * s).sum(1)
            cc += (weight * c * c).sum(1)
            cs += (weight * c * s).sum(1)
            ss += (weight * s * s).sum(1)
            yy += (weight * value * value).sum(1)
        power[tf] = (ss * yc**2 + cc * ys**2 - 2 * cs * yc * ys) / (cc * ss - cs**2) / yy
    return power


def fold_ref(t: Any, y: Any, period: Any, bins: int) -> Any:
    p = period.numel()
    sums, counts = torch.zeros(p, bins, dtype=torch.float64), torch.zeros(p, bins, dtype=torch.int32)
    for i in range(p):
        cycles = t / period[i]
        k = ((cycles - cycles.floor()) * bins).long().clamp(max=bins - 1)
        counts[i] = torch.bincount(k, minlength=bins).int()
        sums[i] = torch.zeros(bins, dtype=torch.float64).index_add_(0, k, y.double())
    return sums.float(), counts


@stranger(
    lambda n, p, bins: (torch.rand(n).double() * 1000, randn(n), 1 + torch.rand(p).double(), bins),
    fold_ref,
    {"n": 83, "p": 5, "bins": 8},
    {"n": 1 << 18, "p": 64, "bins": 128},
)
@tileflow.kernel
def fold_pulses(t, y, period, bins: tfl.constexpr):
    """Arrivals folded at many periods into profiles; times in float64."""
    n, p = t.numel(), period.numel()
    sums = torch.zeros(p, bins, device=y.device)
    counts = torch.zeros(p, bins, dtype=torch.int32, device=y.device)
    for tp, tt in tfl.tile([p, n]):
        cycles = t[tt][None, :] / period[tp][:, None]
        phase = ((cycles - torch.floor(cycles)) * bins).int().clamp(max=bins - 1)
        tfl.atomic_add(sums, [tp.index[:, None], phase], y[tt][None, :])
        tfl.atomic_add(counts, [tp.index[:, None], phase], 1)
    return sums, counts


def make_filterbank(c: int, t: int, d: int) -> Any:
    frequency = torch.linspace(1.5, 1.2, c)
    delay = torch.arange(d)[:, None] * (frequency[None] ** -2 - frequency[0] ** -2) * 10
    return torch.randint(0, 256, (c, t), dtype=torch.uint8), delay.round().int()


def dispersed_ref(x: Any, delay: Any) -> Any:
    c, n = x.shape
    out = torch.zeros(delay.size(0), n, dtype=torch.int32)
    for k in range(c):
        where = torch.arange(n)[None] + delay[:, k, None]
        out += torch.where(where < n, x[k][where.clamp(max=n - 1)], 0).int()
    return out


@stranger(make_filterbank, dispersed_ref, {"c": 7, "t": 41, "d": 5}, {"c": 256, "t": 1 << 16, "d": 128})
@tileflow.kernel
def dedisperse(x, delay):
    """A sum over channels for each trial of how late the low ones are; zero past the end."""
    c, n = x.shape
    d = delay.size(0)
    out = torch.empty(d, n, dtype=torch.int32, device=x.device)
    for td, tt in tfl.tile([d, n]):
        total = tfl.zeros([td, tt], dtype=torch.int32)
        for k in range(c):
            where = tt.index[None, :] + delay[td, k][:, None]
            total += x[k, where].int()
        out[td, tt] = total
    return out


def stack_ref(x: Any, kappa: float) -> Any:
    y = x.float()
    centre = y.median(0).values
    spread = 1.4826 * (y - centre).abs().median(0).values
    keep = (y - centre).abs() <= kappa * spread
    return torch.where(keep, y, 0).sum(0) / keep.sum(0), keep.sum(0).to(torch.uint8)


@stranger(
    lambda n, h, w: ((100 + 20 * randn(n, h, w) + 900 * (torch.rand(n, h, w) < 0.02)).to(torch.int16), 3.0),
    stack_ref,
    {"n": 7, "h": 5, "w": 9},
    {"n": 15, "h": 2048, "w": 2048},
)
@tileflow.kernel
def clipped_stack(x, kappa):
    """Pictures of one field averaged without cosmic rays: far from the median by the median distance."""
    _, h, w = x.shape
    out = torch.empty(h, w, device=x.device)
    used = torch.empty(h, w, dtype=torch.uint8, device=x.device)
    for ty, tx in tfl.tile([h, w]):
        y = x[:, ty, tx].float()
        centre = torch.median(y, dim=0).values
        far = (y - centre).abs()
        keep = far <= kappa * 1.4826 * torch.median(far, dim=0).values
        count = keep.sum(0)
        out[ty, tx] = torch.where(keep, y, 0.0).sum(0) / count
        used[ty, tx] = count
    return out, used


def projected_ref(sinogram: Any, angles: Any, n: int) -> Any:
    a, d = sinogram.shape
    y = torch.arange(n)[:, None] - (n - 1) / 2
    x = torch.arange(n)[None] - (n - 1) / 2
    out = torch.zeros(n, n)
    for i in range(a):
        s = x * torch.cos(angles[i]) + y * torch.sin(angles[i]) + (d - 1) / 2
        k = s.floor()
        f = s - k
        k = k.long()
        ok = (k >= 0) & (k + 1 < d)
        lo, hi = sinogram[i][k.clamp(0, d - 1)], sinogram[i][(k + 1).clamp(0, d - 1)]
        out += torch.where(ok, lo * (1 - f) + hi * f, 0.0)
    return out * math.pi / a


@stranger(
    lambda a, d, n: (F.pad(randn(a, d - 2), (1, 1)), torch.arange(a) * (math.pi / a) + 0.001, n),
    projected_ref,
    {"a": 7, "d": 23, "n": 17},
    {"a": 360, "d": 1024, "n": 1024},
)
@tileflow.kernel
def back_projection(sinogram, angles, n: tfl.constexpr):
    """Parallel beams: each pixel adds up what the filtered projections have where its shadow falls."""
    a, d = sinogram.shape
    out = torch.empty(n, n, device=sinogram.device)
    for ty, tx in tfl.tile([n, n]):
        y, x = ty.index - (n - 1) / 2, tx.index - (n - 1) / 2
        total = tfl.zeros([ty, tx])
        for i in range(a):
            s = x[None, :] * torch.cos(angles[i]) + y[:, None] * torch.sin(angles[i]) + (d - 1) / 2
            k = torch.floor(s)
            f = s - k
            k = k.int()
            value = sinogram[i, k] * (1 - f) + sinogram[i, k + 1] * f
            total += torch.where((k >= 0) & (k + 1 < d), value, 0.0)
        out[ty, tx] = total * (math.pi / a)
    return out


def sound_ref(x: Any, mics: Any, points: Any, speed: float) -> Any:
    n = x.size(1)
    delay = torch.cdist(points, mics, compute_mode="donot_use_mm_for_euclid_dist") / speed
    delay = delay - delay.amin(1, keepdim=True)
    whole = delay.floor()
    longer, power = F.pad(x, (0, int(whole.max()) + 1)), []
    for s, f in zip(whole.long(), (delay - whole)[..., None], strict=True):
        where = s[:, None] + torch.arange(n)[None]
        aligned = longer.gather(1, where) * (1 - f) + longer.gather(1, where + 1) * f
        power.append(aligned.mean(0).square().mean())
    return torch.stack(power)


@stranger(
    lambda m, n, p: (randn(m, n), torch.rand(m, 3), torch.rand(p, 3) * 4, 0.05),
    sound_ref,
    {"m": 5, "n": 97, "p": 7},
    {"m": 32, "n": 1 << 14, "p": 1024},
)
@tileflow.kernel
def steered_power(x, mics, points, speed):
    """Delay and sum: how loud it is at each point of a room, by the recordings of many microphones."""
    m, n = x.shape
    p = points.size(0)
    out = torch.empty(p, device=x.device)
    for i in tfl.grid(p):
        apart = mics[:, :] - points[i, :][None, :]
        delay = torch.sqrt((apart * apart).sum(1)) / speed
        delay = delay - delay.amin()
        whole = torch.floor(delay)
        f = (delay - whole)[:, None]
        row = tfl.arange(m)[:, None]
        total = 0.0
        for tt in tfl.tile(n):
            where = whole.int()[:, None] + tt.index[None, :]
            beam = (x[row, where] * (1 - f) + x[row, where + 1] * f).mean(0)
            total = total + (beam * beam).sum()
        out[i] = total / n
    return out
