"""Oceans: waves, density, tracers carried and mixed, tides, colour from space, buoys, the depth of the mixed layer."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def waves_ref(spectrum: Any, frequency: Any, width: Any, direction: Any) -> Any:
    step = 2 * torch.pi / direction.numel()
    along = spectrum.sum(2) * step * width
    m0, m1, m2 = along.sum(1), (along * frequency).sum(1), (along * frequency**2).sum(1)
    energy = (along / frequency).sum(1)
    around = (spectrum * width[:, None]).sum(1)
    east, north = (around * torch.sin(direction)).sum(1), (around * torch.cos(direction)).sum(1)
    return 4 * torch.sqrt(m0), torch.sqrt(m0 / m2), energy / m0, m0 / m1, torch.atan2(east, north)


def make_waves(n: int, frequencies: int, directions: int) -> Any:
    frequency = 0.035 * 1.1 ** torch.arange(frequencies)
    direction = torch.arange(directions) * (2 * torch.pi / directions)
    spread = 1.2 + torch.cos(direction - 1.5)
    return torch.rand(n, frequencies, directions) * spread, frequency, 0.1 * frequency, direction


@stranger(
    make_waves,
    waves_ref,
    {"n": 21, "frequencies": 13, "directions": 12},
    {"n": 1 << 15, "frequencies": 36, "directions": 36},
)
@tileflow.kernel
def wave_moments(spectrum, frequency, width, direction):
    """Longuet-Higgins, 1957: height, periods and direction of the sea at each place by moments of its spectrum."""
    n, _, directions = spectrum.shape
    height, zero, energy, mean, towards = (torch.empty(n, device=spectrum.device) for _ in range(5))
    for t in tfl.tile(n):
        e = spectrum[t, :, :]
        f = frequency[:]
        along = e.sum(2) * (2 * torch.pi / directions) * width[:]
        m0 = along.sum(1)
        m1 = (along * f).sum(1)
        m2 = (along * f**2).sum(1)
        height[t] = 4 * torch.sqrt(m0)
        zero[t] = torch.sqrt(m0 / m2)
        energy[t] = (along / f).sum(1) / m0
        mean[t] = m0 / m1
        around = (e * width[:][:, None]).sum(1)
        east = (around * torch.sin(direction[:])).sum(1)
        north = (around * torch.cos(direction[:])).sum(1)
        towards[t] = torch.atan2(east, north)
    return height, zero, energy, mean, towards


def water_density(t: Any, s: Any, p: Any) -> Any:
    """McDougall and others' fraction of two polynomials: what a cubic metre weighs."""
    above = 9.99843699e2 + t * (7.35212840 + t * (-5.45928211e-2 + t * 3.98476704e-4))
    above = above + s * (2.96938239 - 7.23268813e-3 * t + 2.12382341e-3 * s)
    above = above + p * (1.04004591e-2 + 1.03970529e-7 * t * t + 5.18761880e-6 * s)
    above = above - p * p * (3.24041825e-8 + 1.23869360e-11 * t * t)
    below = 1 + t * (7.28606739e-3 + t * (-4.60835542e-5 + t * (3.68390573e-7 + t * 1.80809186e-10)))
    below = below + s * (2.14691708e-3 - 9.27062484e-6 * t - 1.78343643e-10 * t**3)
    below = below + s**1.5 * (4.76534122e-6 + 1.63410736e-9 * t * t)
    below = below + p * (5.30848875e-6 - 3.03175128e-16 * p * t**3 - 1.27934137e-17 * p * p * t)
    return above / below


def density_ref(t: Any, s: Any, depth: Any, wet: Any) -> Any:
    k = torch.arange(depth.numel())[:, None, None]
    here = water_density(t, s, 1.01 * depth[:, None, None])
    there = water_density(t[:-1], s[:-1], 1.01 * depth[1:, None, None])
    stable = 9.81 / here[1:] * (here[1:] - there) / depth.diff()[:, None, None]
    return torch.where(k < wet, here, 0.0), torch.where(k[1:] < wet, stable, 0.0)


