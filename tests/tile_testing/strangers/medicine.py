"""Medicine: registration of images, dosage, signals of hearts, epidemics, families of proteins."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger

GAUSS = (0.05448868, 0.24420134, 0.40261996, 0.24420134, 0.05448868)


def demons_ref(fixed: Any, moving: Any, field: Any, floor: Any) -> Any:
    b, h, w = fixed.shape
    y = (torch.arange(h, dtype=torch.float64)[:, None] + field[:, 0]).clamp(0, h - 1)
    x = (torch.arange(w, dtype=torch.float64) + field[:, 1]).clamp(0, w - 1)
    flat = moving.double().flatten(1)

    def at(i: Any, j: Any) -> Any:
        return flat.gather(1, (i.clamp(max=h - 1) * w + j.clamp(max=w - 1)).flatten(1)).view(b, h, w)

    i, j = y.long(), x.long()
    warped = torch.lerp(
        torch.lerp(at(i, j), at(i, j + 1), x - j), torch.lerp(at(i + 1, j), at(i + 1, j + 1), x - j), y - i
    )
    wide = F.pad(fixed.double()[:, None], (1, 1, 1, 1), mode="replicate")[:, 0]
    gy, gx = (wide[:, 2:, 1:-1] - wide[:, :-2, 1:-1]) / 2, (wide[:, 1:-1, 2:] - wide[:, 1:-1, :-2]) / 2
    apart = fixed - warped
    push = apart / (gy**2 + gx**2 + apart**2 + floor)
    moved = (field + torch.stack([push * gy, push * gx], 1)).flatten(0, 1)[:, None]
    taps = torch.tensor(GAUSS, dtype=torch.float64)
    out = F.conv2d(F.pad(moved, (2, 2, 2, 2), mode="replicate"), (taps[:, None] * taps)[None, None])
    return out.view(b, 2, h, w).float()


@stranger(
    lambda b, h, w: (torch.rand(b, h, w), torch.rand(b, h, w), randn(b, 2, h, w) * 2, 0.05),
    demons_ref,
    {"b": 2, "h": 13, "w": 17},
    {"b": 32, "h": 512, "w": 512},
)
@tileflow.kernel
def demons_step(fixed, moving, field, floor: float):
    """Thirion, 1998, with a floor under the quotient: the fixed image's gradients push, and the field is smoothed."""
    b, h, w = fixed.shape
    moved = torch.empty_like(field)
    half = torch.empty_like(field)
    out = torch.empty_like(field)
    for tb, th, tw in tfl.tile([b, h, w]):
        y = torch.clamp(th.index[None, :, None] + field[tb, 0, th, tw], 0, h - 1)
        x = torch.clamp(tw.index[None, None, :] + field[tb, 1, th, tw], 0, w - 1)
        y0, x0 = torch.floor(y).int(), torch.floor(x).int()
        y1, x1 = torch.clamp(y0 + 1, max=h - 1), torch.clamp(x0 + 1, max=w - 1)
        fy, fx = y - y0, x - x0
        batch = tb.index[:, None, None]
        upper = moving[batch, y0, x0] * (1 - fx) + moving[batch, y0, x1] * fx
        lower = moving[batch, y1, x0] * (1 - fx) + moving[batch, y1, x1] * fx
        apart = fixed[tb, th, tw] - (upper * (1 - fy) + lower * fy)
        down, up = torch.clamp(th.index + 1, max=h - 1), torch.clamp(th.index - 1, min=0)
        right, left = torch.clamp(tw.index + 1, max=w - 1), torch.clamp(tw.index - 1, min=0)
        gy = (fixed[tb, down, tw] - fixed[tb, up, tw]) / 2
        gx = (fixed[tb, th, right] - fixed[tb, th, left]) / 2
        push = apart / (gy * gy + gx * gx + apart * apart + floor)
        moved[tb, 0, th, tw] = field[tb, 0, th, tw] + push * gy
        moved[tb, 1, th, tw] = field[tb, 1, th, tw] + push * gx
    for tb, th, tw in tfl.tile([b, h, w]):
        acc = tfl.zeros([tb, 2, th, tw])
        for j, tap in enumerate(GAUSS):
            acc += tap * moved[tb, :, th, torch.clamp(tw.index + (j - 2), 0, w - 1)]
        half[tb, :, th, tw] = acc
    for tb, th, tw in tfl.tile([b, h, w]):
        acc = tfl.zeros([tb, 2, th, tw])
        for j, tap in enumerate(GAUSS):
            acc += tap * half[tb, :, torch.clamp(th.index + (j - 2), 0, h - 1), tw]
        out[tb, :, th, tw] = acc
    return out


