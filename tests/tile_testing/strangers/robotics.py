"""Robots: scans against maps, cells that beams hit, odometry, places known again, edges, stereo, torques of arms."""

from __future__ import annotations

import math
from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def make_places(p: Any, k: Any, h: Any, w: Any) -> Any:
    y, x = torch.arange(h)[:, None] * 0.1, torch.arange(w)[None, :] * 0.1
    walls = torch.rand(9, 2) * torch.tensor([h * 0.1, w * 0.1])
    field = torch.stack([torch.hypot(y - wall[0], x - wall[1]) for wall in walls]).amin(0)
    pose = torch.rand(p, 3) * torch.tensor([w * 0.1, h * 0.1, 2 * math.pi])
    return field, pose, torch.linspace(-2, 2, k), torch.rand(k) * w * 0.06, 0.1, w * 0.01, w * 0.05


def likelihood_ref(field: Any, pose: Any, angle: Any, reach: Any, size: Any, sigma: Any, most: Any) -> Any:
    h, w = field.shape
    heading = pose[:, 2:] + angle
    where = pose[:, None, :2] + reach[:, None] * torch.stack([heading.cos(), heading.sin()], 2)
    cx, cy = (where / size).floor().long().unbind(2)
    out = (cx < 0) | (cx >= w) | (cy < 0) | (cy >= h)
    d = field[cy.clamp(0, h - 1), cx.clamp(0, w - 1)].masked_fill(out, most)
    chance = 0.9 * torch.exp(-0.5 * (d / sigma) ** 2) + 0.1 / most
    return (chance.log() * (reach < most)).sum(1)


@stranger(
    make_places,
    likelihood_ref,
    {"p": 7, "k": 19, "h": 13, "w": 17},
    {"p": 16384, "k": 720, "h": 1024, "w": 1024},
)
@tileflow.kernel
def likelihood_field(field, pose, angle, reach, size, sigma, most):
    """Thrun, Burgard and Fox, 2005: how well a scan fits a map from each of many poses, by distances to the walls."""
    h, w = field.shape
    p, k = pose.size(0), angle.size(0)
    out = torch.empty(p, device=field.device)
    for tp in tfl.tile(p):
        x, y, turn = pose[tp, 0], pose[tp, 1], pose[tp, 2]
        total = tfl.zeros([tp])
        for tk in tfl.tile(k):
            heading = turn[:, None] + angle[tk][None, :]
            z = reach[tk][None, :]
            cx = torch.floor((x[:, None] + z * torch.cos(heading)) / size).int()
            cy = torch.floor((y[:, None] + z * torch.sin(heading)) / size).int()
            inside = (cx >= 0) & (cx < w) & (cy >= 0) & (cy < h)
            d = torch.where(inside, field[cy, cx], most)
            chance = 0.9 * torch.exp(-d * d / (2 * sigma * sigma)) + 0.1 / most
            total += torch.where(z < most, torch.log(chance), 0.0).sum(1)
        out[tp] = total
    return out


def make_scans(s: Any, k: Any, h: Any, w: Any) -> Any:
    pose = torch.rand(s, 3) * torch.tensor([w * 0.1, h * 0.1, 2 * math.pi])
    return torch.zeros(h, w, dtype=torch.int16), torch.rand(s, k) * w * 0.04, pose, 0.1, 0.15


def occupancy_ref(grid: Any, ranges: Any, pose: Any, size: Any, band: Any) -> Any:
    (h, w), k = grid.shape, ranges.size(1)
    found = grid.int()
    for z, (px, py, turn) in zip(ranges, pose, strict=True):
        dy = ((torch.arange(h) + 0.5) * size - py)[:, None].expand(h, w)
        dx = ((torch.arange(w) + 0.5) * size - px)[None, :].expand(h, w)
        beam = ((torch.atan2(dy, dx) - turn) * (k / (2 * math.pi))).round().long().remainder(k)
        gap = torch.sqrt(dx * dx + dy * dy) - z[beam]
        change = torch.zeros(h, w, dtype=torch.int32)
        change[gap < -band] = -8
        change[gap.abs() <= band] = 17
        found = (found + change).clamp(-100, 100)
    return found.short()


