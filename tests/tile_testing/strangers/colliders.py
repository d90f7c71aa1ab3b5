"""Colliders: pairs of muons, circles through hits, jets, digitised pulses, cells of a calorimeter."""

from __future__ import annotations

import math
from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger

BOSON = 91.1876  # GeV


def make_muons(events: Any) -> Any:
    many = torch.randint(0, 7, (events,))
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), many.cumsum(0)]).int()
    n = 3 * events if offsets.is_meta else int(offsets[-1])
    charge = torch.where(torch.rand(n) < 0.5, 1, -1).to(torch.int8)
    return offsets, torch.rand(n) * 60 + 5, randn(n), (torch.rand(n) * 2 - 1) * math.pi, charge, 2.0, 100


def muons_ref(offsets: Any, pt: Any, eta: Any, phi: Any, charge: Any, width: float, bins: int) -> Any:
    events = offsets.numel() - 1
    event = torch.repeat_interleave(torch.arange(events), offsets.long().diff())
    histogram = torch.zeros(bins, dtype=torch.int64)
    pairs = torch.zeros(events, dtype=torch.int32)
    nearest = torch.full((events,), float("inf"), dtype=pt.dtype)
    for apart in range(1, 6):
        i = torch.arange(max(pt.numel() - apart, 0))
        j = i + apart
        i, j = (x[(event[i] == event[j]) & (charge[i] != charge[j])] for x in (i, j))
        mass = torch.sqrt(2 * pt[i] * pt[j] * (torch.cosh(eta[i] - eta[j]) - torch.cos(phi[i] - phi[j])))
        place = (mass / width).long()
        histogram += torch.bincount(place[place < bins], minlength=bins)
        pairs += torch.bincount(event[i], minlength=events).int()
        nearest = nearest.scatter_reduce(0, event[i], (mass - BOSON).abs(), "amin")
    return histogram.int(), pairs, nearest


@stranger(make_muons, muons_ref, {"events": 41}, {"events": 1 << 21})
@tileflow.kernel
def pair_masses(offsets, pt, eta, phi, charge, width, bins):
    """Masses of all pairs of opposite charge in each event: their spectrum, how many, how near one is to the Z."""
    events = offsets.numel() - 1
    histogram = torch.zeros(bins, dtype=torch.int32, device=pt.device)
    pairs = torch.empty(events, dtype=torch.int32, device=pt.device)
    nearest = torch.empty(events, device=pt.device)
    for t in tfl.tile(events):
        start = offsets[t]
        count = offsets[t + 1] - start
        found = tfl.zeros([t], dtype=torch.int32)
        best = tfl.full([t], float("inf"))
        for ti in tfl.jagged_tile(count):
            i = start[:, None] + ti.index[None, :]
            for tj in tfl.jagged_tile(count):
                j = start[:, None] + tj.index[None, :]
                deta = eta[i][:, :, None] - eta[j][:, None, :]
                dphi = phi[i][:, :, None] - phi[j][:, None, :]
                energy = pt[i][:, :, None] * pt[j][:, None, :]
                mass = torch.sqrt(torch.clamp(2 * energy * (torch.cosh(deta) - torch.cos(dphi)), min=0))
                other = charge[i][:, :, None] != charge[j][:, None, :]
                good = other & (ti.index[:, None] < tj.index[None, :])
                place = (mass / width).int()
                tfl.atomic_add(histogram, [place], 1, extra_mask=good & (place < bins))
                found += good.sum(-1).sum(-1).int()
                best = torch.minimum(best, torch.where(good, (mass - BOSON).abs(), float("inf")).amin(-1).amin(-1))
        pairs[t] = found
        nearest[t] = best
    return histogram, pairs, nearest


