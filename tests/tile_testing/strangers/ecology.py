"""Populations: rarefied counts, seeds on the wind, infections among agents, communities, stages of life, recaptures."""

from __future__ import annotations

import math
from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def make_sites(sites: Any, species: Any, depths: Any) -> Any:
    counts = torch.floor(torch.rand(sites, species) ** 6 * 60) + (torch.arange(species) < 2)
    return counts.to(torch.int16), torch.arange(1, depths + 1).int()


def rarefied_ref(counts: Any, depth: Any) -> Any:
    n = counts.double()
    total = n.sum(1, keepdim=True)
    out = []
    for d in depth.tolist():
        d = torch.minimum(total, torch.tensor(float(d), dtype=total.dtype))
        rest = total - n
        ways = torch.lgamma(rest + 1) - torch.lgamma((rest - d).clamp(min=0) + 1)
        ways = ways - torch.lgamma(total + 1) + torch.lgamma(total - d + 1)
        out.append((1 - torch.where(rest >= d, torch.exp(ways), 0.0)).sum(1))
    return torch.stack(out, 1).float()


@stranger(
    make_sites,
    rarefied_ref,
    {"sites": 7, "species": 29, "depths": 5},
    {"sites": 4096, "species": 384, "depths": 16},
)
@tileflow.kernel
def rarefaction_curves(counts, depth):
    """Hurlbert, 1971: how many species fewer individuals of a site are expected to show."""
    sites = counts.size(0)
    out = torch.empty(sites, depth.numel(), device=counts.device)
    for ts in tfl.tile(sites):
        n = counts[ts, :].double()
        total = n.sum(1, keepdim=True)
        rest = total - n
        for i in range(depth.numel()):
            d = torch.minimum(total, depth[i].double())
            enough = rest >= d
            left = torch.where(enough, rest - d, 0.0)
            ways = (
                torch.lgamma(rest + 1) - torch.lgamma(left + 1) - torch.lgamma(total + 1) + torch.lgamma(total - d + 1)
            )
            seen = 1 - torch.where(enough, torch.exp(ways), 0.0)
            out[ts, i] = seen.sum(1)
    return out


def shadow_ref(adult: Any, seeds: Any, trap: Any, scale: float, shape: float) -> Any:
    out = []
    norm = (shape - 1) / (math.pi * scale**2)
    for part in trap.split(1024):
        d2 = (part[:, None, 0] - adult[:, 0]) ** 2 + (part[:, None, 1] - adult[:, 1]) ** 2
        rain = norm * (1 + d2 / scale**2) ** -shape * seeds
        out.append(torch.stack([rain.sum(1), rain.amax(1)], 1))
    return torch.cat(out)


@stranger(
    lambda adults, traps: (torch.rand(adults, 2) * 50, torch.rand(adults) * 100, torch.rand(traps, 2) * 50, 4.0, 1.7),
    shadow_ref,
    {"adults": 53, "traps": 19},
    {"adults": 12288, "traps": 16384},
)
@tileflow.kernel
def seed_shadow(adult, seeds, trap, scale, shape):
    """Clark et al., 1999: seeds in traps by a kernel with fat tails around each tree, and the most of one tree."""
    out = torch.empty(trap.size(0), 2, device=trap.device)
    norm = (shape - 1) / (math.pi * scale**2)
    for tt in tfl.tile(trap.size(0)):
        rain = tfl.zeros([tt])
        most = tfl.zeros([tt])
        x, y = trap[tt, 0], trap[tt, 1]
        for ta in tfl.tile(adult.size(0)):
            d2 = (x[:, None] - adult[ta, 0]) ** 2 + (y[:, None] - adult[ta, 1]) ** 2
            each = norm * (1 + d2 / scale**2) ** -shape * seeds[ta]
            rain += each.sum(1)
            most = torch.maximum(most, each.amax(1))
        out[tt, 0] = rain
        out[tt, 1] = most
    return out


