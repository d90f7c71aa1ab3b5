"""Statistics of events and beliefs: hazards, survivors, particles, posteriors, robust covariances, ranks."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def cox_ref(risk: Any, event: Any) -> Any:
    r = risk.double()
    at_risk = r.flip(1).logcumsumexp(1).flip(1)
    some = event.double()
    loss = ((at_risk - r) * some).sum(1) / some.sum(1).clamp(min=1)
    hazard = (some * torch.exp(-at_risk)).cumsum(1)
    grad = (torch.exp(r) * hazard - some) / some.sum(1, keepdim=True).clamp(min=1)
    return loss.float(), grad.float()


@stranger(
    lambda b, n: (randn(b, n), torch.rand(b, n) < 0.4),
    cox_ref,
    {"b": 5, "n": 37},
    {"b": 4096, "n": 2048},
)
@tileflow.kernel
def cox_loss(risk, event):
    """Cox, 1972: the partial likelihood of people sorted by time, and its gradient; a row is a stratum."""
    b, _n = risk.shape
    loss = torch.empty(b, device=risk.device)
    grad = torch.empty_like(risk)
    for t in tfl.tile(b):
        r = risk[t, :]
        happened = event[t, :].float()
        total = tfl.cumsum(torch.exp(r), 1, reverse=True)
        count = torch.clamp(happened.sum(1), min=1)
        loss[t] = ((torch.log(total) - r) * happened).sum(1) / count
        hazard = torch.cumsum(happened / total, 1)
        grad[t, :] = (torch.exp(r) * hazard - happened) / count[:, None]
    return loss, grad


def survivors_ref(deaths: Any, lost: Any) -> Any:
    gone = (deaths + lost).double()
    n = gone.sum(1, keepdim=True)
    at_risk = n - gone.cumsum(1) + gone
    d = deaths.double()
    some = at_risk > 0
    share = torch.where(some, d / at_risk.clamp(min=1), 0)
    curve = (1 - share).cumprod(1)
    left = at_risk - d
    spread = torch.where(left > 0, d / (at_risk * left).clamp(min=1), 0).cumsum(1)
    return curve.float(), (curve * spread.sqrt()).float()


@stranger(
    lambda g, t: (
        torch.randint(0, 5, (g, t), dtype=torch.int32),
        torch.randint(0, 5, (g, t), dtype=torch.int32),
    ),
    survivors_ref,
    {"g": 7, "t": 29},
    {"g": 1 << 16, "t": 365},
)
@tileflow.kernel
def kaplan_meier(deaths, lost):
    """Kaplan and Meier, 1958, with Greenwood's error: how many of each group are left after each day."""
    g, t = deaths.shape
    curve = torch.empty(g, t, device=deaths.device)
    error = torch.empty_like(curve)
    for tg in tfl.tile(g):
        d = deaths[tg, :].float()
        gone = d + lost[tg, :].float()
        at_risk = tfl.cumsum(gone, 1, reverse=True)
        alive = torch.cumprod(torch.where(at_risk > 0, 1 - d / torch.clamp(at_risk, min=1), 1.0), 1)
        left = at_risk - d
        spread = torch.where(left > 0, d / torch.clamp(at_risk * left, min=1), 0.0)
        curve[tg, :] = alive
        error[tg, :] = alive * torch.sqrt(torch.cumsum(spread, 1))
    return curve, error


def make_particles(b: int, n: int, d: int) -> Any:
    return torch.rand(b, n, dtype=torch.float64), randn(b, n, d), torch.rand(b, dtype=torch.float64)


def resampled_ref(weight: Any, state: Any, u: Any) -> Any:
    n = weight.size(1)
    total = weight.cumsum(1)
    places = (torch.arange(n) + u[:, None]) * total[:, -1:] / n
    index = torch.searchsorted(total, places, right=True).clamp(max=n - 1)
    effective = weight.sum(1) ** 2 / weight.square().sum(1)
    return state.gather(1, index[..., None].expand_as(state)), effective


@stranger(make_particles, resampled_ref, {"b": 3, "n": 32, "d": 3}, {"b": 1024, "n": 1024, "d": 6})
@tileflow.kernel
def resample_particles(weight, state, u):
    """Kitagawa's systematic resampling: evenly spaced places in the running sum of weights."""
    b, n, _d = state.shape
    out = torch.empty_like(state)
    effective = torch.empty_like(u)
    for i in tfl.grid(b):
        w = weight[i, :]
        total = torch.cumsum(w, 0)
        places = (tfl.arange(n) + u[i]) * w.sum() / n
        index = torch.clamp((total[None, :] <= places[:, None]).sum(1), max=n - 1)
        out[i, :, :] = state[i, index, :]
        effective[i] = w.sum() ** 2 / (w * w).sum()
    return out, effective


def leapfrog_ref(x: Any, y: Any, w: Any, p: Any, step: float) -> Any:
    def slope(w: Any) -> Any:
        return (torch.sigmoid(w @ x.T) - y) @ x + w

    w, p = w.double(), p.double()
    x, y = x.double(), y.double()
    p = p - 0.5 * step * slope(w)
    w = w + step * p
    p = p - 0.5 * step * slope(w)
    return w.float(), p.float()


