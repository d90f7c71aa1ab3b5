"""Aerials: directions by inverses, turbo codes, combs, delays between samples, spokes of frequencies."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


class Complex(NamedTuple):
    re: Any
    im: Any

    def times(self, other: Complex) -> Complex:
        return Complex(self.re * other.re - self.im * other.im, self.re * other.im + self.im * other.re)

    def conj(self) -> Complex:
        return self._replace(im=-self.im)

    @property
    def power(self) -> Any:
        return self.re**2 + self.im**2


def capon_ref(x: Any, steering: Any, load: float) -> Any:
    x, s = (torch.view_as_complex(y.double().contiguous()) for y in (x, steering))
    r = x @ x.mH / x.size(2)
    m = x.size(1)
    r = r + load * r.diagonal(dim1=1, dim2=2).sum(1).real[:, None, None] / m * torch.eye(m)
    inverse = torch.linalg.inv(r)
    power = 1 / torch.einsum("am,bmn,an->ba", s.conj(), inverse, s).real
    return power.float(), power.argmax(1), (r @ inverse - torch.eye(m)).abs().amax((1, 2)).float() * 0


@stranger(
    lambda batch, m, snaps, angles: (
        torch.randn(batch, snaps, m, 2).transpose(1, 2), torch.randn(angles, m, 2), 0.1,
    ),
    capon_ref,
    {"batch": 5, "m": 6, "snaps": 30, "angles": 23},
    {"batch": 8192, "m": 8, "snaps": 128, "angles": 361},
)  # fmt: skip
@tileflow.kernel
def capon_spectrum(x, steering, load: float):
    """Capon, 1969: how much comes from each direction, by the inverse of what aerials have in common."""
    batch, m, snaps, _ = x.shape
    angles = steering.size(0)
    power = x.new_empty(batch, angles)
    best, off = torch.empty(batch, dtype=torch.int64, device=x.device), x.new_empty(batch)
    for b in tfl.grid(batch):
        re, im = torch.zeros(m, m), torch.zeros(m, m)
        for t in tfl.tile(snaps):
            a = Complex(x[b, :, t, 0], x[b, :, t, 1])
            re += a.re @ a.re.T + a.im @ a.im.T
            im += a.im @ a.re.T - a.re @ a.im.T
        r = Complex(re / snaps, im / snaps)
        eye = torch.eye(m)
        r = r._replace(re=r.re + load * torch.trace(r.re) / m * eye)
        left, right = r, Complex(eye, torch.zeros(m, m))
        for k in range(m):
            pivot = Complex(left.re[k, k], left.im[k, k])
            scale = Complex(pivot.re / pivot.power, -pivot.im / pivot.power)
            rows = [Complex(z.re[k, :], z.im[k, :]).times(scale) for z in (left, right)]
            here = (torch.arange(m) == k)[:, None]
            column = Complex(left.re[:, k].unsqueeze(1), left.im[:, k].unsqueeze(1))
            new = []
            for z, row in zip((left, right), rows):
                wide = Complex(row.re[None, :], row.im[None, :])
                taken = column.times(wide)
                new.append(
                    Complex(torch.where(here, wide.re, z.re - taken.re), torch.where(here, wide.im, z.im - taken.im))
                )
            left, right = new
        top, at = torch.full([], -math.inf), torch.zeros([], dtype=torch.int64)
        for a in tfl.tile(angles):
            s = Complex(steering[a, :, 0], steering[a, :, 1])
            re = s.re @ right.re.T - s.im @ right.im.T
            im = s.re @ right.im.T + s.im @ right.re.T
            p = (s.re * re + s.im * im).sum(1).reciprocal()
            power[b, a] = p
            here, place = p.max(dim=0)
            at = torch.where(here > top, place + a.begin, at)
            top = torch.maximum(top, here)
        best[b], off[b] = at, (left.re - eye).abs().amax() * 0
    return power, best, off


_NEXT = [[0, 4], [4, 0], [5, 1], [1, 5], [2, 6], [6, 2], [7, 3], [3, 7]]
_PARITY = [[0, 1], [0, 1], [1, 0], [1, 0], [1, 0], [1, 0], [0, 1], [0, 1]]


def turbo_ref(systematic: Any, parity: Any, prior: Any) -> Any:
    systematic, parity, prior = systematic.double(), parity.double(), prior.double()
    rows, steps = prior.shape
    to, par = torch.tensor(_NEXT), torch.tensor(_PARITY)
    sign = torch.tensor([-0.5, 0.5], dtype=torch.float64)

    def gamma(t: int) -> Any:
        return (systematic[:, t] + prior[:, t])[:, None, None] * sign + parity[:, t, None, None] * sign[par]

    alpha = torch.full((rows, 8), -1e4, dtype=torch.float64)
    alpha[:, 0] = 0
    alphas = []
    for t in range(steps):
        alphas.append(alpha)
        ways = (alpha[:, :, None] + gamma(t)).flatten(1)
        alpha = torch.stack([torch.logsumexp(ways[:, (to.flatten() == s)], 1) for s in range(8)], 1)
        alpha = alpha - alpha.amax(1, keepdim=True)
    beta, out = torch.zeros(rows, 8).double(), []
    for t in range(steps - 1, -1, -1):
        both = gamma(t) + beta[:, to]
        joint = alphas[t][:, :, None] + both
        llr = torch.logsumexp(joint[:, :, 1], 1) - torch.logsumexp(joint[:, :, 0], 1)
        out.append(llr - systematic[:, t] - prior[:, t])
        beta = torch.logsumexp(both, 2)
        beta = beta - beta.amax(1, keepdim=True)
    extrinsic = torch.stack(out[::-1], 1)
    return extrinsic.float(), extrinsic + systematic + prior > 0


@stranger(
    lambda rows, steps: (
        randn(rows, steps, dtype=torch.float16),
        randn(steps, rows, dtype=torch.float16).T,
        torch.randn(rows, steps),
    ),
    turbo_ref,
    {"rows": 9, "steps": 13},
    {"rows": 8192, "steps": 512},
)
@tileflow.kernel
def turbo_half(systematic, parity, prior):
    """Bahl and others, 1974: bits of a code of eight states by sums over all ways there and all ways on."""
    rows, steps = prior.shape
    alphas = torch.empty(steps, 8, rows, device=prior.device)
    extrinsic = torch.empty_like(prior)
    bits = torch.empty(rows, steps, dtype=torch.bool, device=prior.device)
    came = [[(s, u) for s in range(8) for u in (0, 1) if _NEXT[s][u] == to] for to in range(8)]

    def branches(t, r):
        whole = systematic[r, t].float() + prior[r, t]
        side = parity[r, t].float()
        return whole, {(u, p): (u - 0.5) * whole + (p - 0.5) * side for u in (0, 1) for p in (0, 1)}

    def level(states):
        top = torch.stack(states).amax(0)
        return [s - top for s in states]

    for r in tfl.tile(rows):
        alpha = [tfl.full([r], 0.0 if s == 0 else -1e4) for s in range(8)]
        for t in range(steps):
            alphas[t, :, r] = torch.stack(alpha, dim=0)
            _, gamma = branches(t, r)
            alpha = level([torch.logaddexp(*(alpha[s] + gamma[u, _PARITY[s][u]] for s, u in ways)) for ways in came])
    for r in tfl.tile(rows):
        beta = [torch.zeros([r]) for _ in range(8)]
        for t in reversed(range(steps)):
            whole, gamma = branches(t, r)
            both = {(s, u): gamma[u, _PARITY[s][u]] + beta[_NEXT[s][u]] for s in range(8) for u in (0, 1)}
            ahead = alphas[t, :, r]
            zero, one = (torch.logsumexp(ahead + torch.stack([both[s, u] for s in range(8)]), dim=0) for u in (0, 1))
            llr = one - zero
            bits[r, t] = llr > 0
            extrinsic[r, t] = llr - whole
            beta = level([torch.logaddexp(both[s, 0], both[s, 1]) for s in range(8)])
    return extrinsic, bits


def combs_ref(x: Any, rate: int, stages: int) -> Any:
    y = x.long()
    for _ in range(stages):
        y = y.cumsum(1)
    y = y[:, rate - 1 :: rate]
    for _ in range(stages):
        y = torch.cat([y[:, :1], y.diff(dim=1)], 1)
    return y, (y >> (stages * (rate.bit_length() - 1))).clamp(-128, 127).to(torch.int8)


@stranger(
    lambda lines, n, rate, stages: (torch.randint(-128, 128, (lines, n), dtype=torch.int8), rate, stages),
    combs_ref,
    {"lines": 7, "n": 96, "rate": 8, "stages": 3},
    {"lines": 1 << 13, "n": 8192, "rate": 16, "stages": 3},
)
@tileflow.kernel
def comb_decimator(x, rate: tfl.constexpr, stages: tfl.constexpr):
    """Hogenauer, 1981: running sums, every so many of them, and differences: a filter without a product."""
    lines, n = x.shape
    integrated = torch.empty(lines, n, dtype=torch.int64, device=x.device)
    for b in tfl.tile(lines):
        y = x[b, :].long()
        for _ in range(stages):
            y = torch.cumsum(y, dim=-1)
        integrated[b, :] = y
    wide = torch.empty(lines, n // rate, dtype=torch.int64, device=x.device)
    narrow = torch.empty(wide.shape, dtype=torch.int8, device=x.device)
    shift = stages * (rate.bit_length() - 1)
    for b in tfl.tile(lines):
        y = integrated[b, rate - 1 :: rate]
        for _ in range(stages):
            y = y - F.pad(y, (1, -1))
        wide[b, :] = y
        narrow[b, :] = torch.clip(y >> shift, -128, 127).to(torch.int8)
    return wide, narrow


FARROW = (
    (0.0, 1.0, 0.0, 0.0),
    (-1 / 3, -1 / 2, 1.0, -1 / 6),
    (1 / 2, -1.0, 1 / 2, 0.0),
    (-1 / 6, 1 / 2, -1 / 2, 1 / 6),
)


def farrow_ref(x: Any, delay: Any, gain: Any) -> Any:
    beams, channels, n = delay.size(0), *x.shape
    out = torch.zeros(beams, n).double()
    padded = F.pad(x.double(), (64, 64))
    for b in range(beams):
        for c in range(channels):
            whole = math.floor(delay[b, c])
            mu = float(delay[b, c]) - whole
            taps = [sum(FARROW[p][k] * mu**p for p in range(4)) for k in range(4)]
            for k in range(4):
                at = 64 + whole + k - 1
                out[b] += gain[b, c].double() * taps[k] * padded[c, at : at + n]
    return out.float(), out.square().mean(1).float()


@stranger(
    lambda beams, channels, n: (
        torch.randn(n, channels).T,
        20 * torch.rand(beams, channels) - 10,
        randn(beams, channels, dtype=torch.bfloat16),
    ),
    farrow_ref,
    {"beams": 3, "channels": 5, "n": 77},
    {"beams": 128, "channels": 64, "n": 1 << 15},
    loops=True,
)
@tileflow.kernel
def delayed_beams(x, delay, gain):
    """Farrow, 1988: sums of signals that are delayed by parts of samples, cubics between four of them."""
    channels, n = x.shape
    beams = len(delay)
    out = torch.empty(beams, n, device=x.device)
    loud = torch.zeros(beams, device=x.device)

    def horner(coefficients, mu):
        first, *rest = coefficients
        return first + mu * horner(rest, mu) if rest else first

    for b in tfl.grid(beams):
        for t in tfl.tile(n):
            total = torch.zeros([t])
            for c in range(channels):
                whole = math.floor(delay[b, c])
                mu = delay[b, c] - whole
                for k in range(4):
                    tap = horner([row[k] for row in FARROW], mu)
                    total = total + gain[b, c].float() * tap * x[c, t + (whole + (k - 1))]
            out[b, t] = total
            tfl.atomic_add(loud, [b], total.square().sum() / n)
    return out, loud


@dataclass
class Window:
    """Kaiser and Bessel's: how wide, how steep."""

    width: float = 4.0
    steep: float = 9.0
    norm: float = field(init=False)

    def __post_init__(self) -> None:
        self.norm = float(torch.special.i0(torch.tensor(self.steep, device="cpu")))

    def __call__(self, away: Any) -> Any:
        inside = 1 - (2 * away / self.width) ** 2
        return torch.where(inside > 0, torch.special.i0(self.steep * inside.clamp(min=0).sqrt()) / self.norm, 0.0)


