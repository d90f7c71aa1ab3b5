"""Series in time and samples of statistics: volatilities, seasons, profiles, resampling, alarms, periods."""

from __future__ import annotations

import math
from typing import Any

import torch

import tileflow
import tileflow.compat.helion as helion
import tileflow.compat.helion.language as hl
import tileflow.language as tfl

from .stranger import randn, stranger


def garch_ref(returns: Any, omega: Any, alpha: Any, beta: Any) -> Any:
    h = (returns**2).mean(1)
    total = torch.zeros_like(h)
    for r in returns.unbind(1):
        total = total - 0.5 * (math.log(2 * math.pi) + h.log() + r * r / h)
        h = omega + alpha * r * r + beta * h
    return total, h


@stranger(
    lambda b, t: (randn(b, t) * 0.1, torch.rand(b) * 1e-3 + 1e-4, torch.rand(b) * 0.2, torch.rand(b) * 0.7),
    garch_ref,
    {"b": 7, "t": 19},
    {"b": 65536, "t": 1000},
)
@tileflow.kernel
def garch_likelihood(returns, omega, alpha, beta):
    """Bollerslev, 1986: each series under parameters of its own; begins with the mean square."""
    b, n = returns.shape
    likelihood = torch.empty(b, device=returns.device)
    ahead = torch.empty(b, device=returns.device)
    for t in tfl.tile(b):
        h = (returns[t, :] ** 2).mean(1)
        total = torch.zeros_like(h)
        for i in range(n):
            r = returns[t, i]
            total -= 0.5 * (math.log(2 * math.pi) + torch.log(h) + r * r / h)
            h = omega[t] + alpha[t] * r * r + beta[t] * h
        likelihood[t] = total
        ahead[t] = h
    return likelihood, ahead


def winters_ref(x: Any, rates: Any, period: Any) -> Any:
    a, b, g = rates
    level = x[:period].mean(0)
    trend = (x[period : 2 * period].mean(0) - level) / period
    season = list((x[:period] - level).unbind(0))
    out = []
    for i in range(period, x.size(0)):
        s = season[i % period]
        out.append(level + trend + s)
        new = a * (x[i] - s) + (1 - a) * (level + trend)
        trend = b * (new - level) + (1 - b) * trend
        season[i % period] = g * (x[i] - new) + (1 - g) * s
        level = new
    return torch.stack(out)


@stranger(
    lambda t, b, period: (randn(t, b), (0.3, 0.1, 0.2), period),
    winters_ref,
    {"t": 17, "b": 7, "period": 4},
    {"t": 730, "b": 65536, "period": 7},
)
@tileflow.kernel
def holt_winters(x, rates, period: tfl.constexpr):
    """Winters, 1960: forecasts of one step out of a level, a trend and a season that each follow the errors."""
    n, b = x.shape
    alpha, beta, gamma = rates
    out = torch.empty(n - period, b, device=x.device)
    season = torch.empty(period, b, device=x.device)
    for t in tfl.tile(b):
        level = x[:period, t].mean(0)
        trend = (x[period : 2 * period, t].mean(0) - level) / period
        season[:, t] = x[:period, t] - level
        for i in range(period, n):
            s, now = season[i % period, t], x[i, t]
            out[i - period, t] = level + trend + s
            new = alpha * (now - s) + (1 - alpha) * (level + trend)
            trend = beta * (new - level) + (1 - beta) * trend
            season[i % period, t] = gamma * (now - new) + (1 - gamma) * s
            level = new
    return out