@stranger(
    make_scans,
    occupancy_ref,
    {"s": 5, "k": 16, "h": 9, "w": 21},
    {"s": 48, "k": 1024, "h": 2048, "w": 2048},
)
@tileflow.kernel
def occupancy_grid(grid, ranges, pose, size, band):
    """Moravec and Elfes, 1985: cells before what a beam hit become free, cells around it become full."""
    h, w = grid.shape
    s, k = ranges.shape
    out = torch.empty_like(grid)
    for ty, tx in tfl.tile([h, w]):
        y, x = (ty.index + 0.5) * size, (tx.index + 0.5) * size
        odds = grid[ty, tx].int()
        for i in range(s):
            dx, dy = x[None, :] - pose[i, 0], y[:, None] - pose[i, 1]
            r = torch.sqrt(dx * dx + dy * dy)
            beam = torch.round((torch.atan2(dy, dx) - pose[i, 2]) * (k / (2 * math.pi))).int() % k
            z = ranges[i, beam]
            free = r < z - band
            full = torch.abs(r - z) <= band
            odds = torch.clamp(odds + torch.where(full, 17, torch.where(free, -8, 0)), -100, 100)
        out[ty, tx] = odds
    return out


def reckoning_ref(step: Any) -> Any:
    move = torch.view_as_complex(step[..., :2].double().contiguous())
    heading = step[..., 2].double().cumsum(1)
    turned = torch.polar(torch.ones_like(heading), heading - step[..., 2].double())
    place = torch.view_as_real((turned * move).cumsum(1))
    return place.float(), torch.cos(heading).float(), torch.sin(heading).float()


@stranger(
    lambda b, n: (torch.rand(b, n, 3) * torch.tensor([0.2, 0.02, 0.1]),),
    reckoning_ref,
    {"b": 5, "n": 29},
    {"b": 4096, "n": 2000},
)
@tileflow.kernel
def dead_reckoning(step):
    """Smith and Cheeseman, 1986: poses in a plane compounded, all of a path's at once by a scan."""
    b, n, _ = step.shape
    place = torch.empty(b, n, 2, device=step.device)
    c, s = (torch.empty(b, n, device=step.device) for _ in range(2))

    def compound(one, two):
        c1, s1, x1, y1 = one
        c2, s2, x2, y2 = two
        return c1 * c2 - s1 * s2, s1 * c2 + c1 * s2, x1 + c1 * x2 - s1 * y2, y1 + s1 * x2 + c1 * y2

    for tb in tfl.tile(b):
        turn = step[tb, :, 2]
        moves = (torch.cos(turn), torch.sin(turn), step[tb, :, 0], step[tb, :, 1])
        c[tb, :], s[tb, :], place[tb, :, 0], place[tb, :, 1] = tfl.associative_scan(compound, moves, dim=1)
    return place, c, s


def make_places_seen(b: Any, most: Any) -> Any:
    start = torch.cat([torch.zeros(1), torch.randint(0, most, (b,)).cumsum(0)]).int()
    n = int(start[-1])
    r = (torch.randint(0, 24, (n,)) + 0.1 + 0.8 * torch.rand(n)) * 2  # no point where two rings or sectors meet
    turn = (torch.randint(0, 60, (n,)) + 0.1 + 0.8 * torch.rand(n)) * (2 * math.pi / 60)
    return torch.stack([r * torch.cos(turn), r * torch.sin(turn), randn(n)], 1), start, 20, 60, 40.0


def context_ref(points: Any, start: Any, rings: int, sectors: int, reach: float) -> Any:
    scan = torch.repeat_interleave(torch.arange(start.numel() - 1), start.diff().long())
    x, y, z = points.unbind(1)
    r = torch.sqrt(x * x + y * y)
    ring = (r * (rings / reach)).long()
    sector = ((torch.atan2(y, x) + math.pi) * (sectors / (2 * math.pi))).long().clamp(max=sectors - 1)
    near = r < reach
    flat = ((scan * rings + ring) * sectors + sector)[near]
    seen = torch.zeros((start.numel() - 1) * rings * sectors).scatter_reduce(0, flat, z[near] + 2, "amax")
    seen = seen.view(-1, rings, sectors)
    return seen, (seen > 0).float().mean(2), seen.mean(1)


