"""Orbits: Kepler's equation, close approaches, few bodies, a lumpy planet, ground tracks, catalogues, attitudes."""

from __future__ import annotations

import math
from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger

MU = 398600.4418  # the Earth's, in km^3 / s^2
EQUATOR, FLAT = 6378.137, 1 / 298.257223563  # km


def make_elements(n: Any, times: Any) -> Any:
    u = torch.rand(6, n, dtype=torch.float64)
    elements = torch.stack([7000 + 30000 * u[0], 0.7 * u[1], math.pi * u[2], *(2 * math.pi * u[3:])], 1)
    return elements, torch.arange(times, dtype=torch.float64) * 97.0


def kepler_ref(elements: Any, time: Any) -> Any:
    a, e, i, node, peri, m0 = (x[:, None] for x in elements.unbind(1))
    m = m0 + torch.sqrt(MU / a**3) * time
    big = m + e * torch.sin(m)
    for _ in range(30):
        big = big - (big - e * torch.sin(big) - m) / (1 - e * torch.cos(big))
    x, y = a * (torch.cos(big) - e), a * torch.sqrt(1 - e * e) * torch.sin(big)
    cn, sn, cp, sp = torch.cos(node), torch.sin(node), torch.cos(peri), torch.sin(peri)
    ci, si = torch.cos(i), torch.sin(i)
    return torch.stack(
        [
            x * (cn * cp - sn * sp * ci) - y * (cn * sp + sn * cp * ci),
            x * (sn * cp + cn * sp * ci) + y * (cn * cp * ci - sn * sp),
            x * sp * si + y * cp * si,
        ],
        -1,
    )


def newton(anomaly, e, m):
    return anomaly - (anomaly - e * torch.sin(anomaly) - m) / (1 - e * torch.cos(anomaly))


@stranger(make_elements, kepler_ref, {"n": 11, "times": 7}, {"n": 30_000, "times": 1440})
@tileflow.kernel
def kepler_positions(elements, time):
    """Kepler, 1609: where many satellites are at many times, in float64, by Newton's method for the anomaly."""
    n, times = elements.size(0), time.numel()
    out = torch.empty(n, times, 3, dtype=elements.dtype, device=elements.device)
    for ts, tt in tfl.tile([n, times]):
        a, e, i, node, peri, m0 = (elements[ts, k][:, None] for k in range(6))
        m = m0 + torch.sqrt(MU / a**3) * time[tt]
        anomaly = m + e * torch.sin(m)
        for _ in range(12):
            anomaly = newton(anomaly, e, m)
        x = a * (torch.cos(anomaly) - e)
        y = a * torch.sqrt(1 - e * e) * torch.sin(anomaly)
        cn, sn, cp, sp = torch.cos(node), torch.sin(node), torch.cos(peri), torch.sin(peri)
        ci, si = torch.cos(i), torch.sin(i)
        out[ts, tt, 0] = x * (cn * cp - sn * sp * ci) - y * (cn * sp + sn * cp * ci)
        out[ts, tt, 1] = x * (sn * cp + cn * sp * ci) + y * (cn * cp * ci - sn * sp)
        out[ts, tt, 2] = x * sp * si + y * cp * si
    return out


def approaches_ref(path: Any, near: float) -> Any:
    n = path.size(0)
    best = torch.full((n, n), float("inf"), dtype=path.dtype)
    step = torch.zeros(n, n, dtype=torch.int32)
    for k in range(path.size(1)):
        d2 = (path[:, None, k] - path[:, k]).square().sum(-1)
        step = torch.where(d2 < best, k, step)
        best = torch.minimum(best, d2)
    upper = torch.ones(n, n, dtype=torch.bool).triu(1)
    best = torch.where(upper, best, float("inf")).sqrt()
    close = best < near
    partner = torch.where(close.any(1), best.argmin(1), -1)
    return best.amin(1), partner.int(), step.gather(1, best.argmin(1)[:, None])[:, 0] * close.any(1), close.sum().int()


