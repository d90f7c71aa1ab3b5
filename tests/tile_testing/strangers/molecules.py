"""Molecules: forces of pairs and of angles, scattering, sums over waves, constraints, filters of distances."""

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


def make_pairs(n: Any, k: Any) -> Any:
    near = (torch.arange(n)[:, None] + torch.randint(1, min(n, 2000), (n, k))) % n
    near = torch.where(torch.rand(n, k) < 0.85, near, -1)
    return torch.rand(n, 3) * 4, near.int(), 4.0, 1.6


def lennard_ref(place: Any, near: Any, box: Any, cutoff: Any) -> Any:
    d = place[:, None] - place[near.clamp(min=0).long()]
    d = d - box * torch.round(d / box)
    r2 = (d**2).sum(-1)
    inside = (near >= 0) & (r2 < cutoff**2)
    r = r2.clamp(min=0.6).sqrt()
    s6, c6 = r**-6, cutoff**-6
    last = 24 * c6 * (2 * c6 - 1) / cutoff
    energy = 4 * s6 * (s6 - 1) - 4 * c6 * (c6 - 1) + (r - cutoff) * last
    pull = (24 * s6 * (2 * s6 - 1) / r - last) / r
    force = (torch.where(inside, pull, 0.0)[..., None] * d).sum(1)
    return force, torch.where(inside, energy, 0.0).sum(1) / 2


@stranger(make_pairs, lennard_ref, {"n": 37, "k": 5}, {"n": 1 << 20, "k": 64})
@tileflow.kernel
def lennard_jones(place, near, box: float, cutoff: float):
    """Forces and energies from a list of neighbours, in a periodic box; both end at zero where the cutoff is."""
    n = place.size(0)
    c6 = cutoff**-6
    shift, last = 4 * c6 * (c6 - 1), 24 * c6 * (2 * c6 - 1) / cutoff
    force = torch.empty_like(place)
    energy = torch.empty(n, device=place.device)
    for t in tfl.tile(n):
        other = near[t, :]
        delta = []
        for axis in range(3):
            d = place[t, axis][:, None] - place[other, axis]
            delta.append(d - box * torch.round(d / box))
        r2 = delta[0] ** 2 + delta[1] ** 2 + delta[2] ** 2
        inside = (other >= 0) & (r2 < cutoff**2)
        r = torch.sqrt(r2.clamp(min=0.6))
        s6 = r**-6
        at_r = 4 * s6 * (s6 - 1) - shift + (r - cutoff) * last
        energy[t] = 0.5 * torch.where(inside, at_r, 0.0).sum(1)
        pull = torch.where(inside, (24 * s6 * (2 * s6 - 1) / r - last) / r, 0.0)
        for axis in range(3):
            force[t, axis] = (pull * delta[axis]).sum(1)
    return force, energy


def make_angles(n: Any) -> Any:
    chain = torch.cumsum(F.normalize(torch.randn(n, 3), dim=1), 0)
    first = torch.randperm(n - 2)
    return chain, torch.stack([first, first + 1, first + 2], 1).int(), 35.0, 1.9


def angle_ref(place: Any, triples: Any, stiffness: Any, rest: Any) -> Any:
    i, j, k = triples.long().unbind(1)
    a, b = place[i] - place[j], place[k] - place[j]
    la, lb = a.norm(dim=1, keepdim=True), b.norm(dim=1, keepdim=True)
    c = ((a * b).sum(1, keepdim=True) / (la * lb)).clamp(-0.99, 0.99)
    slope = stiffness * (torch.acos(c) - rest) / torch.sqrt(1 - c * c)
    fi, fk = slope / la * (b / lb - c * a / la), slope / lb * (a / la - c * b / lb)
    return torch.zeros_like(place).index_add(0, i, fi).index_add(0, k, fk).index_add(0, j, -fi - fk)


@stranger(make_angles, angle_ref, {"n": 41}, {"n": 1 << 22})
@tileflow.kernel
def angle_forces(place, triples, stiffness: float, rest: float):
    force = torch.zeros_like(place)
    for t in tfl.tile(triples.size(0)):
        i, j, k = triples[t, 0], triples[t, 1], triples[t, 2]
        a = place[i, :] - place[j, :]
        b = place[k, :] - place[j, :]
        la = torch.norm(a, dim=1, keepdim=True)
        lb = torch.norm(b, dim=1, keepdim=True)
        c = ((a * b).sum(1, keepdim=True) / (la * lb)).clamp(-0.99, 0.99)
        slope = stiffness * (torch.acos(c) - rest) / torch.sqrt(1 - c * c)
        fi = slope / la * (b / lb - c * a / la)
        fk = slope / lb * (a / la - c * b / lb)
        tfl.atomic_add(force, [i, slice(None)], fi)
        tfl.atomic_add(force, [k, slice(None)], fk)
        tfl.atomic_add(force, [j, slice(None)], -(fi + fk))
    return force