@stranger(
    lambda levels, h, w: (
        2 + 25 * torch.rand(levels, h, w, dtype=torch.float64),
        33 + 4 * torch.rand(levels, h, w, dtype=torch.float64),
        5 + 100 * torch.arange(levels).double(),
        torch.randint(0, levels + 1, (h, w)).to(torch.uint8),
    ),
    density_ref,
    {"levels": 5, "h": 7, "w": 19},
    {"levels": 32, "h": 720, "w": 1440},
)
@tileflow.kernel
def sea_density(temperature, salinity, depth, wet):
    """McDougall and others, 2003: density of sea water, and how stable each level lies on the one below."""
    levels, h, w = temperature.shape
    rho = torch.empty_like(temperature)
    stability = torch.empty_like(temperature[1:])
    for ty, tx in tfl.tile([h, w]):
        bottom = wet[ty, tx]
        for k in range(levels):
            p = 1.01 * depth[k]
            here = water_density(temperature[k, ty, tx], salinity[k, ty, tx], p)
            rho[k, ty, tx] = torch.where(k < bottom, here, 0.0)
            if k > 0:
                lowered = water_density(temperature[k - 1, ty, tx], salinity[k - 1, ty, tx], p)
                n2 = 9.81 / here * (here - lowered) / (depth[k] - depth[k - 1])
                stability[k - 1, ty, tx] = torch.where(k < bottom, n2, 0.0)
    return rho, stability


def through_face(c: Any, q: Any) -> Any:
    """Of the four cells around a face, what moves from the second to the third."""

    def carried(far: Any, up: Any, down: Any) -> Any:
        d = down - up
        r = (up - far) / torch.where(d == 0, 1.0, d)
        limiter = (r + r.abs()) / (1 + r.abs())
        return up + 0.5 * (1 - c.abs()) * limiter * d

    return c * torch.where(c > 0, carried(q[0], q[1], q[2]), carried(q[3], q[2], q[1]))


def tracers_ref(q: Any, u: Any, v: Any, wet: Any) -> Any:
    _, h, w = q.shape
    p = F.pad(q, (2, 2, 2, 2))
    fx = through_face(u, [p[:, 2:-2, k : k + w + 1] for k in range(4)])
    fy = through_face(v, [p[:, k : k + h + 1, 2:-2] for k in range(4)])
    new = q - (fx[:, :, 1:] - fx[:, :, :-1]) - (fy[:, 1:] - fy[:, :-1])
    return torch.where(wet, new, 0.0)


def make_tracers(c: int, h: int, w: int) -> Any:
    wet = torch.rand(h, w) < 0.9
    u = F.pad(torch.rand(h, w - 1) - 0.5, (1, 1))
    v = F.pad(torch.rand(h - 1, w) - 0.5, (0, 0, 1, 1))
    return torch.rand(c, h, w) * wet, u, v, wet


@stranger(make_tracers, tracers_ref, {"c": 3, "h": 11, "w": 21}, {"c": 8, "h": 2048, "w": 2048})
@tileflow.kernel
def advect_tracers(q, u, v, wet):
    """Van Leer, 1977: all tracers of a basin through the four faces of each cell, upwind with his limiter."""
    c, h, w = q.shape
    out = torch.empty_like(q)
    for ty, tx in tfl.tile([h, w]):
        for k in range(c):
            row = [q[k, ty, tx + j] for j in (-2, -1, 0, 1, 2)]
            column = [q[k, ty + j, tx] for j in (-2, -1, 0, 1, 2)]
            west, east = through_face(u[ty, tx], row[:4]), through_face(u[ty, tx + 1], row[1:])
            south, north = through_face(v[ty, tx], column[:4]), through_face(v[ty + 1, tx], column[1:])
            out[k, ty, tx] = torch.where(wet[ty, tx], row[2] - (east - west) - (north - south), 0.0)
    return out


