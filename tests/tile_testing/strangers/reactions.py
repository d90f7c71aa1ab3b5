"""Reactions and cells: stiff kinetics, leaps of chance, membranes, isotopes, saturation curves, joined neighbours."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import stranger


def stiff_ref(y: Any, rates: Any, end: Any, tolerance: float) -> Any:
    y, (k1, k2, k3) = y.double(), rates.double().T
    gamma = 1 + 2**-0.5
    f = lambda y: torch.stack(  # noqa: E731
        [-k1 * y[0] + k3 * y[1] * y[2], k1 * y[0] - k3 * y[1] * y[2] - k2 * y[1] ** 2, k2 * y[1] ** 2]
    )
    t, h = torch.zeros_like(k1), torch.full_like(k1, 1e-3)
    y, taken = y.T, torch.zeros(len(k1), dtype=torch.int32)
    while bool((t < end).any()):
        h = torch.minimum(h, end - t)
        zero = torch.zeros_like(k1)
        jac = torch.stack([
            torch.stack([-k1, k3 * y[2], k3 * y[1]]),
            torch.stack([k1, -k3 * y[2] - 2 * k2 * y[1], -k3 * y[1]]),
            torch.stack([zero, 2 * k2 * y[1], zero]),
        ]).permute(2, 0, 1)  # fmt: skip
        w = torch.eye(3, dtype=torch.float64) - gamma * h[:, None, None] * jac
        a = torch.linalg.solve(w, f(y).T).T
        b = torch.linalg.solve(w, (f(y + h * a) - 2 * a).T).T
        new = y + 1.5 * h * a + 0.5 * h * b
        error = (0.5 * h * (a + b)).abs().amax(0) / (tolerance * (1 + new.abs().amax(0)))
        busy = t < end
        ok = busy & (error <= 1)
        y, t = torch.where(ok, new, y), torch.where(ok, t + h, t)
        h = torch.where(busy, h * (0.9 * error.clamp(min=1e-8).rsqrt()).clamp(0.2, 4.0), h)
        taken += busy.int()
    return y.T, taken


@stranger(
    lambda cells: (
        F.one_hot(torch.randint(0, 3, (cells,)), 3).double(),
        torch.tensor([0.04, 30.0, 10.0], dtype=torch.float64) * (0.5 + torch.rand(cells, 3, dtype=torch.float64)),
        0.5 + torch.rand(cells, dtype=torch.float64), 1e-3,
    ),
    stiff_ref,
    {"cells": 43},
    {"cells": 1 << 18},
)  # fmt: skip
@tileflow.kernel
def stiff_kinetics(y, rates, end, tolerance: float):
    """Rosenbrock, 1963, on Robertson's three species: each cell takes steps as long as its error allows."""
    gamma = 1 + 2**-0.5
    out = torch.empty_like(y)
    taken = torch.empty(y.size(0), dtype=torch.int32, device=y.device)
    for c in tfl.tile(y.size(0)):
        k1, k2, k3 = rates[c, :].unbind(dim=1)

        def slope(a, b, d):
            return -k1 * a + k3 * b * d, k1 * a - k3 * b * d - k2 * b**2, k2 * b**2

        def solve(rows, right):
            u, v, w = (torch.stack(row, -1) for row in rows)
            vw = torch.linalg.cross(v, w)
            det = torch.linalg.vecdot(u, vw)
            r = right[0][:, None] * vw + right[1][:, None] * torch.linalg.cross(w, u)
            r = r + right[2][:, None] * torch.linalg.cross(u, v)
            return torch.unbind(r / det[:, None], dim=-1)

        state = list(y[c, :].unbind(1))
        t, h = torch.zeros_like(k1), torch.full_like(k1, 1e-3)
        steps = torch.zeros([c], dtype=torch.int32)
        while (t < end[c]).any():
            h = torch.minimum(h, end[c] - t)
            g = gamma * h
            _, b, d = state
            rows = (
                (1 + g * k1, -g * k3 * d, -g * k3 * b),
                (-g * k1, 1 + g * (k3 * d + 2 * k2 * b), g * k3 * b),
                (torch.zeros_like(g), -2 * g * k2 * b, torch.ones_like(g)),
            )
            # the right sides meet cross products of the rows
            first = solve(rows, slope(*state))
            middle = slope(*[s + h * a for s, a in zip(state, first)])
            second = solve(rows, tuple(m - 2 * a for m, a in zip(middle, first)))
            new = [s + 1.5 * h * a + 0.5 * h * e for s, a, e in zip(state, first, second)]
            error = torch.stack([(0.5 * h * (a + e)).abs() for a, e in zip(first, second)]).amax(0)
            size = torch.stack(new).abs().amax(0)
            error = error / (tolerance * (1 + size))
            busy = t < end[c]
            ok = busy & (error <= 1)
            for i in range(3):
                state[i] = torch.where(ok, new[i], state[i])
            t = torch.where(ok, t + h, t)
            h = torch.where(busy, h * (0.9 * torch.rsqrt(error.clamp(min=1e-8))).clamp(0.2, 4.0), h)
            steps += busy.int()
        out[c, :] = torch.stack(state, dim=1)
        taken[c] = steps
    return out, taken


