"""Terrain: slopes and shade, drained basins, water that runs down, what is seen from a hill, zones, maps' tiles."""

from __future__ import annotations

import math
from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def shade_ref(height: Any, cell: float, azimuth: float, low: float, hole: Any) -> Any:
    z = torch.nn.functional.pad(height[None, None], (1, 1, 1, 1), mode="replicate")[0, 0]
    n, m = height.shape
    w = [[z[i : i + n, j : j + m] for j in range(3)] for i in range(3)]
    dx = (w[0][2] + 2 * w[1][2] + w[2][2] - w[0][0] - 2 * w[1][0] - w[2][0]) / (8 * cell)
    dy = (w[2][0] + 2 * w[2][1] + w[2][2] - w[0][0] - 2 * w[0][1] - w[0][2]) / (8 * cell)
    slope, aspect = torch.atan(torch.hypot(dx, dy)), torch.atan2(dy, -dx)
    lit = math.sin(low) * torch.cos(slope) + math.cos(low) * torch.sin(slope) * torch.cos(azimuth - aspect)
    shade = (255 * lit.clamp(min=0)).round()
    if hole is not None:
        shade = torch.where(height == hole, 0.0, shade)
    return torch.where(shade.isnan(), 0, shade).to(torch.uint8), slope.half()


def make_heights(h: Any, w: Any, hole: Any) -> Any:
    z = torch.randint(0, 4000, (w, h)).float().T
    return z, 30.0, 2.0, 0.75, hole


@stranger(make_heights, shade_ref, {"h": 9, "w": 13, "hole": None}, {"h": 12_000, "w": 12_000, "hole": -9999.0})
@tileflow.kernel
def hill_shade(height, cell, azimuth, low, hole=None):
    """Horn, 1981: slopes by eight neighbours, borders repeated, and how a low sun lights them."""
    n, m = height.shape
    shade = torch.empty(n, m, dtype=torch.uint8, device=height.device)
    slopes = torch.empty(n, m, dtype=torch.float16, device=height.device)
    for ti, tj in tfl.tile([n, m]):
        up, down = torch.clamp(ti.index - 1, min=0), torch.clamp(ti.index + 1, max=n - 1)
        left, right = torch.clamp(tj.index - 1, min=0), torch.clamp(tj.index + 1, max=m - 1)

        def at(i, j):
            return height[i[:, None], j[None, :]]

        west = at(up, left) + 2 * at(ti.index, left) + at(down, left)
        east = at(up, right) + 2 * at(ti.index, right) + at(down, right)
        north = at(up, left) + 2 * at(up, tj.index) + at(up, right)
        south = at(down, left) + 2 * at(down, tj.index) + at(down, right)
        dx, dy = (east - west) / (8 * cell), (south - north) / (8 * cell)
        slope = torch.atan(torch.hypot(dx, dy))
        aspect = torch.atan2(dy, -dx)
        lit = math.sin(low) * torch.cos(slope) + math.cos(low) * torch.sin(slope) * torch.cos(azimuth - aspect)
        bright = torch.round(255 * torch.clamp(lit, min=0))
        if hole is not None:
            bright = torch.where(height[ti, tj] == hole, 0.0, bright)
        shade[ti, tj] = bright
        slopes[ti, tj] = slope
    return shade, slopes


STEPS = ((0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1))


def directions_ref(height: Any) -> Any:
    h, w = height.shape
    z = torch.nn.functional.pad(height, (1, 1, 1, 1), value=float("inf"))
    falls = []
    for dy, dx in STEPS:
        there = z[1 + dy : 1 + dy + h, 1 + dx : 1 + dx + w]
        falls.append((height - there) / math.hypot(dy, dx))
    falls = torch.stack(falls)
    best, at = falls.max(0)
    code = torch.where(best > 0, 1 << at, 0).to(torch.uint8)
    flow = torch.ones(h, w, dtype=torch.int32)
    for cell in height.flatten().argsort(descending=True).tolist():
        y, x = divmod(cell, w)
        if code[y, x]:
            dy, dx = STEPS[int(at[y, x])]
            flow[y + dy, x + dx] += flow[y, x]
    return code, flow