def tides_ref(level: Any, hour: Any, speed: Any, phase: Any) -> Any:
    basis = torch.cos(hour[:, None] * speed + phase)
    seen = (~level.isnan()).to(level.dtype)
    normal = torch.einsum("tn,tp,tq->npq", seen, basis, basis)
    return normal, torch.einsum("tn,tp->np", level.nan_to_num(), basis)


def make_tides(hours: int, n: int, waves: int) -> Any:
    speed = torch.tensor([0.0, 28.984, 30.0, 28.440, 15.041, 13.943, 57.968, 30.082][: waves + 1]) * (torch.pi / 180)
    level = randn(hours, n)
    gap = torch.rand(hours, n) < 0.1
    both = torch.cat([speed, speed[1:]])
    phase = torch.cat([torch.zeros(waves + 1), torch.full((waves,), -torch.pi / 2)])
    return torch.where(gap, torch.nan, level), torch.arange(hours).float(), both, phase


@stranger(make_tides, tides_ref, {"hours": 29, "n": 13, "waves": 2}, {"hours": 8760, "n": 4096, "waves": 5})
@tileflow.kernel
def tide_normals(level, hour, speed, phase):
    """Foreman, 1977: what least squares for tides need at each place: products of waves while its gauge worked."""
    hours, n = level.shape
    waves = speed.numel()
    normal = torch.empty(n, waves, waves, device=level.device)
    right = torch.empty(n, waves, device=level.device)
    for tn in tfl.tile(n):
        products = tfl.zeros([tn, waves, waves])
        sums = tfl.zeros([tn, waves])
        for tt in tfl.tile(hours):
            basis = torch.cos(hour[tt][:, None] * speed[:] + phase[:])
            z = level[tt, tn]
            seen = torch.where(torch.isnan(z), 0.0, 1.0)
            pairs = basis[:, :, None] * basis[:, None, :]
            products += torch.einsum("tn,tpq->npq", seen, pairs)
            sums += torch.where(torch.isnan(z), 0.0, z).T @ basis
        normal[tn, :, :] = products
        right[tn, :] = sums
    return normal, right


def mixed_ref(t: Any, kappa: Any, thick: Any, flux: Any, dt: float) -> Any:
    layers = thick.numel()
    between = dt * kappa / (0.5 * (thick[1:] + thick[:-1]))[:, None]
    up = F.pad(between, (0, 0, 1, 0)) / thick[:, None]
    low = F.pad(between, (0, 0, 0, 1)) / thick[:, None]
    main = 1 + up + low
    c, x = torch.empty_like(t), torch.empty_like(t)
    for k in range(layers):
        right = t[k] + (dt * flux / thick[0] if k == 0 else 0.0)
        scale = 1 / (main[k] + up[k] * (c[k - 1] if k else 0.0))
        c[k] = -low[k] * scale
        x[k] = (right + up[k] * (x[k - 1] if k else 0.0)) * scale
    for k in range(layers - 2, -1, -1):
        x[k] = x[k] - c[k] * x[k + 1]
    return x


@stranger(
    lambda layers, n: (
        10 * torch.rand(layers, n),
        1e-2 * torch.rand(layers - 1, n),
        1 + torch.arange(layers).float(),
        randn(n) * 1e-4,
        600.0,
    ),
    mixed_ref,
    {"layers": 7, "n": 45},
    {"layers": 75, "n": 1 << 18},
)
@tileflow.kernel
def mix_columns(t, kappa, thick, flux, dt: float):
    """Thomas, 1949: heat that spreads down the layers of each column, implicitly, under a flux at the surface."""
    layers, n = t.shape
    out = torch.empty_like(t)
    factor = torch.empty_like(t)
    for i in tfl.tile(n):
        up = tfl.zeros([i])
        c = tfl.zeros([i])
        x = tfl.zeros([i])
        for k in range(layers):
            h = thick[k]
            right = t[k, i]
            if k == 0:
                right = right + dt * flux[i] / h
            if k < layers - 1:
                low = dt * kappa[k, i] / (0.5 * (h + thick[k + 1]))
            else:
                low = tfl.zeros([i])
            scale = 1 / (1 + (up + low) / h + up / h * c)
            c = -low / h * scale
            x = (right + up / h * x) * scale
            factor[k, i] = c
            out[k, i] = x
            up = low
        for k in range(layers - 2, -1, -1):
            x = out[k, i] - factor[k, i] * x
            out[k, i] = x
    return out


