"""Shops and lorries: tours, depots, stocks, bins, demand that comes seldom, tests of offers, best sellers, prices."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def rounded_distance(a: Any, b: Any) -> Any:
    """Reinelt's TSPLIB: to the nearest whole number. Coordinates come last but one."""
    d = (a - b).float()
    return torch.floor(torch.sqrt(d[0] * d[0] + d[1] * d[1]) + 0.5).int()


def two_opt_ref(city: Any, tour: Any) -> Any:
    gains, moves = [], []
    n = tour.size(1)
    after = (torch.arange(n) + 1) % n
    for order in tour.long():
        p = city[order].T
        d = rounded_distance(p[:, :, None], p[:, None, :])
        step = d[torch.arange(n), after]
        delta = d + d[after][:, after] - step[:, None] - step[None, :]
        i, j = torch.arange(n)[:, None], torch.arange(n)[None, :]
        key = torch.where(j > i + 1, (delta.long() * n + i) * n + j, 1 << 62)
        best = key.min()
        gains.append(best // (n * n))
        moves.append(best % (n * n))
    return torch.stack(gains).int(), torch.stack(moves).int()


@stranger(
    lambda b, n: (torch.randint(0, 500, (n, 2)).int(), torch.rand(b, n).argsort(1).int()),
    two_opt_ref,
    {"b": 3, "n": 37},
    {"b": 512, "n": 1000},
)
@tileflow.kernel
def two_opt_moves(city, tour):
    """Croes, 1958: which two roads of each tour to take out so that turning the part between them saves most."""
    b, n = tour.shape
    best = torch.full((b,), 1 << 62, dtype=torch.int64, device=tour.device)
    gain = torch.empty(b, dtype=torch.int32, device=tour.device)
    move = torch.empty(b, dtype=torch.int32, device=tour.device)

    def distance(a, c):
        dx = (city[a, 0][:, None] - city[c, 0][None, :]).float()
        dy = (city[a, 1][:, None] - city[c, 1][None, :]).float()
        return torch.floor(torch.sqrt(dx * dx + dy * dy) + 0.5).int()

    def step(a, c):
        dx, dy = (city[a, 0] - city[c, 0]).float(), (city[a, 1] - city[c, 1]).float()
        return torch.floor(torch.sqrt(dx * dx + dy * dy) + 0.5).int()

    for tb, ti in tfl.tile([b, n], block_size=[1, None]):
        i, i_next = tour[tb.id, ti], tour[tb.id, (ti.index + 1) % n]
        for tj in tfl.tile(ti.begin, n):
            j, j_next = tour[tb.id, tj], tour[tb.id, (tj.index + 1) % n]
            delta = distance(i, j) + distance(i_next, j_next) - step(i, i_next)[:, None] - step(j, j_next)[None, :]
            key = (delta.long() * n + ti.index[:, None]) * n + tj.index[None, :]
            key = torch.where(tj.index[None, :] > ti.index[:, None] + 1, key, 1 << 62)
            tfl.atomic_min(best, [tb.id], key.min())
    for tb in tfl.tile(b):
        gain[tb] = best[tb] // (n * n)
        move[tb] = best[tb] % (n * n)
    return gain, move


def depots_ref(depot: Any, customer: Any, demand: Any) -> Any:
    rows = []
    for part in customer.split(4096):
        apart = torch.sin((part[:, None] - depot[None]) / 2).square()
        a = apart[..., 0] + torch.cos(part[:, None, 0]) * torch.cos(depot[:, 0]) * apart[..., 1]
        rows.append(2 * 6371.0 * torch.asin(torch.sqrt(a.clamp(max=1))))
    km = torch.cat(rows)
    nearest = km.argmin(1)
    load = torch.zeros(depot.size(0), dtype=torch.int64).index_add(0, nearest, demand.long())
    return km.float(), nearest.int(), load.int()


def make_places(m: int, n: int) -> Any:
    def some(count: int) -> Any:
        return (torch.rand(count, 2, dtype=torch.float64) * 2 - 1) * torch.tensor([1.4, 3.1]).double()

    return some(m), some(n), torch.randint(1, 100, (n,)).int()


@stranger(make_places, depots_ref, {"m": 11, "n": 53}, {"m": 200, "n": 1 << 17})
@tileflow.kernel
def depot_distances(depot, customer, demand):
    """Haversines on the globe: how far each customer is from each depot, which is nearest, and what it must carry."""
    m, n = depot.size(0), customer.size(0)
    km = torch.empty(n, m, device=depot.device)
    nearest = torch.empty(n, dtype=torch.int32, device=depot.device)
    load = torch.zeros(m, dtype=torch.int32, device=depot.device)
    for t in tfl.tile(n):
        lat, lon = customer[t, 0][:, None], customer[t, 1][:, None]
        depot_lat, depot_lon = depot[:, 0][None, :], depot[:, 1][None, :]
        across = torch.sin((lat - depot_lat) / 2) ** 2
        along = torch.sin((lon - depot_lon) / 2) ** 2
        a = across + torch.cos(lat) * torch.cos(depot_lat) * along
        d = 2 * 6371.0 * torch.asin(torch.sqrt(a.clamp(max=1)))
        km[t, :] = d
        first = d.argmin(1)
        nearest[t] = first
        tfl.atomic_add(load, [first], demand[t])
    return km, nearest, load


def hashed(x: Any) -> Any:
    """Wellons' low-bias hash; of int64 that hold 32 bits."""
    x = ((x ^ (x >> 16)) * 0x21F0AAAD) & 0xFFFFFFFF
    x = ((x ^ (x >> 15)) * 0xD35A2D97) & 0xFFFFFFFF
    return x ^ (x >> 15)


def stocks_ref(low: Any, high: Any, runs: int, days: int, lead: int, most: int, seed: int) -> Any:
    policies = low.numel()
    low, high = low.long()[:, None], high.long()[:, None]
    run = torch.arange(runs)
    stock = high + torch.zeros(policies, runs, dtype=torch.int64)
    coming, due = torch.zeros_like(stock), torch.zeros_like(stock)
    cost, lost = torch.zeros_like(stock), torch.zeros_like(stock)
    for day in range(days):
        arrives = (due == day) & (coming > 0)
        stock, coming = torch.where(arrives, stock + coming, stock), torch.where(arrives, 0, coming)
        demand = (hashed((day * runs + run + seed) & 0xFFFFFFFF) * (most + 1)) >> 32
        sold = torch.minimum(stock, demand)
        lost += demand - sold
        stock = stock - sold
        orders = (stock <= low) & (coming == 0)
        coming = torch.where(orders, high - stock, coming)
        due = torch.where(orders, day + lead, due)
        cost += stock + 50 * orders.long()
    return cost.sum(1), lost.sum(1)


def make_policies(policies: int, runs: int, days: int) -> Any:
    low = torch.randint(5, 40, (policies,)).int()
    return low, low + torch.randint(5, 60, (policies,)).int(), runs, days, 3, 12, 2024


@stranger(
    make_policies,
    stocks_ref,
    {"policies": 5, "runs": 13, "days": 21},
    {"policies": 128, "runs": 8192, "days": 365},
)
@tileflow.kernel
def stock_policies(low, high, runs: int, days: int, lead: int, most: int, seed: int):
    """Scarf, 1960: orders up to S whenever s is reached, simulated; what holding and orders cost, what was missed."""
    policies = low.numel()
    cost = torch.zeros(policies, dtype=torch.int64, device=low.device)
    missed = torch.zeros(policies, dtype=torch.int64, device=low.device)
    for tp, tr in tfl.tile([policies, runs]):
        reorder, full = low[tp][:, None], high[tp][:, None]
        stock = tfl.zeros([tp, tr], dtype=torch.int32) + full
        coming = tfl.zeros([tp, tr], dtype=torch.int32)
        due = tfl.zeros([tp, tr], dtype=torch.int32)
        paid = tfl.zeros([tp, tr], dtype=torch.int32)
        lost = tfl.zeros([tp, tr], dtype=torch.int32)
        for day in range(days):
            arrives = (due == day) & (coming > 0)
            stock = torch.where(arrives, stock + coming, stock)
            coming = torch.where(arrives, 0, coming)
            x = (tr.index + day * runs + seed).to(torch.uint32)
            x = (x ^ (x >> 16)) * 0x21F0AAAD
            x = (x ^ (x >> 15)) * 0xD35A2D97
            x = x ^ (x >> 15)
            demand = ((x.long() * (most + 1)) >> 32).int()[None, :]
            sold = torch.minimum(stock, demand)
            lost += demand - sold
            stock = stock - sold
            orders = (stock <= reorder) & (coming == 0)
            coming = torch.where(orders, full - stock, coming)
            due = torch.where(orders, day + lead, due)
            paid += stock + 50 * orders.int()
        tfl.atomic_add(cost, [tp], paid.sum(1))
        tfl.atomic_add(missed, [tp], lost.sum(1))
    return cost, missed


def first_fit_ref(size: Any, room: int, bins: int) -> Any:
    n, items = size.shape
    left = torch.full((n, bins), room, dtype=torch.int32)
    place = torch.empty_like(size)
    for i in range(items):
        fits = left >= size[:, i, None]
        at = torch.where(fits.any(1), fits.int().argmax(1), -1)
        left -= torch.where(torch.arange(bins) == at[:, None], size[:, i, None], 0)
        place[:, i] = at
    return place, (left < room).sum(1).int(), left.sum(1).int()


@stranger(
    lambda n, items, bins: (torch.randint(50, 700, (n, items)).int(), 1000, bins),
    first_fit_ref,
    {"n": 13, "items": 19, "bins": 7},
    {"n": 16384, "items": 120, "bins": 64},
)
@tileflow.kernel
def first_fit(size, room: int, bins: tfl.constexpr):
    """Johnson, 1973: each parcel into the first lorry that still has room, as they come; -1 where none has."""
    n, items = size.shape
    place = torch.empty_like(size)
    used = torch.empty(n, dtype=torch.int32, device=size.device)
    spare = torch.empty(n, dtype=torch.int32, device=size.device)
    for t in tfl.tile(n):
        left = tfl.full([t, bins], room, dtype=torch.int32)
        number = tfl.arange(bins)[None, :]
        for i in range(items):
            parcel = size[t, i]
            fits = left >= parcel[:, None]
            first = torch.where(fits, number, bins).amin(1)
            left = torch.where(number == first[:, None], left - parcel[:, None], left)
            place[t, i] = torch.where(first < bins, first, -1)
        used[t] = (left < room).sum(1)
        spare[t] = left.sum(1)
    return place, used, spare


def croston_ref(demand: Any, alpha: float, beta: float) -> Any:
    x = demand.double()
    size, interval = torch.zeros_like(x[:, 0]), torch.ones_like(x[:, 0])
    since, error, seen = torch.ones_like(size), torch.zeros_like(size), torch.zeros_like(size)
    for now in x.unbind(1):
        ahead = (1 - beta / 2) * size / interval
        error = error + torch.where(seen > 0, (now - ahead).abs(), 0.0)
        some = now > 0
        first = some & (seen == 0)
        new_size = torch.where(first, now, size + alpha * (now - size))
        new_interval = torch.where(first, since, interval + beta * (since - interval))
        size, interval = torch.where(some, new_size, size), torch.where(some, new_interval, interval)
        since, seen = torch.where(some, 1.0, since + 1), seen + some.double()
    return ((1 - beta / 2) * size / interval).float(), (error / x.size(1)).float(), seen.int()


@stranger(
    lambda n, t: (torch.randint(1, 20, (n, t)).to(torch.int16) * (torch.rand(n, t) < 0.2), 0.1, 0.05),
    croston_ref,
    {"n": 23, "t": 31},
    {"n": 1 << 16, "t": 730},
)
@tileflow.kernel
def croston_forecasts(demand, alpha: float, beta: float):
    """Croston, 1972, as Syntetos and Boylan corrected him: spare parts that are seldom asked for."""
    n, periods = demand.shape
    forecast = torch.empty(n, device=demand.device)
    error = torch.empty(n, device=demand.device)
    times = torch.empty(n, dtype=torch.int32, device=demand.device)
    for t in tfl.tile(n):
        size, wrong = tfl.zeros([t]), tfl.zeros([t])
        interval, since = tfl.full([t], 1.0), tfl.full([t], 1.0)
        seen = tfl.zeros([t], dtype=torch.int32)
        for i in range(periods):
            now = demand[t, i].float()
            wrong += torch.where(seen > 0, torch.abs(now - (1 - beta / 2) * size / interval), 0.0)
            some = now > 0
            first = some & (seen == 0)
            size = torch.where(some, torch.where(first, now, size + alpha * (now - size)), size)
            interval = torch.where(some, torch.where(first, since, interval + beta * (since - interval)), interval)
            since = torch.where(some, 1.0, since + 1)
            seen += some.int()
        forecast[t] = (1 - beta / 2) * size / interval
        error[t] = wrong / periods
        times[t] = seen
    return forecast, error, times


def valid_ref(visits: Any, sales: Any, tau: float, alpha: float) -> Any:
    n = visits.double().cumsum(2)
    rate = sales.double().cumsum(2) / n
    gap = rate[:, 1] - rate[:, 0]
    v = (rate * (1 - rate) / n).sum(1) + 1e-12
    log_ratio = 0.5 * torch.log(v / (v + tau**2)) + gap**2 * tau**2 / (2 * v * (v + tau**2))
    p = torch.exp(-log_ratio).clamp(max=1).cummin(1).values
    sure = p <= alpha
    return p.float(), gap[:, -1].float(), torch.where(sure.any(1), sure.int().argmax(1), -1).int()


def make_offers(tests: int, days: int) -> Any:
    visits = torch.randint(20, 60, (tests, 2, days)).to(torch.int16)
    rate = 0.1 + 0.05 * torch.rand(tests, 2, 1)
    return visits, (visits * rate + randn(tests, 2, days)).round().clamp(min=0).to(torch.int16), 0.02, 0.05


@stranger(make_offers, valid_ref, {"tests": 11, "days": 37}, {"tests": 16384, "days": 1000})
@tileflow.kernel
def always_valid(visits, sales, tau: float, alpha: float):
    """Johari and others, 2015: a test of two offers at which one may look each day, by a mixture of ratios."""
    tests, _, days = visits.shape
    p = torch.empty(tests, days, device=visits.device)
    lift = torch.empty(tests, device=visits.device)
    stop = torch.empty(tests, dtype=torch.int32, device=visits.device)
    for t in tfl.tile(tests):
        n = torch.cumsum(visits[t, :, :].double(), 2)
        rate = torch.cumsum(sales[t, :, :].double(), 2) / n
        gap = rate[:, 1] - rate[:, 0]
        v = (rate * (1 - rate) / n).sum(1) + 1e-12
        log_ratio = 0.5 * torch.log(v / (v + tau**2)) + gap**2 * tau**2 / (2 * v * (v + tau**2))
        least = torch.cummin(torch.clamp(torch.exp(-log_ratio), max=1), 1).values
        p[t, :] = least
        lift[t] = gap[:, -1]
        sure = least <= alpha
        stop[t] = torch.where(sure.any(1), sure.int().argmax(1), -1)
    return p, lift, stop


def classes_ref(revenue: Any) -> Any:
    value, order = torch.sort(revenue, dim=1, descending=True, stable=True)
    before = value.long().cumsum(1) - value
    total = value.long().sum(1, keepdim=True)
    kind = (before * 100 >= total * 80).int() + (before * 100 >= total * 95).int()
    out = torch.empty_like(revenue, dtype=torch.int8)
    out.scatter_(1, order, kind.to(torch.int8))
    count = torch.stack([(kind == k).sum(1) for k in range(3)], 1)
    share = torch.stack([torch.where(kind == k, value, 0).sum(1) for k in range(3)], 1) / total
    return out, count.int(), share.float()


@stranger(
    lambda shops, items: (torch.exp(torch.rand(shops, items) * 12).int(),),
    classes_ref,
    {"shops": 5, "items": 45},
    {"shops": 8192, "items": 1500},
)
@tileflow.kernel
def abc_classes(revenue):
    """Dickie, 1951: the articles that bring four fifths of each shop's revenue, those up to 95 %, and the rest."""
    shops, items = revenue.shape
    kinds = torch.empty(shops, items, dtype=torch.int8, device=revenue.device)
    count = torch.empty(shops, 3, dtype=torch.int32, device=revenue.device)
    share = torch.empty(shops, 3, device=revenue.device)
    for t in tfl.tile(shops):
        value, order = torch.sort(revenue[t, :], dim=1, descending=True)
        before = torch.cumsum(value, 1) - value
        total = value.sum(1)
        kind = (before * 100 >= total[:, None] * 80).int() + (before * 100 >= total[:, None] * 95).int()
        kinds[t.index[:, None], order] = kind
        for k in range(3):
            count[t, k] = (kind == k).sum(1)
            share[t, k] = torch.where(kind == k, value, 0).sum(1) / total
    return kinds, count, share


def make_sales(articles: int, most: int) -> Any:
    count = torch.randint(8, most, (articles,))
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), count.cumsum(0)]).int()
    n = most * articles // 2 if offsets.is_meta else int(offsets[-1])
    price = torch.exp(randn(n) * 0.2)
    quantity = torch.exp(2 - 1.5 * torch.log(price) + 0.3 * randn(n))
    return offsets, price, torch.exp(randn(n) * 0.2), torch.rand(n) < 0.3, quantity


