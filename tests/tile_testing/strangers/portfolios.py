"""Portfolios and order books: prices by cosines, orders as they came, shares of one risk."""

from __future__ import annotations

import math
from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import stranger


def characteristic(u: Any, t: float, v0: Any, kappa: Any, theta: Any, sigma: Any, rho: Any) -> Any:
    """Heston's characteristic function of log returns, without a rate."""
    iu = 1j * u
    d = ((rho * sigma * iu - kappa) ** 2 + sigma**2 * (iu + u**2)).sqrt()
    g = (kappa - rho * sigma * iu - d) / (kappa - rho * sigma * iu + d)
    e = torch.exp(-d * t)
    c = kappa * theta / sigma**2 * ((kappa - rho * sigma * iu - d) * t - 2 * torch.log((1 - g * e) / (1 - g)))
    return torch.exp(c + v0 / sigma**2 * (1 - e) / (1 - g * e) * (kappa - rho * sigma * iu - d))


def cosine_ref(model: Any, strikes: Any, spot: float, t: float, terms: int, span: float = 1.5) -> Any:
    m = {k: v.double()[:, None] for k, v in model.items()}
    k = torch.arange(terms, dtype=torch.float64)
    w = k * math.pi / (2 * span)
    phi = characteristic(w, t, m["v0"], m["kappa"], m["theta"], m["sigma"], m["rho"])
    x = torch.log(spot / strikes.double())

    def chi(c: float, d: float) -> Any:
        a, b = w * (d + span), w * (c + span)
        return (
            torch.cos(a) * math.exp(d)
            - torch.cos(b) * math.exp(c)
            + w * (torch.sin(a) * math.exp(d) - torch.sin(b) * math.exp(c))
        ) / (1 + w**2)

    def psi(c: float, d: float) -> Any:
        return torch.where(
            k == 0, d - c, (torch.sin(w * (d + span)) - torch.sin(w * (c + span))) / torch.where(k == 0, 1, w)
        )

    payoff = 2 / (2 * span) * (psi(-span, 0) - chi(-span, 0)) * torch.where(k == 0, 0.5, 1)
    turn = torch.exp(1j * w * (x[..., None] + span))
    put = strikes.double() * ((phi[:, None] * turn).real * payoff).sum(-1)
    return (put + spot - strikes).double()


def make_model(n: int, strikes: int, terms: int) -> Any:
    f64 = torch.float64
    r = lambda low, high: low + (high - low) * torch.rand(n, dtype=f64)  # noqa: E731
    model = {"v0": r(0.02, 0.06), "kappa": r(1, 2), "theta": r(0.02, 0.06), "sigma": r(0.2, 0.4), "rho": r(-0.7, -0.3)}
    return model, 80 + 40 * torch.rand(n, strikes, dtype=f64), 100.0, 0.5, terms


def c_mul(a: Any, b: Any) -> Any:
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def c_div(a: Any, b: Any) -> Any:
    s = b[0] * b[0] + b[1] * b[1]
    return (a[0] * b[0] + a[1] * b[1]) / s, (a[1] * b[0] - a[0] * b[1]) / s


def c_exp(a: Any) -> Any:
    r = torch.exp(a[0])
    return r * torch.cos(a[1]), r * torch.sin(a[1])


def c_log(a: Any) -> Any:
    return 0.5 * torch.log(a[0] * a[0] + a[1] * a[1]), torch.atan2(a[1], a[0])


def c_sqrt(a: Any) -> Any:
    r = torch.hypot(a[0], a[1])
    return torch.sqrt((r + a[0]) / 2), torch.copysign(torch.sqrt(((r - a[0]) / 2).clamp(min=0)), a[1])