def information_ref(fixed: Any, moving: Any, bins: Any) -> Any:
    b, n = fixed.shape
    i = (fixed * bins).long().clamp(max=bins - 1)
    at = moving.double() * (bins - 1)
    j = at.long().clamp(max=bins - 2)
    joint = torch.zeros(b, bins * bins, dtype=torch.float64)
    joint.scatter_add_(1, i * bins + j, 1 - (at - j)).scatter_add_(1, i * bins + j + 1, at - j)
    p = joint.view(b, bins, bins) / n
    entropy = [torch.special.entr(q).flatten(1).sum(1) for q in (p.sum(1), p.sum(2), p)]
    return (entropy[0] + entropy[1] - entropy[2]).float()


@stranger(
    lambda b, n, bins: (torch.rand(b, n), torch.rand(b, n), bins),
    information_ref,
    {"b": 3, "n": 101, "bins": 6},
    {"b": 128, "n": 65536, "bins": 32},
)
@tileflow.kernel
def mutual_information(fixed, moving, bins: tfl.constexpr):
    """Maes et al., 1997, partial volumes: each pair of pixels is shared between two cells of a table."""
    b, n = fixed.shape
    joint = torch.zeros(b, bins, bins, device=fixed.device)
    out = torch.empty(b, device=fixed.device)
    for tb, tn in tfl.tile([b, n]):
        i = torch.clamp((fixed[tb, tn] * bins).int(), max=bins - 1)
        at = moving[tb, tn] * (bins - 1)
        j = torch.clamp(at.int(), max=bins - 2)
        share = at - j
        tfl.atomic_add(joint, [tb.index[:, None], i, j], 1 - share)
        tfl.atomic_add(joint, [tb.index[:, None], i, j + 1], share)
    for tb in tfl.tile(b):
        p = joint[tb, :, :] / n
        product = p.sum(1, keepdim=True) * p.sum(2, keepdim=True)
        out[tb] = torch.where(p > 0, p * torch.log(p / product), 0.0).sum((1, 2))
    return out


def make_epidemic(s: Any, p: Any, days: Any) -> Any:
    people = torch.rand(p) * 9e4 + 1e4
    first = torch.zeros(s, p)
    first[:, 0] = 100
    mix = torch.softmax(torch.randn(p, p) + 4 * torch.eye(p), 1)
    return people, mix, torch.rand(s) * 0.3 + 0.2, torch.rand(s) * 0.2 + 0.1, torch.rand(s) * 0.1 + 0.1, first, days


def epidemic_ref(people: Any, mix: Any, beta: Any, wake: Any, heal: Any, first: Any, days: Any) -> Any:
    state = torch.stack([people - first, torch.zeros_like(first), first]).double()
    cases = []
    for _ in range(days):
        caught = state[0] * -torch.expm1(-beta[:, None] * torch.einsum("sp,qp->sq", state[2] / people, mix.double()))
        ill, well = wake[:, None] * state[1], heal[:, None] * state[2]
        state = state + torch.stack([-caught, caught - ill, ill - well])
        cases.append(ill.sum(1))
    return torch.stack(cases, 1).float(), state[2].float()


@stranger(
    make_epidemic,
    epidemic_ref,
    {"s": 5, "p": 11, "days": 9},
    {"s": 8192, "p": 64, "days": 150},
)
@tileflow.kernel
def epidemic_patches(people, mix, beta, wake, heal, first, days: int):
    """Sattenspiel and Dietz, 1995: towns that infect one another as people travel, day by day, in many scenarios."""
    s, p = first.shape
    cases = torch.empty(s, days, device=first.device)
    last = torch.empty_like(first)
    for ts in tfl.tile(s):
        infectious = first[ts, :]
        exposed = tfl.zeros([ts, p])
        susceptible = people[:][None, :] - infectious
        travel = mix[:, :].T
        for day in range(days):
            pressure = beta[ts][:, None] * ((infectious / people[:][None, :]) @ travel)
            caught = susceptible * -torch.expm1(-pressure)
            ill = wake[ts][:, None] * exposed
            susceptible = susceptible - caught
            exposed = exposed + caught - ill
            infectious = infectious + ill - heal[ts][:, None] * infectious
            cases[ts, day] = ill.sum(1)
        last[ts, :] = infectious
    return cases, last


