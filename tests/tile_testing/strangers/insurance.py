"""Insurance: triangles of claims, sums of claims, reserves of policies, layers of reinsurance, tariffs, classes."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import stranger


def triangles_ref(claims: Any) -> Any:
    lines, n, _ = claims.shape
    factors = torch.ones(lines, n, dtype=claims.dtype)
    sigmas = torch.zeros(lines, n, dtype=claims.dtype)
    for j in range(n - 1):
        before, after = claims[:, : n - 1 - j, j], claims[:, : n - 1 - j, j + 1]
        factors[:, j] = after.sum(1) / before.sum(1)
        off = before * (after / before - factors[:, j, None]) ** 2
        sigmas[:, j] = off.sum(1) / max(n - j - 2, 1)
    latest = claims.flip(2).diagonal(0, 1, 2)
    tail = factors.flip(1).cumprod(1)
    ultimate = latest * tail
    return factors, sigmas, ultimate, ultimate - latest


def make_triangles(lines: Any, n: Any) -> Any:
    return ((100 * torch.rand(lines, n, n) + 20).cumsum(2),)


@stranger(make_triangles, triangles_ref, {"lines": 5, "n": 9}, {"lines": 40_000, "n": 40})
@tileflow.kernel
def chain_ladder(claims):
    """Mack, 1993: how claims of each year grow, by what is known above the diagonal; what is still to be paid."""
    lines, n, _ = claims.shape
    factors = torch.empty(lines, n, device=claims.device)
    sigmas = torch.empty(lines, n, device=claims.device)
    ultimate = torch.empty(lines, n, device=claims.device)
    reserve = torch.empty(lines, n, device=claims.device)
    for t in tfl.tile(lines):
        x = claims[t, :, :]
        year = tfl.arange(n)[:, None]
        age = tfl.arange(n)[None, :]
        known = year + age < n - 1
        before = torch.where(known, x, 0.0)
        after = torch.where(known, tfl.load(claims, [t, year, age + 1], extra_mask=known), 0.0)
        total = before.sum(1)
        f = torch.where(total > 0, after.sum(1) / total, 1.0)
        off = torch.where(known, before * (after / before - f[:, None, :]) ** 2, 0.0)
        factors[t, :] = f
        sigmas[t, :] = off.sum(1) / torch.clamp(n - 2 - tfl.arange(n), min=1)
        latest = torch.where(year + age == n - 1, x, 0.0).sum(2)
        tail = tfl.cumprod(f, 1, reverse=True).flip(1)
        ultimate[t, :] = latest * tail
        reserve[t, :] = latest * tail - latest
    return factors, sigmas, ultimate, reserve


def make_sums(portfolios: Any, sizes: Any, most: Any) -> Any:
    severity = torch.rand(portfolios, sizes)
    severity[:, 0] *= 0.2
    return severity / severity.sum(1, keepdim=True), 0.5 + 3 * torch.rand(portfolios), most, most // 4


def panjer_ref(severity: Any, rate: Any, most: int, deductible: int) -> Any:
    p, m = severity.shape
    g = torch.zeros(p, most, dtype=severity.dtype)
    g[:, 0] = torch.exp(rate * (severity[:, 0] - 1))
    weighted = severity * torch.arange(m)
    for s in range(1, most):
        k = min(s, m - 1)
        g[:, s] = rate / s * (weighted[:, 1 : k + 1] * g[:, s - k : s].flip(1)).sum(1)
    over = (torch.arange(most) - deductible).clamp(min=0)
    return g, (g * over).sum(1), (g.cumsum(1) < 0.995).sum(1).int()


@stranger(
    make_sums,
    panjer_ref,
    {"portfolios": 5, "sizes": 7, "most": 30},
    {"portfolios": 8192, "sizes": 64, "most": 512},
)
@tileflow.kernel
def panjer_recursion(severity, rate, most: int, deductible: int):
    """Panjer, 1981: the law of a random sum of claims, each mass out of those before; a premium, a quantile."""
    p, m = severity.shape
    g = torch.zeros(p, most, device=severity.device)
    premium = torch.empty(p, device=severity.device)
    quantile = torch.empty(p, dtype=torch.int32, device=severity.device)
    for t in tfl.tile(p):
        size = tfl.arange(1, m)
        weighted = severity[t, 1:] * size
        lam = rate[t]
        mass = torch.exp(lam * (severity[t, 0] - 1))
        g[t, 0] = mass
        below, over = mass, tfl.zeros([t])
        reached = (mass < 0.995).int()
        for s in range(1, most):
            before = tfl.load(g, [t, s - size], extra_mask=size <= s)
            mass = lam / s * (weighted * before).sum(1)
            g[t, s] = mass
            below = below + mass
            over = over + mass * max(s - deductible, 0)
            reached += (below < 0.995).int()
        premium[t] = over
        quantile[t] = reached
    return g, premium, quantile


def make_policies(n: Any, ages: Any) -> Any:
    age = torch.arange(ages)
    death = torch.stack([(0.0003 * torch.exp(0.09 * age)).clamp(max=1), (0.0002 * torch.exp(0.088 * age)).clamp(max=1)])
    return (
        death,
        torch.randint(18, 60, (n,)).to(torch.uint8),
        torch.randint(0, 2, (n,)).to(torch.uint8),
        torch.randint(1, 41, (n,)).to(torch.uint8),
        (torch.randint(10, 500, (n,)) * 1000).float(),
        torch.rand(n) * 2000,
        0.0175,
    )


def reserves_ref(death: Any, age: Any, sex: Any, term: Any, insured: Any, premium: Any, interest: float) -> Any:
    v = 1 / (1 + interest)
    reserve = torch.zeros_like(insured)
    for k in range(int(term.max()) - 1, -1, -1):
        place = (age.long() + k).clamp(max=death.size(1) - 1)
        q = death[sex.long(), place]
        reserve = torch.where(k < term, v * (q * insured + (1 - q) * reserve) - premium, reserve)
    return reserve, torch.zeros(2, dtype=insured.dtype).index_add(0, sex.long(), reserve.clamp(min=0))


@stranger(make_policies, reserves_ref, {"n": 61, "ages": 101}, {"n": 2_000_000, "ages": 121})
@tileflow.kernel
def policy_reserves(death, age, sex, term, insured, premium, interest):
    """Thiele's equation by years, back from the end: what a term insurance has to hold, and the sums by sex."""
    n = age.size(0)
    v = 1 / (1 + interest)
    last = death.size(1) - 1
    out = torch.empty(n, device=death.device)
    held = torch.zeros(2, device=death.device)
    for t in tfl.tile(n):
        years, x, s = term[t].int(), age[t].int(), sex[t]
        benefit, paid = insured[t], premium[t]
        reserve = tfl.zeros([t])
        for k in reversed(range(years.amax())):
            q = death[s, torch.clamp(x + k, max=last)]
            reserve = torch.where(k < years, v * (q * benefit + (1 - q) * reserve) - paid, reserve)
        out[t] = reserve
        tfl.atomic_add(held, [s], torch.clamp(reserve, min=0))
    return out, held


