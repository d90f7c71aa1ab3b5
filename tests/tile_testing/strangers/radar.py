"""Radar and optics: ranges and speeds, detections in clutter, apertures, wrapped phases, polarised light, films."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def doppler_ref(iq: Any, window: Any) -> Any:
    pulses = iq.size(1)
    i = torch.arange(pulses, dtype=torch.float64)
    angle = -2 * math.pi * ((i[:, None] * i) % pulses) / pulses
    twist = torch.complex(torch.cos(angle), torch.sin(angle)).to(torch.complex64)
    power = torch.zeros(iq.shape[1:3])
    for x in iq.float():
        found = twist @ (torch.view_as_complex(x) * window.float()[:, None])
        power += found.real.square() + found.imag.square()
    return 10 * torch.log10(power + 1)


@stranger(
    lambda c, p, r: (
        torch.randint(-400, 400, (c, p, r, 2)).to(torch.int16),
        torch.hann_window(p, periodic=False) + 0.05,
    ),
    doppler_ref,
    {"c": 3, "p": 16, "r": 37},
    {"c": 16, "p": 128, "r": 8192},
)
@tileflow.kernel
def range_doppler(iq, window):
    """Richards, 2014: decibels by speed and range, over all antennas, by Fourier's matrix over the pulses."""
    c, p, r, _ = iq.shape
    out = torch.empty(p, r, device=iq.device)
    for tr in tfl.tile(r):
        k = tfl.arange(p)
        angle = (k[:, None] * k[None, :] % p) * (-2 * math.pi / p)
        cos = (torch.cos(angle) * window[:][None, :]).half()
        sin = (torch.sin(angle) * window[:][None, :]).half()
        power = tfl.zeros([p, tr])
        for a in range(c):
            x = iq[a, :, tr, 0].half()
            y = iq[a, :, tr, 1].half()
            real = tfl.dot(cos, x) - tfl.dot(sin, y)
            imaginary = tfl.dot(cos, y) + tfl.dot(sin, x)
            power += real * real + imaginary * imaginary
        out[:, tr] = 10 * torch.log10(power + 1)
    return out


def clutter_ref(echo: Any, train: int, guard: int, rank: int, scale: float) -> Any:
    n = echo.size(1)
    reach = train + guard
    x = F.pad(echo.float(), (reach, reach))
    places = [k for k in range(-reach, reach + 1) if abs(k) > guard]
    hits, noise = [], []
    for part in x.split(256):
        around = torch.stack([part[:, reach + k : reach + k + n] for k in places], -1)
        level = around.kthvalue(rank, -1).values
        hits.append(part[:, reach : reach + n] > scale * level)
        noise.append(level.to(echo.dtype))
    return torch.cat(hits), torch.cat(noise), torch.cat(hits).sum(1)


@stranger(
    lambda m, n, train, guard, rank: (
        (torch.rand(m, n).log().neg() * 100 * (1 + 20 * (torch.rand(m, n) < 0.01))).clamp(max=30000).to(torch.int16),
        train,
        guard,
        rank,
        4.0,
    ),
    clutter_ref,
    {"m": 5, "n": 43, "train": 3, "guard": 1, "rank": 4},
    {"m": 1024, "n": 2048, "train": 12, "guard": 2, "rank": 18},
)
@tileflow.kernel
def ordered_cfar(echo, train: tfl.constexpr, guard: tfl.constexpr, rank: tfl.constexpr, scale):
    """Rohling, 1983: echoes that stand out of an ordered statistic of their neighbours."""
    m, n = echo.shape
    hit = torch.empty(m, n, dtype=torch.bool, device=echo.device)
    noise = torch.empty_like(echo)
    count = torch.zeros(m, dtype=torch.int64, device=echo.device)
    for tm, tn in tfl.tile([m, n]):
        around = []
        for k in range(guard + 1, guard + train + 1):
            around.append(echo[tm, tn - k])
            around.append(echo[tm, tn + k])
        level = torch.kthvalue(torch.stack(around, -1), rank, dim=-1).values
        found = echo[tm, tn] > scale * level
        hit[tm, tn] = found
        noise[tm, tn] = level
        tfl.atomic_add(count, [tm], found.sum(1))
    return hit, noise, count


def aperture_ref(real: Any, imaginary: Any, track: Any, n: int, h: float, near: float, bin: float, k: float) -> Any:
    pulses, bins = real.shape
    x = (torch.arange(n) - n / 2) * h
    re, im = torch.zeros(n, n, dtype=real.dtype), torch.zeros(n, n, dtype=real.dtype)
    for i in range(pulses):
        d = torch.sqrt((x - track[i, 0]) ** 2 + (x[:, None] - track[i, 1]) ** 2 + track[i, 2] ** 2)
        at = (d - near) / bin
        low = at.floor()
        f = at - low
        low = low.long()
        ok = (low >= 0) & (low < bins - 1)
        low = low.clamp(0, bins - 2)
        a = real[i][low] * (1 - f) + real[i][low + 1] * f
        b = imaginary[i][low] * (1 - f) + imaginary[i][low + 1] * f
        c, s = torch.cos(k * d), torch.sin(k * d)
        re += torch.where(ok, a * c - b * s, 0.0)
        im += torch.where(ok, a * s + b * c, 0.0)
    return torch.hypot(re, im)