def heart_ref(ecg: Any) -> Any:
    n = ecg.size(1)

    def fir(x: Any, taps: Any) -> Any:
        taps = torch.tensor(taps, dtype=torch.float64)
        return F.conv1d(F.pad(x.double()[:, None], (taps.numel() - 1, 0)), taps.flip(0)[None, None])[:, 0].long()

    low = fir(ecg, [1, 2, 3, 4, 5, 6, 5, 4, 3, 2, 1])
    high = F.pad(low, (16, 0))[:, :n] - fir(low >> 5, [1] * 32)
    slope = fir(high, [2, 1, 0, -1, -2]) >> 3
    return torch.div(fir(slope * slope, [1] * 30), 30, rounding_mode="floor").int()


@stranger(
    lambda b, t: (torch.randint(-300, 300, (b, t), dtype=torch.int16),),
    heart_ref,
    {"b": 2, "t": 41},
    {"b": 16384, "t": 1800},
)
@tileflow.kernel
def qrs_energy(ecg):
    """Pan and Tompkins, 1985: filters of small integers, then the power of the slope over 150 ms at 200 Hz."""
    b, t = ecg.shape
    low = torch.empty(b, t, dtype=torch.int32, device=ecg.device)
    high = torch.empty_like(low)
    out = torch.empty_like(low)
    for tb in tfl.tile(b):
        one = tfl.zeros([tb], dtype=torch.int32)
        two = tfl.zeros([tb], dtype=torch.int32)
        for n in tfl.grid(t):
            x = ecg[tb, n].int() - 2 * ecg[tb, n - 6].int() + ecg[tb, n - 12].int()
            new = 2 * one - two + x
            low[tb, n] = new
            one, two = new, one
    for tb in tfl.tile(b):
        y = tfl.zeros([tb], dtype=torch.int32)
        for n in tfl.grid(t):
            y = y - (low[tb, n] >> 5) + low[tb, n - 16] - low[tb, n - 17] + (low[tb, n - 32] >> 5)
            high[tb, n] = y
    for tb, tt in tfl.tile([b, t]):
        total = tfl.zeros([tb, tt], dtype=torch.int64)
        for j in range(30):
            at = tt - j
            slope = (2 * high[tb, at] + high[tb, at - 1] - high[tb, at - 3] - 2 * high[tb, at - 4]) >> 3
            total += slope.long() * slope.long()
        out[tb, tt] = total // 30
    return out


def gamma_ref(planned: Any, measured: Any, radius: Any, share: Any, distance: Any) -> Any:
    top = planned.amax((1, 2), keepdim=True)
    wide = F.pad(measured, (radius,) * 4, value=math.inf)
    h, w = planned.shape[1:]
    least = torch.full_like(planned, math.inf)
    for i in range(2 * radius + 1):
        for j in range(2 * radius + 1):
            apart = (wide[:, i : i + h, j : j + w] - planned) / (share * top)
            away = ((i - radius) ** 2 + (j - radius) ** 2) / distance**2
            least = torch.minimum(least, apart.square() + away)
    counted = planned >= 0.1 * top
    passed = (counted & (least <= 1)).flatten(1).sum(1) / counted.flatten(1).sum(1)
    return torch.where(counted, least.sqrt(), 0.0), passed


@stranger(
    lambda b, h, w, radius: (
        (dose := torch.rand(b, h, w) * 60), dose + randn(b, h, w) * 4, radius, 0.03, 3.0,
    ),
    gamma_ref,
    {"b": 2, "h": 11, "w": 14, "radius": 2},
    {"b": 64, "h": 512, "w": 512, "radius": 4},
)  # fmt: skip
@tileflow.kernel
def gamma_index(planned, measured, radius: tfl.constexpr, share: float, distance: float):
    """Low et al., 1998: each dose against the measured ones around it, by how far and by how different they are."""
    b, h, w = planned.shape
    top = torch.empty(b, device=planned.device)
    gamma = torch.empty_like(planned)
    passed = torch.empty(b, device=planned.device)
    for tb in tfl.tile(b):
        top[tb] = planned[tb, :, :].amax((1, 2))
    for tb, th, tw in tfl.tile([b, h, w]):
        dose, most = planned[tb, th, tw], top[tb][:, None, None]
        least = tfl.full([tb, th, tw], float("inf"))
        for i in range(-radius, radius + 1):
            for j in range(-radius, radius + 1):
                other = tfl.load(measured, [tb, th + i, tw + j], other=float("inf"))
                apart = (other - dose) / (share * most)
                least = torch.minimum(least, apart * apart + (i * i + j * j) / (distance * distance))
        gamma[tb, th, tw] = torch.where(dose >= 0.1 * most, torch.sqrt(least), 0.0)
    for tb in tfl.tile(b):
        counted = planned[tb, :, :] >= 0.1 * top[tb][:, None, None]
        good = counted & (gamma[tb, :, :] <= 1)
        passed[tb] = good.float().sum((1, 2)) / counted.float().sum((1, 2))
    return gamma, passed