@stranger(
    lambda n, steps: ((torch.rand(n, steps, 3) * 50).float(), 20.0),
    approaches_ref,
    {"n": 23, "steps": 5},
    {"n": 8192, "steps": 64},
)
@tileflow.kernel
def close_approaches(path, near):
    """All pairs of objects, once: how near each comes to one of a higher number, whose and when, and how many do."""
    n, steps, _ = path.shape
    least = torch.empty(n, device=path.device)
    partner = torch.empty(n, dtype=torch.int32, device=path.device)
    when = torch.empty(n, dtype=torch.int32, device=path.device)
    count = torch.zeros((), dtype=torch.int32, device=path.device)
    for ti in tfl.tile(n):
        best = tfl.full([ti], float("inf"))
        who = tfl.full([ti], -1, dtype=torch.int32)
        at = tfl.zeros([ti], dtype=torch.int32)
        many = tfl.zeros([ti], dtype=torch.int32)
        for tj in tfl.tile(ti.begin, n):
            nearest = tfl.full([ti, tj], float("inf"))
            step = tfl.zeros([ti, tj], dtype=torch.int32)
            for k in range(steps):
                d2 = tfl.zeros([ti, tj])
                for axis in range(3):
                    d2 += (path[ti, k, axis][:, None] - path[tj, k, axis][None, :]) ** 2
                step = torch.where(d2 < nearest, k, step)
                nearest = torch.minimum(nearest, d2)
            above = tj.index[None, :] > ti.index[:, None]
            nearest = torch.where(above, nearest, float("inf")).sqrt()
            many += (nearest < near).sum(1).int()
            here, place = torch.min(nearest, 1)
            closer = here < best
            who = torch.where(closer, tj.begin + place, who)
            at = torch.where(closer, torch.gather(step, 1, place[:, None])[:, 0], at)
            best = torch.minimum(best, here)
        least[ti] = best
        partner[ti] = torch.where(best < near, who, -1)
        when[ti] = torch.where(best < near, at, 0)
        tfl.atomic_add(count, [], many.sum())
    return least, partner, when, count


def leapfrog_ref(place: Any, speed: Any, mass: Any, dt: float, steps: int) -> Any:
    def pull(x):
        apart = x[:, None, :, :] - x[:, :, None, :]
        r2 = apart.square().sum(-1) + 0.01
        return (apart * (mass[:, None, :] * r2**-1.5)[..., None]).sum(2)

    x, v = place.clone(), speed.clone()
    a = pull(x)
    for _ in range(steps):
        v = v + dt / 2 * a
        x = x + dt * v
        a = pull(x)
        v = v + dt / 2 * a
    place.copy_(x)
    speed.copy_(v)
    return 0.5 * (mass * v.square().sum(-1)).sum(1)


def pulls(x, mass):
    apart = x[:, None, :, :] - x[:, :, None, :]
    r2 = apart.square().sum(-1) + 0.01
    return (apart * (mass[:, None, :] * torch.rsqrt(r2) / r2)[..., None]).sum(2)


@stranger(
    lambda b, n, steps: (randn(b, n, 3), randn(b, n, 3) * 0.3, torch.rand(b, n) + 0.1, 0.01, steps),
    leapfrog_ref,
    {"b": 5, "n": 7, "steps": 3},
    {"b": 65536, "n": 9, "steps": 100},
)
@tileflow.kernel
def planet_leapfrog(place, speed, mass, dt, steps):
    """Many small systems of bodies that attract one another, in place: a leap of places between two half kicks."""
    b = place.size(0)
    energy = torch.empty(b, device=place.device)
    for t in tfl.tile(b):
        x, v, m = place[t, :, :], speed[t, :, :], mass[t, :]
        a = pulls(x, m)
        for _ in range(steps):
            v += dt / 2 * a
            x += dt * v
            a = pulls(x, m)
            v += dt / 2 * a
        place[t, :, :] = x
        speed[t, :, :] = v
        energy[t] = 0.5 * (m * v.square().sum(-1)).sum(1)
    return energy


def make_field(n: Any, degree: Any) -> Any:
    c = randn(degree + 1, degree + 1).double() * 1e-3
    s = randn(degree + 1, degree + 1).double() * 1e-3
    return torch.randn(n, 3, dtype=torch.float64) * 300 + 7000, c, s


def potential_ref(place: Any, c: Any, s: Any) -> Any:
    x, y, z = place.unbind(1)
    r = place.norm(dim=1)
    lon, u = torch.atan2(y, x), z / r
    total = torch.zeros_like(r)
    for n in range(c.size(0)):
        for m in range(n + 1):
            p = legendre_ref(n, m, u)
            total = total + (EQUATOR / r) ** n * p * (c[n, m] * torch.cos(m * lon) + s[n, m] * torch.sin(m * lon))
    return MU / r * total


def legendre_ref(n: int, m: int, u: Any) -> Any:
    here = torch.ones_like(u)
    for k in range(1, m + 1):
        here = here * (2 * k - 1) * torch.sqrt(1 - u * u) / k
    before = torch.zeros_like(u)
    for k in range(m + 1, n + 1):
        here, before = ((2 * k - 1) * u * here - (k + m - 1) * before) / (k - m), here
    return here