def make_years(years: Any, events: Any, layers: Any) -> Any:
    cuts = torch.randint(0, events + 1, (years - 1,)).sort().values
    offsets = torch.cat([torch.zeros(1), cuts, torch.full((1,), events)]).int()
    loss = torch.exp(1.5 * torch.randn(events) + 1)
    attach = torch.linspace(1, 20, layers)
    return loss, offsets, attach, attach / 2 + 1, attach, 3 * attach


def layers_ref(loss: Any, offsets: Any, attach: Any, limit: Any, retention: Any, aggregate: Any) -> Any:
    year = torch.repeat_interleave(torch.arange(offsets.numel() - 1), offsets.diff())
    each = torch.minimum((loss[:, None] - attach).clamp(min=0), limit)
    total = torch.zeros(offsets.numel() - 1, attach.numel(), dtype=loss.dtype).index_add(0, year, each)
    paid = torch.minimum((total - retention).clamp(min=0), aggregate)
    largest = torch.zeros(offsets.numel() - 1, dtype=loss.dtype).scatter_reduce(0, year, loss, "amax")
    return paid, paid.mean(0), (paid > 0).sum(0).int(), largest


@stranger(
    make_years,
    layers_ref,
    {"years": 23, "events": 67, "layers": 5},
    {"years": 500_000, "events": 4_500_000, "layers": 12},
)
@tileflow.kernel
def layer_recoveries(loss, offsets, attach, limit, retention, aggregate):
    """What layers of reinsurance pay in simulated years: each loss in excess, then the year's sum in excess again."""
    years, layers = offsets.size(0) - 1, attach.size(0)
    paid = torch.empty(years, layers, device=loss.device)
    mean = torch.zeros(layers, device=loss.device)
    hit = torch.zeros(layers, dtype=torch.int32, device=loss.device)
    largest = torch.empty(years, device=loss.device)
    for t in tfl.tile(years):
        begin = offsets[t]
        total = tfl.zeros([t, layers])
        top = tfl.zeros([t])
        for e in tfl.jagged_tile(offsets[t + 1] - begin):
            x = loss[begin[:, None] + e.index[None, :]]
            each = torch.minimum(torch.clamp(x[:, :, None] - attach[:], min=0), limit[:])
            total += each.sum(1)
            top = torch.maximum(top, x.amax(1))
        out = torch.minimum(torch.clamp(total - retention[:], min=0), aggregate[:])
        paid[t, :] = out
        largest[t] = top
        tfl.atomic_add(mean, [slice(None)], out.sum(0) / years)
        tfl.atomic_add(hit, [slice(None)], (out > 0).sum(0))
    return paid, mean, hit, largest


