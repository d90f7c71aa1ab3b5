"""Series in time: filters, statistics of windows and of one pass, falls from a peak, prices of paths."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def kalman_ref(z: Any, dt: Any, q: Any, r: Any) -> Any:
    b, t = z.shape
    x = torch.stack([z[:, 0], torch.zeros_like(z[:, 0])], 1)[..., None]
    P = torch.eye(2, dtype=z.dtype).expand(b, 2, 2)
    Fm = torch.tensor([[1, dt], [0, 1]], dtype=z.dtype)
    H = torch.tensor([[1.0, 0.0]], dtype=z.dtype)
    out, ll = [], torch.zeros(b, dtype=z.dtype)
    for n in range(t):
        x, P = Fm @ x, Fm @ P @ Fm.T + q * torch.eye(2, dtype=z.dtype)
        y = z[:, n, None, None] - H @ x
        S = H @ P @ H.T + r
        K = P @ H.T / S
        x, P = x + K @ y, (torch.eye(2, dtype=z.dtype) - K @ H) @ P
        ll = ll - 0.5 * (torch.log(2 * math.pi * S) + y * y / S)[:, 0, 0]
        out.append(x[..., 0])
    return torch.stack(out, 1), ll


@stranger(lambda b, t: (randn(b, t).cumsum(1), 0.1, 0.05, 0.5), kalman_ref, {"b": 5, "t": 23}, {"b": 65536, "t": 512})
@tileflow.kernel
def kalman_filter(z, dt, q, r):
    b, steps = z.shape
    out = torch.empty(b, steps, 2, device=z.device)
    log_likelihood = torch.empty(b, device=z.device)
    for tb in tfl.tile(b):
        x = [z[tb, 0], tfl.zeros([tb])]
        P = [[tfl.full([tb], 1.0), tfl.zeros([tb])], [tfl.zeros([tb]), tfl.full([tb], 1.0)]]
        ll = tfl.zeros([tb])
        for n in range(steps):
            x = [x[0] + dt * x[1], x[1]]
            a, bb, c, d = P[0][0], P[0][1], P[1][0], P[1][1]
            P = [[a + dt * (bb + c) + dt * dt * d + q, bb + dt * d], [c + dt * d, d + q]]
            y = z[tb, n] - x[0]
            S = P[0][0] + r
            K = [P[0][0] / S, P[1][0] / S]
            x = [x[i] + K[i] * y for i in range(2)]
            P = [[P[i][j] - K[i] * P[0][j] for j in range(2)] for i in range(2)]
            ll -= 0.5 * (torch.log(2 * math.pi * S) + y * y / S)
            out[tb, n, :] = torch.stack(x, -1)
        log_likelihood[tb] = ll
    return out, log_likelihood


def drawdown_ref(p: Any) -> Any:
    peak = p.cummax(1).values
    dd = (peak - p) / peak
    worst, at = dd.max(1)
    start = torch.stack([row[: i + 1].argmax() for row, i in zip(p, at, strict=True)])
    return worst, start.int(), at.int()


@stranger(
    lambda b, t: (torch.exp(0.01 * randn(b, t).cumsum(1)),), drawdown_ref, {"b": 5, "t": 37}, {"b": 16384, "t": 2520}
)
@tileflow.kernel
def max_drawdown(price):
    """The largest fall from a peak, with the places of the peak and of the bottom."""
    b, _t = price.shape
    worst = torch.empty(b, device=price.device)
    peak_at = torch.empty(b, dtype=torch.int32, device=price.device)
    bottom_at = torch.empty(b, dtype=torch.int32, device=price.device)
    for tb in tfl.tile(b):
        p = price[tb, :]
        peak, where = torch.cummax(p, dim=1)
        fall = (peak - p) / peak
        deepest, at = fall.max(dim=1)
        worst[tb] = deepest
        bottom_at[tb] = at
        peak_at[tb] = torch.gather(where, 1, at[:, None]).squeeze(1)
    return worst, peak_at, bottom_at


def rolling_ref(x: Any, w: Any) -> Any:
    u = F.pad(x.double(), (w - 1, 0), value=float("nan")).unfold(1, w, 1)
    return u.mean(-1).to(x.dtype), u.std(-1).to(x.dtype), u.amax(-1).to(x.dtype)


@stranger(lambda b, t, w: (randn(b, t), w), rolling_ref, {"b": 3, "t": 37, "w": 5}, {"b": 2048, "t": 8192, "w": 20})
@tileflow.kernel
def rolling_statistics(x, w: tfl.constexpr):
    """Mean, standard deviation and maximum of the last w values, NaN where there are fewer."""
    b, t = x.shape
    mean, std, top = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
    for tb, tt in tfl.tile([b, t]):
        total = tfl.zeros([tb, tt])
        best = tfl.full([tb, tt], -math.inf)
        for k in range(w):
            v = x[tb, tt - k]
            total += v
            best = torch.maximum(best, v)
        mu = total / w
        var = tfl.zeros([tb, tt])
        for k in range(w):
            var += (x[tb, tt - k] - mu) ** 2
        full = tt.index[None, :] >= w - 1
        mean[tb, tt] = torch.where(full, mu, math.nan)
        std[tb, tt] = torch.where(full, torch.sqrt(var / (w - 1)), math.nan)
        top[tb, tt] = torch.where(full, best, math.nan)
    return mean, std, top


@stranger(
    lambda b, n: (randn(b, n) + 100.0,), lambda x: (x.mean(1), x.var(1)), {"b": 5, "n": 137}, {"b": 4096, "n": 65536}
)
@tileflow.kernel
def welford(x):
    """Mean and variance in one pass, chunk by chunk."""
    b, n = x.shape
    mean_out, var_out = torch.empty(b, device=x.device), torch.empty(b, device=x.device)
    for tb in tfl.tile(b):
        count, mean, m2 = 0, tfl.zeros([tb]), tfl.zeros([tb])
        for tn in tfl.tile(n):
            chunk = x[tb, tn]
            size = tn.end - tn.begin
            chunk_mean = chunk.sum(1) / size
            chunk_m2 = ((chunk - chunk_mean[:, None]) ** 2).sum(1)
            delta = chunk_mean - mean
            total = count + size
            mean = mean + delta * size / total
            m2 = m2 + chunk_m2 + delta * delta * count * size / total
            count = total
        mean_out[tb] = mean
        var_out[tb] = m2 / (count - 1)
    return mean_out, var_out


@stranger(
    lambda b, n: (randn(b, n) + 100.0,), lambda x: (x.mean(1), x.var(1)), {"b": 5, "n": 137}, {"b": 4096, "n": 65536}
)
@tileflow.kernel
def welford_reduce(x):
    """As a reduction of triples."""
    b, n = x.shape
    mean_out, var_out = torch.empty(b, device=x.device), torch.empty(b, device=x.device)

    def merge(n1, m1, s1, n2, m2, s2):
        total = n1 + n2
        delta = m2 - m1
        w = n2 / torch.clamp(total, min=1)
        return total, m1 + delta * w, s1 + s2 + delta * delta * n1 * w

    for tb in tfl.tile(b):
        count, mean, m2 = tfl.zeros([tb]), tfl.zeros([tb]), tfl.zeros([tb])
        for tn in tfl.tile(n):
            chunk = x[tb, tn]
            part = tfl.reduce(merge, (torch.ones_like(chunk), chunk, torch.zeros_like(chunk)), dim=1)
            count, mean, m2 = merge(count, mean, m2, *part)
        mean_out[tb] = mean
        var_out[tb] = m2 / (count - 1)
    return mean_out, var_out


def asian_ref(z: Any, spot: Any, strike: Any, rate: Any, sigma: Any, years: Any) -> Any:
    n, steps = z.shape
    dt = years / steps
    path = spot * torch.exp(((rate - sigma**2 / 2) * dt + sigma * math.sqrt(dt) * z).cumsum(1))
    pay = (path.mean(1) - strike).clamp(min=0) * math.exp(-rate * years)
    return torch.stack([pay.mean(), pay.std() / math.sqrt(n)])


@stranger(
    lambda n, steps: (randn(n, steps), 100.0, 100.0, 0.03, 0.2, 1.0),
    asian_ref,
    {"n": 101, "steps": 19},
    {"n": 1 << 20, "steps": 252},
)
@tileflow.kernel
def asian_option(z, spot, strike, rate, sigma, years):
    """Price and standard error of a call on the mean of a path."""
    n, steps = z.shape
    sums = torch.zeros(2, dtype=torch.float64, device=z.device)
    for t in tfl.tile(n):
        dt = years / steps
        drift, scale = (rate - sigma**2 / 2) * dt, sigma * math.sqrt(dt)
        log_s = tfl.full([t], math.log(spot))
        total = tfl.zeros([t])
        for k in range(steps):
            log_s += drift + scale * z[t, k]
            total += torch.exp(log_s)
        pay = torch.clamp(total / steps - strike, min=0) * math.exp(-rate * years)
        pay = pay.double()
        tfl.atomic_add(sums, [0], pay.sum())
        tfl.atomic_add(sums, [1], (pay * pay).sum())
    mean = sums[0] / n
    var = (sums[1] - n * mean * mean) / (n - 1)
    return torch.stack([mean, (var / n).sqrt()]).float()


def ewma_ref(x: Any, halflife: Any) -> Any:
    alpha = 1 - 0.5 ** (1 / halflife)
    m, v = x[:, 0], torch.zeros_like(x[:, 0])
    ms, vs = [m], [v]
    for t in range(1, x.size(1)):
        d = x[:, t] - m
        m = m + alpha * d
        v = (1 - alpha) * (v + alpha * d * d)
        ms.append(m)
        vs.append(v)
    return torch.stack(ms, 1), torch.stack(vs, 1).sqrt()


@stranger(lambda b, t: (randn(b, t), 5.0), ewma_ref, {"b": 5, "t": 37}, {"b": 8192, "t": 2520})
@tileflow.kernel
def ewma_volatility(x, halflife):
    b, t = x.shape
    mean, dev = torch.empty_like(x), torch.empty_like(x)
    for tb in tfl.tile(b):
        alpha = 1 - 0.5 ** (1 / halflife)
        m, v = x[tb, 0], 0.0
        mean[tb, 0], dev[tb, 0] = m, 0.0
        for k in range(1, t):
            d = x[tb, k] - m
            m = m + alpha * d
            v = (1 - alpha) * (v + alpha * d * d)
            mean[tb, k] = m
            dev[tb, k] = v**0.5
    return mean, dev
