"""Catchments: rivers that join, hydrographs of storms, water in soils, likeness by distance, winters of snow."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def routing_ref(lateral: Any, down: Any, level: Any, k: Any, x: Any, dt: float) -> Any:
    steps, reaches = lateral.shape
    k, x = k.double(), x.double()
    bottom = 2 * k * (1 - x) + dt
    c0, c1, c2 = (dt - 2 * k * x) / bottom, (dt + 2 * k * x) / bottom, (2 * k * (1 - x) - dt) / bottom
    was_in, was_out = torch.zeros(reaches).double(), torch.zeros(reaches).double()
    out = []
    for s in range(steps):
        inflow, outflow = lateral[s].double().clone(), torch.zeros(reaches).double()
        for at in range(int(level.max()) + 1):
            mine = (level == at).nonzero()[:, 0]
            outflow[mine] = (c0 * inflow + c1 * was_in + c2 * was_out)[mine]
            has = down[mine] >= 0
            inflow.index_add_(0, down[mine][has].long(), outflow[mine][has])
        was_in, was_out = inflow, outflow
        out.append(outflow)
    out = torch.stack(out)
    return out.float(), out.amax(0).float(), out.argmax(0)


def make_rivers(steps: int, reaches: int) -> Any:
    ends = torch.arange(reaches) // 3 * 2 + torch.arange(reaches) % 2 + 1 - 2 * (reaches // 3)
    down = torch.where(torch.arange(reaches) < 2, -1, (torch.arange(reaches) // 2 - 1).clamp(min=0) + ends * 0)
    depth = torch.zeros(reaches, dtype=torch.int32)
    far = torch.log2(torch.arange(reaches) + 2.0).floor().int()
    level = depth + far.max() - far
    return (
        torch.rand(steps, reaches), down.int(), level.int(), 1 + torch.rand(reaches),
        torch.rand(reaches).half() / 2, 0.7,
    )  # fmt: skip


@stranger(make_rivers, routing_ref, {"steps": 5, "reaches": 30}, {"steps": 24, "reaches": (1 << 17) - 2}, loops=True)
@tileflow.kernel
def route_rivers(lateral, down, level, k, x, dt: float):
    """McCarthy, 1938 (Muskingum): what flows out of reaches goes into those below, sources first."""
    steps, reaches = lateral.shape
    flow = torch.empty_like(lateral)
    state = {"in": torch.zeros(reaches, device=k.device), "out": torch.zeros(reaches, device=k.device)}
    levels = int(reaches + 2).bit_length() - 1
    for s in range(steps):
        inflow = lateral[s].clone()
        for at in range(levels):
            for r in tfl.tile(reaches):
                here = level[r] == at
                travel, lean = k[r], x[r].float()
                bottom = 2 * travel * (1 - lean) + dt
                came = inflow[r]
                out = (dt - 2 * travel * lean) * came + (dt + 2 * travel * lean) * state["in"][r]
                out = (out + (2 * travel * (1 - lean) - dt) * state["out"][r]) / bottom
                tfl.store(flow, [s, r], out, extra_mask=here)
                tfl.atomic_add(inflow, [down[r]], out, extra_mask=here & (down[r] >= 0))
        state = {"in": inflow, "out": flow[s]}
    peak, when = torch.empty_like(k), torch.empty(reaches, dtype=torch.int64, device=k.device)
    for r in tfl.tile(reaches):
        peak[r], when[r] = flow[:, r].max(dim=0)
    return flow, peak, when


def hydrograph_ref(rain: Any, shape: Any, scale: Any, loss: Any, length: int) -> Any:
    t = torch.arange(1, length + 1).double()
    a, b = shape.double()[:, None], scale.double()[:, None]
    unit = torch.exp((a - 1) * t.log() - t / b - torch.lgamma(a) - a * b.log())
    unit = unit / unit.sum(1, keepdim=True)
    excess = (rain.double() - loss.double()[:, None]).clamp(min=0)
    flow = (torch.nn.functional.pad(excess, (length - 1, 0)).unfold(1, length, 1) * unit.flip(1)[:, None]).sum(2)
    return unit.float(), flow.half(), flow.cumsum(1).float()


@stranger(
    lambda basins, hours, length: (
        4 * torch.rand(hours, basins).T, 2 + torch.rand(basins), 1 + 3 * torch.rand(basins), torch.rand(basins), length,
    ),
    hydrograph_ref,
    {"basins": 13, "hours": 53, "length": 11},
    {"basins": 4096, "hours": 4096, "length": 48},
)  # fmt: skip
@tileflow.kernel
def unit_hydrographs(rain, shape, scale, loss, length: int):
    """Nash, 1957: what a storm leaves in a river, by a cascade's response, and how much has come so far."""
    basins, hours = rain.shape
    unit = rain.new_empty(basins, length)
    for b in tfl.tile(basins):
        t = torch.arange(1, length + 1).float()
        a, s = shape[b].unsqueeze(1), scale[b].unsqueeze(1)
        log = torch.special.xlogy(a - 1, t) - t / s - torch.lgamma(a) - torch.xlogy(a, s)
        unit[b, :] = torch.nn.functional.normalize(log.exp(), p=1.0, dim=1)
    padded = rain.new_zeros(basins, hours + length - 1)
    for b, t in tfl.tile([basins, hours]):
        padded[b, t + (length - 1)] = (rain[b, t] - loss[b][:, None]).relu()
    flow = torch.empty(basins, hours, dtype=torch.float16, device=rain.device)
    windows = padded.unfold(1, length, 1)
    for b, t in tfl.tile([basins, hours]):
        flow[b, t] = torch.linalg.vecdot(windows[b, t, :], unit[b, :].flip(1)[:, None, :], dim=-1)
    volume = torch.empty_like(rain)
    for b in tfl.tile(basins):
        before = torch.zeros_like(loss[b])
        for t in tfl.tile(hours):
            exact = (windows[b, t, :] * unit[b, :].flip(-1)[:, None]).sum(-1)
            volume[b, t] = before[:, None] + exact.cumsum(1)
            before += exact.sum(1)
    return unit, flow, volume