def make_hits(n: Any, layers: Any) -> Any:
    radius = torch.arange(1, layers + 1) * 0.1
    turn, bend = torch.rand(n) * 6.28, 2 + torch.rand(n) * 5
    angle = turn + radius[:, None] / (2 * bend)
    noise = 1e-3 * randn(3, layers, n)
    flat = torch.stack([radius[:, None] * torch.cos(angle), radius[:, None] * torch.sin(angle)])
    hits = torch.cat([flat, (radius[:, None] * (torch.rand(n) - 0.5))[None]]) + noise
    return hits.permute(2, 1, 0), torch.rand(n, layers) < 0.9


def hits_ref(hits: Any, seen: Any) -> Any:
    hits = hits.double()
    w = seen.double()
    total = w.sum(1, keepdim=True).clamp(min=1)
    x, y, z = hits.unbind(-1)
    mx, my = (w * x).sum(1, keepdim=True) / total, (w * y).sum(1, keepdim=True) / total
    u, v = x - mx, y - my
    q = u * u + v * v
    suu, svv, suv = (w * u * u).sum(1), (w * v * v).sum(1), (w * u * v).sum(1)
    su, sv = (w * u * q).sum(1) / 2, (w * v * q).sum(1) / 2
    det = suu * svv - suv * suv
    a, b = (su * svv - sv * suv) / det, (sv * suu - su * suv) / det
    r = torch.sqrt(a * a + b * b + (suu + svv) / total[:, 0])
    off = ((u - a[:, None]) ** 2 + (v - b[:, None]) ** 2).sqrt() - r[:, None]
    rho = torch.sqrt(x * x + y * y)
    mr, mz = (w * rho).sum(1, keepdim=True) / total, (w * z).sum(1, keepdim=True) / total
    slope = (w * (rho - mr) * (z - mz)).sum(1) / (w * (rho - mr) ** 2).sum(1)
    curve = torch.stack([1 / r, slope, mz[:, 0] - slope * mr[:, 0]], 1)
    return curve.float(), (w * off * off).sum(1).float(), (seen & (off.abs() < 2e-3)).sum(1).to(torch.int8)


@stranger(make_hits, hits_ref, {"n": 37, "layers": 7}, {"n": 3_000_000, "layers": 12})
@tileflow.kernel
def fit_tracks(hits, seen):
    """Kasa, 1976: a circle through the hits of each track that were seen, a line along the beam, and the residuals."""
    n = hits.size(0)
    curve = torch.empty(n, 3, device=hits.device)
    misfit = torch.empty(n, device=hits.device)
    close = torch.empty(n, dtype=torch.int8, device=hits.device)
    for t in tfl.tile(n):
        good = seen[t, :]
        w = good.double()
        x, y, z = hits[t, :, 0].double(), hits[t, :, 1].double(), hits[t, :, 2].double()
        total = torch.clamp(w.sum(1), min=1)
        u = x - ((w * x).sum(1) / total)[:, None]
        v = y - ((w * y).sum(1) / total)[:, None]
        q = u * u + v * v
        suu, svv, suv = (w * u * u).sum(1), (w * v * v).sum(1), (w * u * v).sum(1)
        su, sv = (w * u * q).sum(1) / 2, (w * v * q).sum(1) / 2
        det = suu * svv - suv * suv
        a, b = (su * svv - sv * suv) / det, (sv * suu - su * suv) / det
        r = torch.sqrt(a * a + b * b + (suu + svv) / total)
        off = torch.sqrt((u - a[:, None]) ** 2 + (v - b[:, None]) ** 2) - r[:, None]
        rho = torch.sqrt(x * x + y * y)
        mr, mz = (w * rho).sum(1) / total, (w * z).sum(1) / total
        dr = rho - mr[:, None]
        slope = (w * dr * (z - mz[:, None])).sum(1) / (w * dr * dr).sum(1)
        curve[t, 0] = 1 / r
        curve[t, 1] = slope
        curve[t, 2] = mz - slope * mr
        misfit[t] = (w * off * off).sum(1)
        close[t] = (good & (off.abs() < 2e-3)).sum(1)
    return curve, misfit, close


