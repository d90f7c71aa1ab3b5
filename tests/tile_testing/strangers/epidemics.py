"""Epidemics: infections to come, contacts traced, clusters on a map, rates by age and period, who gets vaccine."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import stranger


def make_regions(regions: int, past: int, future: int, lags: int) -> Any:
    s = torch.arange(1, lags + 1).float()
    serial = s**2 * torch.exp(-0.7 * s)
    cases = torch.randint(0, 200, (regions, past), dtype=torch.int32)
    people = torch.randint(20_000, 2_000_000, (regions,), dtype=torch.int32)
    return cases, serial / serial.sum(), 0.7 + 0.8 * torch.rand(regions, future), people


def renewal_ref(cases: Any, serial: Any, reproduction: Any, people: Any) -> Any:
    days = list(cases.to(serial.dtype).unbind(1))
    left = people - cases.sum(1).to(serial.dtype)
    for r in reproduction.unbind(1):
        pressure = torch.stack(days[: -serial.numel() - 1 : -1], 1) @ serial
        new = torch.minimum(r * pressure * left / people, left)
        left = left - new
        days.append(new)
    return torch.stack(days, 1), left


@stranger(
    make_regions,
    renewal_ref,
    {"regions": 37, "past": 11, "future": 19, "lags": 9},
    {"regions": 50_000, "past": 28, "future": 120, "lags": 21},
)
@tileflow.kernel
def renewal_forecast(cases, serial, reproduction, people):
    """Fraser, 2007: infections of each region's days to come, by serial intervals from those of the days before."""
    regions, past = cases.shape
    future = reproduction.size(1)
    lags = serial.numel()
    out = torch.empty(regions, past + future, device=cases.device)
    susceptible = torch.empty(regions, device=cases.device)
    for t in tfl.tile(regions):
        seen = cases[t, :]
        out[t, :past] = seen
        left = (people[t] - seen.sum(1)).float()
        for day in range(past, past + future):
            pressure = tfl.zeros([t])
            for s in range(lags):
                pressure += serial[s] * out[t, day - 1 - s]
            new = torch.minimum(reproduction[t, day - past] * pressure * left / people[t], left)
            left = left - new
            out[t, day] = new
        susceptible[t] = left
    return out, susceptible


NEVER = 32000


def make_meetings(people: int, meetings: int) -> Any:
    sick = torch.where(torch.rand(people) < 0.02, torch.randint(0, 10, (people,)), NEVER)
    one, other = (torch.randint(0, people, (meetings,), dtype=torch.int32) for _ in range(2))
    minutes = torch.randint(0, 60, (meetings,)).to(torch.uint8)
    return sick.int(), one, other, torch.randint(0, 30, (meetings,)).to(torch.int16), minutes, torch.rand(people) < 0.7


def traced_ref(sick: Any, one: Any, other: Any, day: Any, minutes: Any, app: Any, generations: int, delay: int) -> Any:
    known, counts = sick.long(), []
    long = (minutes >= 15) & app[one.long()] & app[other.long()]
    pairs = torch.cat([torch.stack([one, other]), torch.stack([other, one])], 1)[:, long.repeat(2)].long()
    met = day.long().repeat(2)[long.repeat(2)]
    for _ in range(generations):
        since = met - known[pairs[0]]
        near = (since >= -2) & (since <= 8)
        told = torch.full_like(known, NEVER).scatter_reduce(0, pairs[1][near], met[near] + delay, "amin")
        counts.append((told < known).sum())
        known = torch.minimum(known, told)
    return known.int(), torch.stack(counts).int()


@stranger(
    lambda people, meetings: (*make_meetings(people, meetings), 3, 4),
    traced_ref,
    {"people": 301, "meetings": 907},
    {"people": 1 << 20, "meetings": 1 << 23},
)
@tileflow.kernel
def trace_contacts(sick, one, other, day, minutes, app, generations: int, delay: int):
    """Ferretti and others, 2020: when an app warns those whom the sick met, and whom these met, by generations."""
    known = sick.clone()
    counts = torch.zeros(generations, dtype=torch.int32, device=sick.device)
    for g in range(generations):
        told = known.clone()
        for t in tfl.tile(one.size(0)):
            a, b = one[t], other[t]
            long = (minutes[t] >= 15) & app[a] & app[b]
            met = day[t].int()
            for source, target in ((a, b), (b, a)):
                since = met - known[source]
                tfl.atomic_min(told, [target], met + delay, extra_mask=long & (since >= -2) & (since <= 8))
        for p in tfl.tile(sick.size(0)):
            tfl.atomic_add(counts, [g], (told[p] < known[p]).sum())
        known = told
    return known, counts