def leap_ref(seed: int, offsets: Any) -> Any:
    """Philox 4x32 of ten rounds, its first word as a number in [0, 1)."""
    c = [offsets & 0xFFFFFFFF, offsets * 0, offsets * 0, offsets * 0]
    k = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]

    def wide(a: int, b: Any) -> Any:
        low, high = a * (b & 0xFFFF), a * (b >> 16)
        total = (low >> 16) + high
        return total >> 16, (low & 0xFFFF | (total & 0xFFFF) << 16)

    for _ in range(10):
        (h0, l0), (h1, l1) = wide(0xD2511F53, c[0]), wide(0xCD9E8D57, c[2])
        c = [h1 ^ c[1] ^ k[0], l1, h0 ^ c[3] ^ k[1], l0]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    word = c[0]
    signed = torch.where(word >= 1 << 31, word - (1 << 32), word)
    return (torch.where(signed < 0, -signed - 1, signed).float() * 4.6566127342e-10).double()


def tau_ref(prey: Any, hunters: Any, rates: Any, tau: float, steps: int, seed: int) -> Any:
    n, width = prey.shape
    at = torch.arange(n * width).view(n, width)
    a, b = prey.clone(), hunters.clone()
    for s in range(steps):
        means = [rates[0] * a, rates[1] * a * b, rates[2] * b]
        counts = []
        for event, mean in enumerate(means):
            mean = mean * tau
            u = leap_ref(seed + s, at * 3 + event)
            p, count = torch.exp(-mean), torch.zeros_like(a)
            total = p.clone()
            for i in range(1, 16):
                count += (u > total).int()
                p = p * mean / i
                total = total + p
            counts.append(count)
        a = (a + counts[0] - counts[1]).clamp(min=0)
        b = (b + counts[1] - counts[2]).clamp(min=0)
    return a, b, (a == 0).sum(1)


@stranger(
    lambda sites, width: (
        torch.randint(20, 60, (width, sites), dtype=torch.int32).T,
        torch.randint(10, 40, (sites, width), dtype=torch.int32), (1.0, 0.02, 0.7), 0.05, 6, 77,
    ),
    tau_ref,
    {"sites": 11, "width": 19},
    {"sites": 8192, "width": 512},
)  # fmt: skip
@tileflow.kernel
def tau_leaps(prey, hunters, rates: tuple[float, ...], tau: float, steps: int, seed: int):
    """Gillespie, 2001: how often each reaction happens in a leap, drawn by inverting Poisson's distribution."""
    birth, meet, death = rates

    def poisson(u, mean):
        p = torch.exp(-mean)
        total, count = p, torch.zeros_like(mean, dtype=torch.int32)
        for i in range(1, 16):
            count += (u > total).int()
            p = p * mean / i
            total = total + p
        return count

    new = [torch.empty_like(prey), torch.empty_like(hunters)]
    gone = torch.zeros(prey.size(0), dtype=torch.int64, device=prey.device)
    for i, j in tfl.tile(prey.shape):
        a, b = prey[i, j], hunters[i, j]
        at = tfl.positions([i, j]) * 3
        for s in range(steps):
            means = birth * a, meet * a * b, death * b
            draws = [poisson(tfl.rand_at(seed + s, at + e), tau * m) for e, m in enumerate(means)]
            a = (a + draws[0] - draws[1]).clamp(min=0)
            b = (b + draws[1] - draws[2]).clamp(min=0)
        for target, value in zip(new, (a, b), strict=True):
            target[i, j] = value
        tfl.atomic_add(gone, [i], torch.count_nonzero(a == 0, dim=1))
    return *new, gone


