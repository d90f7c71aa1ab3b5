"""Weather and climate: transport, shallow water, rain, radiation in columns, winds traced back, seasons."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def limited(below: Any, here: Any, above: Any) -> Any:
    """Van Leer's slope: the harmonic mean of both differences where they have one sign."""
    a, b = here - below, above - here
    both = a * b
    return torch.where(both > 0, 2 * both / torch.where(both > 0, a + b, 1.0), 0.0)


def upwind(c: Any, at: Any) -> Any:
    """What crosses the face on the right of the cells that `at` gives, as functions of a shift."""
    left = at(0) + 0.5 * (1 - c) * limited(at(-1), at(0), at(1))
    right = at(1) - 0.5 * (1 + c) * limited(at(0), at(1), at(2))
    return torch.where(c > 0, c * left, c * right)


def transport_ref(q: Any, c: Any) -> Any:
    flux = upwind(c, lambda k: q.roll(-k, 1))
    return q - (flux - flux.roll(1, 1))


@stranger(
    lambda h, w: (torch.rand(h, w), torch.rand(h, w) - 0.5),
    transport_ref,
    {"h": 7, "w": 21},
    {"h": 4096, "w": 8192},
)
@tileflow.kernel
def limited_transport(q, courant):
    """Van Leer, 1974: a tracer carried along circles of latitude, second order, without new extremes."""
    h, w = q.shape
    out = torch.empty_like(q)
    for ty, tx in tfl.tile([h, w]):
        x = tx.index

        def face(shift, ty=ty, x=x):
            c = courant[ty, (x + shift + w) % w]
            return upwind(c, lambda k: q[ty, (x + shift + k + w) % w])

        out[ty, tx] = q[ty, tx] - (face(0) - face(-1))
    return out


def water_ref(u: Any, v: Any, h: Any, dt: Any, g: Any, f: Any) -> Any:
    def right(a: Any) -> Any:
        return a.roll(-1, 1)

    def left(a: Any) -> Any:
        return a.roll(1, 1)

    def up(a: Any) -> Any:
        return a.roll(-1, 0)

    def down(a: Any) -> Any:
        return a.roll(1, 0)

    vu = 0.25 * (v + left(v) + up(v) + up(left(v)))
    uv = 0.25 * (u + right(u) + down(u) + right(down(u)))
    nu = u + dt * (f * vu - g * (h - left(h)))
    nv = v + dt * (-f * uv - g * (h - down(h)))
    flow_x, flow_y = u * 0.5 * (h + left(h)), v * 0.5 * (h + down(h))
    return nu, nv, h - dt * (right(flow_x) - flow_x + up(flow_y) - flow_y)


@stranger(
    lambda h, w, dtype=torch.float32: (
        randn(h, w, dtype=dtype),
        randn(h, w, dtype=dtype),
        10 + torch.rand(h, w, dtype=dtype),
        0.01,
        9.81,
        0.1,
    ),
    water_ref,
    {"h": 9, "w": 13},
    {"h": 4096, "w": 4096, "dtype": torch.float64},
)
@tileflow.kernel
def shallow_water_step(u, v, height, dt, g, f):
    """Arakawa's C grid on a torus: velocities on the faces of cells, heights in their middles."""
    ny, nx = u.shape
    nu, nv, nh = torch.empty_like(u), torch.empty_like(v), torch.empty_like(height)
    for ty, tx in tfl.tile([ny, nx]):
        y, x = ty.index, tx.index
        north, south, east, west = (y + 1) % ny, (y + ny - 1) % ny, (x + 1) % nx, (x + nx - 1) % nx
        h, hw, hs = height[y, x], height[y, west], height[south, x]
        vu = 0.25 * (v[y, x] + v[y, west] + v[north, x] + v[north, west])
        uv = 0.25 * (u[y, x] + u[y, east] + u[south, x] + u[south, east])
        nu[ty, tx] = u[y, x] + dt * (f * vu - g * (h - hw))
        nv[ty, tx] = v[y, x] + dt * (-f * uv - g * (h - hs))
        fx, fxe = u[y, x] * 0.5 * (h + hw), u[y, east] * 0.5 * (height[y, east] + h)
        fy, fyn = v[y, x] * 0.5 * (h + hs), v[north, x] * 0.5 * (height[north, x] + h)
        nh[ty, tx] = h - dt * (fxe - fx + fyn - fy)
    return nu, nv, nh