@stranger(make_model, cosine_ref, {"n": 5, "strikes": 7, "terms": 40}, {"n": 1 << 14, "strikes": 64, "terms": 160})
@tileflow.kernel
def cosine_prices(model: dict[str, torch.Tensor], strikes, spot: float, t: float, terms: int, span: float = 1.5):
    """Fang and Oosterlee, 2008: calls of Heston's model, by its characteristic function and a series of cosines."""
    n, several = strikes.shape
    phi = torch.empty(2, n, terms, dtype=torch.float64, device=strikes.device)
    for i, k in tfl.tile([n, terms]):
        v0, kappa, theta, sigma, rho = (model[name][i][:, None] for name in ("v0", "kappa", "theta", "sigma", "rho"))
        w = k.index.double()[None, :] * math.pi / (2 * span)
        b = kappa + 0 * w, -rho * sigma * w
        square = c_mul(b, b)
        d = c_sqrt((square[0] + sigma**2 * w**2, square[1] + sigma**2 * w))
        minus, plus = (b[0] - d[0], b[1] - d[1]), (b[0] + d[0], b[1] + d[1])
        g = c_div(minus, plus)
        e = c_exp((-d[0] * t, -d[1] * t))
        ge = c_mul(g, e)
        top = 1 - ge[0], -ge[1]
        quotient = c_log(c_div(top, (1 - g[0], -g[1])))
        scale = kappa * theta / sigma**2
        c = scale * (minus[0] * t - 2 * quotient[0]), scale * (minus[1] * t - 2 * quotient[1])
        tail = c_mul(c_div((1 - e[0], -e[1]), top), minus)
        phi[0, i, k], phi[1, i, k] = c_exp((c[0] + v0 / sigma**2 * tail[0], c[1] + v0 / sigma**2 * tail[1]))
    payoff = torch.empty(terms, dtype=torch.float64, device=strikes.device)
    for k in tfl.tile(terms):
        w = k.index.double() * math.pi / (2 * span)
        a = w * span
        low = math.exp(-span)
        chi = (torch.cos(a) - low + w * torch.sin(a)) / (1 + w * w)
        psi = torch.where(k.index == 0, span, torch.sin(a) / torch.where(k.index == 0, 1.0, w))
        payoff[k] = (psi - chi) / span * torch.where(k.index == 0, 0.5, 1.0)
    price = torch.empty_like(strikes)
    for i, j in tfl.tile([n, several]):
        strike = strikes[i, j]
        x = torch.log(spot / strike) + span
        total = torch.zeros_like(strike)
        for k in tfl.tile(terms):
            w = k.index.double() * math.pi / (2 * span)
            angle = x[:, :, None] * w
            re, im = phi[0, i, k][:, None, :], phi[1, i, k][:, None, :]
            total += ((re * angle.cos() - im * angle.sin()) * payoff[k]).sum(-1)
        price[i, j] = strike * total + spot - strike
    return price


def replay_ref(kinds: Any, prices: Any, sizes: Any, levels: int) -> Any:
    books, m = kinds.shape
    book = torch.zeros(2, books, levels, dtype=torch.int64)
    traded, best = torch.zeros(books, dtype=torch.int64), torch.empty(2, books, m, dtype=torch.int16)
    for b in range(books):
        depth = [[0] * levels, [0] * levels]
        done = 0
        for i, (kind, price, size) in enumerate(
            zip(kinds[b].tolist(), prices[b].tolist(), sizes[b].tolist(), strict=True)
        ):
            side = kind & 1
            if kind < 2:  # a limit order: it trades with what crosses it, the rest waits
                order = range(levels) if side == 0 else range(levels - 1, -1, -1)
                for p in order:
                    if size == 0 or (p > price if side == 0 else p < price):
                        break
                    hit = min(size, depth[1 - side][p])
                    depth[1 - side][p] -= hit
                    size, done = size - hit, done + hit * p
                depth[side][price] += size
            else:  # one that is taken back
                depth[side][price] = max(depth[side][price] - size, 0)
            bids = [p for p in range(levels) if depth[0][p]]
            asks = [p for p in range(levels) if depth[1][p]]
            best[0, b, i], best[1, b, i] = max(bids, default=-1), min(asks, default=levels)
        book[:, b] = torch.tensor(depth)
        traded[b] = done
    return book.int(), traded, best