@stranger(
    lambda h, w: (torch.randperm(h * w).view(h, w).float(),),
    directions_ref,
    {"h": 7, "w": 9},
    {"h": 4096, "w": 4096},
    loops=True,
)
@tileflow.kernel
def flow_accumulation(height):
    """O'Callaghan and Mark, 1984: where each cell drains to, as bits, and how many cells each one has above it."""
    h, w = height.shape
    code = torch.empty(h, w, dtype=torch.uint8, device=height.device)
    flow = torch.zeros(h, w, dtype=torch.int32, device=height.device)
    steps = torch.tensor(STEPS, dtype=torch.int8, device=height.device)
    for ty, tx in tfl.tile([h, w]):
        here = height[ty, tx]
        best = tfl.zeros([ty, tx])
        to = tfl.zeros([ty, tx], dtype=torch.uint8)
        for k, (dy, dx) in enumerate(STEPS):
            y, x = ty.index[:, None] + dy, tx.index[None, :] + dx
            inside = (y >= 0) & (y < h) & (x >= 0) & (x < w)
            fall = (here - tfl.load(height, [y, x], extra_mask=inside, other=float("inf"))) / math.hypot(dy, dx)
            to = torch.where(fall > best, 1 << k, to)
            best = torch.maximum(best, fall)
        code[ty, tx] = to
    for y, x in tfl.grid([h, w]):
        i, j = y, x
        tfl.atomic_add(flow, [i, j], 1)
        out = code[i, j]
        while out != 0:
            k = 0
            for bit in range(1, 8):
                k = bit if (out >> bit) & 1 == 1 else k
            i = i + steps[k, 0].int()
            j = j + steps[k, 1].int()
            tfl.atomic_add(flow, [i, j], 1)
            out = code[i, j]
    return code, flow


def sinks_ref(height: Any, turns: int) -> Any:
    h, w = height.shape
    water = torch.full_like(height, float("inf"))
    water[0], water[-1], water[:, 0], water[:, -1] = height[0], height[-1], height[:, 0], height[:, -1]
    changed = torch.zeros(turns, dtype=torch.int32)
    for turn in range(turns):
        z = torch.nn.functional.pad(water, (1, 1, 1, 1), value=float("inf"))
        low = torch.stack([z[1 + dy : 1 + dy + h, 1 + dx : 1 + dx + w] for dy, dx in STEPS]).amin(0)
        new = torch.minimum(water, torch.maximum(height, low + 0.5))
        changed[turn] = (new != water).sum()
        water = new
    return water, changed


@stranger(
    lambda h, w, turns: (torch.randint(0, 90, (h, w)).float(), turns),
    sinks_ref,
    {"h": 8, "w": 11, "turns": 3},
    {"h": 6000, "w": 6000, "turns": 8},
)
@tileflow.kernel
def fill_sinks(height, turns: int):
    """Planchon and Darboux, 2001: water stands everywhere and runs off, a step at a time, until only lakes are left."""
    h, w = height.shape
    water = torch.full_like(height, float("inf"))
    water[0, :] = height[0]
    water[-1, :] = height[-1]
    water[:, 0] = height[:, 0]
    water[:, -1] = height[:, -1]
    other = torch.empty_like(water)
    changed = torch.zeros(turns, dtype=torch.int32, device=height.device)
    for turn in range(turns):
        for ty, tx in tfl.tile([h, w]):
            low = tfl.full([ty, tx], float("inf"))
            for dy, dx in STEPS:
                y, x = ty + dy, tx + dx
                there = ((y.index >= 0) & (y.index < h))[:, None] & ((x.index >= 0) & (x.index < w))[None, :]
                low = torch.where(there, torch.minimum(low, water[y, x]), low)
            before = water[ty, tx]
            new = torch.minimum(before, torch.maximum(height[ty, tx], low + 0.5))
            other[ty, tx] = new
            tfl.atomic_add(changed, [turn], (new != before).sum())
        water, other = other, water
    return water, changed


