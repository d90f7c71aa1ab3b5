"""Structures: stiffness without a matrix, plastic steel, fatigue, shaken storeys, material laid out by a filter."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def make_bricks(x: int, y: int, z: int) -> Any:
    corner = torch.arange(x)[:, None, None] * (y + 1) * (z + 1) + torch.arange(y)[:, None] * (z + 1) + torch.arange(z)
    around = torch.tensor([(i * (y + 1) + j) * (z + 1) + k for i in (0, 1) for j in (0, 1) for k in (0, 1)])
    nodes = (corner.flatten()[:, None] + around).int()
    root = randn(24, 24)
    n = (x + 1) * (y + 1) * (z + 1)
    return randn(n, 3), nodes, root @ root.T / 24, torch.rand(x * y * z), torch.rand(n, 3) < 0.05


def bricks_ref(u: Any, nodes: Any, stiffness: Any, density: Any, fixed: Any) -> Any:
    free = u.masked_fill(fixed, 0)
    force = torch.einsum("ij,ej->ei", stiffness, free[nodes.long()].flatten(1))
    force = force * (1e-9 + density**3 * (1 - 1e-9))[:, None]
    total = torch.zeros_like(u).index_add(0, nodes.flatten().long(), force.reshape(-1, 3))
    return torch.where(fixed, u, total)


@stranger(make_bricks, bricks_ref, {"x": 5, "y": 4, "z": 7}, {"x": 128, "y": 96, "z": 80})
@tileflow.kernel
def brick_stiffness(u, nodes, stiffness, density, fixed):
    """Hughes, Levit and Winget, 1983: the forces of displaced bricks of Bendsoe's material, element by element."""
    elements = nodes.size(0)
    total = torch.zeros_like(u)
    out = torch.empty_like(u)
    for te in tfl.tile(elements):
        corner = nodes[te, :]
        moved = torch.where(fixed[corner, :], 0.0, u[corner, :])
        force = moved.reshape(te, 24) @ stiffness[:, :].T
        force = force * (1e-9 + density[te] ** 3 * (1 - 1e-9))[:, None]
        tfl.atomic_add(total, [corner, slice(None)], force.reshape(te, 8, 3))
    for tn in tfl.tile(u.size(0)):
        out[tn, :] = torch.where(fixed[tn, :], u[tn, :], total[tn, :])
    return out


def make_points(n: int, materials: int) -> Any:
    def doubles(*shape: int) -> Any:
        return torch.randn(*shape, dtype=torch.float64)

    table = torch.tensor([[210e3, 0.3, 240.0, 120.0, 9.0, 1500.0], [70e3, 0.33, 150.0, 60.0, 20.0, 700.0]])
    kind = torch.randint(0, materials, (n,)).to(torch.uint8)
    strain = doubles(n, 6) * 2e-3
    return strain, doubles(n, 6) * 60, doubles(n, 6) * 10, doubles(n).abs() * 0.02, kind, table.double()[:materials]


def returned_ref(strain: Any, stress: Any, back: Any, plastic: Any, kind: Any, table: Any) -> Any:
    young, poisson, first, rise, rate, drag = table[kind.long()].unbind(1)
    shear, bulk = young / (2 * (1 + poisson)), young / (3 * (1 - 2 * poisson))
    one = torch.tensor([1.0, 1, 1, 0, 0, 0], dtype=strain.dtype)
    volume = strain[:, :3].sum(1)
    mean = stress[:, :3].mean(1) + bulk * volume
    half = torch.tensor([1.0, 1, 1, 0.5, 0.5, 0.5], dtype=strain.dtype)
    away = (strain - volume[:, None] / 3 * one) * half
    deviator = stress - stress[:, :3].mean(1)[:, None] * one + 2 * shear[:, None] * away
    relative = deviator - back
    size = (1.5 * (relative**2 / half).sum(1)).sqrt()
    step = torch.zeros_like(plastic)
    for _ in range(12):
        hard = first + rise * (1 - (-rate * (plastic + step)).exp())
        slope = rise * rate * (-rate * (plastic + step)).exp()
        step = step + (size - (3 * shear + drag) * step - hard) / (3 * shear + drag + slope)
    yields = size > first + rise * (1 - (-rate * plastic).exp())
    step = torch.where(yields, step, 0.0)
    flow = 1.5 * relative / size[:, None] * step[:, None]
    stress.copy_(deviator - 2 * shear[:, None] * flow + mean[:, None] * one)
    back.add_(2 / 3 * drag[:, None] * flow)
    plastic.add_(step)
    return yields