def jets_ref(pt: Any, eta: Any, phi: Any, count: Any, radius: float) -> Any:
    near, who = [], []
    k = torch.arange(pt.size(1))
    for p, e, f, c in zip(pt, eta, phi, count, strict=True):
        live = k < c
        turn = torch.remainder(f[:, None] - f + math.pi, 2 * math.pi) - math.pi
        d = ((e[:, None] - e) ** 2 + turn**2) / radius**2 / torch.maximum(p[:, None], p) ** 2
        d = torch.where(live[:, None] & live & (k[:, None] != k), d, float("inf"))
        least, at = d.min(1)
        beam = torch.where(live, 1 / p**2, float("inf"))
        near.append(torch.minimum(least, beam))
        who.append(torch.where(least < beam, at, -1).to(torch.int16))
    near = torch.stack(near)
    return near, torch.stack(who), near.amin(1)


@stranger(
    lambda events, n: (
        torch.rand(events, n) * 20 + 0.5,
        randn(events, n) * 2,
        (torch.rand(events, n) * 2 - 1) * math.pi,
        torch.randint(1, n + 1, (events,)).int(),
        0.4,
    ),
    jets_ref,
    {"events": 5, "n": 37},
    {"events": 768, "n": 1200},
)
@tileflow.kernel
def jet_distances(pt, eta, phi, count, radius):
    """Cacciari, Salam and Soyez, 2008: the least anti-kt distance of each particle, with whom, and the event's."""
    events, n = pt.shape
    near = torch.full((events, n), float("inf"), device=pt.device)
    who = torch.full((events, n), -1, dtype=torch.int16, device=pt.device)
    first = torch.full((events,), float("inf"), device=pt.device)
    for e in tfl.grid(events):
        many = count[e]
        least = float("inf")
        for ti in tfl.tile(many):
            p, y, f = pt[e, ti], eta[e, ti], phi[e, ti]
            best = 1 / p**2
            partner = tfl.full([ti], -1, dtype=torch.int32)
            for tj in tfl.tile(many):
                turn = (f[:, None] - phi[e, tj][None, :]).abs()
                turn = torch.minimum(turn, 2 * math.pi - turn)
                d = ((y[:, None] - eta[e, tj][None, :]) ** 2 + turn**2) / radius**2
                d = d / torch.maximum(p[:, None], pt[e, tj][None, :]) ** 2
                d = torch.where(ti.index[:, None] == tj.index[None, :], float("inf"), d)
                here, place = torch.min(d, 1)
                partner = torch.where(here < best, tj.begin + place, partner)
                best = torch.minimum(best, here)
            near[e, ti] = best
            who[e, ti] = partner
            least = min(least, best.amin())
        first[e] = least
    return near, who, first


def make_pulses(channels: Any, samples: Any) -> Any:
    k = torch.arange(samples)
    at = samples * (0.25 + 0.4 * torch.rand(channels, 1))
    shape = torch.exp(-((k - at) / 6).clamp(min=-4) - torch.exp(-(k - at) / 3))
    return (1000 + 5 * randn(channels, samples) - 900 * torch.rand(channels, 1) * shape).to(torch.int16), 0.3


def pulses_ref(wave: Any, fraction: float) -> Any:
    k = torch.arange(wave.size(1))
    signal = wave[:, :16].float().mean(1, keepdim=True) - wave.float()
    top, at = signal.max(1)
    level = fraction * top[:, None]
    under = (signal < level) & (k < at[:, None])
    i = torch.where(under, k, 0).amax(1, keepdim=True)
    a, b = signal.gather(1, i), signal.gather(1, (i + 1).clamp(max=wave.size(1) - 1))
    gate = (k >= at[:, None] - 10) & (k < at[:, None] + 30)
    charge = torch.where(gate, signal, 0.0).sum(1)
    return top, (i + (level - a) / (b - a))[:, 0], charge, (wave < 0).any(1)