def viewshed_ref(height: Any, y: int, x: int, eye: float, steps: int) -> Any:
    h, w = height.shape
    i, j = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    dy, dx = (i - y).to(height.dtype), (j - x).to(height.dtype)
    far = torch.hypot(dy, dx).clamp(min=1e-6)
    start = height[y, x] + eye
    worst = torch.full_like(height, float("-inf"))
    for k in range(1, steps):
        py, px = torch.round(y + dy * k / steps).long(), torch.round(x + dx * k / steps).long()
        slope = (height[py, px] - start) / (far * k / steps)
        own = (py == i) & (px == j)
        worst = torch.where(own, worst, torch.maximum(worst, slope))
    seen = (height - start) / far >= worst
    return seen, seen.sum(1).to(torch.int32)


@stranger(
    lambda h, w, steps: (torch.randint(0, 50, (h, w)).float(), h // 2, w // 3, 2.0, steps),
    viewshed_ref,
    {"h": 9, "w": 12, "steps": 8},
    {"h": 4096, "w": 4096, "steps": 512},
)
@tileflow.kernel
def viewshed(height, y: int, x: int, eye, steps: int):
    """What an observer sees: cells that no steeper line of sight hides, by so many samples of each line."""
    h, w = height.shape
    seen = torch.empty(h, w, dtype=torch.bool, device=height.device)
    count = torch.zeros(h, dtype=torch.int32, device=height.device)
    for ti, tj in tfl.tile([h, w]):
        start = height[y, x] + eye
        dy, dx = (ti.index - y)[:, None].float(), (tj.index - x)[None, :].float()
        far = torch.clamp(torch.hypot(dy, dx), min=1e-6)
        worst = tfl.full([ti, tj], float("-inf"))
        for k in range(1, steps):
            share = k / steps
            py, px = torch.round(y + dy * k / steps).long(), torch.round(x + dx * k / steps).long()
            slope = (height[py, px] - start) / (far * share)
            own = (py == ti.index[:, None]) & (px == tj.index[None, :])
            worst = torch.where(own, worst, torch.maximum(worst, slope))
        visible = (height[ti, tj] - start) / far >= worst
        seen[ti, tj] = visible
        tfl.atomic_add(count, [ti], visible.sum(1))
    return seen, count


def zones_ref(zone: Any, bands: Any, zones: int) -> Any:
    at = zone.flatten().long()
    out = []
    for band in bands.float().flatten(1):
        low = torch.full((zones,), float("inf")).scatter_reduce(0, at, band, "amin")
        high = torch.full((zones,), float("-inf")).scatter_reduce(0, at, band, "amax")
        out.append(torch.stack([low, high, torch.zeros(zones).index_add(0, at, band)]))
    return torch.stack(out), torch.bincount(at, minlength=zones).int()


@stranger(
    lambda bands, h, w, zones: (
        torch.randint(0, zones, (h, w)).to(torch.int16),
        (randn(bands, h, w) * 4).to(torch.float8_e5m2),
        zones,
    ),
    zones_ref,
    {"bands": 2, "h": 11, "w": 7, "zones": 5},
    {"bands": 4, "h": 4096, "w": 4096, "zones": 1000},
)
@tileflow.kernel
def zonal_statistics(zone, bands, zones: int):
    """Least, largest and sum of each band in each zone of a map, and how many cells each zone has."""
    k, h, w = bands.shape
    low = torch.full((k, zones), float("inf"), device=zone.device)
    high = torch.full((k, zones), float("-inf"), device=zone.device)
    total = torch.zeros(k, zones, device=zone.device)
    count = torch.zeros(zones, dtype=torch.int32, device=zone.device)
    for ty, tx in tfl.tile([h, w]):
        z = zone[ty, tx]
        for band in range(k):
            v = bands[band, ty, tx].float()
            tfl.atomic_min(low, [band, z], v)
            tfl.atomic_max(high, [band, z], v)
            tfl.atomic_add(total, [band, z], v)
        tfl.atomic_add(count, [z], 1)
    return torch.stack([low, high, total], 1), count


def inside_ref(point: Any, corner: Any, offsets: Any) -> Any:
    out = torch.zeros(offsets.numel() - 1, point.size(0), dtype=torch.bool)
    x, y = point.unbind(1)
    for k, (a, b) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
        ring = corner[a:b]
        for p, q in zip(ring, ring.roll(-1, 0), strict=True):
            crosses = (p[1] > y) != (q[1] > y)
            out[k] ^= crosses & (x < (q[0] - p[0]) * (y - p[1]) / (q[1] - p[1]) + p[0])
    return out, out.sum(1).to(torch.int32)


def make_rings(rings: Any, points: Any) -> Any:
    size = torch.randint(3, 12, (rings,))
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), size.cumsum(0)]).int()
    corners = 7 * rings if offsets.is_meta else int(offsets[-1])
    return torch.rand(points, 2), torch.rand(corners, 2), offsets


