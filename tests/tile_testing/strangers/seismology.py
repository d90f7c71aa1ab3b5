"""Waves in the ground: their equation, first arrivals, moveout, migration, triggers, correlated noise."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger

TAPS = (-205 / 72, 8 / 5, -1 / 5, 8 / 315, -1 / 560)


def wave_ref(now: Any, before: Any, speed: Any, damp: Any, dt: float, h: float) -> Any:
    n = len(TAPS) - 1
    p = F.pad(now, (n, n) * 3)
    curve = 3 * TAPS[0] * now
    for d in range(3):
        for i in range(1, n + 1):
            middle = [slice(n, n + s) for s in now.shape]
            for sign in (-i, i):
                at = list(middle)
                at[d] = slice(n + sign, n + sign + now.shape[d])
                curve = curve + TAPS[i] * p[tuple(at)]
    d = damp[:, None, None] * damp[None, :, None] * damp[None, None, :]
    return d * (2 * now - d * before + (speed * dt / h) ** 2 * curve)


@stranger(
    lambda n: (randn(n, n, n), randn(n, n, n), torch.rand(n, n, n) + 1.5, torch.linspace(0.9, 1, n), 0.001, 0.01),
    wave_ref,
    {"n": 13},
    {"n": 320},
)
@tileflow.kernel
def acoustic_wave_step(now, before, speed, damp, dt, h):
    """Cerjan et al., 1985: a leap of the wave equation, of eighth order in space, in a sponge."""
    nz, ny, nx = now.shape
    after = torch.empty_like(now)
    for tz, ty, tx in tfl.tile([nz, ny, nx]):
        u = now[tz, ty, tx]
        curve = 3 * TAPS[0] * u
        for i in range(1, 5):
            curve += TAPS[i] * (now[tz - i, ty, tx] + now[tz + i, ty, tx])
            curve += TAPS[i] * (now[tz, ty - i, tx] + now[tz, ty + i, tx])
            curve += TAPS[i] * (now[tz, ty, tx - i] + now[tz, ty, tx + i])
        d = damp[tz][:, None, None] * damp[ty][None, :, None] * damp[tx]
        courant = speed[tz, ty, tx] * dt / h
        after[tz, ty, tx] = d * (2 * u - d * before[tz, ty, tx] + courant**2 * curve)
    return after


def eikonal_ref(slow: Any, source: Any, h: float, turns: int) -> Any:
    t = torch.where(source, 0.0, 1e4).to(slow.dtype)
    for _ in range(turns):
        p = F.pad(t, (1, 1, 1, 1), value=1e4)
        a = torch.minimum(p[:-2, 1:-1], p[2:, 1:-1])
        b = torch.minimum(p[1:-1, :-2], p[1:-1, 2:])
        f = slow * h
        both = (a + b + torch.sqrt((2 * f * f - (a - b) ** 2).clamp(min=0))) / 2
        t = torch.minimum(t, torch.where((a - b).abs() >= f, torch.minimum(a, b) + f, both))
    return t


@stranger(
    lambda h, w, turns: (torch.rand(h, w) + 0.5, torch.rand(h, w) < 0.05, 0.1, turns),
    eikonal_ref,
    {"h": 11, "w": 19, "turns": 3},
    {"h": 2048, "w": 2048, "turns": 8},
)
@tileflow.kernel
def first_arrivals(slow, source, h, turns):
    """Rouy and Tourin, 1992: times of the first waves, upwind, as Jacobi would."""
    ny, nx = slow.shape
    t = torch.where(source, 0.0, 1e4)
    for _ in range(turns):
        new = torch.empty_like(t)
        for ty, tx in tfl.tile([ny, nx]):
            up = torch.where(ty.index[:, None] > 0, t[ty - 1, tx], 1e4)
            down = torch.where(ty.index[:, None] < ny - 1, t[ty + 1, tx], 1e4)
            left = torch.where(tx.index[None, :] > 0, t[ty, tx - 1], 1e4)
            right = torch.where(tx.index[None, :] < nx - 1, t[ty, tx + 1], 1e4)
            a = torch.minimum(up, down)
            b = torch.minimum(left, right)
            f = slow[ty, tx] * h
            one = torch.minimum(a, b) + f
            two = (a + b + torch.sqrt(torch.clamp(2 * f * f - (a - b) ** 2, min=0))) / 2
            found = torch.where((a - b).abs() >= f, one, two)
            new[ty, tx] = torch.minimum(t[ty, tx], found)
        t = new
    return t


def semblance_ref(gather: Any, offset: Any, velocity: Any, dt: float, half: int) -> Any:
    traces, n = gather.shape
    time = torch.arange(n) * dt
    found = []
    for v in velocity:
        at = torch.sqrt(time**2 + (offset[:, None] / v) ** 2) / dt
        k = at.floor()
        f = at - k
        k = k.long()
        low = torch.where(k < n, gather.gather(1, k.clamp(max=n - 1)), 0.0)
        high = torch.where(k + 1 < n, gather.gather(1, (k + 1).clamp(max=n - 1)), 0.0)
        value = low * (1 - f) + high * f
        window = torch.ones(1, 1, 2 * half + 1, dtype=value.dtype)
        top = F.conv1d(value.sum(0).square()[None, None], window, padding=half)[0, 0]
        bottom = F.conv1d(value.square().sum(0)[None, None], window, padding=half)[0, 0]
        found.append(top / (traces * bottom + 1e-6))
    return torch.stack(found)


@stranger(
    lambda traces, n, v: (
        randn(traces, n),
        torch.linspace(0.1, 3, traces),
        torch.linspace(1.5, 4.5, v),
        0.004,
        3,
    ),
    semblance_ref,
    {"traces": 7, "n": 53, "v": 5},
    {"traces": 96, "n": 2048, "v": 128},
)
@tileflow.kernel
def velocity_semblance(gather, offset, velocity, dt, half):
    """Neidell and Taner, 1971: how alike traces are along hyperbolas, smoothed by a window."""
    traces, n = gather.shape
    nv = velocity.numel()
    stacked = torch.empty(nv, n, device=gather.device)
    power = torch.empty(nv, n, device=gather.device)
    for tv, tt in tfl.tile([nv, n]):
        total = tfl.zeros([tv, tt])
        squares = tfl.zeros([tv, tt])
        time = tt.index * dt
        for i in range(traces):
            moveout = offset[i] / velocity[tv]
            at = torch.sqrt(time[None, :] ** 2 + moveout[:, None] ** 2) / dt
            k = at.int()
            f = at - k
            value = gather[i, k] * (1 - f) + gather[i, k + 1] * f
            total += value
            squares += value * value
        stacked[tv, tt] = total * total
        power[tv, tt] = squares
    out = torch.empty(nv, n, device=gather.device)
    for tv, tt in tfl.tile([nv, n]):
        top = tfl.zeros([tv, tt])
        bottom = tfl.zeros([tv, tt])
        for j in range(-half, half + 1):
            top += stacked[tv, tt + j]
            bottom += power[tv, tt + j]
        out[tv, tt] = top / (traces * bottom + 1e-6)
    return out


def migrated_ref(data: Any, source: Any, receiver: Any, nx: int, nz: int, h: float, v: float, dt: float) -> Any:
    traces, n = data.shape
    x = torch.arange(nx) * h
    z = (torch.arange(nz) + 1) * h
    out = torch.zeros(nz, nx, dtype=data.dtype)
    for i in range(traces):
        a = torch.sqrt((x - source[i]) ** 2 + z[:, None] ** 2)
        b = torch.sqrt((x - receiver[i]) ** 2 + z[:, None] ** 2)
        at = (a + b) / (v * dt)
        k = at.long()
        f = at - k
        low = torch.where(k < n, data[i][k.clamp(max=n - 1)], 0.0)
        high = torch.where(k + 1 < n, data[i][(k + 1).clamp(max=n - 1)], 0.0)
        out += (low * (1 - f) + high * f) * z[:, None] / (a * b)
    return out


@stranger(
    lambda traces, n, nx, nz: (
        randn(traces, n).cumsum(1) / 8,
        torch.rand(traces) * nx * 0.01,
        torch.rand(traces) * nx * 0.01,
        nx,
        nz,
        0.01,
        2.0,
        0.004,
    ),
    migrated_ref,
    {"traces": 7, "n": 61, "nx": 23, "nz": 13},
    {"traces": 512, "n": 1500, "nx": 384, "nz": 256},
)
@tileflow.kernel
def kirchhoff_migration(data, source, receiver, nx: int, nz: int, h, v, dt):
    """Schneider, 1978: an image as sums along diffraction curves of constant speed, before stacking."""
    traces = data.size(0)
    image = torch.empty(nz, nx, device=data.device)
    for tz, tx in tfl.tile([nz, nx]):
        z = ((tz.index + 1) * h)[:, None]
        x = (tx.index * h)[None, :]
        total = tfl.zeros([tz, tx])
        for i in range(traces):
            down = torch.hypot(x - source[i], z)
            up = torch.hypot(x - receiver[i], z)
            at = (down + up) / (v * dt)
            k = torch.floor(at).long()
            f = at - k
            amplitude = torch.lerp(data[i, k], data[i, k + 1], f)
            total += amplitude * z / (down * up)
        image[tz, tx] = total
    return image


def trigger_ref(counts: Any, short: int, long: int) -> Any:
    x = counts.double()
    sta = torch.zeros(x.size(0), dtype=torch.float64)
    lta = torch.zeros_like(sta)
    ratios = []
    for i in range(x.size(1)):
        e = x[:, i] ** 2
        sta = e / short + (1 - 1 / short) * sta
        lta = e / long + (1 - 1 / long) * lta
        ratios.append(torch.where(lta > 0, sta / lta.clamp(min=1e-9), 0.0) if i >= long else torch.zeros_like(sta))
    ratio = torch.stack(ratios, 1)
    return ratio.float(), ratio.amax(1).float()


@stranger(
    lambda b, n, short, long: (
        (randn(b, n) * 200 * (1 + 9 * (torch.rand(b, n) < 0.02))).to(torch.int16),
        short,
        long,
    ),
    trigger_ref,
    {"b": 5, "n": 43, "short": 3, "long": 11},
    {"b": 32768, "n": 750, "short": 10, "long": 200},
)
@tileflow.kernel
def sta_lta_trigger(counts, short, long):
    """Withers et al., 1998: how loud the last moments are against the last while, recursively."""
    b, n = counts.shape
    ratio = torch.zeros(b, n, device=counts.device)
    loudest = torch.zeros(b, device=counts.device)
    for tb in tfl.tile(b):
        sta = tfl.zeros([tb])
        lta = tfl.zeros([tb])
        best = tfl.zeros([tb])
        for i in range(n):
            energy = counts[tb, i].float() ** 2
            sta = sta + (energy - sta) / short
            lta = lta + (energy - lta) / long
            if i >= long:
                r = torch.where(lta > 0, sta / lta, 0.0)
                best = torch.maximum(best, r)
                ratio[tb, i] = r
        loudest[tb] = best
    return ratio, loudest


def ambient_ref(x: Any, lags: int) -> Any:
    y = x.float()
    out = []
    for lag in range(-lags, lags + 1):
        if lag >= 0:
            a, b = y[:, : y.size(1) - lag], y[:, lag:]
        else:
            a, b = y[:, -lag:], y[:, :lag]
        out.append(a @ b.T / y.size(1))
    return torch.stack(out, 2)


@stranger(
    lambda s, n, lags: (torch.sign(randn(s, n)).half(), lags),
    ambient_ref,
    {"s": 5, "n": 83, "lags": 3},
    {"s": 128, "n": 1 << 15, "lags": 24},
)
@tileflow.kernel
def ambient_correlation(x, lags: tfl.constexpr):
    """Bensen et al., 2007: noise of one bit at each pair of stations, correlated at lags of both signs."""
    s, n = x.shape
    out = torch.empty(s, s, 2 * lags + 1, dtype=torch.float32, device=x.device)
    for ti, tj, lag in tfl.tile([s, s, 2 * lags + 1], block_size=[None, None, 1]):
        total = tfl.zeros([ti, tj])
        for tt in tfl.tile(n):
            total += x[ti, tt].float() @ x[tj, tt + (lag.begin - lags)].float().T
        out[ti, tj, lag.begin] = total / n
    return out