def scanned_ref(x: Any, y: Any, cases: Any, people: Any) -> Any:
    far = (x[:, None] - x).long() ** 2 + (y[:, None] - y).long() ** 2
    far, order = far.sort(dim=1, stable=True)
    c = cases[order].long().cumsum(1).double()
    p = people[order].long().cumsum(1).double()
    all_cases, all_people = cases.sum().double(), people.sum().double()
    expected = p * all_cases / all_people
    ratio = c * (c / expected).log() + (all_cases - c) * ((all_cases - c) / (all_cases - expected)).log()
    ratio = torch.where((c > expected) & (p * 2 <= all_people), ratio, 0.0)
    best, at = ratio.max(1)
    return best.float(), far.gather(1, at[:, None])[:, 0].sqrt().float(), c.gather(1, at[:, None])[:, 0].int()


def make_parishes(n: int) -> Any:
    x, y = (torch.randint(0, 30_000, (n,), dtype=torch.int32) for _ in range(2))
    people = torch.randint(500, 9000, (n,), dtype=torch.int32)
    ill = (x - 9000).abs() + (y - 14_000).abs() < 5000
    return x, y, (people * (0.002 + 0.003 * torch.rand(n)) * (1 + ill)).int() + 1, people


@stranger(make_parishes, scanned_ref, {"n": 75}, {"n": 2500})
@tileflow.kernel
def scan_circles(x, y, cases, people):
    """Kulldorff, 1997: around each parish the circle whose cases are least likely to be chance."""
    n = x.size(0)
    best = torch.empty(n, device=x.device)
    radius = torch.empty(n, device=x.device)
    inside = torch.empty(n, dtype=torch.int32, device=x.device)
    all_cases, all_people = cases.sum(), people.sum()
    for t in tfl.tile(n):
        far = (x[t][:, None] - x[:]) ** 2 + (y[t][:, None] - y[:]) ** 2
        far, order = torch.sort(far, dim=1, stable=True)
        c = torch.cumsum(cases[order], 1)
        p = torch.cumsum(people[order], 1)
        whole = all_cases[()]
        expected = p.double() * whole / all_people[()]
        ratio = c * torch.log(c / expected) + (whole - c) * torch.log((whole - c) / (whole - expected))
        ratio = torch.where((c > expected) & (p * 2 <= all_people[()]), ratio, 0.0)
        value, at = torch.max(ratio, 1)
        best[t] = value
        radius[t] = torch.sqrt(torch.gather(far, 1, at[:, None])[:, 0].float())
        inside[t] = torch.gather(c, 1, at[:, None])[:, 0]
    return best, radius, inside


def make_lives(n: int, ages: int) -> Any:
    entry = torch.randint(0, 12_000, (n,))
    birth = entry - torch.randint(0, 25_000, (n,))
    leave = entry + torch.randint(1, 9000, (n,))
    sex = torch.randint(0, 2, (n,)).to(torch.uint8)
    standard = torch.arange(ages, 0, -1).double()
    short = torch.int16
    return birth.to(short), entry.to(short), leave.to(short), sex, torch.rand(n) < 0.3, standard / standard.sum()


def lexis_ref(birth: Any, entry: Any, leave: Any, sex: Any, died: Any, standard: Any, width: int, periods: int) -> Any:
    birth, entry, leave = (x.long()[:, None] for x in (birth, entry, leave))
    woman, died = (sex == 1)[:, None], died[:, None]
    period, last = torch.arange(periods) * width, leave - 1
    days, deaths = [], []
    for age in range(0, standard.numel() * width, width):
        begin = torch.maximum(torch.maximum(entry, birth + age), period)
        end = torch.minimum(torch.minimum(leave, birth + age + width), period + width)
        spent = (end - begin).clamp(min=0)
        ends = died & (last >= birth + age) & (last < birth + age + width)
        ends = ends & (last >= period) & (last < period + width)
        days.append(torch.stack([(spent * ~woman).sum(0), (spent * woman).sum(0)]))
        deaths.append(torch.stack([(ends & ~woman).sum(0), (ends & woman).sum(0)]))
    time, ended = torch.stack(days, 1), torch.stack(deaths, 1)
    rate = torch.where(time > 0, ended * 365.25 / time.clamp(min=1), 0.0)
    return time, ended.int(), (rate * standard[:, None]).sum(1)


