"""Inferences: counts that scatter, directions in circles, ordered moments, averaged models, books of orders, trees."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def dispersion_ref(counts: Any, sizes: Any, turns: int) -> Any:
    y, s = counts.double(), sizes.double()
    mean = (y.sum(1) / s.sum())[:, None] * s
    alpha = torch.full((len(y), 1), 2.0).double()
    for _ in range(turns):
        g = torch.digamma(y + alpha) - torch.digamma(alpha) + torch.log(alpha / (alpha + mean)) + 1
        g = (g - (alpha + y) / (alpha + mean)).sum(1, keepdim=True)
        h = torch.polygamma(1, y + alpha) - torch.polygamma(1, alpha) + 1 / alpha - 2 / (alpha + mean)
        h = (h + (alpha + y) / (alpha + mean) ** 2).sum(1, keepdim=True)
        step = torch.where(h < 0, g / h, -0.1 * g.sign() * alpha)
        alpha = torch.maximum(alpha - step, alpha / 4).clamp(1e-2, 1e3)
    loss = -(
        torch.lgamma(y + alpha) - torch.lgamma(alpha) - torch.lgamma(y + 1)
        + alpha * torch.log(alpha / (alpha + mean)) + torch.xlogy(y, mean / (alpha + mean))
    ).sum(1)  # fmt: skip
    poisson = F.poisson_nll_loss(mean, y, log_input=False, full=True, reduction="none").sum(1)
    return alpha[:, 0].float(), loss.float(), poisson.float()


@stranger(
    lambda genes, cells, turns: (
        torch.poisson(8 * torch.rand(genes, 1) * torch.rand(genes, cells)).short(), 0.5 + torch.rand(cells), turns,
    ),
    dispersion_ref,
    {"genes": 13, "cells": 37, "turns": 3},
    {"genes": 1 << 14, "cells": 2048, "turns": 4},
)  # fmt: skip
@tileflow.kernel
def count_dispersion(counts, sizes, turns: int):
    """Robinson and Smyth, 2008: how much more counts scatter than Poisson's, by Newton's steps for each gene."""
    genes, cells = counts.shape
    out = [torch.empty(genes, device=sizes.device) for _ in range(3)]
    for g in tfl.tile(genes):
        whole = total = torch.zeros([g])
        for c in tfl.tile(cells):
            total = total + counts[g, c].sum(1)
            whole = whole + sizes[c].sum()
        share = total / whole
        alpha = torch.full([g], 2.0)

        def pieces(c, alpha):
            y, mean = counts[g, c].float(), share[:, None] * sizes[c]
            return y, mean, alpha.unsqueeze(-1)

        for _ in range(turns):
            first, second = torch.zeros([g]), torch.zeros([g])
            for c in tfl.tile(cells):
                y, mean, a = pieces(c, alpha)
                f = torch.digamma(y + a) - torch.digamma(a) + torch.log(a / (a + mean)) + 1 - (a + y) / (a + mean)
                s = torch.polygamma(1, y + a) - torch.polygamma(1, a) + 1 / a - 2 / (a + mean)
                s = s + (a + y) / (a + mean).square()
                first, second = first + f.sum(1), second + s.sum(1)
            step = torch.where(second < 0, first / second, -0.1 * first.sign() * alpha)
            alpha = torch.maximum(alpha - step, alpha / 4).clamp(1e-2, 1e3)
        loss, poisson = torch.zeros([g]), torch.zeros([g])
        for c in tfl.tile(cells):
            y, mean, a = pieces(c, alpha)
            likely = torch.lgamma(y + a) - torch.lgamma(a) - torch.lgamma(y + 1)
            likely = likely + a * torch.log(a / (a + mean)) + torch.xlogy(y, mean / (a + mean))
            loss -= likely.sum(1)
            poisson += F.poisson_nll_loss(mean.expand_as(y), y, log_input=False, full=True, reduction="none").sum(1)
        for target, value in zip(out, (alpha, loss, poisson)):
            target[g] = value
    return tuple(out)


def circles_ref(angle: Any, mu: Any, kappa: Any, weight: Any, turns: int) -> Any:
    angle, mu, kappa, weight = (x.double() for x in (angle, mu, kappa, weight))
    for _ in range(turns):
        log = kappa * (torch.cos(angle[:, None] - mu) - 1) - torch.log(torch.special.i0e(kappa)) + weight.log()
        resp = torch.softmax(log, 1)
        n = resp.sum(0)
        c, s = (resp * angle.cos()[:, None]).sum(0), (resp * angle.sin()[:, None]).sum(0)
        r = (c * c + s * s).sqrt() / n
        kappa = r * (2 - r * r) / (1 - r * r)
        for _ in range(2):
            a = torch.special.i1e(kappa) / torch.special.i0e(kappa)
            kappa = (kappa - (a - r) / (1 - a * a - a / kappa)).clamp(0.05, 500)
        mu, weight = torch.atan2(s, c), n / n.sum()
    return mu.float(), kappa.float(), weight.float()


@stranger(
    lambda n, parts, turns: (
        (torch.randn(n) / 3 + torch.randint(0, parts, (n,)) * (2 * math.pi / parts)).half(),
        torch.linspace(0.1, 5, parts), torch.full((parts,), 2.0), torch.full((parts,), 1 / parts), turns,
    ),
    circles_ref,
    {"n": 301, "parts": 3, "turns": 2},
    {"n": 1 << 22, "parts": 12, "turns": 3},
)  # fmt: skip
@tileflow.kernel
def circle_mixture(angle, mu, kappa, weight, turns: int):
    """Banerjee and others, 2005: a mixture of directions, whose spreads come by ratios of Bessel's functions."""
    parts, device = mu.numel(), angle.device
    state = {"mu": mu, "kappa": kappa, "weight": weight}
    for _ in range(turns):
        sums = torch.zeros(3, parts, dtype=torch.float64, device=device)
        for t in tfl.tile(angle.numel()):
            x = angle[t].float()[:, None]
            k = state["kappa"][:][None]
            log = k * (torch.cos(x - state["mu"][:]) - 1) - torch.special.i0e(k).log() + state["weight"][:].log()
            share = F.softmax(log, dim=1)
            moments = torch.stack([share, share * x.cos(), share * x.sin()], dim=0)
            tfl.atomic_add(sums, [slice(None), slice(None)], moments.double().sum(1))
        new = {name: torch.empty_like(value) for name, value in state.items()}
        for p in tfl.tile(parts):
            n, c, s = sums[:, p].unbind(0)
            r = torch.hypot(c, s) / n
            k = r * (2 - r * r) / (1 - r * r)
            for _ in range(2):
                a = torch.special.i1e(k) / torch.special.i0e(k)
                k = (k - (a - r) / (1 - a * a - a / k)).clamp(0.05, 500)
            new["mu"][p], new["kappa"][p] = torch.atan2(s, c), k
            new["weight"][p] = n / sums[0, :].sum()
        state = new
    return state["mu"], state["kappa"], state["weight"]


