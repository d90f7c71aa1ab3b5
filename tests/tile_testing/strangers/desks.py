"""Smiles of volatility and paths of low discrepancy."""

from __future__ import annotations

import math
from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import stranger


def make_smile(m: int, k: int) -> Any:
    forward = torch.rand(m, dtype=torch.float64) * 0.03 + 0.02
    strike = forward[:, None] * (0.6 + 0.8 * torch.rand(m, k, dtype=torch.float64))
    strike[:, 0] = forward
    years, alpha = torch.rand(m) * 5 + 0.5, torch.rand(m) * 0.1 + 0.02
    return forward, strike, years, alpha, 0.5, torch.rand(m) - 0.5, torch.rand(m) + 0.2


def smile_ref(f: Any, strike: Any, t: Any, alpha: Any, beta: float, rho: Any, nu: Any) -> Any:
    f, t, alpha, rho, nu = (x.double()[:, None] for x in (f, t, alpha, rho, nu))
    k = strike.double()
    log = torch.log(f / k)
    mid = (f * k) ** ((1 - beta) / 2)
    z = nu / alpha * mid * log
    x = torch.log((torch.sqrt(1 - 2 * rho * z + z * z) + z - rho) / (1 - rho))
    fraction = torch.where(z.abs() < 1e-8, 1.0, z / torch.where(x == 0, 1.0, x))
    series = 1 + (1 - beta) ** 2 / 24 * log**2 + (1 - beta) ** 4 / 1920 * log**4
    more = (1 - beta) ** 2 / 24 * alpha**2 / mid**2 + rho * beta * nu * alpha / (4 * mid)
    more = more + (2 - 3 * rho**2) / 24 * nu**2
    return alpha / (mid * series) * fraction * (1 + more * t)


@stranger(make_smile, smile_ref, {"m": 5, "k": 13}, {"m": 16384, "k": 256})
@tileflow.kernel
def sabr_smiles(f, strike, t, alpha, beta: float, rho, nu):
    """Hagan and others, 2002 (SABR): implied volatilities of a forward with a random volatility, for many strikes."""
    m, k = strike.shape
    vol = torch.zeros_like(strike)
    for tm, tk in tfl.tile([m, k]):
        fw, time, a, r, v = (part[tm, None].double() for part in (f, t, alpha, rho, nu))
        x = strike[tm, tk]
        log = (fw / x).log()
        mid = torch.pow(fw * x, (1 - beta) / 2)
        z = v / a * mid * log
        chi = (((1 - 2 * r * z + z**2).sqrt() + z - r) / (1 - r)).log()
        near = z.abs() < 1e-8
        fraction = torch.where(near, 1.0, z / torch.where(chi == 0, 1.0, chi))
        series = 1 + (1 - beta) ** 2 / 24 * log.pow(2) + (1 - beta) ** 4 / 1920 * log.pow(4)
        more = (1 - beta) ** 2 / 24 * a**2 / mid**2 + r * beta * v * a / (4 * mid) + (2 - 3 * r**2) / 24 * v**2
        vol[tm, tk] = a / (mid * series) * fraction * (1 + more * time)
    return vol


def make_bridge(dims: int, paths: int) -> Any:
    engine = torch.quasirandom.SobolEngine(dims, scramble=False)
    return (engine.sobolstate.to(torch.int64), torch.randint(0, 1 << 30, (dims,), dtype=torch.int32), paths, 0.4)


def bridge_ref(directions: Any, shift: Any, paths: int, sigma: float) -> Any:
    dims = directions.size(0)
    i = torch.arange(paths) + 1
    gray = i ^ (i >> 1)
    x = torch.zeros(dims, paths, dtype=torch.long)
    for bit in range(20):
        x ^= torch.where((gray >> bit) & 1 > 0, directions[:, bit, None], 0)
    u = ((x ^ shift[:, None].long()).double() + 0.5) / 2**30
    z = torch.special.ndtri(u)
    w = torch.zeros(dims + 1, paths, dtype=torch.float64)
    w[dims] = z[0] * math.sqrt(1.0)
    level, d = dims, 1
    while level > 1:
        for left in range(0, dims, level):
            w[left + level // 2] = (w[left] + w[left + level]) / 2 + math.sqrt(level / dims) / 2 * z[d]
            d += 1
        level //= 2
    return (sigma * w[1:]).float()


@stranger(make_bridge, bridge_ref, {"dims": 8, "paths": 51}, {"dims": 16, "paths": 1 << 20})
@tileflow.kernel
def sobol_bridges(directions, shift, paths: int, sigma: float):
    """Caflisch, Morokoff and Owen, 1997: Brownian paths from Sobol's points, whose first dimensions place the ends."""
    dims = directions.size(0)
    out = torch.empty(dims, paths, device=directions.device)
    for tp in tfl.tile(paths):
        i = tp.index.long() + 1
        gray = i.bitwise_xor(i >> 1)

        def normal(d, gray=gray):
            x = torch.zeros_like(gray)
            for bit in tfl.static_range(20):
                x ^= torch.where((gray >> bit & 1).bool(), directions[d, bit], 0)
            x = x ^ shift[d]
            return torch.special.ndtri((x.to(torch.float64) + 0.5) / 2**30).float()

        w = {0: tfl.zeros([tp]), dims: normal(0)}
        level, d = dims, 1
        while level > 1:
            for left in range(0, dims, level):
                middle = (w[left] + w[left + level]) * 0.5
                w[left + level // 2] = torch.add(middle, normal(d), alpha=math.sqrt(level / dims) / 2)
                d += 1
            level //= 2
        for step in range(1, dims + 1):
            out[step - 1, tp] = sigma * w[step]
    return out