@stranger(make_field, potential_ref, {"n": 19, "degree": 4}, {"n": 1 << 18, "degree": 12})
@tileflow.kernel
def lumpy_potential(place, c, s):
    """A planet's potential by spherical harmonics, in float64: Legendre's functions by their recursions."""
    n = place.size(0)
    degree = c.size(0)
    out = torch.empty(n, dtype=place.dtype, device=place.device)
    for t in tfl.tile(n):
        x, y, z = place[t, 0], place[t, 1], place[t, 2]
        flat = x * x + y * y
        r = torch.sqrt(flat + z * z)
        u, w = z / r, torch.sqrt(flat) / r
        cl, sl = x / torch.sqrt(flat), y / torch.sqrt(flat)
        total = tfl.zeros([t], dtype=torch.float64)
        diagonal = torch.ones_like(r)
        cm, sm = torch.ones_like(r), torch.zeros_like(r)
        shrink = torch.ones_like(r)
        for m in range(degree):
            here, before = diagonal, torch.zeros_like(r)
            power = shrink
            for k in range(m, degree):
                total += power * here * (c[k, m] * cm + s[k, m] * sm)
                here, before = ((2 * k + 1) * u * here - (k + m) * before) / (k + 1 - m), here
                power = power * (EQUATOR / r)
            diagonal = diagonal * (2 * m + 1) * w / (m + 1)
            shrink = shrink * (EQUATOR / r)
            cm, sm = cm * cl - sm * sl, sm * cl + cm * sl
        out[t] = MU / r * total
    return out


def track_ref(path: Any, when: Any, turn: float) -> Any:
    x, y, z = path.unbind(-1)
    e2 = FLAT * (2 - FLAT)
    lon = torch.remainder(torch.atan2(y, x) - turn * when + math.pi, 2 * math.pi) - math.pi
    p = torch.sqrt(x * x + y * y)
    lat = torch.atan2(z, p)
    for _ in range(50):
        sine = torch.sin(lat)
        lat = torch.atan2(z + EQUATOR / torch.sqrt(1 - e2 * sine * sine) * e2 * sine, p)
    sine = torch.sin(lat)
    bend = EQUATOR / torch.sqrt(1 - e2 * sine * sine)
    height = p * torch.cos(lat) + z * sine - EQUATOR * EQUATOR / bend
    return torch.stack([lat * 180 / math.pi, lon * 180 / math.pi, height], -1)


@stranger(
    lambda n: (
        torch.randn(n, 3, dtype=torch.float64) * 5000 + 100,
        torch.rand(n, dtype=torch.float64) * 9e4,
        7.292115e-5,
    ),
    track_ref,
    {"n": 13},
    {"n": 1 << 20},
)
@tileflow.kernel
def ground_track(path, when, turn):
    """Latitude, longitude and height above the ellipsoid of each place, until the latitude stays."""
    out = torch.empty_like(path)
    e2 = FLAT * (2 - FLAT)
    for i in tfl.grid(path.size(0)):
        x, y, z = path[i, 0], path[i, 1], path[i, 2]
        p = torch.sqrt(x * x + y * y)
        lat = torch.atan2(z, p)
        change = torch.ones_like(lat)
        turns = 0
        while change > 1e-14 and turns < 50:
            sine = torch.sin(lat)
            bend = EQUATOR / torch.sqrt(1 - e2 * sine * sine)
            new = torch.atan2(z + bend * e2 * sine, p)
            change = (new - lat).abs()
            lat = new
            turns += 1
        sine = torch.sin(lat)
        bend = EQUATOR / torch.sqrt(1 - e2 * sine * sine)
        lon = torch.remainder(torch.atan2(y, x) - turn * when[i] + math.pi, 2 * math.pi) - math.pi
        out[i, 0] = lat * (180 / math.pi)
        out[i, 1] = lon * (180 / math.pi)
        out[i, 2] = p * torch.cos(lat) + z * sine - EQUATOR * EQUATOR / bend
    return out


def make_stars(n: Any, known: Any) -> Any:
    def sphere(count):
        return torch.rand(count) * 360, torch.rand(count) * 180 - 90

    ra, dec = sphere(known)
    dec, order = dec.sort()
    ra = ra[order]
    seen = torch.randint(0, known, (n,))
    return (
        (ra[seen] + 0.01 * torch.randn(n)) % 360,
        (dec[seen] + 0.01 * torch.randn(n)).clamp(-90, 90),
        ra,
        dec,
        0.5,
    )