OC4 = (0.3272, -2.9940, 2.7218, -1.2259, -0.5683)
LAND, GLINT, CLOUD = 1 << 1, 1 << 3, 1 << 9


def colour_ref(bands: Any, flags: Any) -> Any:
    h, w = flags.shape
    rrs = bands.float() * 2e-6 + 0.05
    ratio = torch.log10(rrs[:3].amax(0) / rrs[3])
    chlorophyll = 10 ** sum(a * ratio**i for i, a in enumerate(OC4))
    quality = torch.where((bands <= -25000).any(0), 2, torch.where((flags & GLINT) != 0, 1, 0))
    quality = torch.where((flags & (LAND | CLOUD)) != 0, 3, quality)
    padded = F.pad(quality, (0, -w % 32, 0, -h % 32), value=4)
    blocks = padded.unflatten(0, (-1, 32)).unflatten(2, (-1, 32))
    counts = torch.stack([(blocks == k).sum((1, 3)) for k in range(4)], 2)
    return torch.where(quality < 2, chlorophyll, torch.nan), quality.to(torch.uint8), counts.int()


def make_colours(h: int, w: int) -> Any:
    bands = torch.randint(-25300, -15000, (4, h, w)).to(torch.int16)
    flags = sum((torch.rand(h, w) < 0.15).int() * bit for bit in (LAND, GLINT, CLOUD, 1 << 5))
    return bands, flags