@stranger(
    lambda pulses, bins, n: (
        randn(pulses, bins),
        randn(pulses, bins),
        torch.stack([torch.linspace(-2, 2, pulses), torch.full((pulses,), -6.0), torch.full((pulses,), 3.0)], 1),
        n,
        6 / n,
        3.5,
        8 / bins,
        40.0,
    ),
    aperture_ref,
    {"pulses": 9, "bins": 61, "n": 17},
    {"pulses": 256, "bins": 2048, "n": 512},
)
@tileflow.kernel
def synthetic_aperture(real, imaginary, track, n, h, near, bin, k):
    """Munson et al., 1983: each pixel turns back the phase of the echoes that came from its distance."""
    pulses, bins = real.shape
    out = torch.empty(n, n, device=real.device)
    for ty, tx in tfl.tile([n, n]):
        x = (tx.index - n / 2) * h
        y = (ty.index - n / 2) * h
        re = tfl.zeros([ty, tx])
        im = tfl.zeros([ty, tx])
        for i in range(pulses):
            px, py, pz = track[i, :].unbind(0)
            d = torch.sqrt((x[None, :] - px) ** 2 + (y[:, None] - py) ** 2 + pz**2)
            at = (d - near) / bin
            low = torch.floor(at)
            f = at - low
            low = low.int()
            ok = (low >= 0) & (low < bins - 1)
            a = real[i, low] * (1 - f) + real[i, low + 1] * f
            b = imaginary[i, low] * (1 - f) + imaginary[i, low + 1] * f
            c, s = torch.cos(k * d), torch.sin(k * d)
            re += torch.where(ok, a * c - b * s, 0.0)
            im += torch.where(ok, a * s + b * c, 0.0)
        out[ty, tx] = torch.sqrt(re**2 + im**2)
    return out


def make_phases(m: Any, n: Any) -> Any:
    smooth = 0.8 * randn(m, n).clamp(-3, 3).cumsum(1)
    return (torch.remainder(smooth + math.pi, 2 * math.pi) - math.pi,)


def unwrapped_ref(phase: Any) -> Any:
    d = phase.diff(dim=1)
    turns = -torch.round(d / (2 * math.pi)).cumsum(1)
    return torch.cat([phase[:, :1], phase[:, 1:] + 2 * math.pi * turns], 1), turns.abs().amax(1)


@stranger(make_phases, unwrapped_ref, {"m": 7, "n": 45}, {"m": 8192, "n": 4096})
@tileflow.kernel
def phase_unwrap(phase):
    """Itoh, 1982: whole turns put back along each row, where a step of the phase is more than half of one."""
    m = phase.size(0)
    out = torch.empty_like(phase)
    most = torch.empty(m, device=phase.device)
    for t in tfl.tile(m):
        row = phase[t, :]
        step = torch.diff(row, dim=1, prepend=row[:, :1])
        turns = torch.cumsum(torch.round(step / (2 * math.pi)), dim=1)
        out[t, :] = row - 2 * math.pi * turns
        most[t] = turns.abs().amax(1)
    return out, most


def mueller_ref(stokes: Any, axis: Any, delay: Any, pass_x: Any, pass_y: Any) -> Any:
    s = stokes
    for k in range(axis.size(0)):
        c, n = torch.cos(2 * axis[k]), torch.sin(2 * axis[k])
        p, q = pass_x[k] ** 2, pass_y[k] ** 2
        zero = torch.zeros_like(c)
        turn = torch.stack(
            [zero + 1, zero, zero, zero, zero, c, n, zero, zero, -n, c, zero, zero, zero, zero, zero + 1], -1
        )
        turn = turn.unflatten(-1, (4, 4))
        a, b = (p + q) / 2, (p - q) / 2
        g, h = pass_x[k] * pass_y[k] * torch.cos(delay[k]), pass_x[k] * pass_y[k] * torch.sin(delay[k])
        m = torch.zeros(4, 4, dtype=s.dtype)
        m[0, 0] = m[1, 1] = a
        m[0, 1] = m[1, 0] = b
        m[2, 2] = m[3, 3] = g
        m[2, 3], m[3, 2] = h, -h
        s = torch.einsum("pji,jk,pkl,pl->pi", turn, m, turn, s)
    return s, torch.sqrt(s[:, 1] ** 2 + s[:, 2] ** 2 + s[:, 3] ** 2) / s[:, 0]