@dataclass(frozen=True)
class Soil:
    """Van Genuchten's numbers of each layer."""

    alpha: torch.Tensor
    n: torch.Tensor
    residual: torch.Tensor
    porosity: torch.Tensor
    conductivity: torch.Tensor


def held_water(soil: Any, layer: Any, head: Any) -> Any:
    """How much water a head holds, how much more a higher one would, and how well it flows."""
    wet = (1 + (soil.alpha[layer] * head.abs()) ** soil.n[layer]).reciprocal()
    m = 1 - 1 / soil.n[layer]
    below = head < 0
    share = torch.where(below, wet**m, 1.0)
    room = soil.porosity[layer] - soil.residual[layer]
    slope = room * m * soil.n[layer] * soil.alpha[layer] * (soil.alpha[layer] * head.abs()) ** (soil.n[layer] - 1)
    capacity = torch.where(below, slope * wet ** (m + 1), 1e-6)
    inner = 1 - (1 - share ** (1 / m)).clamp(min=0) ** m
    return soil.residual[layer] + room * share, capacity, soil.conductivity[layer] * share.sqrt() * inner**2


def soil_ref(soil: Soil, head: Any, rain: Any, dz: float, dt: float, turns: int) -> Any:
    soil = Soil(*(getattr(soil, f).double() for f in ("alpha", "n", "residual", "porosity", "conductivity")))
    h, rain = head.double(), rain.double()
    layers = h.size(1)
    start = [held_water(soil, i, h[:, i])[0] for i in range(layers)]
    for _ in range(turns):
        parts = [held_water(soil, i, h[:, i]) for i in range(layers)]
        between = [(parts[i][2] + parts[i + 1][2]) / 2 for i in range(layers - 1)]
        c, d = [], []
        for i in range(layers):
            up = between[i - 1] / dz**2 if i else torch.zeros(len(h)).double()
            low = between[i] / dz**2 if i < layers - 1 else torch.zeros(len(h)).double()
            right = parts[i][1] / dt * h[:, i] - (parts[i][0] - start[i]) / dt
            right = (
                right + (between[i - 1] / dz if i else rain / dz) - (between[i] if i < layers - 1 else parts[i][2]) / dz
            )
            middle = parts[i][1] / dt + up + low
            if i:
                middle, right = middle - up * c[-1], right + up * d[-1]
            c.append(low / middle)
            d.append(right / middle)
        for i in range(layers - 1, -1, -1):
            new = d[i] + (c[i] * h[:, i + 1] if i < layers - 1 else 0)
            h = h.clone()
            h[:, i] = new
    water = torch.stack([held_water(soil, i, h[:, i])[0] for i in range(layers)], 1)
    return h.float(), water.float(), (water.sum(1) * dz).float()