def rain_ref(t: Any, p: Any, qv: Any, qc: Any, qr: Any, dt: float) -> Any:
    convert = (1e-3 * (qc - 5e-4)).clamp(min=0) * dt
    collect = 2.2 * qc * qr.clamp(min=0) ** 0.875 * dt
    rained = torch.minimum(qc, convert + collect)
    qc, qr = qc - rained, qr + rained
    es = 610.78 * torch.exp(17.269 * (t - 273.16) / (t - 35.86))
    qs = 0.622 * es / (p - es)
    slope = 1 + qs * 17.269 * 237.3 * 2.5e6 / (1004 * (t - 35.86) ** 2)
    moved = torch.maximum((qv - qs) / slope, -qc)
    evaporated = torch.minimum(qr, dt * 1e-3 * torch.sqrt(qr) * (1 - qv / qs).clamp(min=0))
    t = t + 2.5e6 / 1004 * (moved - evaporated)
    return t, qv - moved + evaporated, qc + moved, qr - evaporated


@stranger(
    lambda n: (
        260 + 40 * torch.rand(n),
        7e4 + 3e4 * torch.rand(n),
        torch.rand(n) * 2e-2,
        torch.rand(n) * 2e-3,
        torch.rand(n) * 1e-3 + 1e-5,
        10.0,
    ),
    rain_ref,
    {"n": 101},
    {"n": 1 << 24},
)
@tileflow.kernel
def warm_rain(t, p, qv, qc, qr, dt):
    """Kessler, 1969: cloud turns into rain and collects, what is too moist condenses, rain evaporates below."""
    new_t, new_v, new_c, new_r = (torch.empty_like(t) for _ in range(4))
    for i in tfl.tile(t.numel()):
        temperature, vapour, cloud, rain = t[i], qv[i], qc[i], qr[i]
        convert = torch.clamp(1e-3 * (cloud - 5e-4), min=0) * dt
        collect = 2.2 * cloud * torch.clamp(rain, min=0) ** 0.875 * dt
        rained = torch.minimum(cloud, convert + collect)
        cloud, rain = cloud - rained, rain + rained
        es = 610.78 * torch.exp(17.269 * (temperature - 273.16) / (temperature - 35.86))
        qs = 0.622 * es / (p[i] - es)
        slope = 1 + qs * 17.269 * 237.3 * 2.5e6 / (1004 * (temperature - 35.86) ** 2)
        moved = torch.maximum((vapour - qs) / slope, -cloud)
        evaporated = torch.minimum(rain, dt * 1e-3 * torch.sqrt(rain) * torch.clamp(1 - vapour / qs, min=0))
        new_t[i] = temperature + 2.5e6 / 1004 * (moved - evaporated)
        new_v[i] = vapour - moved + evaporated
        new_c[i] = cloud + moved
        new_r[i] = rain - evaporated
    return new_t, new_v, new_c, new_r


def long_wave_ref(t: Any, tau: Any, ground: Any) -> Any:
    layers = t.size(0)
    through = torch.exp(-1.66 * tau)
    own = 5.67e-8 * t**4 * (1 - through)
    down = [torch.zeros_like(t[0])]
    for k in range(layers):
        down.append(down[-1] * through[k] + own[k])
    up = [5.67e-8 * ground**4]
    for k in reversed(range(layers)):
        up.append(up[-1] * through[k] + own[k])
    net = torch.stack(up[::-1]) - torch.stack(down)
    return net, net[1:] - net[:-1]