def make_tariff(n: Any, factors: Any, levels: Any) -> Any:
    return (
        torch.randint(0, levels, (n, factors)).to(torch.int16),
        torch.rand(n) * 0.9 + 0.1,
        torch.poisson(torch.full((n,), 0.2)).to(torch.int8),
        0.1 * torch.randn(factors, levels),
        -1.6,
    )


def tariff_ref(level: Any, exposure: Any, claims: Any, beta: Any, base: float) -> Any:
    factor = torch.arange(beta.size(0))
    eta = base + beta[factor, level.long()].sum(1)
    mu = exposure * torch.exp(eta)
    y = claims.to(mu.dtype)
    deviance = 2 * (torch.xlogy(y, y / mu) - (y - mu))
    place = (factor * beta.size(1) + level.long()).flatten()
    spread = [torch.repeat_interleave(v, beta.size(0)) for v in (y - mu, mu)]
    score, weight = (torch.zeros(beta.numel(), dtype=mu.dtype).index_add(0, place, v).view_as(beta) for v in spread)
    return mu, deviance.sum(), score, weight


@stranger(make_tariff, tariff_ref, {"n": 83, "factors": 3, "levels": 5}, {"n": 3_000_000, "factors": 8, "levels": 100})
@tileflow.kernel
def tariff_step(level, exposure, claims, beta, base: float):
    """A step of a Poisson regression on classes: expected claims, the deviance, scores and weights of each level."""
    n, factors = level.shape
    expected = torch.empty(n, device=beta.device)
    deviance = torch.zeros((), device=beta.device)
    score = torch.zeros_like(beta)
    weight = torch.zeros_like(beta)
    for t in tfl.tile(n):
        eta = tfl.full([t], base)
        for f in range(factors):
            eta += beta[f, level[t, f]]
        mu = exposure[t] * torch.exp(eta)
        y = claims[t].float()
        expected[t] = mu
        tfl.atomic_add(deviance, [], (2 * (torch.xlogy(y, y / mu) - (y - mu))).sum())
        for f in range(factors):
            tfl.atomic_add(score, [f, level[t, f]], y - mu)
            tfl.atomic_add(weight, [f, level[t, f]], mu)
    return expected, deviance, score, weight


def make_bonus(risks: Any, classes: Any, counts: Any) -> Any:
    now = torch.arange(classes)
    moves = [(now - 1).clamp(min=0), *((now + 4 * k).clamp(max=classes - 1) for k in range(1, counts))]
    return 0.02 + 0.4 * torch.rand(risks), torch.stack(moves).int(), torch.linspace(0.4, 2.0, classes), 6


def bonus_ref(rate: Any, moves: Any, relativity: Any, doublings: int) -> Any:
    counts, classes = moves.shape
    k = torch.arange(counts).to(rate.dtype)
    p = torch.exp(k * rate.log()[:, None] - rate[:, None] - torch.lgamma(k + 1))
    p[:, -1] = 1 - p[:, :-1].sum(1)
    matrix = torch.einsum("rk,kij->rij", p, torch.nn.functional.one_hot(moves.long(), classes).to(rate.dtype))
    for _ in range(doublings):
        matrix = matrix @ matrix
    share = matrix[:, classes // 2]
    premium = (share * relativity.to(rate.dtype)).sum(1)
    return share, premium, premium / rate


@stranger(make_bonus, bonus_ref, {"risks": 5, "classes": 7, "counts": 3}, {"risks": 30_000, "classes": 22, "counts": 4})
@tileflow.kernel
def bonus_classes(rate, moves, relativity, doublings: int):
    """A bonus-malus system: the classes' shares in the long run for each frequency, by squaring how one year moves."""
    risks = rate.size(0)
    counts, classes = moves.shape
    share = torch.empty(risks, classes, device=rate.device)
    premium = torch.empty(risks, device=rate.device)
    ratio = torch.empty(risks, device=rate.device)
    for t in tfl.tile(risks):
        lam = rate[t]
        matrix = tfl.zeros([t, classes, classes])
        p, rest = torch.exp(-lam), tfl.full([t], 1.0)
        for k in range(counts):
            mass = p if k < counts - 1 else rest
            there = moves[k, :][:, None] == tfl.arange(classes)[None, :]
            matrix += torch.where(there, mass[:, None, None], 0.0)
            rest = rest - p
            p = p * lam / (k + 1)
        for _ in range(doublings):
            matrix = matrix @ matrix
        out = matrix[:, classes // 2, :]
        paid = (out * relativity[:]).sum(1)
        share[t, :] = out
        premium[t] = paid
        ratio[t] = paid / lam
    return share, premium, ratio