@stranger(
    lambda columns, layers: (
        Soil(0.03 + torch.rand(layers) / 50, 1.4 + torch.rand(layers), torch.rand(layers) / 10,
             0.35 + torch.rand(layers) / 10, 5 + torch.rand(layers)),
        -20 - 60 * torch.rand(columns, layers), torch.rand(columns), 10.0, 0.1, 3,
    ),
    soil_ref,
    {"columns": 23, "layers": 9},
    {"columns": 1 << 18, "layers": 40},
)  # fmt: skip
@tileflow.kernel
def soil_columns(soil: Soil, head, rain, dz: float, dt: float, turns: int):
    """Richards, 1931: water in layers of soil after a step of time, by Picard's iterations and Thomas's sweeps."""
    columns, layers = head.shape
    h, c, d = head.clone(), torch.empty_like(head), torch.empty_like(head)
    before, water = torch.empty_like(head), torch.empty_like(head)
    stored = torch.empty_like(rain)
    for q in tfl.tile(columns):
        for i in range(layers):
            before[q, i], _, _ = held_water(soil, i, h[q, i])
        for _ in range(turns):
            above = torch.zeros([q])
            moist, capacity, flows = held_water(soil, 0, h[q, 0])
            last_c, last_d = torch.zeros([q]), torch.zeros([q])
            for i in range(layers):
                right = capacity / dt * h[q, i] - (moist - before[q, i]) / dt
                right += torch.where(tfl.full([q], i) == 0, rain[q], above) / dz
                if i < layers - 1:
                    next_moist, next_capacity, next_flows = held_water(soil, i + 1, h[q, i + 1])
                    under = (flows + next_flows) / 2
                    low = under / dz**2
                else:
                    next_moist, next_capacity, next_flows = moist, capacity, flows
                    under = flows
                    low = torch.zeros_like(flows)
                up = above / dz**2
                middle = capacity / dt + up + low - up * last_c
                last_c, last_d = low / middle, (right - under / dz + up * last_d) / middle
                c[q, i], d[q, i] = last_c, last_d
                moist, capacity, flows, above = next_moist, next_capacity, next_flows, under
            new = tfl.zeros([q])
            for i in reversed(range(layers)):
                new = d[q, i] + c[q, i] * new
                h[q, i] = new
        total = tfl.zeros([q])
        for i in range(layers):
            moist = held_water(soil, i, h[q, i])[0]
            water[q, i] = moist
            total += moist * dz
        stored[q] = total
    return h, water, stored


def variogram_ref(places: Any, values: Any, edges: Any, robust: bool) -> Any:
    apart = torch.cdist(places.double(), places.double())
    change = (values.double()[:, None] - values.double()).abs()
    bins = torch.bucketize(apart.float(), edges)
    upper = torch.ones_like(bins).triu(1).bool() & (bins < len(edges))
    n = len(edges)
    what = change.sqrt() if robust else change.square()
    sums = torch.zeros(n).double().index_add_(0, bins[upper], what[upper])
    counts = bins[upper].bincount(minlength=n)
    mean = sums / counts
    gamma = (mean**4 / (0.457 + 0.494 / counts) / 2) if robust else mean / 2
    return gamma.float(), counts.int()