def make_agents(n: Any, cells: Any) -> Any:
    state = torch.randint(0, 10, (n,))
    return (
        torch.where(state < 7, 0, state - 6).to(torch.uint8),
        torch.randint(0, 12, (n,)).to(torch.uint8),
        torch.randint(0, cells, (n,)).int(),
        torch.rand(n),
        0.97 ** torch.arange(64),
        cells,
        5,
        9,
    )


def agents_ref(state: Any, age: Any, cell: Any, draw: Any, escape: Any, cells: int, latent: int, sick: int) -> Any:
    at = cell.long()
    ill = torch.bincount(at[state == 2], minlength=cells)
    caught = (state == 0) & (draw >= escape[ill.clamp(max=63)[at]])
    shown = (state == 1) & (age >= latent)
    healed = (state == 2) & (age >= sick)
    moved = caught | shown | healed
    new = state + moved.to(torch.uint8)
    return new, torch.where(moved, 0, age + 1).to(torch.uint8), torch.bincount(new.long(), minlength=4).int()


@stranger(make_agents, agents_ref, {"n": 301, "cells": 23}, {"n": 1 << 24, "cells": 1 << 20})
@tileflow.kernel
def agents_infected(state, age, cell, draw, escape, cells, latent, sick):
    """Kerr et al., 2021 (Covasim): a day of agents in places, susceptible, exposed, infectious or recovered."""
    n = state.numel()
    ill = torch.zeros(cells, dtype=torch.int32, device=state.device)
    new, old = torch.empty_like(state), torch.empty_like(age)
    census = torch.zeros(4, dtype=torch.int32, device=state.device)
    for t in tfl.tile(n):
        tfl.atomic_add(ill, [cell[t]], 1, extra_mask=state[t] == 2)
    for t in tfl.tile(n):
        s = state[t]
        a = age[t]
        pressure = torch.clamp(ill[cell[t]], max=63)
        caught = (s == 0) & (draw[t] >= escape[pressure])
        shown = (s == 1) & (a >= latent)
        healed = (s == 2) & (a >= sick)
        moved = caught | shown | healed
        s = torch.where(moved, s + 1, s)
        new[t] = s
        old[t] = torch.where(moved, 0, a + 1)
        for k in range(4):
            tfl.atomic_add(census, [k], (s == k).sum())
    return new, old, census


def eaten(x: Any, growth: Any, web: Any) -> Any:
    return x * (growth + x @ web)


def community_ref(x: Any, growth: Any, web: Any, dt: float, steps: int) -> Any:
    def rate(x):
        return eaten(x, growth, web.T)

    for _ in range(steps):
        a = rate(x)
        b = rate(x + dt / 2 * a)
        c = rate(x + dt / 2 * b)
        d = rate(x + dt * c)
        x = x + dt / 6 * (a + 2 * b + 2 * c + d)
    return x, (x > 0).to(x.dtype).mean(1) * x.sum(1)


@stranger(
    lambda b, n, steps: (
        torch.rand(b, n) + 0.1,
        torch.rand(n) + 0.5,
        0.3 * randn(n, n) / n**0.5 - torch.eye(n),
        0.05,
        steps,
    ),
    community_ref,
    {"b": 21, "n": 13, "steps": 3},
    {"b": 32768, "n": 96, "steps": 10},
)
@tileflow.kernel
def community_growth(x, growth, web, dt, steps):
    """May, 1972: many species that eat one another (Lotka and Volterra), by Runge and Kutta's fourth order."""
    b = x.size(0)
    after = torch.empty_like(x)
    alive = torch.empty(b, device=x.device)
    for t in tfl.tile(b):
        r, a = growth[:], web[:, :].T
        y = x[t, :]
        for _ in range(steps):
            k1 = eaten(y, r, a)
            k2 = eaten(y + dt / 2 * k1, r, a)
            k3 = eaten(y + dt / 2 * k2, r, a)
            k4 = eaten(y + dt * k3, r, a)
            y = y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        after[t, :] = y
        alive[t] = (y > 0).float().mean(1) * y.sum(1)
    return after, alive


def make_stages(b: Any, years: Any, kinds: Any, stages: Any) -> Any:
    matrix = torch.rand(kinds, stages, stages) / stages + torch.eye(stages) * 0.4
    return torch.rand(b, stages) + 0.1, torch.randint(0, kinds, (b, years)).to(torch.uint8), matrix