def debye_ref(place: Any, charge: Any, q: Any) -> Any:
    r = torch.cdist(place, place, compute_mode="donot_use_mm_for_euclid_dist")
    return torch.stack([charge @ (torch.sinc(r * (one / math.pi)) @ charge) for one in q])


@stranger(
    lambda n, m: (torch.rand(n, 3) * 20, torch.rand(n) + 0.5, torch.linspace(0.05, 1.5, m)),
    debye_ref,
    {"n": 37, "m": 3},
    {"n": 8192, "m": 48},
)
@tileflow.kernel
def debye_scattering(place, charge, q):
    """Debye, 1915: sin(qr) / qr over all pairs, for each length q of the wave."""
    n = place.size(0)
    out = torch.zeros_like(q)
    for ti, tj in tfl.tile([n, n]):
        r2 = tfl.zeros([ti, tj])
        for axis in range(3):
            r2 += (place[ti, axis][:, None] - place[tj, axis][None, :]) ** 2
        r = torch.sqrt(r2)
        weight = charge[ti][:, None] * charge[tj][None, :]
        for k in range(q.size(0)):
            x = q[k] * r
            wave = torch.where(x > 1e-6, torch.sin(x) / x, 1.0)
            tfl.atomic_add(out, [k], (weight * wave).sum())
    return out


def make_waves(n: Any, m: Any, box: Any) -> Any:
    return torch.rand(n, 3) * box, randn(n), torch.randint(-8, 9, (m, 3)).float() * (2 * math.pi / box)


def structure_ref(place: Any, charge: Any, waves: Any) -> Any:
    parts = []
    for part in waves.split(256):
        phase = part @ place.T
        parts.append(torch.stack([torch.cos(phase) @ charge, torch.sin(phase) @ charge], 1))
    s = torch.cat(parts)
    return s, (s**2).sum(1)


@stranger(make_waves, structure_ref, {"n": 45, "m": 13, "box": 10.0}, {"n": 65536, "m": 4096, "box": 10.0})
@tileflow.kernel
def structure_factor(place, charge, waves):
    """Ewald's sum in reciprocal space."""
    n, m = place.size(0), waves.size(0)
    out = torch.empty(m, 2, device=place.device)
    power = torch.empty(m, device=place.device)
    for tk in tfl.tile(m):
        kx, ky, kz = waves[tk, 0], waves[tk, 1], waves[tk, 2]
        real, imag = tfl.zeros([tk]), tfl.zeros([tk])
        for tj in tfl.tile(n):
            phase = torch.outer(kx, place[tj, 0]) + torch.outer(ky, place[tj, 1]) + torch.outer(kz, place[tj, 2])
            real += (torch.cos(phase) * charge[tj]).sum(1)
            imag += (torch.sin(phase) * charge[tj]).sum(1)
        out[tk, 0] = real
        out[tk, 1] = imag
        power[tk] = real * real + imag * imag
    return out, power


def langevin_ref(x: Any, v: Any, f: Any, mass: Any, noise: Any, dt: Any, friction: Any, heat: Any) -> Any:
    half = v + 0.5 * dt * f / mass[:, None]
    keep = math.exp(-friction * dt)
    kicked = keep * half + torch.sqrt(heat * (1 - keep * keep) / mass)[:, None] * noise
    return x + 0.5 * dt * (half + kicked), kicked, 0.5 * (mass[:, None] * kicked**2).sum()