def profile_ref(x: Any, m: Any) -> Any:
    w = x.unfold(0, m, 1)
    z = (w - w.mean(1, keepdim=True)) / w.std(1, correction=0, keepdim=True)
    n = z.size(0)
    out = []
    for part in torch.arange(n).split(2048):
        c = (z[part] @ z.T / m).masked_fill((part[:, None] - torch.arange(n)).abs() < m // 2, -1.0)
        out.append(torch.sqrt((2 * m * (1 - c.amax(1))).clamp(min=0)))
    return torch.cat(out)


@stranger(
    lambda n, m: (torch.randn(n).cumsum(0) * 0.1 + torch.randn(n), m),
    profile_ref,
    {"n": 45, "m": 8},
    {"n": 32768, "m": 64},
)
@tileflow.kernel
def matrix_profile(x, m: tfl.constexpr):
    """Yeh et al., 2016: how far each window is from the one most like it elsewhere, both normalised."""
    n = x.size(0) - m + 1
    mean, scale = torch.empty(n, device=x.device), torch.empty(n, device=x.device)
    for t in tfl.tile(n):
        w = x[t.index[:, None] + tfl.arange(m)[None, :]]
        mu = w.mean(1)
        mean[t] = mu
        scale[t] = 1 / torch.sqrt(((w - mu[:, None]) ** 2).mean(1))
    out = torch.empty(n, device=x.device)
    for ti in tfl.tile(n):
        a = (x[ti.index[:, None] + tfl.arange(m)[None, :]] - mean[ti][:, None]) * scale[ti][:, None]
        best = tfl.full([ti], -1.0)
        for tj in tfl.tile(n):
            b = (x[tj.index[:, None] + tfl.arange(m)[None, :]] - mean[tj][:, None]) * scale[tj][:, None]
            c = a @ b.T / m
            near = (ti.index[:, None] - tj.index[None, :]).abs() < m // 2
            best = torch.maximum(best, c.masked_fill(near, -1.0).amax(1))
        out[ti] = torch.sqrt((2 * m * (1 - best)).clamp(min=0))
    return out


def scrambled(x: Any) -> Any:
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & 0xFFFFFFFF
    x = ((x ^ (x >> 15)) * 0x846CA68B) & 0xFFFFFFFF
    return x ^ (x >> 16)


def bootstrap_ref(x: Any, draws: Any, seed: Any) -> Any:
    n = x.numel()
    means = []
    for part in torch.arange(draws).split(128):
        h = scrambled(part[:, None] * n + torch.arange(n) + seed)
        means.append(x[(h * n) >> 32].mean(1))
    m = torch.cat(means)
    return m, m.std()


@stranger(
    lambda n, draws: (torch.rand(n) ** 2, draws, 12345),
    bootstrap_ref,
    {"n": 77, "draws": 5},
    {"n": 32768, "draws": 8192},
)
@tileflow.kernel
def bootstrap_means(x, draws: int, seed: int):
    """Efron, 1979: means of samples that are drawn with replacement, by a hash of the place."""
    n = x.numel()
    means = torch.empty(draws, device=x.device)
    for t in tfl.tile(draws):
        total = tfl.zeros([t])
        for ti in tfl.tile(n):
            h = scrambled(t.index[:, None].long() * n + ti.index[None, :] + seed)
            total += x[(h * n) >> 32].sum(1)
        means[t] = total / n
    return means, means.std()


def alarm_ref(x: Any, drift: Any, limit: Any) -> Any:
    d = (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)
    s = []
    for step in (d - drift, -d - drift):
        total = step.cumsum(1)
        s.append(total - torch.cummin(total, 1).values.clamp(max=0))
    top = torch.maximum(*s)
    return top, (top > limit).to(x.dtype).mean(1)


@stranger(lambda b, n: (randn(b, n), 0.25, 4.0), alarm_ref, {"b": 5, "n": 37}, {"b": 16384, "n": 4096})
@tileflow.kernel
def cusum_alarm(x, drift: float, limit: float):
    """Page, 1954: sums that never fall below zero, as a scan of maps z -> max(low, z + step)."""
    b, _n = x.shape
    out = torch.empty_like(x)
    share = torch.empty(b, device=x.device)

    def then(step1, low1, step2, low2):
        return step1 + step2, torch.maximum(low2, low1 + step2)

    for t in tfl.tile(b):
        row = x[t, :]
        d = (row - row.mean(1, keepdim=True)) / row.std(1, keepdim=True)
        zero = torch.zeros_like(d)
        up_sum, up_low = tfl.associative_scan(then, (d - drift, zero), dim=1)
        down_sum, down_low = tfl.associative_scan(then, (-d - drift, zero), dim=1)
        top = torch.maximum(torch.maximum(up_sum, up_low), torch.maximum(down_sum, down_low))
        out[t, :] = top
        share[t] = (top > limit).float().mean(1)
    return out, share


def periods_ref(x: Any, lags: Any) -> Any:
    d = x - x.mean(1, keepdim=True)
    n = x.size(1)
    a = torch.stack([(d[:, : n - k] * d[:, k:]).sum(1) for k in range(lags)], 1)
    return a / a[:, :1]


@stranger(
    lambda b, n, lags: (randn(b, n), lags),
    periods_ref,
    {"b": 5, "n": 29, "lags": 6},
    {"b": 16384, "n": 2048, "lags": 48},
)
@helion.kernel()
def autocorrelation(x: torch.Tensor, lags: hl.constexpr) -> torch.Tensor:
    b, n = x.size()
    out = torch.empty([b, lags], dtype=torch.float32, device=x.device)
    for tile in hl.tile(b):
        mean = x[tile, :].mean(-1)[:, None]
        centred = x[tile, :] - mean
        total = (centred * centred).sum(-1)
        for k in hl.static_range(lags):
            out[tile, k] = ((x[tile, : n - k] - mean) * (x[tile, k:] - mean)).sum(-1) / total
    return out