def elasticity_ref(offsets: Any, price: Any, rival: Any, offer: Any, quantity: Any) -> Any:
    x = torch.stack([torch.ones_like(price), price.log(), rival.log(), offer.to(price.dtype)], 1)
    at = torch.repeat_interleave(torch.arange(offsets.numel() - 1), offsets.long().diff())
    xx = torch.zeros(offsets.numel() - 1, 4, 4, dtype=price.dtype).index_add(0, at, x[:, :, None] * x[:, None, :])
    xy = torch.zeros(offsets.numel() - 1, 4, dtype=price.dtype).index_add(0, at, x * quantity.log()[:, None])
    xx = xx + 0.1 * torch.eye(4, dtype=price.dtype)
    return xx, torch.linalg.solve(xx, xy)


@stranger(make_sales, elasticity_ref, {"articles": 9, "most": 40}, {"articles": 1 << 16, "most": 240})
@tileflow.kernel
def price_elasticities(offsets, price, rival, offer, quantity):
    """Working, 1927: how sales of each article follow its price, its rival's and offers: ridges of four unknowns."""
    articles = offsets.numel() - 1
    normal = torch.empty(articles, 4, 4, device=price.device)
    slope = torch.empty(articles, 4, device=price.device)
    for i in tfl.grid(articles):
        xx = tfl.zeros([4, 4])
        xy = tfl.zeros([4])
        for t in tfl.tile(offsets[i], offsets[i + 1]):
            p = torch.log(price[t])
            x = torch.stack([torch.ones_like(p), p, torch.log(rival[t]), offer[t].float()], 1)
            xx += x.T @ x
            xy += (x * torch.log(quantity[t])[:, None]).sum(0)
        xx = xx + 0.1 * torch.eye(4)
        normal[i, :, :] = xx
        a = [[xx[j, k] for k in range(4)] + [xy[j]] for j in range(4)]
        for k in range(4):
            for j in range(k + 1, 4):
                f = a[j][k] / a[k][k]
                for m in range(k, 5):
                    a[j][m] = a[j][m] - f * a[k][m]
        for k in reversed(range(4)):
            value = a[k][4]
            for m in range(k + 1, 4):
                value = value - a[k][m] * a[m][4]
            a[k][4] = value / a[k][k]
            slope[i, k] = a[k][4]
    return normal, slope