@stranger(make_places_seen, context_ref, {"b": 5, "most": 90}, {"b": 256, "most": 1 << 16})
@tileflow.kernel
def scan_context(points, start, rings: tfl.constexpr, sectors: tfl.constexpr, reach):
    """Kim and Kim, 2018: the highest point of each ring and sector around a scanner, and keys to search by."""
    b = start.size(0) - 1
    seen = torch.zeros(b, rings, sectors, device=points.device)
    ring_key = torch.empty(b, rings, device=points.device)
    sector_key = torch.empty(b, sectors, device=points.device)
    for i in tfl.grid(b):
        for t in tfl.tile(start[i], start[i + 1]):
            x, y, z = points[t, 0], points[t, 1], points[t, 2]
            r = torch.sqrt(x * x + y * y)
            ring = (r * (rings / reach)).int()
            sector = ((torch.atan2(y, x) + math.pi) * (sectors / (2 * math.pi))).int()
            sector = torch.clamp(sector, max=sectors - 1)
            tfl.atomic_max(seen, [i, ring, sector], z + 2, extra_mask=r < reach)
    for tb in tfl.tile(b):
        every = seen[tb, :, :]
        ring_key[tb, :] = (every > 0).float().mean(2)
        sector_key[tb, :] = every.mean(1)
    return seen, ring_key, sector_key