def make_cohort(n: int, ages: int, periods: int) -> Any:
    return (*make_lives(n, ages), 1826, periods)


@stranger(make_cohort, lexis_ref, {"n": 203, "ages": 19, "periods": 12}, {"n": 400_000, "ages": 19, "periods": 12})
@tileflow.kernel
def lexis_rates(birth, entry, leave, sex, died, standard, width: int, periods: int):
    """Lexis, 1875: days at risk and deaths by sex, age and period, and each period's death rate at standard ages."""
    n = birth.size(0)
    ages = standard.size(0)
    days = torch.zeros(2, ages, periods, dtype=torch.int64, device=birth.device)
    deaths = torch.zeros(2, ages, periods, dtype=torch.int32, device=birth.device)
    rates = torch.empty(2, periods, dtype=torch.float64, device=birth.device)
    for t in tfl.tile(n):
        born, end, who = birth[t].int(), leave[t].int(), sex[t]
        now = entry[t].int()
        for _ in range(ages + periods):
            age, period = (now - born) // width, now // width
            until = torch.minimum(end, torch.minimum(born + (age + 1) * width, (period + 1) * width))
            tfl.atomic_add(days, [who, age, period], until - now, extra_mask=now < end)
            now = until
        tfl.atomic_add(deaths, [who, (end - 1 - born) // width, (end - 1) // width], 1, extra_mask=died[t])
    for s in tfl.grid(2):
        for p in tfl.tile(periods):
            d = days[s, :, p]
            rate = torch.where(d > 0, deaths[s, :, p] * 365.25 / torch.clamp(d, min=1), 0.0)
            rates[s, p] = (rate * standard[:][:, None]).sum(0)
    return days, deaths, rates


def make_rings(rings: int, people: int, most: int) -> Any:
    sizes = torch.randint(0, most, (rings,))
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), sizes.cumsum(0)])
    n = most * rings // 2 if offsets.is_meta else int(offsets[-1])
    contact = torch.randint(0, people, (n,), dtype=torch.int32)
    risk = torch.rand(n).to(torch.bfloat16)
    doses = torch.randint(0, most // 2, (rings,)).to(torch.uint8)
    return offsets, contact, risk, torch.rand(people) < 0.3, doses


def rings_ref(offsets: Any, contact: Any, risk: Any, immune: Any, doses: Any) -> Any:
    chosen = torch.zeros(risk.numel(), dtype=torch.bool)
    averted, spare = [], []
    for i, (a, b) in enumerate(zip(offsets.tolist(), offsets.tolist()[1:], strict=False)):
        need = torch.where(immune[contact[a:b].long()], 0.0, risk[a:b].float())
        order = need.argsort(descending=True, stable=True)[: int(doses[i])]
        order = order[need[order] > 0]
        chosen[a + order] = True
        averted.append(need[order].sum())
        spare.append(int(doses[i]) - order.numel())
    return chosen, torch.stack(averted).float(), torch.tensor(spare, dtype=torch.int32)


@stranger(
    make_rings,
    rings_ref,
    {"rings": 13, "people": 90, "most": 41},
    {"rings": 30_000, "people": 1 << 20, "most": 240},
    loops=True,
)
@tileflow.kernel
def ring_doses(offsets, contact, risk, immune, doses):
    """Henao-Restrepo and others, 2015: each ring's doses to its contacts most at risk, and what they avert."""
    rings = offsets.size(0) - 1
    chosen = torch.empty(risk.size(0), dtype=torch.bool, device=risk.device)
    averted = torch.empty(rings, device=risk.device)
    spare = torch.empty(rings, dtype=torch.int32, device=risk.device)
    for i in tfl.grid(rings):
        start, end = offsets[i], offsets[i + 1]
        saved = 0.0
        left = doses[i].int()
        for ta in tfl.tile(start, end):
            mine = torch.where(immune[contact[ta]], 0.0, risk[ta])
            rank = tfl.zeros([ta], dtype=torch.int32)
            for tb in tfl.tile(start, end):
                theirs = torch.where(immune[contact[tb]], 0.0, risk[tb])
                first = theirs[None, :] > mine[:, None]
                first |= (theirs[None, :] == mine[:, None]) & (tb.index[None, :] < ta.index[:, None])
                rank += first.sum(1)
            gets = (rank < doses[i]) & (mine > 0)
            chosen[ta] = gets
            saved += torch.where(gets, mine, 0.0).float().sum()
            left -= gets.sum()
        averted[i] = saved
        spare[i] = left
    return chosen, averted, spare