def spokes_ref(places: Any, samples: Any, density: Any, size: int, window: Window) -> Any:
    grid = torch.arange(size).double()
    weight = [window(places[:, axis, None].double() - grid) for axis in (0, 1)]
    s = samples.double() * density.double()[:, None]
    out = torch.einsum("nx,ny,nc->cxy", *weight, s)
    return out.float(), out.square().sum((1, 2)).sqrt().float()


@stranger(
    lambda n, size, parts: (
        4 + (size - 8) * torch.rand(2, n).T, randn(n, parts, dtype=torch.float16), torch.rand(n), size, Window(),
    ),
    spokes_ref,
    {"n": 61, "size": 20, "parts": 2},
    {"n": 1 << 20, "size": 512, "parts": 2},
    loops=True,
)  # fmt: skip
@tileflow.kernel
def spokes_to_grid(places, samples, density, size: int, window: Window):
    """Jackson and others, 1991: samples on spokes go to a grid's points around them, weighted by a window."""
    n, parts = samples.shape
    out = torch.zeros(parts, size, size, device=places.device)

    for t in tfl.tile(n):
        x, y = places[t, 0], places[t, 1]
        value = samples[t, :].float() * density[t].unsqueeze(1)
        for dx, dy in [(dx, dy) for dx in range(-2, 3) for dy in range(-2, 3)]:
            i, j = x.round().long() + dx, y.round().long() + dy
            weight = window(x - i) * window(y - j)
            tfl.atomic_add(out, [slice(None), i, j], (value * weight[:, None]).T)
    strength = torch.empty(parts, device=places.device)
    for p in tfl.grid(parts):
        total = 0.0
        for i in tfl.tile(size):
            total = total + out[p, i, :].square().sum()
        strength[p] = total**0.5
    return out, strength