def gates_ref(v: Any, gates: dict[str, Any], current: Any, coupling: float, dt: float, steps: int) -> Any:
    v = v.double()
    gates = {name: g.double() for name, g in gates.items()}
    ratio = lambda x: torch.where(x.abs() < 1e-6, 1 - x / 2, x / torch.expm1(x))  # noqa: E731
    spikes = torch.zeros(v.shape, dtype=torch.int32)
    for s in range(steps):
        m, h, n = gates["m"], gates["h"], gates["n"]
        rates = {
            "m": (ratio(-(v + 40) / 10), 4 * torch.exp(-(v + 65) / 18)),
            "h": (0.07 * torch.exp(-(v + 65) / 20), torch.sigmoid((v + 35) / 10)),
            "n": (0.1 * ratio(-(v + 55) / 10), 0.125 * torch.exp(-(v + 65) / 80)),
        }
        i = 120 * m**3 * h * (v - 50) + 36 * n**4 * (v + 77) + 0.3 * (v + 54.4)
        axial = torch.cat([v[:, 1:], v[:, -1:]], 1) + torch.cat([v[:, :1], v[:, :-1]], 1) - 2 * v
        new = v + dt * (current[:, s, None].double() * (torch.arange(v.size(1)) == 0) - i + coupling * axial)
        spikes += ((v < 0) & (new >= 0)).int()
        for name, (a, b) in rates.items():
            gates[name] = gates[name] + dt * (a * (1 - gates[name]) - b * gates[name])
        v = new
    return v.float(), {name: g.float() for name, g in gates.items()}, spikes


@stranger(
    lambda axons, length, steps: (
        -65 + torch.randn(axons, length),
        {"m": torch.rand(axons, length) / 8, "h": torch.rand(length, axons).T, "n": torch.rand(axons, length) / 2},
        400 * torch.rand(axons, steps).half(), 2.0, 0.01, steps,
    ),
    gates_ref,
    {"axons": 7, "length": 37, "steps": 6},
    {"axons": 4096, "length": 512, "steps": 64},
)  # fmt: skip
@tileflow.kernel
def axon_gates(v, gates: dict[str, torch.Tensor], current, coupling: float, dt: float, steps: int):
    """Hodgkin and Huxley, 1952: voltage along an axon, whose channels open and close at rates of their own."""

    def ratio(x):
        return torch.where(x.abs() < 1e-6, 1 - x / 2, x / torch.expm1(x))

    openings = {
        "m": lambda v: (ratio(-(v + 40) / 10), 4 * torch.exp(-(v + 65) / 18)),
        "h": lambda v: (0.07 * torch.exp(-(v + 65) / 20), torch.sigmoid((v + 35) / 10)),
        "n": lambda v: (0.1 * ratio(-(v + 55) / 10), 0.125 * torch.exp(-(v + 65) / 80)),
    }
    axons, length = v.shape
    last_v, spikes = torch.empty_like(v), torch.empty(v.shape, dtype=torch.int32, device=v.device)
    last = {name: torch.empty_like(v) for name in gates}
    for a in tfl.tile(axons):
        volts, count = v[a, :], torch.zeros([a, length], dtype=torch.int32)
        state = {name: gate[a, :] for name, gate in gates.items()}
        at_start = torch.arange(length) == 0
        for s in range(steps):
            open_m = state["m"] ** 3 * state["h"]
            leak = 120 * open_m * (volts - 50) + 36 * state["n"] ** 4 * (volts + 77) + 0.3 * (volts + 54.4)
            right = torch.cat([volts.narrow(1, 1, length - 1), volts[:, -1:]], dim=1)
            left = torch.cat([volts[:, :1], volts[:, :-1]], 1)
            push = current[a, s].float()[:, None] * at_start
            new = volts + dt * (push - leak + coupling * (left + right - 2 * volts))
            count += ((volts < 0) & (new >= 0)).int()
            for name, rate in openings.items():
                up, down = rate(volts)
                state[name] += dt * (up * (1 - state[name]) - down * state[name])
            volts = new
        last_v[a, :], spikes[a, :] = volts, count
        for name in last:
            last[name][a, :] = state[name]
    return last_v, last, spikes