@stranger(make_rings, inside_ref, {"rings": 5, "points": 23}, {"rings": 2048, "points": 65536}, loops=True)
@tileflow.kernel
def points_in_rings(point, corner, offsets):
    """Shimrat, 1962: which points lie in which polygons, by how often a ray to the right leaves each."""
    rings, points = offsets.numel() - 1, point.size(0)
    inside = torch.empty(rings, points, dtype=torch.bool, device=point.device)
    count = torch.zeros(rings, dtype=torch.int32, device=point.device)
    for tr, tp in tfl.tile([rings, points]):
        x, y = point[tp, 0], point[tp, 1]
        start, length = offsets[tr], offsets[tr + 1] - offsets[tr]
        crossings = tfl.zeros([tr, tp], dtype=torch.int32)
        for tj in tfl.jagged_tile(length):
            at = start[:, None] + tj.index[None, :]
            after = start[:, None] + (tj.index[None, :] + 1) % length[:, None]
            px, py = corner[at, 0][:, :, None], corner[at, 1][:, :, None]
            qx, qy = corner[after, 0][:, :, None], corner[after, 1][:, :, None]
            crosses = (py > y) != (qy > y)
            crosses = crosses & (x < (qx - px) * (y - py) / (qy - py) + px)
            crossings += crosses.sum(1).int()
        inside[tr, tp] = crossings % 2 == 1
        tfl.atomic_add(count, [tr], (crossings % 2).sum(1))
    return inside, count


def quadkeys_ref(place: Any, level: int) -> Any:
    lon, lat = place.double().unbind(1)
    s = torch.sin(lat.clamp(-85.05, 85.05) * math.pi / 180)
    n = 1 << level
    x = ((lon / 360 + 0.5) * n).floor().long().clamp(0, n - 1)
    y = ((0.5 - torch.log((1 + s) / (1 - s)) / (4 * math.pi)) * n).floor().long().clamp(0, n - 1)
    key = torch.zeros_like(x)
    for bit in range(level):
        key |= ((x >> bit & 1) | (y >> bit & 1) << 1) << (2 * bit)
    return torch.stack([x, y, key], 1)


@stranger(
    lambda n, level: (
        torch.stack([torch.rand(n, dtype=torch.float64) * 360 - 180, torch.rand(n, dtype=torch.float64) * 178 - 89], 1),
        level,
    ),
    quadkeys_ref,
    {"n": 53, "level": 7},
    {"n": 1 << 23, "level": 20},
)
@tileflow.kernel
def map_tiles(place, level: tfl.constexpr):
    """Mercator's map in squares: the column, the row and the quadkey of the tile that each place is in."""
    n = place.size(0)
    out = torch.empty(n, 3, dtype=torch.int64, device=place.device)
    side = 1 << level
    for t in tfl.tile(n):
        lon, lat = place[t, 0], place[t, 1]
        s = torch.sin(torch.clamp(lat, -85.05, 85.05) * math.pi / 180)
        x = torch.floor((lon / 360 + 0.5) * side).long().clamp(0, side - 1)
        y = torch.floor((0.5 - torch.log((1 + s) / (1 - s)) / (4 * math.pi)) * side).long().clamp(0, side - 1)
        key = torch.zeros_like(x)
        for bit in tfl.static_range(level):
            key |= (((x >> bit) & 1) | (((y >> bit) & 1) << 1)) << (2 * bit)
        for k, value in enumerate((x, y, key)):
            out[t, k] = value
    return out