@stranger(
    lambda layers, n: (200 + 100 * torch.rand(layers, n), torch.rand(layers, n) * 0.2, 270 + 30 * torch.rand(n)),
    long_wave_ref,
    {"layers": 9, "n": 37},
    {"layers": 96, "n": 1 << 17},
)
@tileflow.kernel
def long_wave_fluxes(t, tau, ground):
    """Each layer lets through and adds its own, on the way down and on the way up again; what that heats."""
    layers, n = t.shape
    net = torch.empty(layers + 1, n, device=t.device)
    heating = torch.empty_like(t)
    for i in tfl.tile(n):
        flux = tfl.zeros([i])
        net[0, i] = -flux
        for k in range(layers):
            through = torch.exp(-1.66 * tau[k, i])
            flux = flux * through + 5.67e-8 * t[k, i] ** 4 * (1 - through)
            net[k + 1, i] = -flux
        flux = 5.67e-8 * ground[i] ** 4
        lower = net[layers, i] + flux
        net[layers, i] = lower
        for k in reversed(range(layers)):
            through = torch.exp(-1.66 * tau[k, i])
            flux = flux * through + 5.67e-8 * t[k, i] ** 4 * (1 - through)
            upper = net[k, i] + flux
            net[k, i] = upper
            heating[k, i] = lower - upper
            lower = upper
    return net, heating


def traced_ref(q: Any, u: Any, v: Any) -> Any:
    h, w = u.shape
    y = torch.arange(h)[:, None] - v
    x = torch.arange(w)[None] - u
    y0, x0 = y.floor(), x.floor()
    fy, fx = y - y0, x - x0
    iy, ix = y0.long(), x0.long()

    def at(dy: int, dx: int) -> Any:
        return q[:, (iy + dy).clamp(0, h - 1), (ix + dx) % w]

    top = at(0, 0) * (1 - fx) + at(0, 1) * fx
    return top * (1 - fy) + (at(1, 0) * (1 - fx) + at(1, 1) * fx) * fy


@stranger(
    lambda c, h, w: (randn(c, h, w), randn(h, w) * 2, randn(h, w)),
    traced_ref,
    {"c": 3, "h": 9, "w": 14},
    {"c": 16, "h": 2048, "w": 4096},
)
@tileflow.kernel
def semi_lagrangian(q, u, v):
    """Robert, 1981: where the air of each place came from, and what all tracers were there."""
    c, h, w = q.shape
    out = torch.empty_like(q)
    for ty, tx in tfl.tile([h, w]):
        y = ty.index[:, None] - v[ty, tx]
        x = tx.index[None, :] - u[ty, tx]
        y0, x0 = torch.floor(y), torch.floor(x)
        fy, fx = y - y0, x - x0
        north, south = torch.clamp(y0.int(), 0, h - 1), torch.clamp(y0.int() + 1, 0, h - 1)
        west, east = x0.int() % w, (x0.int() + 1) % w
        for k in range(c):
            top = q[k, north, west] * (1 - fx) + q[k, north, east] * fx
            low = q[k, south, west] * (1 - fx) + q[k, south, east] * fx
            out[k, ty, tx] = top * (1 - fy) + low * fy
    return out


def season_ref(x: Any, days: int) -> Any:
    y = x.view(-1, days, x.size(1)).float()
    mean, spread = y.mean(0, keepdim=True), y.std(0, keepdim=True)
    return ((y - mean) / (spread + 1e-3)).flatten(0, 1).to(x.dtype)


@stranger(
    lambda years, days, n: (randn(years * days, n) * 3 + 280, days),
    season_ref,
    {"years": 5, "days": 7, "n": 13},
    {"years": 32, "days": 365, "n": 4096},
)
@tileflow.kernel
def seasonal_anomalies(x, days: tfl.constexpr):
    """Each day's difference from that day of all years, in spreads."""
    total, n = x.shape
    y = x.view(total // days, days, n)
    out = torch.empty_like(y)
    for td, tn in tfl.tile([days, n]):
        all_years = y[:, td, tn].float()
        mean = all_years.mean(0, keepdim=True)
        spread = all_years.std(0, keepdim=True)
        out[:, td, tn] = (all_years - mean) / (spread + 1e-3)
    return out.view(total, n)
