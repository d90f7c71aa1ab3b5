"""Evolution and automata: mutants, swarms, ranks, covariances, reactions, piles, rules."""

from __future__ import annotations

import math
from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def rastrigin(x: Any, dim: int) -> Any:
    return (x * x - 10 * torch.cos(2 * math.pi * x) + 10).sum(dim)


def mutants_ref(x: Any, cost: Any, picks: Any, draw: Any, sure: Any, f: float, rate: float) -> Any:
    a, b, c = x[picks[:, 0].long()], x[picks[:, 1].long()], x[picks[:, 2].long()]
    cross = (draw < rate) | (torch.arange(x.size(1)) == sure[:, None])
    trial = torch.where(cross, a + f * (b - c), x)
    value = rastrigin(trial, 1)
    better = value <= cost
    return torch.where(better[:, None], trial, x), torch.where(better, value, cost)


def make_mutants(n: int, d: int) -> Any:
    x = randn(n, d)
    picks, sure = torch.randint(0, n, (n, 3), dtype=torch.int32), torch.randint(0, d, (n,), dtype=torch.int32)
    return x, rastrigin(x, 1), picks, torch.rand(n, d), sure, 0.7, 0.5


@stranger(make_mutants, mutants_ref, {"n": 37, "d": 13}, {"n": 1 << 17, "d": 32})
@tileflow.kernel
def differential_evolution(x, cost, picks, draw, sure, f, rate):
    """Storn and Price, 1997: differences of others make a mutant, which stays where it is no worse."""
    n, d = x.shape
    new_x, new_cost = torch.empty_like(x), torch.empty_like(cost)
    for t in tfl.tile(n):
        own = x[t, :]
        mutant = x[picks[t, 0], :] + f * (x[picks[t, 1], :] - x[picks[t, 2], :])
        cross = (draw[t, :] < rate) | (tfl.arange(d)[None, :] == sure[t][:, None])
        trial = torch.where(cross, mutant, own)
        value = rastrigin(trial, 1)
        better = value <= cost[t]
        new_x[t, :] = torch.where(better[:, None], trial, own)
        new_cost[t] = torch.where(better, value, cost[t])
    return new_x, new_cost


def swarm_ref(x: Any, v: Any, own: Any, own_cost: Any, best: Any, r1: Any, r2: Any) -> Any:
    v = (0.7 * v + 1.5 * r1 * (own - x) + 1.5 * r2 * (best[:, None] - x)).clamp(-1, 1)
    x = x + v
    cost = rastrigin(x, 2)
    better = cost < own_cost
    own, own_cost = torch.where(better[..., None], x, own), torch.where(better, cost, own_cost)
    leader = own_cost.argmin(1)
    return x, v, own, own_cost, own[torch.arange(x.size(0)), leader]


@stranger(
    lambda s, n, d: (
        randn(s, n, d),
        randn(s, n, d) * 0.1,
        randn(s, n, d),
        20 * d * torch.rand(s, n),
        randn(s, d),
        torch.rand(s, n, d),
        torch.rand(s, n, d),
    ),
    swarm_ref,
    {"s": 3, "n": 13, "d": 7},
    {"s": 2048, "n": 64, "d": 64},
)
@tileflow.kernel
def swarm_step(x, v, own, own_cost, best, r1, r2):
    """Kennedy and Eberhart, 1995: many swarms, each with a leader."""
    s, _, _d = x.shape
    new_x, new_v, new_own = torch.empty_like(x), torch.empty_like(v), torch.empty_like(own)
    new_cost, new_best = torch.empty_like(own_cost), torch.empty_like(best)
    for i in tfl.grid(s):
        place, mine = x[i, :, :], own[i, :, :]
        speed = 0.7 * v[i, :, :] + 1.5 * r1[i, :, :] * (mine - place)
        speed = torch.clamp(speed + 1.5 * r2[i, :, :] * (best[i, :][None, :] - place), -1, 1)
        place = place + speed
        cost = rastrigin(place, 1)
        better = cost < own_cost[i, :]
        mine = torch.where(better[:, None], place, mine)
        least = torch.where(better, cost, own_cost[i, :])
        new_x[i, :, :] = place
        new_v[i, :, :] = speed
        new_own[i, :, :] = mine
        new_cost[i, :] = least
        new_best[i, :] = mine[torch.argmin(least, 0), :]
    return new_x, new_v, new_own, new_cost, new_best


def dominated_ref(f: Any) -> Any:
    out = []
    for part in f.split(512):
        no_worse = (f[None] <= part[:, None]).all(-1)
        out.append((no_worse & (f[None] < part[:, None]).any(-1)).sum(1))
    return torch.cat(out).int()


@stranger(lambda n, m: (torch.rand(n, m),), dominated_ref, {"n": 45, "m": 3}, {"n": 16384, "m": 3})
@tileflow.kernel
def count_dominating(f):
    """NSGA-II's first question (Deb et al., 2002): how many others are no worse in all and better in some."""
    n, _m = f.shape
    out = torch.empty(n, dtype=torch.int32, device=f.device)
    for ti in tfl.tile(n):
        count = tfl.zeros([ti], dtype=torch.int32)
        for tj in tfl.tile(n):
            mine, other = f[ti, :][:, None, :], f[tj, :][None, :, :]
            dominates = (other <= mine).all(-1) & (other < mine).any(-1)
            count += dominates.sum(1).int()
        out[ti] = count
    return out