def isotope_ref(patterns: Any, counts: Any, width: int) -> Any:
    out = []
    for row in counts.tolist():
        total = torch.zeros(width, dtype=torch.float64)
        total[0] = 1
        for element, count in enumerate(row):
            for _ in range(count):
                new = torch.zeros(width, dtype=torch.float64)
                for k in range(patterns.size(1)):
                    new[k:] += patterns[element, k].double() * total[: width - k]
                total = new
        out.append(total)
    out = torch.stack(out)
    return out.float(), out.argmax(1), (out * torch.arange(width)).sum(1).float()


@stranger(
    lambda molecules, elements, most, width: (
        torch.softmax(torch.tensor([6.0, 1.0, 0.5, -1.0]) + torch.rand(elements, 4), 1),
        torch.randint(0, most, (molecules, elements), dtype=torch.int16), width,
    ),
    isotope_ref,
    {"molecules": 9, "elements": 3, "most": 13, "width": 32},
    {"molecules": 1 << 16, "elements": 5, "most": 200, "width": 64},
    loops=True,
)  # fmt: skip
@tileflow.kernel
def isotope_patterns(patterns, counts, width: int):
    """Yergey, 1983, by squaring: a molecule's masses, where each element's pattern goes in as often as it occurs."""
    molecules, elements = counts.shape
    deep = patterns.size(1)
    out = torch.empty(molecules, width, device=patterns.device)
    heaviest = torch.empty(molecules, dtype=torch.int64, device=patterns.device)
    mean = torch.empty(molecules, device=patterns.device)

    def times(a, b):
        place = tfl.arange(width)[:, None] - tfl.arange(width)
        shifted = torch.where(place >= 0, b[place.clamp(min=0)], 0.0)
        return (shifted * a[None, :]).sum(1)

    for m in tfl.grid(molecules):
        place = tfl.arange(width)
        total = (place == 0).float()
        for e in range(elements):
            power = torch.where(place < deep, tfl.load(patterns, [e, place], extra_mask=place < deep), 0.0)
            left = counts[m, e].int()
            while left > 0:
                if left % 2 == 1:
                    total = times(total, power)
                power = times(power, power)
                left = left // 2
        out[m, :] = total
        heaviest[m] = total.argmax()
        mean[m] = (total * place).sum()
    return out, heaviest, mean


def saturation_ref(x: Any, y: Any, turns: int) -> Any:
    x, y = x.double(), y.double()
    top, half, damp = torch.nan_to_num(y, -torch.inf).amax(1), torch.nanmean(x, 1), torch.full((len(x),), 1e-2).double()
    model = lambda t, h: t[:, None] * x / (h[:, None] + x)  # noqa: E731
    for _ in range(turns):
        error = y - model(top, half)
        a, b = x / (half[:, None] + x), -top[:, None] * x / (half[:, None] + x) ** 2
        error, a, b = (torch.where(y.isnan(), 0, z) for z in (error, a, b))
        aa, ab, bb = (a * a).sum(1) + damp, (a * b).sum(1), (b * b).sum(1) + damp
        ra, rb = (a * error).sum(1), (b * error).sum(1)
        det = aa * bb - ab * ab
        new_top, new_half = top + (bb * ra - ab * rb) / det, (half + (aa * rb - ab * ra) / det).clamp(min=1e-3)
        better = torch.nansum((y - model(new_top, new_half)) ** 2, 1) < torch.nansum((y - model(top, half)) ** 2, 1)
        top, half = torch.where(better, new_top, top), torch.where(better, new_half, half)
        damp = torch.where(better, damp / 3, damp * 2)
    return top, half, torch.nansum((y - model(top, half)) ** 2, 1).sqrt()


def make_saturation(curves: int, points: int) -> Any:
    x = torch.rand(curves, points, dtype=torch.float64) * 10
    y = (1 + torch.rand(curves, 1)) * x / (2 + x) + torch.randn(curves, points) / 50
    return x, y.masked_fill(torch.rand(curves, points) < 0.2, torch.nan), 5