@stranger(make_pulses, pulses_ref, {"channels": 19, "samples": 61}, {"channels": 100_000, "samples": 1000})
@tileflow.kernel
def digitised_pulses(wave, fraction):
    """Pulses of photomultipliers: height over the baseline, time at a constant fraction of it, charge in a gate."""
    channels, samples = wave.shape
    height = torch.empty(channels, device=wave.device)
    time = torch.empty(channels, device=wave.device)
    charge = torch.empty(channels, device=wave.device)
    clipped = torch.empty(channels, dtype=torch.bool, device=wave.device)
    for t in tfl.tile(channels):
        raw = wave[t, :]
        signal = wave[t, :16].float().mean(1, keepdim=True) - raw.float()
        top, at = torch.max(signal, 1)
        k = tfl.arange(samples)
        level = fraction * top
        i = torch.where((signal < level[:, None]) & (k < at[:, None]), k, 0).amax(1)
        base = wave[t, :16].float().mean(1)
        a = base - wave[t.index, i].float()
        b = base - wave[t.index, torch.clamp(i + 1, max=samples - 1)].float()
        height[t] = top
        time[t] = i + (level - a) / (b - a)
        gate = (k >= at[:, None] - 10) & (k < at[:, None] + 30)
        charge[t] = torch.where(gate, signal, 0.0).sum(1)
        clipped[t] = (raw < 0).any(1)
    return height, time, charge, clipped


def cells_ref(cell: Any, weight: Any, seed: float) -> Any:
    tower = (cell.float() * weight[:, None, None]).sum(1)
    wide = torch.nn.functional.pad(torch.cat([tower[..., -1:], tower, tower[..., :1]], -1), (0, 0, 1, 1))
    around = [
        wide[:, 1 + a : 1 + a + tower.size(1), 1 + b : 1 + b + tower.size(2)] for a in (-1, 0, 1) for b in (-1, 0, 1)
    ]
    most = torch.stack(around[:4] + around[5:]).amax(0)
    top = (tower > seed) & (tower > most)
    return top, torch.where(top, sum(around), 0.0).half(), top.sum((1, 2)).int()


@stranger(
    lambda events, layers, eta, phi: (torch.rand(events, layers, eta, phi).mul(4).half(), torch.rand(layers), 4.0),
    cells_ref,
    {"events": 3, "layers": 3, "eta": 11, "phi": 13},
    {"events": 3000, "layers": 4, "eta": 100, "phi": 64},
)
@tileflow.kernel
def cell_clusters(cell, weight, seed):
    """Seeds of a calorimeter, a cylinder of towers of layers: higher than the eight around, with the energy of nine."""
    events, layers, rows, turns = cell.shape
    top = torch.empty(events, rows, turns, dtype=torch.bool, device=cell.device)
    energy = torch.empty(events, rows, turns, dtype=torch.float16, device=cell.device)
    count = torch.zeros(events, dtype=torch.int32, device=cell.device)
    for te, ty, tx in tfl.tile([events, rows, turns]):
        here = tfl.zeros([te, ty, tx])
        most = tfl.full([te, ty, tx], float("-inf"))
        total = tfl.zeros([te, ty, tx])
        for dy in (-1, 0, 1):
            for dx in (-1, 0, 1):
                tower = tfl.zeros([te, ty, tx])
                for layer in range(layers):
                    tower += cell[te, layer, ty + dy, (tx.index + dx + turns) % turns].float() * weight[layer]
                total += tower
                if dy == 0 and dx == 0:
                    here = tower
                else:
                    most = torch.maximum(most, tower)
        best = (here > seed) & (here > most)
        top[te, ty, tx] = best
        energy[te, ty, tx] = torch.where(best, total, 0.0)
        tfl.atomic_add(count, [te], best.sum(2).sum(1))
    return top, energy, count