@stranger(
    lambda books, messages, levels: (
        torch.randint(0, 4, (books, messages), dtype=torch.uint8),
        torch.randint(0, levels, (messages, books), dtype=torch.int16).T,
        torch.randint(1, 50, (books, messages), dtype=torch.int32),
        levels,
    ),
    replay_ref,
    {"books": 7, "messages": 25, "levels": 19},
    {"books": 1 << 14, "messages": 1000, "levels": 128},
    loops=True,
)
@tileflow.kernel
def replay_orders(kinds, prices, sizes, levels: int):
    """Gould and others, 2013: books of limit orders as messages came, what traded, and the best prices after each."""
    books, messages = kinds.shape
    book = torch.empty(2, books, levels, dtype=torch.int32, device=kinds.device)
    traded = torch.empty(books, dtype=torch.int64, device=kinds.device)
    best = torch.empty(2, books, messages, dtype=torch.int16, device=kinds.device)
    for b in tfl.tile(books):
        level = torch.arange(levels)[None, :]
        bids = torch.zeros([b, levels], dtype=torch.int32)
        asks = torch.zeros_like(bids)
        value = torch.zeros(b, dtype=torch.int64)
        for i in range(messages):
            kind, price, size = kinds[b, i], prices[b, i].int()[:, None], sizes[b, i][:, None]
            is_bid, is_limit = ((kind & 1) == 0)[:, None], (kind < 2)[:, None]
            against = torch.where(is_bid, asks, bids)
            crossing = is_limit & torch.where(is_bid, level <= price, level >= price)
            against = torch.where(crossing, against, 0)
            rising = torch.cumsum(against, 1, dtype=torch.int32) - against
            falling = tfl.cumsum(against, 1, reverse=True) - against
            before = torch.where(is_bid, rising, falling)
            hit = torch.minimum(against, (size - before).clamp(min=0))
            value += (hit * level).sum(1)
            rest = size - hit.sum(1, keepdim=True, dtype=torch.int32)
            here = level == price
            own = torch.where(is_bid, bids, asks)
            added = torch.where(here, torch.where(is_limit, own + rest, (own - size).clamp(min=0)), own)
            bids, asks = torch.where(is_bid, added, bids - hit), torch.where(is_bid, asks - hit, added)
            best[0, b, i] = torch.where(bids > 0, level, -1).amax(1).to(torch.int16)
            best[1, b, i] = torch.where(asks > 0, level, levels).amin(1).to(torch.int16)
        book[0, b, :], book[1, b, :] = bids, asks
        traded[b] = value
    return book, traded, best


def risk_ref(returns: Any, budget: Any, turns: int) -> Any:
    x = returns.double() - returns.double().mean(1, keepdim=True)
    cov = x.mT @ x / (x.size(1) - 1)
    w = (budget.double() / cov.diagonal(dim1=1, dim2=2)).sqrt()
    for _ in range(turns):
        for i in range(cov.size(1)):
            a = cov[:, i, i]
            b = (cov[:, i] * w).sum(1) - a * w[:, i]
            w[:, i] = (-b + (b * b + 4 * a * budget[:, i]).sqrt()) / (2 * a)
    w = w / w.sum(1, keepdim=True)
    risk = w * (cov @ w[..., None])[..., 0]
    return w.float(), (risk / risk.sum(1, keepdim=True)).float(), cov.float()


@stranger(
    lambda batch, days, n, turns: (
        torch.randn(batch, days, n).half(), torch.softmax(torch.randn(batch, n), 1), turns,
    ),
    risk_ref,
    {"batch": 3, "days": 40, "n": 9, "turns": 4},
    {"batch": 2048, "days": 750, "n": 64, "turns": 10},
)  # fmt: skip
@tileflow.kernel
def budget_risks(returns, budget, turns: int):
    """Griveau-Billion and others, 2013: shares that carry given parts of a portfolio's risk, one after another."""
    batch, days, n = returns.shape
    mean = torch.empty(batch, n, device=returns.device)
    cov = torch.empty(batch, n, n, device=returns.device)
    for p, j in tfl.tile([batch, n]):
        total = tfl.zeros([p, j])
        for d in tfl.tile(days):
            total += returns[p, d, j].float().sum(1)
        mean[p, j] = total / days
    for p in tfl.grid(batch):
        for i, j in tfl.tile([n, n]):
            acc = tfl.zeros([i, j])
            for d in tfl.tile(days):
                inside = (d.index < days)[:, None]
                a = torch.where(inside, returns[p, d, i] - mean[p, i], 0.0)
                b = torch.where(inside, returns[p, d, j] - mean[p, j], 0.0)
                acc += a.mT @ b
            cov[p, i, j] = acc / (days - 1)
    weights, shares = torch.empty_like(mean), torch.empty_like(mean)
    for p in tfl.tile(batch):
        matrix, part = cov[p, :, :], budget[p, :]
        place = torch.arange(n)
        own = torch.diagonal(matrix, dim1=-2, dim2=-1)
        w = torch.sqrt(part / own)
        for _ in range(turns):
            for i in range(n):
                row = cov[p, i, :]
                a = cov[p, i, i]
                b = (row * w).sum(-1) - a * torch.where(place == i, w, 0.0).sum(-1)
                new = (torch.sqrt(b * b + 4 * a * budget[p, i]) - b) / (2 * a)
                w = torch.where(place == i, new[:, None], w)
        w = w / w.sum(1, keepdim=True)
        risk = w * (matrix * w[:, None, :]).sum(-1)
        weights[p, :] = w
        shares[p, :] = risk / risk.sum(-1, keepdim=True)
    return weights, shares, cov