@stranger(make_points, returned_ref, {"n": 217, "materials": 2}, {"n": 1 << 21, "materials": 2})
@tileflow.kernel
def radial_return(strain, stress, back, plastic, kind, table):
    """Wilkins, 1964, with Voce's and Prager's hardening: stresses of steel or aluminium brought back, in place."""
    n = strain.size(0)
    yielding = torch.empty(n, dtype=torch.bool, device=strain.device)
    for t in tfl.tile(n):
        young, poisson, first, rise, rate, drag = (table[kind[t], k] for k in range(6))
        shear = young / (2 * (1 + poisson))
        bulk = young / (3 * (1 - 2 * poisson))
        e = strain[t, :]
        s = stress[t, :]
        axial = tfl.arange(6) < 3
        volume = e[:, :3].sum(1)
        before = s[:, :3].mean(1)
        e = torch.where(axial, e - volume[:, None] / 3, e / 2)
        deviator = torch.where(axial, s - before[:, None], s) + 2 * shear[:, None] * e
        relative = deviator - back[t, :]
        size = torch.sqrt(1.5 * (relative[:, :3].square().sum(1) + 2 * relative[:, 3:].square().sum(1)))
        p = plastic[t]
        yields = size > first + rise * (1 - torch.exp(-rate * p))
        step = torch.zeros_like(p)
        for _ in range(12):
            left = torch.exp(-rate * (p + step))
            excess = size - (3 * shear + drag) * step - first - rise * (1 - left)
            step = step + excess / (3 * shear + drag + rise * rate * left)
        step = torch.where(yields, step, 0)
        flow = 1.5 * step[:, None] * relative / size[:, None]
        deviator -= 2 * shear[:, None] * flow
        stress[t, :] = torch.where(axial, deviator + (before + bulk * volume)[:, None], deviator)
        back[t, :] += 2 / 3 * drag[:, None] * flow
        plastic[t] = p + step
        yielding[t] = yields
    return yielding


