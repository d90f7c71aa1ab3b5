"""Steps of optimisers, simulations, closed formulas."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def make_state(n: int) -> tuple[Any, ...]:
    return randn(n), randn(n), randn(n), torch.rand(n), 3


def adam(p: Any, g: Any, m: Any, v: Any, step: int) -> tuple[Any, ...]:
    m, v = 0.9 * m + 0.1 * g, 0.95 * v + 0.05 * g * g
    move = (m / (1 - 0.9**step)) / (torch.sqrt(v / (1 - 0.95**step)) + 1e-8)
    return p * (1 - 1e-3 * 0.1) - 1e-3 * move, m, v


@stranger(make_state, adam, {"n": 211}, {"n": 1 << 27})
@tileflow.kernel
def adam_step(p, g, m, v, step):
    """With decoupled decay (arXiv:1711.05101)."""
    p1, m1, v1 = torch.empty_like(p), torch.empty_like(m), torch.empty_like(v)
    first, second = 1 - 0.9**step, 1 - 0.95**step
    for tile in tfl.tile(p.size(0)):
        grad = g[tile]
        mean, square = 0.9 * m[tile] + 0.1 * grad, 0.95 * v[tile] + 0.05 * grad * grad
        move = (mean / first) / (torch.sqrt(square / second) + 1e-8)
        p1[tile] = p[tile] * (1 - 1e-3 * 0.1) - 1e-3 * move
        m1[tile], v1[tile] = mean, square
    return p1, m1, v1


def make_square(n: int, k: int, dtype: torch.dtype = torch.float32) -> tuple[Any, ...]:
    return (randn(n, k, dtype=dtype) * (n + k) ** -0.5,)


def gram(x: Any) -> torch.Tensor:
    return (-4.775 * torch.eye(x.size(0), device=x.device) + 2.0315 * x.float() @ x.float().mT).to(x.dtype)


@stranger(make_square, gram, {"n": 37, "k": 21}, {"n": 4096, "k": 4096, "dtype": torch.bfloat16})
@tileflow.kernel
def newton_schulz(x):
    """The symmetric factor of a step of Muon: -b I + c x x^T."""
    n, k = x.shape
    out = torch.empty(n, n, dtype=x.dtype, device=x.device)
    for a, b in tfl.tile([n, n]):
        acc = tfl.zeros([a, b])
        for inner in tfl.tile(k):
            acc = tfl.dot(x[a, inner], x[b, inner].T, acc=acc)
        out[a, b] = 2.0315 * acc - torch.where(a.index[:, None] == b.index[None, :], 4.775, 0.0)
    return out


def make_bodies(n: int) -> tuple[Any, ...]:
    return randn(n, 3), torch.rand(n)


def forces(place: Any, mass: Any) -> torch.Tensor:
    gap = place[None, :] - place[:, None]
    return (gap * (mass[None, :] * (gap.square().sum(-1) + 0.01) ** -1.5)[..., None]).sum(1)


@stranger(make_bodies, forces, {"n": 37}, {"n": 16384})
@tileflow.kernel
def gravity(place, mass):
    n = place.size(0)
    out = torch.empty_like(place)
    for mine in tfl.tile(n):
        here = [place[mine, axis] for axis in range(3)]
        x, y, z = tfl.zeros([mine]), tfl.zeros([mine]), tfl.zeros([mine])
        for others in tfl.tile(n):
            dx, dy, dz = (place[others, axis][None, :] - here[axis][:, None] for axis in range(3))
            near = torch.rsqrt(dx * dx + dy * dy + dz * dz + 0.01)
            pull = mass[others][None, :] * near * near * near
            x, y, z = x + (pull * dx).sum(1), y + (pull * dy).sum(1), z + (pull * dz).sum(1)
        out[mine, 0], out[mine, 1], out[mine, 2] = x, y, z
    return out


def make_grid(n: int) -> tuple[Any, ...]:
    return torch.linspace(-1.93, 0.97, n), torch.linspace(-1.2, 1.2, n), 20


def escaped(re: Any, im: Any, steps: int) -> torch.Tensor:
    c = torch.complex(re[None, :].expand(len(im), -1), im[:, None].expand(-1, len(re)))
    z, count = torch.zeros_like(c), torch.zeros(c.shape, dtype=torch.int32, device=c.device)
    for _ in range(steps):
        inside = z.abs() <= 2
        count += inside
        z = torch.where(inside, z * z + c, z)
    return count


@stranger(make_grid, escaped, {"n": 37}, {"n": 4096})
@tileflow.kernel
def mandelbrot(re, im, steps):
    out = torch.empty(im.size(0), re.size(0), dtype=torch.int32, device=re.device)
    for ty, tx in tfl.tile(out.shape):
        zr, zi = tfl.zeros([ty, tx]), tfl.zeros([ty, tx])
        count = tfl.zeros([ty, tx], dtype=torch.int32)
        for _ in range(steps):
            inside = zr * zr + zi * zi <= 4.0
            count = count + inside.to(torch.int32)
            new = zr * zr - zi * zi + re[tx][None, :]
            zi = torch.where(inside, 2 * zr * zi + im[ty][:, None], zi)
            zr = torch.where(inside, new, zr)
        out[ty, tx] = count
    return out


def make_options(n: int) -> tuple[Any, ...]:
    return torch.rand(n) * 50 + 75, torch.rand(n) * 50 + 75, torch.rand(n) + 0.1, 0.02, 0.3


def priced(spot: Any, strike: Any, years: Any, rate: float, sigma: float) -> torch.Tensor:
    d1 = (torch.log(spot / strike) + (rate + 0.5 * sigma**2) * years) / (sigma * years.sqrt())
    normal = torch.distributions.Normal(0.0, 1.0).cdf
    return spot * normal(d1) - strike * torch.exp(-rate * years) * normal(d1 - sigma * years.sqrt())


@stranger(make_options, priced, {"n": 211}, {"n": 1 << 26})
@tileflow.kernel
def black_scholes(spot, strike, years, rate, sigma):
    def normal(value):
        return 0.5 * (1 + torch.erf(value * 0.7071067811865476))

    out = torch.empty_like(spot)
    for tile in tfl.tile(spot.size(0)):
        s, k, t = spot[tile], strike[tile], years[tile]
        spread = sigma * torch.sqrt(t)
        d1 = (torch.log(s / k) + (rate + 0.5 * sigma * sigma) * t) / spread
        out[tile] = s * normal(d1) - k * torch.exp(-rate * t) * normal(d1 - spread)
    return out