def moments_ref(x: Any) -> Any:
    x = x.double().sort(1).values
    n = x.size(1)
    i = torch.arange(n).double()
    b = [x.mean(1)]
    w = torch.ones(n).double()
    for r in range(1, 4):
        w = w * (i - r + 1) / (n - r)
        b.append((w * x).mean(1))
    l2, l3, l4 = 2 * b[1] - b[0], 6 * b[2] - 6 * b[1] + b[0], 20 * b[3] - 30 * b[2] + 12 * b[1] - b[0]
    median = x[:, (n - 1) // 2]
    q = torch.quantile(x, torch.tensor([0.25, 0.75]).double(), dim=1)
    return torch.stack([b[0], l2, l3 / l2, l4 / l2], 1).float(), median.float(), (q[1] - q[0]).float()


@stranger(
    lambda rows, n: (torch.randn(n, rows).exp().T,),
    moments_ref,
    {"rows": 11, "n": 45},
    {"rows": 1 << 16, "n": 365},
)
@tileflow.kernel
def ordered_moments(x):
    """Hosking, 1990: a sample's size, spread, skew and tails by sums of its ordered values."""
    rows, n = x.shape
    out, median = torch.empty(rows, 4, device=x.device), torch.empty(rows, device=x.device)
    spread = torch.empty_like(median)
    for r in tfl.tile(rows):
        values = torch.sort(x[r, :], dim=1).values
        place = torch.arange(n, dtype=torch.float32)
        weights = torch.cumprod(
            torch.stack([torch.ones_like(place), *((place - k) / (n - 1 - k) for k in range(3))]), dim=0
        )
        b = torch.einsum("rn,kn->kr", values, weights) / n
        l2 = 2 * b[1] - b[0]
        l3 = 6 * b[2] - 6 * b[1] + b[0]
        l4 = 20 * b[3] - 30 * b[2] + 12 * b[1] - b[0]
        out[r, :] = torch.stack((b[0], l2, l3 / l2, l4 / l2), dim=-1)
        median[r] = torch.kthvalue(x[r, :], (n + 1) // 2, dim=1).values
        low, high = (torch.quantile(x[r, :], q, dim=1) for q in (0.25, 0.75))
        spread[r] = high - low
    return out, median, spread


def soup_ref(pointers: Any, example: Any, models: Any, losses: Any, cool: float) -> Any:
    w = torch.softmax(-losses.double() / cool, 0)
    stack = torch.stack([m.double() for m in models])
    mean = (w[:, None, None] * stack).sum(0)
    far = (w[:, None, None] * (stack - mean) ** 2).sum(0).sqrt()
    return mean.to(example.dtype), far.float(), (stack - mean).square().sum((1, 2)).float()


def make_models(count: int, rows: int, columns: int) -> Any:
    models = [randn(rows, columns, dtype=torch.bfloat16) for _ in range(count)]
    pointers = torch.tensor([m.data_ptr() if m.device.type != "meta" else 0 for m in models])
    return pointers, models[0], models, torch.rand(count), 0.5


@stranger(make_models, soup_ref, {"count": 5, "rows": 19, "columns": 21}, {"count": 8, "rows": 4096, "columns": 4096})
@tileflow.kernel
def model_soup(pointers, example, models: list[torch.Tensor], losses, cool: float):
    """Wortsman and others, 2022: the mean of many models, given by where they are, how they differ, and from it."""
    rows, columns = example.shape
    mean = torch.empty_like(example)
    spread = torch.empty(rows, columns, device=example.device)
    far = torch.zeros(pointers.size(0), device=example.device)
    for i, j in tfl.tile([rows, columns]):
        weights = torch.softmax(-losses[:] / cool, dim=0)[:, None, None]
        stack = tfl.stacktensor_like(example, pointers[:])[i, j].float()
        m = (weights * stack).sum(0)
        apart = stack - m
        mean[i, j] = m
        spread[i, j] = (weights * apart.square()).sum(0).sqrt()
        tfl.atomic_add(far, [slice(None)], apart.square().sum(dim=(1, 2)))
    return mean, spread, far


@dataclass
class Book:
    """Prices' sizes on each side, and where the best ones are."""

    bids: torch.Tensor
    asks: torch.Tensor


def book_ref(book: Book, events: Any) -> Any:
    bids, asks = book.bids.clone(), book.asks.clone()
    traded, volume = [], []
    levels = bids.size(1)
    for b in range(len(bids)):
        mine, done = [], 0
        for kind, side, price, size in events[b].tolist():
            book_, other = (bids[b], asks[b]) if side == 0 else (asks[b], bids[b])
            paid = 0
            if kind == 2:
                book_[price] = max(int(book_[price]) - size, 0)
            else:
                walk = range(levels) if side == 0 else range(levels - 1, -1, -1)
                for p in walk:
                    if kind == 0 and (p > price if side == 0 else p < price):
                        break
                    take = min(int(other[p]), size)
                    other[p] -= take
                    size -= take
                    paid += take * p
                    done += take
                if kind == 0:
                    book_[price] += size
            mine.append(paid)
        traded.append(mine)
        volume.append(done)
    return bids, asks, torch.tensor(traded), torch.tensor(volume, dtype=torch.int32)


def make_book(books: int, levels: int, count: int) -> Any:
    side = torch.randint(0, 20, (books, levels), dtype=torch.int32)
    low = torch.arange(levels) < levels // 2
    events = torch.stack(
        [torch.randint(0, 3, (books, count)), torch.randint(0, 2, (books, count)),
         torch.randint(0, levels, (books, count)), torch.randint(1, 60, (books, count))], -1,
    )  # fmt: skip
    return Book(side * low, side * ~low), events.short()


@stranger(
    make_book,
    book_ref,
    {"books": 3, "levels": 21, "count": 12},
    {"books": 8192, "levels": 128, "count": 256},
    loops=True,
)
@tileflow.kernel
def order_books(book: Book, events):
    """Limit orders, market orders and cancellations of many books, each in turn, at the best prices first."""
    books, levels = book.bids.shape
    new = Book(book.bids.clone(), book.asks.clone())
    count = events.size(1)
    paid = torch.zeros(books, count, dtype=torch.int64, device=events.device)
    volume = torch.empty(books, dtype=torch.int32, device=events.device)

    def fill(other, size, may, upwards):
        """What is taken of each price."""
        open_ = torch.where(may, other, 0)
        before = tfl.cumsum(open_, 0) - open_ if upwards else tfl.cumsum(open_, 0, reverse=True) - open_
        return torch.minimum(open_, (size - before).clamp(min=0))

    for b in tfl.grid(books):
        bids, asks = new.bids[b, :], new.asks[b, :]
        prices = torch.arange(levels)
        done = 0
        for e in range(count):
            kind, side, price, size = (events[b, e, k].int() for k in range(4))
            here = prices == price
            if kind == 2:
                gone = torch.where(here, size, 0)
                if side == 0:
                    bids = (bids - gone).clamp(min=0)
                else:
                    asks = (asks - gone).clamp(min=0)
            elif side == 0:
                taken = fill(asks, size, (prices <= price) | (kind == 1), True)
                asks = asks - taken
                bids = bids + torch.where(here & (kind == 0), size - taken.sum().int(), 0)
                paid[b, e] = (taken * prices).sum()
                done = done + taken.sum()
            else:
                taken = fill(bids, size, (prices >= price) | (kind == 1), False)
                bids = bids - taken
                asks = asks + torch.where(here & (kind == 0), size - taken.sum().int(), 0)
                paid[b, e] = (taken * prices).sum()
                done = done + taken.sum()
        new.bids[b, :], new.asks[b, :] = bids, asks
        volume[b] = done
    return new.bids, new.asks, paid, volume


def tree_ref(curve: Any, a: Any, sigma: Any, strike: Any, steps: int, dt: float) -> Any:
    a, sigma, strike, curve = a.double(), sigma.double(), strike.double(), curve.double()
    width = 2 * steps + 1
    j = torch.arange(-steps, steps + 1).double()
    dx = sigma * (3 * dt) ** 0.5
    x = dx[:, None] * j
    drift = -a[:, None] * j * dt
    up, down = 1 / 6 + (drift**2 + drift) / 2, 1 / 6 + (drift**2 - drift) / 2
    mid = 1 - up - down
    bond, option = torch.ones(len(a), width).double(), torch.zeros(len(a), width).double()
    early = torch.zeros(len(a), dtype=torch.int32)
    for t in range(steps - 1, -1, -1):
        disc = torch.exp(-(curve[t] + x) * dt)

        def back(v: Any) -> Any:
            r, l = torch.cat([v[:, 1:], v[:, -1:]], 1), torch.cat([v[:, :1], v[:, :-1]], 1)  # noqa: E741
            return disc * (up * r + mid * v + down * l)

        bond, option = back(bond), back(option)
        value = bond - strike[:, None]
        early += (value > option).sum(1, dtype=torch.int32)
        option = torch.maximum(option, value)
    return bond[:, steps].float(), option[:, steps].float(), early


@stranger(
    lambda n, steps: (
        0.02 + torch.rand(steps) / 50, 0.05 + torch.rand(n) / 10, (0.01 + torch.rand(n) / 50).bfloat16(),
        0.85 + torch.rand(n, dtype=torch.float64) / 8, steps, 0.25,
    ),
    tree_ref,
    {"n": 13, "steps": 9},
    {"n": 1 << 15, "steps": 80},
)  # fmt: skip
@tileflow.kernel
def rate_trees(curve, a, sigma, strike, steps: int, dt: float):
    """Hull and White, 1994: bonds that may be bought early, on trees of interest rates that return to their mean."""
    n = a.size(0)
    bonds, options = torch.empty(n, device=a.device), torch.empty(n, device=a.device)
    early = torch.empty(n, dtype=torch.int32, device=a.device)
    for q in tfl.tile(n):
        j = torch.arange(-steps, steps + 1).float()
        x = (sigma[q].float() * math.sqrt(3 * dt))[:, None] * j
        drift = -a[q][:, None] * j * dt
        up, down = 1 / 6 + (drift**2 + drift) / 2, 1 / 6 + (drift**2 - drift) / 2
        mid = 1 - up - down
        bond, option = torch.ones_like(x), torch.zeros_like(x)
        count = torch.zeros([q], dtype=torch.int32)
        for t in range(steps - 1, -1, -1):
            discount = torch.exp(-(curve[t] + x) * dt)

            def back(v):
                right = torch.cat([v[:, 1:], v[:, -1:]], dim=1)
                left = torch.cat([v[:, :1], v[:, :-1]], dim=1)
                return discount * (up * right + mid * v + down * left)

            bond, option = back(bond), back(option)
            value = bond - strike[q].float()[:, None]
            count += (value > option).sum(1).int()
            option = torch.maximum(option, value)
        bonds[q], options[q], early[q] = bond[:, steps], option[:, steps], count
    return bonds, options, early