def edges_ref(points: Any, k: int) -> Any:
    p = points.float()
    near = torch.stack([p.roll(-d, 1) for d in range(-5, 6)]).sum(0)
    rough = torch.linalg.vector_norm(near - 11 * p, dim=2) / (10 * torch.linalg.vector_norm(p, dim=2))
    value, place = torch.sort(rough.unflatten(1, (6, -1)), dim=2, descending=True, stable=True)
    return rough, value[..., :k], (place[..., :k] + torch.arange(6)[:, None] * (p.size(1) // 6)).int()


@stranger(
    lambda r, m, dtype=torch.float32: (randn(r, 6 * m, 3, dtype=dtype) + 3, 4),
    edges_ref,
    {"r": 5, "m": 7},
    {"r": 4096, "m": 300, "dtype": torch.float16},
)
@tileflow.kernel
def scan_edges(points, k: tfl.constexpr):
    """LOAM (Zhang and Singh, 2014): how rough a ring is at each point, and each sixth's roughest few."""
    r, n, _ = points.shape
    m = n // 6
    rough = torch.empty(r, n, device=points.device)
    value = torch.empty(r, 6, k, device=points.device)
    place = torch.empty(r, 6, k, dtype=torch.int32, device=points.device)
    for tr, tn in tfl.tile([r, n]):
        apart, far = tfl.zeros([tr, tn]), tfl.zeros([tr, tn])
        for axis in range(3):
            here = points[tr, tn, axis].float()
            total = tfl.zeros([tr, tn])
            for d in range(-5, 6):
                total += points[tr, (tn.index + d + n) % n, axis].float() - here
            apart += total * total
            far += here * here
        rough[tr, tn] = torch.sqrt(apart) / (10 * torch.sqrt(far))
    sixths = rough.view(r, 6, m)
    for tr, ts in tfl.tile([r, 6]):
        best, at = torch.topk(sixths[tr, ts, :], k, dim=2)
        value[tr, ts, :] = best
        place[tr, ts, :] = at + ts.index[None, :, None] * m
    return rough, value, place


def matching_ref(cost: Any, p1: int, p2: int) -> Any:
    def along(c: Any) -> Any:
        rows = [c[:, 0].int()]
        for x in range(1, c.size(1)):
            last = rows[-1]
            wall = torch.nn.functional.pad(last, (1, 1), value=1 << 20)
            low = last.amin(1, keepdim=True)
            step = torch.stack([last, wall[:, :-2] + p1, wall[:, 2:] + p1, (low + p2).expand_as(last)]).amin(0)
            rows.append(c[:, x] + step - low)
        return torch.stack(rows, 1)

    total = along(cost) + along(cost.flip(1)).flip(1)
    return total.short(), (total * 256 + torch.arange(cost.size(2))).amin(2).remainder(256).to(torch.uint8)


@stranger(
    lambda h, w, d: (torch.randint(0, 64, (h, w, d), dtype=torch.uint8), 7, 60),
    matching_ref,
    {"h": 5, "w": 11, "d": 16},
    {"h": 1080, "w": 640, "d": 64},
)
@tileflow.kernel
def semiglobal_matching(cost, p1: int, p2: int):
    """Hirschmuller, 2008: costs of disparities made smooth along rows, from both sides, and the cheapest of each."""
    h, w, d = cost.shape
    total = torch.empty(h, w, d, dtype=torch.int16, device=cost.device)
    best = torch.empty(h, w, dtype=torch.uint8, device=cost.device)
    for ty in tfl.tile(h):
        lane = tfl.arange(d)[None, :]

        def smooth(last, lane=lane):
            low = last.amin(1, keepdim=True)
            left = torch.where(lane == 0, 1 << 20, last.roll(1, 1))
            right = torch.where(lane == d - 1, 1 << 20, last.roll(-1, 1))
            return torch.minimum(torch.minimum(last, torch.minimum(left, right) + p1), low + p2) - low

        path = tfl.zeros([ty, d], dtype=torch.int32)
        for x in range(w):
            path = cost[ty, x, :].int() + smooth(path)
            total[ty, x, :] = path
        path = tfl.zeros([ty, d], dtype=torch.int32)
        for x in reversed(range(w)):
            path = cost[ty, x, :].int() + smooth(path)
            both = total[ty, x, :].int() + path
            total[ty, x, :] = both
            best[ty, x] = both.argmin(1)
    return total, best


def dynamics_ref(q: Any, speed: Any, push: Any, mass: Any, length: Any, g: float) -> Any:
    angle, omega, alpha = (v.double().cumsum(1) for v in (q, speed, push))
    along, across = torch.polar(torch.ones_like(angle), angle), torch.polar(torch.ones_like(angle), angle + math.pi / 2)
    link = along * length
    pull = (across * alpha - along * omega**2) * length
    joint, drive = link.cumsum(1) - link, pull.cumsum(1) - pull + 1j * g
    centre, force = joint + link / 2, (drive + pull / 2) * mass
    arm = centre[:, None, :] - joint[:, :, None]
    turn = (
        arm.real * force.imag[:, None, :] - arm.imag * force.real[:, None, :] + (mass * length**2 / 12 * alpha)[:, None]
    )
    return turn.triu().sum(2).float()


@stranger(
    lambda b, n=6: (randn(b, n), randn(b, n), randn(b, n), torch.rand(n) + 0.5, torch.rand(n) + 0.2, 9.81),
    dynamics_ref,
    {"b": 41},
    {"b": 1 << 20},
)
@tileflow.kernel
def inverse_dynamics(q, speed, push, mass, length, g):
    """Luh, Walker and Paul, 1980: torques of planar arms, by motions outwards and then forces inwards."""
    b, n = q.shape
    torque = torch.empty_like(q)
    for t in tfl.tile(b):
        angle, omega, alpha = tfl.zeros([t]), tfl.zeros([t]), tfl.zeros([t])
        ax, ay = tfl.zeros([t]), tfl.full([t], g)
        links = []
        for i in tfl.static_range(n):
            angle, omega, alpha = angle + q[t, i], omega + speed[t, i], alpha + push[t, i]
            rx, ry = length[i] * torch.cos(angle), length[i] * torch.sin(angle)
            px, py = -alpha * ry - omega**2 * rx, alpha * rx - omega**2 * ry
            links.append((rx, ry, mass[i] * (ax + px / 2), mass[i] * (ay + py / 2), alpha))
            ax, ay = ax + px, ay + py
        fx, fy, turn = tfl.zeros([t]), tfl.zeros([t]), tfl.zeros([t])
        for i in reversed(range(n)):
            rx, ry, mx, my, bend = links[i]
            turn = turn + rx * fy - ry * fx + (rx * my - ry * mx) / 2 + mass[i] * length[i] ** 2 / 12 * bend
            fx, fy = fx + mx, fy + my
            torque[t, i] = turn
    return torque