def logistic_slope(x, y, at):
    total = at
    for tn in tfl.tile(x.size(0)):
        rows = x[tn, :]
        wrong = torch.sigmoid(at @ rows.T) - y[tn][None, :]
        total = total + wrong @ rows
    return total


@stranger(
    lambda n, d, c: (randn(n, d), (torch.rand(n) < 0.5).float(), randn(c, d) * 0.1, randn(c, d), 0.01),
    leapfrog_ref,
    {"n": 37, "d": 16, "c": 5},
    {"n": 8192, "d": 32, "c": 4096},
)
@tileflow.kernel
def logistic_leapfrog(x, y, w, p, step):
    """A step of Hamiltonian Monte Carlo (Neal, 2011) for many chains of one logistic regression."""
    new_w, new_p = torch.empty_like(w), torch.empty_like(p)

    for tc in tfl.tile(w.size(0)):
        place = w[tc, :]
        push = p[tc, :] - 0.5 * step * logistic_slope(x, y, place)
        place = place + step * push
        push = push - 0.5 * step * logistic_slope(x, y, place)
        new_w[tc, :] = place
        new_p[tc, :] = push
    return new_w, new_p


def belief_ref(likelihood: Any, moves: Any, start: Any) -> Any:
    belief, out, evidence = start.float(), [], torch.zeros(start.size(0))
    for t in range(likelihood.size(1)):
        belief = (belief @ moves) * likelihood[:, t]
        total = belief.sum(1, keepdim=True)
        belief, evidence = belief / total, evidence + total[:, 0].log()
        out.append(belief)
    return torch.stack(out, 1), evidence


@stranger(
    lambda b, t, n: (
        torch.rand(b, t, n) + 0.1,
        torch.softmax(randn(n, n), 1),
        torch.softmax(randn(b, n), 1),
    ),
    belief_ref,
    {"b": 5, "t": 7, "n": 16},
    {"b": 2048, "t": 128, "n": 128},
)
@tileflow.kernel
def belief_filter(likelihood, moves, start):
    """A hidden Markov model's forward pass, normalised at each moment."""
    b, steps, _n = likelihood.shape
    out = torch.empty_like(likelihood)
    evidence = torch.empty(b, device=likelihood.device)
    for tb in tfl.tile(b):
        belief = start[tb, :]
        total_log = tfl.zeros([tb])
        for t in range(steps):
            joint = (belief @ moves[:, :]) * likelihood[tb, t, :]
            total = joint.sum(1)
            belief = joint / total[:, None]
            total_log += torch.log(total)
            out[tb, t, :] = belief
        evidence[tb] = total_log
    return out, evidence


def newey_ref(x: Any, e: Any, lags: int) -> Any:
    z = (x * e[:, None]).double()
    s = z.T @ z
    for k in range(1, lags + 1):
        g = z[k:].T @ z[:-k]
        s = s + (1 - k / (lags + 1)) * (g + g.T)
    return (s / x.size(0)).float()


@stranger(
    lambda n, d: (randn(n, d), randn(n), 3),
    newey_ref,
    {"n": 61, "d": 7},
    {"n": 1 << 18, "d": 64},
)
@tileflow.kernel
def newey_west(x, e, lags: tfl.constexpr):
    """Newey and West, 1987: the covariance of moments that remember their last few, with falling weights."""
    n, d = x.shape
    out = torch.zeros(d, d, device=x.device)
    for t in tfl.tile(n):
        z = x[t, :] * e[t][:, None]
        total = z.T @ z
        for k in range(1, lags + 1):
            before = x[t - k, :] * e[t - k][:, None]
            cross = z.T @ before
            total = total + (1 - k / (lags + 1)) * (cross + cross.T)
        tfl.atomic_add(out, [slice(None), slice(None)], total / n)
    return out


def rank_sum_ref(x: Any, y: Any) -> Any:
    m, n = x.size(1), y.size(1)
    u = torch.zeros(x.size(0), dtype=torch.float64)
    for part in range(0, m, 16):
        a = x[:, part : part + 16, None]
        u += ((a > y[:, None, :]).double() + 0.5 * (a == y[:, None, :]).double()).sum((1, 2))
    z = (u - m * n / 2) / (m * n * (m + n + 1) / 12) ** 0.5
    return u.float(), z.float()


@stranger(
    lambda g, m, n: (
        torch.randint(0, 100, (g, m), dtype=torch.int16),
        torch.randint(0, 100, (g, n), dtype=torch.int16),
    ),
    rank_sum_ref,
    {"g": 5, "m": 13, "n": 21},
    {"g": 4096, "m": 512, "n": 768},
)
@tileflow.kernel
def rank_sums(x, y):
    """Mann and Whitney, 1947: of all pairs, how often the first is larger; ties count half."""
    g, m = x.shape
    n = y.size(1)
    u = torch.empty(g, device=x.device)
    z = torch.empty(g, device=x.device)
    for i in tfl.grid(g):
        twice = 0
        for tm in tfl.tile(m):
            for tn in tfl.tile(n):
                a, b = x[i, tm][:, None], y[i, tn][None, :]
                twice = twice + 2 * (a > b).sum() + (a == b).sum()
        u[i] = twice / 2
        z[i] = (twice / 2 - m * n / 2) / (m * n * (m + n + 1) / 12) ** 0.5
    return u, z