@stranger(make_colours, colour_ref, {"h": 45, "w": 71}, {"h": 4096, "w": 6144})
@tileflow.kernel
def ocean_colour(bands, flags):
    """O'Reilly and others, 1998: chlorophyll by the largest ratio of bands, and how good 32 x 32 pixels each are."""
    _, h, w = bands.shape
    chlorophyll = torch.empty(h, w, device=bands.device)
    qualities = torch.empty(h, w, dtype=torch.uint8, device=bands.device)
    counts = torch.empty((h + 31) // 32, (w + 31) // 32, 4, dtype=torch.int32, device=bands.device)
    for ty, tx in tfl.tile([h, w], block_size=[32, 32]):
        raw = [bands[b, ty, tx] for b in range(4)]
        blue, green, teal, yellow = (x.float() * 2e-6 + 0.05 for x in raw)
        ratio = torch.log10(torch.maximum(torch.maximum(blue, green), teal) / yellow)
        power = 0.0
        for a in reversed(OC4):
            power = power * ratio + a
        negative = (raw[0] <= -25000) | (raw[1] <= -25000) | (raw[2] <= -25000) | (raw[3] <= -25000)
        flag = flags[ty, tx]
        quality = torch.where(negative, 2, torch.where((flag & GLINT) != 0, 1, 0))
        quality = torch.where((flag & (LAND | CLOUD)) != 0, 3, quality)
        chlorophyll[ty, tx] = torch.where(quality < 2, 10**power, float("nan"))
        qualities[ty, tx] = quality
        for k in range(4):
            counts[ty.id, tx.id, k] = (quality == k).sum()
    return chlorophyll, qualities, counts


def buoys_ref(lat: Any, lon: Any, place: Any, value: Any) -> Any:
    def xyz(a: Any, b: Any) -> Any:
        a, b = torch.broadcast_tensors(a, b)
        return torch.stack([torch.cos(a) * torch.cos(b), torch.cos(a) * torch.sin(b), torch.sin(a)], -1)

    gauges = xyz(place[:, 0], place[:, 1])
    values, gaps = [], []
    for part in lat.split(16):
        here = xyz(part[:, None], lon[None, :])
        d2 = (here[:, :, None] - gauges).square().sum(-1) + 1e-6
        weight = torch.where(value.isnan(), 0.0, d2**-1.5)
        values.append((weight * value.nan_to_num()).sum(2) / weight.sum(2))
        gaps.append(torch.where(value.isnan(), torch.inf, d2).amin(2).sqrt() * 6371)
    return torch.cat(values), torch.cat(gaps)


def make_buoys(h: int, w: int, n: int) -> Any:
    place = torch.stack([torch.rand(n) * 2 - 1, torch.rand(n) * 6 - 3], 1)
    value = torch.where(torch.rand(n) < 0.1, torch.nan, torch.rand(n) * 8)
    return torch.linspace(-1.1, 1.1, h), torch.linspace(-3.1, 3.1, w), place, value


@stranger(make_buoys, buoys_ref, {"h": 7, "w": 13, "n": 37}, {"h": 720, "w": 1440, "n": 512})
@tileflow.kernel
def buoy_weights(lat, lon, place, value):
    """Shepard, 1968: a map out of all buoys that reported, by distances cubed, and how far the nearest one is."""
    h, w = lat.numel(), lon.numel()
    out = torch.empty(h, w, device=lat.device)
    gap = torch.empty(h, w, device=lat.device)
    for ty, tx in tfl.tile([h, w]):
        a, b = lat[ty][:, None], lon[tx][None, :]
        x, y = torch.cos(a) * torch.cos(b), torch.cos(a) * torch.sin(b)
        z = torch.sin(a)
        total, weights = tfl.zeros([ty, tx]), tfl.zeros([ty, tx])
        nearest = tfl.full([ty, tx], float("inf"))
        for i in range(value.numel()):
            la, lo, v = place[i, 0], place[i, 1], value[i]
            dx = x - torch.cos(la) * torch.cos(lo)
            dy = y - torch.cos(la) * torch.sin(lo)
            dz = z - torch.sin(la)
            d2 = dx * dx + dy * dy + dz * dz + 1e-6
            if not torch.isnan(v):
                weight = d2**-1.5
                total += weight * v
                weights += weight
                nearest = torch.minimum(nearest, d2)
        out[ty, tx] = total / weights
        gap[ty, tx] = torch.sqrt(nearest) * 6371
    return out, gap


def mixed_layer_ref(rho: Any, depth: Any, wet: Any, excess: float) -> Any:
    levels, _n = rho.shape
    k = torch.arange(levels)[:, None]
    goal = rho[2] + excess
    over = (rho > goal) & (k > 2) & (k < wet)
    first = over.int().argmax(0)
    low, high = rho.gather(0, (first - 1).clamp(min=0)[None])[0], rho.gather(0, first[None])[0]
    top, under = depth[(first - 1).clamp(min=0)], depth[first]
    found = top + (goal - low) / torch.where(over.any(0), high - low, 1.0) * (under - top)
    return torch.where(over.any(0), found, depth[(wet.long() - 1).clamp(min=0)])


def make_profiles(levels: int, n: int) -> Any:
    rho = 1 + (0.03 * torch.rand(levels, n)).cumsum(0) * torch.rand(n)
    return rho, 5 + torch.arange(levels) * 10.0, torch.randint(0, levels + 1, (n,)).int(), 0.125


@stranger(make_profiles, mixed_layer_ref, {"levels": 19, "n": 53}, {"levels": 50, "n": 1 << 20})
@tileflow.kernel
def mixed_layer(rho, depth, wet, excess: float):
    """De Boyer Montegut and others, 2004: where water is first denser than at the third level by so much."""
    levels, n = rho.shape
    out = torch.empty(n, device=rho.device)
    for t in tfl.tile(n):
        profile = rho[:, t]
        goal = rho[2, t] + excess
        k = tfl.arange(levels)[:, None]
        over = (profile > goal) & (k > 2) & (k < wet[t])
        first = over.int().argmax(0)
        above = torch.clamp(first - 1, min=0)
        low, high = rho[above, t.index], rho[first, t.index]
        share = (goal - low) / (high - low)
        found = depth[above] + share * (depth[first] - depth[above])
        bottom = depth[torch.clamp(wet[t] - 1, min=0)]
        out[t] = torch.where(over.any(0), found, bottom)
    return out