def make_doses(p: Any, most: Any, m: Any) -> Any:
    counts = torch.randint(0, most + 1, (p,))
    offsets = F.pad(counts.cumsum(0), (1, 0)).int()
    n = p * most
    return (
        torch.rand(n) * 168, torch.rand(n) * 400 + 100, offsets, torch.linspace(0, 192, m),
        torch.rand(p) * 0.9 + 0.6, torch.rand(p) * 0.2 + 0.05, torch.rand(p) * 30 + 20,
    )  # fmt: skip


def levels_ref(when: Any, amount: Any, offsets: Any, times: Any, enter: Any, leave: Any, volume: Any) -> Any:
    p = offsets.numel() - 1
    counts = offsets.diff()
    level = torch.zeros(p, times.numel(), dtype=torch.float64)
    for i in range(int(counts.max())):
        at = (offsets[:-1] + i).clamp(max=when.numel() - 1).long()
        past = times - when[at][:, None].double()
        curve = torch.exp(-leave[:, None] * past) - torch.exp(-enter[:, None] * past)
        level += torch.where((past >= 0) & (i < counts)[:, None], amount[at][:, None] * curve, 0.0)
    level = (level * (enter / (volume * (enter - leave)))[:, None]).float()
    return level, level.amax(1)


@stranger(make_doses, levels_ref, {"p": 5, "most": 9, "m": 21}, {"p": 4096, "most": 128, "m": 512})
@tileflow.kernel
def dose_levels(when, amount, offsets, times, enter, leave, volume):
    """Bateman, 1910: what each patient's doses, any number of them, have left in the blood at each time."""
    p, m = offsets.size(0) - 1, times.size(0)
    level = torch.empty(p, m, device=when.device)
    peak = torch.empty(p, device=when.device)
    for tp, tm in tfl.tile([p, m], block_size=[1, None]):
        i = tp.begin
        total = tfl.zeros([tm])
        for td in tfl.tile(offsets[i], offsets[i + 1]):
            past = times[tm][:, None] - when[td][None, :]
            curve = torch.exp(-leave[i] * past) - torch.exp(-enter[i] * past)
            total += torch.where(past >= 0, amount[td][None, :] * curve, 0.0).sum(1)
        level[i, tm] = total * enter[i] / (volume[i] * (enter[i] - leave[i]))
    for tp in tfl.tile(p):
        peak[tp] = level[tp, :].amax(1)
    return level, peak


def henikoff_ref(letters: Any, kinds: Any) -> Any:
    counts = torch.stack([(letters == i).sum(0) for i in range(kinds)])
    share = 1 / (counts.clamp(min=1) * (counts > 0).sum(0)).double()
    weight = torch.zeros(letters.size(0), dtype=torch.float64)
    for i in range(kinds):
        weight += torch.where(letters == i, share[i], 0.0).sum(1)
    return (weight / weight.sum()).float()


@stranger(
    lambda n, width, kinds: (torch.randint(0, kinds, (n, width), dtype=torch.uint8), kinds),
    henikoff_ref,
    {"n": 13, "width": 19, "kinds": 21},
    {"n": 65536, "width": 384, "kinds": 21},
)
@tileflow.kernel
def henikoff_weights(letters, kinds: int):
    """Henikoff and Henikoff, 1994: a sequence of a family counts more where its letters are rare in their columns."""
    n, width = letters.shape
    counts = torch.zeros(width, kinds, dtype=torch.int32, device=letters.device)
    distinct = torch.empty(width, dtype=torch.int32, device=letters.device)
    raw = torch.empty(n, device=letters.device)
    total = torch.zeros(1, device=letters.device)
    out = torch.empty(n, device=letters.device)
    for tn, tl in tfl.tile([n, width]):
        tfl.atomic_add(counts, [tl.index[None, :], letters[tn, tl]], 1)
    for tl in tfl.tile(width):
        distinct[tl] = (counts[tl, :] > 0).sum(1)
    for tn in tfl.tile(n):
        acc = tfl.zeros([tn])
        for tl in tfl.tile(width):
            same = counts[tl.index[None, :], letters[tn, tl]]
            acc += (1.0 / (same * distinct[tl][None, :])).sum(1)
        raw[tn] = acc
        tfl.atomic_add(total, [0], acc.sum())
    for tn in tfl.tile(n):
        out[tn] = raw[tn] / total[0]
    return out