def covariance_ref(c: Any, path: Any, y: Any, weight: Any, c1: float, cmu: float) -> Any:
    rank_one = path[:, :, None] * path[:, None, :]
    rank_mu = torch.einsum("bki,bk,bkj->bij", y, weight, y)
    return (1 - c1 - cmu * weight.sum(1))[:, None, None] * c + c1 * rank_one + cmu * rank_mu


@stranger(
    lambda b, k, d: (randn(b, d, d), randn(b, d), randn(b, k, d), torch.rand(b, k) / k, 0.1, 0.2),
    covariance_ref,
    {"b": 3, "k": 13, "d": 19},
    {"b": 256, "k": 128, "d": 512},
)
@tileflow.kernel
def covariance_adaptation(c, path, y, weight, c1, cmu):
    """CMA-ES's update (Hansen and Ostermeier, 2001) of many searches: the path's outer product and the steps'."""
    b, _k, d = y.shape
    out = torch.empty_like(c)
    for i, ti, tj in tfl.tile([b, d, d], block_size=[1, None, None]):
        s = i.begin
        left, right = y[s, :, ti], y[s, :, tj]
        w = weight[s, :]
        rank_mu = (left * w[:, None]).T @ right
        keep = 1 - c1 - cmu * w.sum()
        out[s, ti, tj] = keep * c[s, ti, tj] + c1 * torch.outer(path[s, ti], path[s, tj]) + cmu * rank_mu
    return out


def reaction_ref(u: Any, v: Any, feed: float, kill: float) -> Any:
    def spread(a: Any) -> Any:
        near = a.roll(1, 0) + a.roll(-1, 0) + a.roll(1, 1) + a.roll(-1, 1)
        far = a.roll((1, 1), (0, 1)) + a.roll((1, -1), (0, 1)) + a.roll((-1, 1), (0, 1)) + a.roll((-1, -1), (0, 1))
        return 0.2 * near + 0.05 * far - a

    met = u * v * v
    return u + 0.8 * spread(u) - met + feed * (1 - u), v + 0.4 * spread(v) + met - (feed + kill) * v


@stranger(
    lambda h, w: (torch.rand(h, w), torch.rand(h, w), 0.055, 0.062),
    reaction_ref,
    {"h": 9, "w": 13},
    {"h": 8192, "w": 4096},
)
@tileflow.kernel
def reaction_diffusion(u, v, feed, kill):
    """Gray and Scott's two substances on a torus, nine points."""
    h, w = u.shape
    new_u, new_v = torch.empty_like(u), torch.empty_like(v)

    def spread(a, y, x):
        total = -a[y, x]
        for dy in (-1, 0, 1):
            for dx in (-1, 0, 1):
                if dy != 0 or dx != 0:
                    weight = 0.2 if dy == 0 or dx == 0 else 0.05
                    total = total + weight * a[(y + dy + h) % h, (x + dx + w) % w]
        return total

    for ty, tx in tfl.tile([h, w]):
        a, b = u[ty, tx], v[ty, tx]
        met = a * b * b
        new_u[ty, tx] = a + 0.8 * spread(u, ty.index, tx.index) - met + feed * (1 - a)
        new_v[ty, tx] = b + 0.4 * spread(v, ty.index, tx.index) + met - (feed + kill) * b
    return new_u, new_v


def rule_ref(cells: Any, rule: int, steps: int) -> Any:
    bits = (cells[..., None] >> torch.arange(32)) & 1
    row = bits.flatten(1).bool()
    for _ in range(steps):
        code = row.roll(1, 1).int() + 2 * row.int() + 4 * row.roll(-1, 1).int()
        row = ((rule >> code) & 1).bool()
    packed = (row.view(bits.shape).long() << torch.arange(32)).sum(-1)
    return torch.where(packed >= 1 << 31, packed - (1 << 32), packed).int(), row.sum(1).int()


@stranger(
    lambda b, n, steps: (torch.randint(-(1 << 31), 1 << 31, (b, n)).int(), 110, steps),
    rule_ref,
    {"b": 5, "n": 4, "steps": 3},
    {"b": 4096, "n": 128, "steps": 256},
)
@tileflow.kernel
def elementary_automaton(cells, rule: tfl.constexpr, steps):
    """Wolfram's rules on rings of bits, 32 in an int; a bit's right neighbour is the next higher one."""
    b, _n = cells.shape
    out = torch.empty_like(cells)
    alive = torch.empty(b, dtype=torch.int32, device=cells.device)
    for t in tfl.tile(b):
        row = cells[t, :]
        for _ in range(steps):
            low = (row << 1) | ((row.roll(1, 1) >> 31) & 1)
            high = ((row >> 1) & 0x7FFFFFFF) | (row.roll(-1, 1) << 31)
            new = torch.zeros_like(row)
            for code in range(8):
                if rule >> code & 1:
                    a = low if code & 1 else ~low
                    m = row if code & 2 else ~row
                    c = high if code & 4 else ~high
                    new = new | (a & m & c)
            row = new
        out[t, :] = row
        count = torch.zeros_like(row)
        for bit in range(32):
            count += (row >> bit) & 1
        alive[t] = count.sum(1)
    return out, alive