def match_ref(ra: Any, dec: Any, known_ra: Any, known_dec: Any, radius: float) -> Any:
    turn = math.pi / 180
    near = 2.0 * torch.ones_like(ra)
    who = torch.full((ra.numel(),), -1, dtype=torch.int32)
    for i in range(ra.numel()):
        d2 = (
            torch.sin((dec[i] - known_dec) * turn / 2) ** 2
            + torch.cos(dec[i] * turn) * torch.cos(known_dec * turn) * torch.sin((ra[i] - known_ra) * turn / 2) ** 2
        )
        d2 = torch.where((known_dec - dec[i]).abs() <= radius, d2, 2.0)
        near[i] = d2.amin()
        if near[i] < math.sin(radius * turn / 2) ** 2:
            who[i] = int(d2.argmin())
    return who


@stranger(make_stars, match_ref, {"n": 21, "known": 67}, {"n": 1 << 17, "known": 1 << 17}, loops=True)
@tileflow.kernel
def match_stars(ra, dec, known_ra, known_dec, radius):
    """The nearest known star of each one that was seen, among those of a catalogue, by declination, in its zone."""
    n = ra.numel()
    first = torch.searchsorted(known_dec, dec - radius)
    last = torch.searchsorted(known_dec, dec + radius, right=True)
    who = torch.empty(n, dtype=torch.int32, device=ra.device)
    turn = math.pi / 180
    limit = math.sin(radius * turn / 2) ** 2
    for i in tfl.grid(n):
        a, d = ra[i] * turn, dec[i] * turn
        best = 2.0
        place = -1
        for tk in tfl.tile(first[i], last[i]):
            b, e = known_ra[tk] * turn, known_dec[tk] * turn
            sines = torch.sin((d - e) / 2) ** 2 + torch.cos(d) * torch.cos(e) * torch.sin((a - b) / 2) ** 2
            least, at = torch.min(sines, 0)
            if least < best:
                best = least
                place = tk.begin + at
        who[i] = place if best < limit else -1
    return who


def slerp_ref(key: Any, at: Any, when: Any, flip: bool) -> Any:
    hi = torch.searchsorted(at, when).clamp(1, at.numel() - 1)
    lo = hi - 1
    f = ((when - at[lo]) / (at[hi] - at[lo])).clamp(0, 1)[None, :, None]
    a, b = key[:, lo], key[:, hi]
    dot = (a * b).sum(-1, keepdim=True)
    b = torch.where(dot < 0, -b, b)
    angle = torch.acos(dot.abs().clamp(max=1 - 1e-6))
    q = (torch.sin((1 - f) * angle) * a + torch.sin(f * angle) * b) / torch.sin(angle)
    q = q / q.norm(dim=-1, keepdim=True)
    return q * torch.tensor([1.0, -1, -1, -1], dtype=q.dtype) if flip else q


def make_attitudes(craft: Any, keys: Any, times: Any) -> Any:
    q = randn(craft, keys, 4)
    at = torch.arange(keys) + 0.5 * torch.rand(keys)
    return q / q.norm(dim=-1, keepdim=True), at, torch.rand(times) * (keys + 1) - 0.5, True


@stranger(
    make_attitudes,
    slerp_ref,
    {"craft": 3, "keys": 9, "times": 21},
    {"craft": 256, "keys": 48, "times": 16384},
)
@tileflow.kernel
def attitude_slerp(key, at, when, inverse: bool):
    """Shoemake, 1985: attitudes between keys, the shorter way round; held at both ends."""
    craft, keys, _ = key.shape
    out = torch.empty(craft, when.numel(), 4, device=key.device)
    for tc, tt in tfl.tile([craft, when.numel()]):
        t = when[tt]
        hi = torch.clamp(torch.searchsorted(at[:], t), 1, keys - 1)
        lo = hi - 1
        f = torch.clamp((t - at[lo]) / (at[hi] - at[lo]), 0, 1)[None, :, None]
        a, b = key[tc, lo, :], key[tc, hi, :]
        dot = (a * b).sum(-1, keepdim=True)
        b = torch.where(dot < 0, -b, b)
        angle = torch.acos(torch.clamp(dot.abs(), max=1 - 1e-6))
        q = (torch.sin((1 - f) * angle) * a + torch.sin(f * angle) * b) / torch.sin(angle)
        q = torch.nn.functional.normalize(q, dim=-1)
        if inverse:
            q = q * torch.tensor([1.0, -1.0, -1.0, -1.0])
        out[tc, tt, :] = q
    return out