@stranger(
    lambda n, bins, robust: (
        torch.rand(2, n).T, randn(n, dtype=torch.bfloat16), torch.linspace(0.05, 0.9, bins), robust,
    ),
    variogram_ref,
    {"n": 71, "bins": 9, "robust": True},
    {"n": 1 << 14, "bins": 40, "robust": False},
)  # fmt: skip
@tileflow.kernel
def variogram(places, values, edges, robust: bool):
    """Cressie and Hawkins, 1980, or Matheron: how unlike values are by how far apart, each pair once."""
    n, bins = places.size(0), edges.size(0)
    sums = torch.zeros(bins, dtype=torch.float64, device=places.device)
    counts = torch.zeros(bins, dtype=torch.int32, device=places.device)
    for i in tfl.tile(n):
        for j in tfl.tile(i.begin, n):
            gap = places[i, :][:, None, :] - places[j, :][None]
            apart = gap.pow(2).sum(-1).sqrt()
            change = (values[i].float()[:, None] - values[j].float()).abs()
            which = torch.bucketize(apart, edges[:])
            mine = (i.index[:, None] < j.index) & (which < bins)
            what = change.sqrt() if robust else change.square()
            tfl.atomic_add(sums, [which], what.double(), extra_mask=mine)
            tfl.atomic_add(counts, [which], 1, extra_mask=mine)
    gamma = torch.empty(bins, device=places.device)
    for b in tfl.tile(bins):
        mean = sums[b] / counts[b]
        gamma[b] = mean**4 / (0.457 + 0.494 / counts[b]) / 2 if robust else mean / 2
    return gamma, counts


class Melt(Enum):
    DEGREES = 1
    RADIATION = 2


class Threshold:
    """Rain becomes snow where it is colder than some degrees, gradually."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    def __call__(self, degrees: Any) -> Any:
        return ((degrees - self.low) / (self.high - self.low)).clamp(0, 1)


def snow_ref(rain: Any, degrees: Any, sun: Any, liquid: Threshold, kind: Melt, hold: float) -> Any:
    pack = torch.zeros(rain.size(1)).double()
    water, depth, out = pack.clone(), [], []
    for t in range(len(rain)):
        wet = liquid(degrees[t].double())
        fall = rain[t].double()
        pack = pack + fall * (1 - wet)
        energy = 3.0 * degrees[t].double().clamp(min=0)
        if kind is Melt.RADIATION:
            energy = energy * 0.5 + 0.02 * sun[t].double() * (degrees[t] > 0)
        melt = torch.minimum(pack, energy)
        pack = pack - melt
        water = water + melt + fall * wet
        leave = (water - hold * pack).clamp(min=0)
        water = water - leave
        depth.append(pack + water)
        out.append(leave)
    depth, out = torch.stack(depth), torch.stack(out)
    return depth.half(), out.float(), torch.stack([out.std(0), out.mean(0)]).float(), (depth > 1).sum(0)


@stranger(
    lambda days, cells, kind: (
        6 * torch.rand(days, cells), 4 * torch.randn(cells, days).T, 300 * torch.rand(days, cells).bfloat16(),
        Threshold(-1.0, 2.0), kind, 0.1,
    ),
    snow_ref,
    {"days": 17, "cells": 45, "kind": Melt.RADIATION},
    {"days": 365, "cells": 1 << 17, "kind": Melt.DEGREES},
)  # fmt: skip
@tileflow.kernel
def snow_winters(rain, degrees, sun, liquid: Threshold, kind: Melt, hold: float):
    """Bergström, 1976: snow that falls, melts and holds water, by the warmth of days or also by their sun."""
    days, cells = rain.shape
    depth = torch.empty(days, cells, dtype=torch.float16, device=rain.device)
    leaves, moments = torch.empty_like(rain), torch.empty(2, cells, device=rain.device)
    lying = torch.zeros(cells, dtype=torch.int64, device=rain.device)
    for c in tfl.tile(cells):
        pack = water = torch.zeros([c])
        lies = torch.zeros([c], dtype=torch.int64)
        for t in range(days):
            warm, fall = degrees[t, c], rain[t, c]
            wet = liquid(warm)
            pack = pack + fall * (1 - wet)
            energy = 3.0 * warm.clamp(min=0)
            if kind == Melt.RADIATION:
                energy = energy * 0.5 + 0.02 * sun[t, c].float() * (warm > 0)
            melt = torch.minimum(pack, energy)
            pack = pack - melt
            water = water + melt + fall * wet
            leave = torch.relu(water - hold * pack)
            water -= leave
            depth[t, c], leaves[t, c] = pack + water, leave
            lies += pack + water > 1
        lying[c] = lies
    for c in tfl.tile(cells):
        moments[:, c] = torch.stack(torch.std_mean(leaves[:, c], dim=0))
    return depth, leaves, moments, lying