@stranger(
    lambda n: (randn(n, 3), randn(n, 3), randn(n, 3), torch.rand(n) + 1, randn(n, 3), 0.01, 0.5, 2.5),
    langevin_ref,
    {"n": 45},
    {"n": 1 << 23},
)
@helion.kernel()
def langevin_step(
    x: torch.Tensor,
    v: torch.Tensor,
    f: torch.Tensor,
    mass: torch.Tensor,
    noise: torch.Tensor,
    dt: float,
    friction: float,
    heat: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Leimkuhler and Matthews, 2013: half a drift on either side of the heat bath."""
    n = x.size(0)
    moved = torch.empty_like(x)
    speed = torch.empty_like(v)
    kinetic = torch.zeros([], dtype=torch.float32, device=x.device)
    keep = math.exp(-friction * dt)
    for tile in hl.tile(n):
        m = mass[tile][:, None]
        half = v[tile, :] + 0.5 * dt * f[tile, :] / m
        kicked = keep * half + torch.sqrt(heat * (1 - keep * keep) / m) * noise[tile, :]
        moved[tile, :] = x[tile, :] + 0.5 * dt * half + 0.5 * dt * kicked
        speed[tile, :] = kicked
        hl.atomic_add(kinetic, [], 0.5 * (m * kicked * kicked).sum())
    return moved, speed, kinetic


WATER = ((0, 1, 1.0), (0, 2, 1.0), (1, 2, 1.633))
MASSES = (16.0, 1.0, 1.0)


def make_water(b: Any) -> Any:
    shape = torch.tensor([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [-0.3334, 0.9428, 0.0]])
    old = shape + torch.randn(b, 1, 3)
    return old, old + 0.03 * torch.randn(b, 3, 3), 8


def shake_ref(old: Any, new: Any, turns: Any) -> Any:
    p = [new[:, i] for i in range(3)]
    for _ in range(turns):
        for i, j, length in WATER:
            before, now = old[:, i] - old[:, j], p[i] - p[j]
            gap = (now**2).sum(1) - length**2
            g = gap / (2 * (1 / MASSES[i] + 1 / MASSES[j]) * (now * before).sum(1))
            p[i] = p[i] - (g / MASSES[i])[:, None] * before
            p[j] = p[j] + (g / MASSES[j])[:, None] * before
    return torch.stack(p, 1)


@stranger(make_water, shake_ref, {"b": 13}, {"b": 1 << 21})
@tileflow.kernel
def shake_water(old, new, turns: int):
    """Ryckaert, Ciccotti and Berendsen, 1977: three lengths of each molecule, in turn."""
    out = torch.empty_like(new)
    for t in tfl.tile(old.size(0)):
        p = [new[t, i, :] for i in range(3)]
        bonds = [old[t, i, :] - old[t, j, :] for i, j, _ in WATER]
        for _ in range(turns):
            for bond, (i, j, length) in zip(bonds, WATER, strict=True):
                now = p[i] - p[j]
                gap = (now * now).sum(-1) - length**2
                g = gap / (2 * (1 / MASSES[i] + 1 / MASSES[j]) * (now * bond).sum(-1))
                p[i] = p[i] - (g / MASSES[i])[:, None] * bond
                p[j] = p[j] + (g / MASSES[j])[:, None] * bond
        out[t, :, :] = torch.stack(p, dim=1)
    return out


def make_filters(n: Any, e: Any, r: Any, f: Any, dtype: Any = torch.float32) -> Any:
    return (
        randn(n, f, dtype=dtype),
        torch.rand(e) * 6,
        torch.randint(0, n, (2, e)).int(),
        randn(r, f, dtype=dtype) * r**-0.5,
        randn(f, f, dtype=dtype) * f**-0.5,
        5.0,
    )


def filters_ref(x: Any, length: Any, edges: Any, w1: Any, w2: Any, cutoff: Any) -> Any:
    r = w1.size(0)
    out = torch.zeros(x.shape, dtype=torch.float32 if x.dtype != torch.float64 else x.dtype)
    for part in torch.arange(length.numel()).split(1 << 18):
        d, (src, dst) = length[part], edges[:, part].long()
        rbf = torch.exp(-((d[:, None] - torch.arange(r) * (cutoff / (r - 1))) ** 2) * (r / cutoff) ** 2 / 2)
        h = (F.softplus(rbf.to(w1.dtype) @ w1) - math.log(2)) @ w2
        fade = torch.where(d < cutoff, 0.5 * torch.cos(d * math.pi / cutoff) + 0.5, 0.0)
        out.index_add_(0, dst, (h * fade[:, None] * x[src]).to(out.dtype))
    return out


@stranger(
    make_filters,
    filters_ref,
    {"n": 11, "e": 37, "r": 16, "f": 16},
    {"n": 65536, "e": 1 << 20, "r": 64, "f": 128, "dtype": torch.bfloat16},
)
@tileflow.kernel
def continuous_filter(x, length, edges, w1, w2, cutoff: float):
    """SchNet, arXiv:1706.08566: a small network of the distance weighs the message of each edge."""
    n, f = x.shape
    r = w1.size(0)
    out = torch.zeros(n, f, device=x.device)
    for te in tfl.tile(length.size(0)):
        d = length[te]
        centre = tfl.arange(r) * (cutoff / (r - 1))
        rbf = torch.exp(-((d[:, None] - centre) ** 2) * (r / cutoff) ** 2 / 2)
        h = F.softplus(rbf.to(w1.dtype) @ w1[:, :]) - math.log(2)
        h = h.to(w2.dtype) @ w2[:, :]
        fade = torch.where(d < cutoff, 0.5 * torch.cos(d * (math.pi / cutoff)) + 0.5, 0.0)
        message = h * fade[:, None] * x[edges[0, te], :]
        tfl.atomic_add(out, [edges[1, te], slice(None)], message)
    return out