@stranger(make_saturation, saturation_ref, {"curves": 29, "points": 23}, {"curves": 1 << 16, "points": 96})
@tileflow.kernel
def saturation_fits(x, y, turns: int):
    """Michaelis and Menten's curve through points of which some are missing, by Levenberg and Marquardt's steps."""
    curves = x.size(0)
    out = {name: torch.empty(curves, dtype=torch.float64, device=x.device) for name in ("top", "half", "error")}
    for c in tfl.tile(curves):
        dose, seen = x[c, :], y[c, :]

        def model(top, half, dose):
            return top[:, None] * dose / (half[:, None] + dose)

        def squares(top, half, along):
            return torch.nansum((seen - along(top, half)).square(), dim=1)

        along = partial(model, dose=dose)
        top = torch.nan_to_num(seen, nan=float("-inf")).amax(1)
        half = torch.nanmean(dose, dim=1)
        damp = torch.full_like(top, 1e-2)
        loss = squares(top, half, along)
        for _ in range(turns):
            error = seen - along(top, half)
            a = along(torch.ones_like(top), half)
            b = -along(top, half) / (half[:, None] + dose)
            aa = torch.where(seen.isnan(), 0.0, a * a).sum(1) + damp
            bb = torch.where(seen.isnan(), 0.0, b * b).sum(1) + damp
            ab = torch.where(seen.isnan(), 0.0, a * b).sum(1)
            ra, rb = (a * error).nansum(1), (b * error).nansum(1)
            det = aa * bb - ab * ab
            new_top = top + (bb * ra - ab * rb) / det
            new_half = torch.clamp_min(half + (aa * rb - ab * ra) / det, 1e-3)
            new_loss = squares(new_top, new_half, along)
            better = new_loss < loss
            top, half, loss = (
                torch.where(better, new, old) for new, old in ((new_top, top), (new_half, half), (new_loss, loss))
            )
            damp = torch.where(better, damp / 3, damp * 2)
        out["top"][c], out["half"][c], out["error"][c] = top, half, loss.sqrt()
    return out["top"], out["half"], out["error"]


def joining_ref(distances: Any) -> Any:
    joins, lengths = [], []
    for full in distances.double():
        d, n = full.clone(), len(full)
        alive = torch.ones(n, dtype=torch.bool)
        some, sizes = [], []
        for left in range(n, 2, -1):
            both = alive[:, None] & alive & ~torch.eye(n, dtype=torch.bool)
            r = torch.where(both, d, 0).sum(1)
            q = torch.where(both, (left - 2) * d - r[:, None] - r, torch.inf)
            a, b = divmod(int(q.flatten().argmin()), n)
            mine = d[a, b] / 2 + (r[a] - r[b]) / (2 * (left - 2))
            some.append([a, b])
            sizes.append([mine, d[a, b] - mine])
            row = (d[a] + d[b] - d[a, b]) / 2
            d[a], d[:, a] = row, row
            d[a, a], alive[b] = 0, False
        joins.append(some)
        lengths.append(sizes)
    return torch.tensor(joins, dtype=torch.int32), torch.tensor(lengths)


def make_distances(trees: int, taxa: int) -> Any:
    at = torch.randn(trees, taxa, 5)
    return (torch.cdist(at, at).div(2).half(),)


@stranger(make_distances, joining_ref, {"trees": 3, "taxa": 11}, {"trees": 4096, "taxa": 48}, loops=True)
@tileflow.kernel
def join_neighbours(distances):
    """Saitou and Nei, 1987: the two that are nearest, all others considered, become one, until two are left."""
    trees, taxa, _ = distances.shape
    joins = torch.empty(trees, taxa - 2, 2, dtype=torch.int32, device=distances.device)
    lengths = torch.empty(trees, taxa - 2, 2, device=distances.device)
    for t in tfl.grid(trees):
        d = distances[t, :, :].double()
        names = torch.arange(taxa)
        alive = torch.ones([taxa], dtype=torch.bool)
        for step in range(taxa - 2):
            left = taxa - step
            both = alive[:, None] & alive & (names[:, None] != names)
            r = torch.where(both, d, 0).sum(1)
            q = torch.where(both, (left - 2) * d - r[:, None] - r[None, :], float("inf"))
            a, b = divmod(q.flatten().argmin(), taxa)
            apart = d[a, b]
            mine = apart / 2 + (r[a] - r[b]) / (2 * (left - 2))
            joins[t, step, 0], joins[t, step, 1] = a, b
            lengths[t, step, 0] = mine
            lengths[t, step, 1] = apart - mine
            row = (d[a, :] + d[b, :] - apart) / 2
            row = torch.where(names == a, 0.0, row)
            d = torch.where((names == a)[:, None], row, torch.where(names == a, row[:, None], d))
            alive = alive & (names != b)
    return joins, lengths