def rainflow_ref(signal: Any, scale: float, slope: float, bins: int) -> Any:
    damage, counts = [], []
    for row in signal.tolist():
        turns = row[:1]
        for i in range(1, len(row)):
            if row[i] == turns[-1]:
                continue
            if len(turns) > 1 and (turns[-1] > turns[-2]) == (row[i] > turns[-1]):
                turns[-1] = row[i]
            else:
                turns.append(row[i])
        halves, stack = [], []
        for value in turns:
            stack.append(value)
            while len(stack) >= 3 and abs(stack[-1] - stack[-2]) >= (inner := abs(stack[-2] - stack[-3])):
                if len(stack) == 3:
                    halves.append(inner)
                    del stack[0]
                else:
                    halves += [inner, inner]
                    del stack[-3:-1]
        halves += [abs(b - a) for a, b in pairwise(stack)]
        damage.append(sum(0.5 * (half * scale) ** slope for half in halves))
        counts.append([sum(min(half * bins // 65536, bins - 1) == k for half in halves) for k in range(bins)])
    return torch.tensor(damage, dtype=torch.float64).float(), torch.tensor(counts, dtype=torch.int32)


def make_gauges(channels: int, n: int) -> Any:
    walk = 9000 * torch.sin(torch.arange(n) * 0.07) + 4000 * randn(channels, n)
    return walk.round().clamp(-32768, 32767).to(torch.int16), 1e-4, 5.0, 16


@stranger(make_gauges, rainflow_ref, {"channels": 3, "n": 47}, {"channels": 4096, "n": 1000}, loops=True)
@tileflow.kernel
def rainflow_damage(signal, scale: float, slope: float, bins: int):
    """ASTM E1049: cycles of each strain gauge by rainflow counting, in halves, and Miner's damage of them."""
    channels, n = signal.shape
    stack = torch.empty(channels, n, dtype=torch.int32, device=signal.device)
    damage = torch.empty(channels, device=signal.device)
    counts = torch.zeros(channels, bins, dtype=torch.int32, device=signal.device)
    for c in tfl.grid(channels):
        top = 0
        total = 0.0
        direction = 0
        for i in range(1, n + 1):
            here = signal[c, i - 1].int()
            step = 0
            if i < n:
                step = signal[c, i].int() - here
            if i == 1 or i == n or step * direction < 0:
                stack[c, top] = here
                top += 1
                going = top >= 3
                while going:
                    inner = abs(stack[c, top - 2] - stack[c, top - 3])
                    outer = abs(stack[c, top - 1] - stack[c, top - 2])
                    going = outer >= inner
                    if going:
                        k = min(inner * bins // 65536, bins - 1)
                        if top == 3:
                            total += 0.5 * (inner * scale) ** slope
                            counts[c, k] += 1
                            stack[c, 0] = stack[c, 1]
                            stack[c, 1] = stack[c, 2]
                            top = 2
                        else:
                            total += (inner * scale) ** slope
                            counts[c, k] += 2
                            stack[c, top - 3] = stack[c, top - 1]
                            top -= 2
                        going = top >= 3
            if step != 0:
                direction = 1 if step > 0 else -1
        for j in range(top - 1):
            half = abs(stack[c, j + 1] - stack[c, j])
            total += 0.5 * (half * scale) ** slope
            counts[c, min(half * bins // 65536, bins - 1)] += 1
        damage[c] = total
    return damage, counts


def drifts_ref(ground: Any, omega: Any, damping: Any, share: Any, shape: Any, dt: float) -> Any:
    records, steps = ground.shape
    q, v = ground.new_zeros(records, omega.numel()), ground.new_zeros(records, omega.numel())
    a = -share * ground[:, :1]
    mass = 1 + damping * omega * dt + omega**2 * dt * dt / 4
    peak = ground.new_zeros(records, shape.size(0))
    for k in range(1, steps):
        ahead = q + dt * v + dt * dt / 4 * a
        faster = v + dt / 2 * a
        a = (-share * ground[:, k : k + 1] - 2 * damping * omega * faster - omega**2 * ahead) / mass
        q, v = ahead + dt * dt / 4 * a, faster + dt / 2 * a
        floors = F.pad(q @ shape.to(q.dtype).T, (1, 0))
        peak = torch.maximum(peak, floors.diff(dim=1).abs())
    return peak


def make_storeys(records: int, steps: int, modes: int, storeys: int) -> Any:
    number = 2 * torch.arange(modes) + 1
    omega = 2 * torch.pi * 1.1 * number
    height = (torch.arange(storeys) + 1)[:, None] / storeys
    shape = torch.sin(number * height * torch.pi / 2)
    ground = randn(records, steps) * torch.exp(-torch.linspace(-2, 2, steps).square())
    return ground, omega.float(), torch.full((modes,), 0.05), 4 / (torch.pi * number), shape, 0.005


@stranger(
    make_storeys,
    drifts_ref,
    {"records": 11, "steps": 33, "modes": 5, "storeys": 9},
    {"records": 8192, "steps": 1500, "modes": 12, "storeys": 30},
)
@tileflow.kernel
def storey_drifts(ground, omega, damping, share, shape, dt: float):
    """Newmark, 1959: the largest drift of each storey in many earthquakes, by mean accelerations of its modes."""
    records, steps = ground.shape
    storeys, modes = shape.shape
    out = torch.empty(records, storeys, device=ground.device)
    for tr in tfl.tile(records):
        w, z, g = omega[:], damping[:], share[:]
        mass = 1 + z * w * dt + w * w * dt * dt / 4
        q = tfl.zeros([tr, modes])
        v = tfl.zeros([tr, modes])
        a = -g * ground[tr, 0][:, None]
        peak = tfl.zeros([tr, storeys])
        for k in range(1, steps):
            q = q + dt * v + dt * dt / 4 * a
            v = v + dt / 2 * a
            a = (-g * ground[tr, k][:, None] - 2 * z * w * v - w * w * q) / mass
            q = q + dt * dt / 4 * a
            v = v + dt / 2 * a
            floors = q @ shape[:, :].T
            drift = torch.diff(floors, dim=1, prepend=tfl.zeros([tr, 1]))
            peak = torch.maximum(peak, drift.abs())
        out[tr, :] = peak
    return out


def filtered_ref(density: Any, state: Any, radius: float, beta: float) -> Any:
    reach = math.ceil(radius) - 1
    way = torch.arange(-reach, reach + 1).to(density.dtype)
    far = (way[:, None, None] ** 2 + way[:, None] ** 2 + way**2).sqrt()
    cone = (radius - far).clamp(min=0)[None, None]
    x = torch.where(state == 1, 0.0, torch.where(state == 2, 1.0, density.to(way.dtype)))
    near, whole = (F.conv3d(a[None, None], cone, padding=reach)[0, 0] for a in (x, torch.ones_like(x)))
    smooth = near / whole
    low, high = math.tanh(beta * 0.5), math.tanh(beta * 0.5)
    solid = (low + torch.tanh(beta * (smooth - 0.5))) / (low + high)
    return solid, solid.sum((1, 2)), (4 * solid * (1 - solid)).mean()


@stranger(
    lambda z, y, x, radius: (torch.rand(z, y, x), torch.randint(0, 8, (z, y, x)).to(torch.uint8), radius, 4.0),
    filtered_ref,
    {"z": 5, "y": 7, "x": 13, "radius": 1.5},
    {"z": 128, "y": 160, "x": 320, "radius": 2.5},
)
@tileflow.kernel
def filter_density(density, state, radius: tfl.constexpr, beta: float):
    """Bruns and Tortorelli, 2001, and Wang and others, 2011: densities under a cone, projected; volumes and grey."""
    nz, ny, nx = density.shape
    out = torch.empty_like(density)
    volume = torch.zeros(nz, device=density.device)
    grey = torch.zeros([], device=density.device)
    reach = math.ceil(radius) - 1
    for tz, ty, tx in tfl.tile([nz, ny, nx]):
        total = tfl.zeros([tz, ty, tx])
        weight = tfl.zeros([tz, ty, tx])
        for dz in range(-reach, reach + 1):
            for dy in range(-reach, reach + 1):
                for dx in range(-reach, reach + 1):
                    w = radius - math.sqrt(dz * dz + dy * dy + dx * dx)
                    if w > 0:
                        z, y, x = tz.index + dz, ty.index + dy, tx.index + dx
                        inside = ((z >= 0) & (z < nz))[:, None, None] & ((y >= 0) & (y < ny))[:, None]
                        inside = inside & (x >= 0) & (x < nx)
                        kind = state[tz + dz, ty + dy, tx + dx]
                        rho = density[tz + dz, ty + dy, tx + dx]
                        rho = torch.where(kind == 1, 0.0, torch.where(kind == 2, 1.0, rho))
                        total += torch.where(inside, w * rho, 0.0)
                        weight += torch.where(inside, w, 0.0)
        low = math.tanh(beta * 0.5)
        solid = (low + torch.tanh(beta * (total / weight - 0.5))) / (2 * low)
        out[tz, ty, tx] = solid
        tfl.atomic_add(volume, [tz], solid.sum((1, 2)))
        tfl.atomic_add(grey, [], (4 * solid * (1 - solid)).sum() / (nz * ny * nx))
    return out, volume, grey