@stranger(
    lambda n, layers: (
        torch.cat([torch.ones(n, 1) * 2, randn(n, 3).tanh()], 1),
        torch.rand(layers, n) * math.pi,
        torch.rand(layers) * 3,
        0.9 + torch.rand(layers) * 0.1,
        0.8 + torch.rand(layers) * 0.1,
    ),
    mueller_ref,
    {"n": 53, "layers": 3},
    {"n": 1 << 20, "layers": 24},
)
@tileflow.kernel
def mueller_stack(stokes, axis, delay, pass_x, pass_y):
    """Mueller, 1943: polarised light of each pixel through layers that turn, delay and dim it."""
    n = stokes.size(0)
    layers = axis.size(0)
    out = torch.empty_like(stokes)
    degree = torch.empty(n, device=stokes.device)
    for t in tfl.tile(n):
        i, q, u, v = torch.unbind(stokes[t, :], -1)
        for k in range(layers):
            c, s = torch.cos(2 * axis[k, t]), torch.sin(2 * axis[k, t])
            q, u = c * q + s * u, c * u - s * q
            px, py = pass_x[k], pass_y[k]
            mean, half = (px**2 + py**2) / 2, (px**2 - py**2) / 2
            i, q = mean * i + half * q, half * i + mean * q
            cd, sd = px * py * torch.cos(delay[k]), px * py * torch.sin(delay[k])
            u, v = cd * u + sd * v, cd * v - sd * u
            q, u = c * q - s * u, s * q + c * u
        out[t, :] = torch.stack([i, q, u, v], -1)
        degree[t] = torch.sqrt(q**2 + u**2 + v**2) / i
    return out, degree


def films_ref(wavelength: Any, angle: Any, index: Any, loss: Any, depth: Any, glass: float) -> Any:
    w, sin2 = wavelength[:, None].double(), torch.sin(angle.double())[None, :] ** 2
    b = torch.ones(w.size(0), sin2.size(1), dtype=torch.complex128)
    c = torch.sqrt(glass**2 - sin2).to(torch.complex128).expand_as(b)
    for k in reversed(range(index.size(0))):
        n = torch.complex(index[k].double(), -loss[k].double())
        eta = torch.sqrt(n * n - sin2)
        turn = 2 * math.pi * depth[k].double() * eta / w
        cos, sin = torch.cos(turn), torch.sin(turn)
        b, c = cos * b + 1j * sin / eta * c, 1j * eta * sin * b + cos * c
    outside = torch.sqrt(1 - sin2)
    r = (outside * b - c) / (outside * b + c)
    return (r.real**2 + r.imag**2).float()


def plus(a: Any, b: Any) -> Any:
    return a[0] + b[0], a[1] + b[1]


def times(a: Any, b: Any) -> Any:
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def ratio(a: Any, b: Any) -> Any:
    size = b[0] * b[0] + b[1] * b[1]
    return (a[0] * b[0] + a[1] * b[1]) / size, (a[1] * b[0] - a[0] * b[1]) / size


def root(a: Any) -> Any:
    real = torch.sqrt((torch.hypot(a[0], a[1]) + a[0]) / 2)
    return real, a[1] / (2 * real)


@stranger(
    lambda w, a, layers: (
        torch.linspace(0.4, 0.9, w),
        torch.linspace(0, 1.2, a),
        1.4 + torch.rand(layers),
        torch.rand(layers) * 0.01,
        0.05 + torch.rand(layers) * 0.1,
        1.5,
    ),
    films_ref,
    {"w": 11, "a": 5, "layers": 4},
    {"w": 4096, "a": 256, "layers": 32},
)
@tileflow.kernel
def thin_films(wavelength, angle, index, loss, depth, glass):
    """Abeles, 1950: light that layers with losses reflect, by the product of their matrices."""
    nw, na, layers = wavelength.numel(), angle.numel(), index.numel()
    out = torch.empty(nw, na, device=angle.device)
    for tw, ta in tfl.tile([nw, na]):
        sin2 = (torch.sin(angle[ta]) ** 2)[None, :]
        b = (tfl.full([tw, ta], 1.0), tfl.zeros([tw, ta]))
        c = (torch.sqrt(glass**2 - sin2).expand(tw, ta), tfl.zeros([tw, ta]))
        for k in reversed(range(layers)):
            n, loss_k = index[k], loss[k]
            eta = root((n * n - loss_k * loss_k - sin2, -2 * n * loss_k))
            turn = 2 * math.pi * depth[k] / wavelength[tw][:, None]
            x, y = turn * eta[0], turn * eta[1]
            cos = (torch.cos(x) * torch.cosh(y), -torch.sin(x) * torch.sinh(y))
            sin = (torch.sin(x) * torch.cosh(y), torch.cos(x) * torch.sinh(y))
            i_sin = (-sin[1], sin[0])
            b, c = (
                plus(times(cos, b), times(ratio(i_sin, eta), c)),
                plus(times(times(i_sin, eta), b), times(cos, c)),
            )
        outside = torch.sqrt(1 - sin2)
        top = (outside * b[0] - c[0], outside * b[1] - c[1])
        bottom = (outside * b[0] + c[0], outside * b[1] + c[1])
        out[tw, ta] = (top[0] ** 2 + top[1] ** 2) / (bottom[0] ** 2 + bottom[1] ** 2)
    return out