def stages_ref(start: Any, weather: Any, matrix: Any) -> Any:
    n = start / start.sum(1, keepdim=True)
    grown = torch.zeros_like(n[:, 0])
    low = torch.zeros_like(grown)
    for k in weather.long().unbind(1):
        n = torch.einsum("bij,bj->bi", matrix[k], n)
        total = n.sum(1)
        grown = grown + torch.log(total)
        low = torch.minimum(low, grown)
        n = n / total[:, None]
    return grown / weather.size(1), low, n


@stranger(
    make_stages,
    stages_ref,
    {"b": 23, "years": 5, "kinds": 3, "stages": 6},
    {"b": 1 << 17, "years": 50, "kinds": 20, "stages": 8},
)
@tileflow.kernel
def stage_projection(start, weather, matrix):
    """Caswell, 2001: stages of life in random years, each with its matrix; the rate at which they grow, the worst."""
    b = start.size(0)
    years = weather.size(1)
    rate = torch.empty(b, device=start.device)
    worst = torch.empty(b, device=start.device)
    final = torch.empty_like(start)
    for t in tfl.tile(b):
        n = start[t, :] / start[t, :].sum(1, keepdim=True)
        grown = tfl.zeros([t])
        low = tfl.zeros([t])
        for year in range(years):
            a = matrix[weather[t, year], :, :]
            n = (a * n[:, None, :]).sum(-1)
            total = n.sum(1)
            grown += torch.log(total)
            low = torch.minimum(low, grown)
            n = n / total[:, None]
        rate[t] = grown / years
        worst[t] = low
        final[t, :] = n
    return rate, worst, final


def make_captures(n: Any, years: Any) -> Any:
    seen = torch.rand(n, years) < 0.3
    seen = seen | (torch.arange(years) == torch.randint(0, years, (n, 1)))
    return seen, torch.rand(years - 1) * 0.3 + 0.6, torch.rand(years) * 0.4 + 0.2


def captures_ref(seen: Any, survive: Any, found: Any) -> Any:
    years = seen.size(1)
    never = torch.ones(years, dtype=survive.dtype)
    for t in range(years - 2, -1, -1):
        never[t] = 1 - survive[t] * (1 - (1 - found[t + 1]) * never[t + 1])
    at = torch.arange(years)
    first = torch.where(seen, at, years).amin(1)
    last = torch.where(seen, at, -1).amax(1)
    total = torch.log(never[last])
    for t in range(1, years):
        between = (t > first) & (t <= last)
        step = torch.log(survive[t - 1]) + torch.where(seen[:, t], torch.log(found[t]), torch.log1p(-found[t]))
        total = total + torch.where(between, step, 0.0)
    return total, total.sum()


@stranger(make_captures, captures_ref, {"n": 31, "years": 7}, {"n": 1 << 21, "years": 24})
@tileflow.kernel
def recaptures(seen, survive, found):
    """Cormack, Jolly and Seber, 1965: how likely each animal's history of captures is after its first."""
    n, years = seen.shape
    each = torch.empty(n, device=survive.device)
    total = torch.zeros((), device=survive.device)
    for t in tfl.tile(n):
        like = tfl.zeros([t])
        never = tfl.full([], 1.0)
        later = tfl.full([t], False, dtype=torch.bool)
        for year in reversed(range(years)):
            here = seen[t, year]
            ending = here & ~later
            like = torch.where(ending, torch.log(never) + like, like)
            before = tfl.full([t], False, dtype=torch.bool)
            for y in range(year):
                before = before | seen[t, y]
            later = later | here
            if year > 0:
                hit = torch.where(here, torch.log(found[year]), torch.log1p(-found[year]))
                like += torch.where(later & before, torch.log(survive[year - 1]) + hit, 0.0)
                never = 1 - survive[year - 1] * (1 - (1 - found[year]) * never)
        each[t] = like
        tfl.atomic_add(total, [], like.sum())
    return each, total
