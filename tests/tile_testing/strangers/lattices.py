"""Quarks that hop on a lattice, shocks between cells, and samples between the points of a grid."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import stranger


def make_hops(t: int, x: int) -> Any:
    links = torch.randn(2, t, x, 3, 3, 2) * 0.4
    return torch.randn(t, x, 2, 3, 2), links, 0.12


def hops_ref(psi: Any, links: Any, kappa: float) -> Any:
    p, u = torch.view_as_complex(psi.contiguous()), torch.view_as_complex(links.contiguous())
    one = torch.eye(2, dtype=p.dtype)
    gamma = (torch.tensor([[0, 1], [1, 0]], dtype=p.dtype), torch.tensor([[0, -1j], [1j, 0]], dtype=p.dtype))
    total = torch.zeros_like(p)
    for mu in range(2):
        ahead = torch.einsum("txab,txsb->txsa", u[mu], p.roll(-1, mu))
        behind = torch.einsum("txba,txsb->txsa", u[mu].conj(), p).roll(1, mu)
        total += torch.einsum("rs,txsa->txra", one - gamma[mu], ahead)
        total += torch.einsum("rs,txsa->txra", one + gamma[mu], behind)
    return torch.view_as_real(p - kappa * total)


def times(a, b):
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def through(links, at, vector, back: bool):
    """A vector of three colours by a link's matrix, or by its adjoint."""
    rows = []
    for a in range(3):
        re, im = 0.0, 0.0
        for b in range(3):
            i, j = (b, a) if back else (a, b)
            u = links[*at, i, j, 0], links[*at, i, j, 1] * (-1 if back else 1)
            x = times(u, vector[b])
            re, im = re + x[0], im + x[1]
        rows.append((re, im))
    return rows


@stranger(make_hops, hops_ref, {"t": 5, "x": 6}, {"t": 1024, "x": 1024})
@tileflow.kernel
def wilson_hops(psi, links, kappa: float):
    """Wilson, 1974: fermions of two spins and three colours that hop to neighbours through links, in two dimensions."""
    nt, nx = psi.shape[:2]
    out = torch.empty_like(psi)

    def colours(at, spin):
        return [(psi[*at, spin, c, 0], psi[*at, spin, c, 1]) for c in range(3)]

    for tile in tfl.tile([nt, nx]):
        tt, tx = tile
        t, x = tt.index[:, None], tx.index[None, :]
        total = [[[0.0, 0.0] for _ in range(3)] for _ in range(2)]
        for mu in range(2):
            for back in (False, True):
                s = -1 if back else +1
                there = ((t + s) % nt, x) if mu == 0 else (t, (x + s) % nx)
                at = there if back else (t, x)
                up = through(links, (mu, *at), colours(there, 0), back)
                down = through(links, (mu, *at), colours(there, 1), back)
                for c in range(3):
                    (ur, ui), (dr, di) = up[c], down[c]
                    if mu == 0:
                        gu, gd = (dr, di), (ur, ui)
                    else:
                        gu, gd = (di, -dr), (-ui, ur)
                    for spin, own, turned in ((0, (ur, ui), gu), (1, (dr, di), gd)):
                        for part in range(2):
                            total[spin][c][part] += own[part] - s * turned[part]
        for spin in range(2):
            for c in range(3):
                for part in range(2):
                    out[tt, tx, spin, c, part] = psi[tt, tx, spin, c, part] - kappa * total[spin][c][part]
    return out


def make_tube(b: int, n: int) -> Any:
    rho, p = torch.rand(b, n) + 0.5, torch.rand(b, n) + 0.3
    u = torch.randn(b, n)
    return torch.stack([rho, rho * u, p / 0.4 + 0.5 * rho * u * u], 1).double(), 1.4, 0.05


def tube_ref(state: Any, gamma: float, ratio: float) -> Any:
    rho, m, e = state.unbind(1)
    u = m / rho
    p = (gamma - 1) * (e - 0.5 * m * u)
    a = (gamma * p / rho).sqrt()

    def sides(v: Any) -> Any:
        return v, torch.cat([v[:, 1:], v[:, -1:]], 1)

    (rl, rr), (ul, ur), (pl, pr), (al, ar) = map(sides, (rho, u, p, a))
    sl, sr = torch.minimum(ul - al, ur - ar), torch.maximum(ul + al, ur + ar)
    middle = (pr - pl + rl * ul * (sl - ul) - rr * ur * (sr - ur)) / (rl * (sl - ul) - rr * (sr - ur))

    def flux(r: Any, u: Any, p: Any) -> Any:
        return torch.stack([r * u, r * u * u + p, u * (p / (gamma - 1) + 0.5 * r * u * u + p)], 1)

    def star(r: Any, u: Any, p: Any, s: Any) -> Any:
        e = p / (gamma - 1) + 0.5 * r * u * u
        scale = r * (s - u) / (s - middle)
        u1 = torch.stack([scale, scale * middle, scale * (e / r + (middle - u) * (middle + p / (r * (s - u))))], 1)
        return flux(r, u, p) + s[:, None] * (u1 - torch.stack([r, r * u, e], 1))

    face = torch.where((middle >= 0)[:, None], star(rl, ul, pl, sl), star(rr, ur, pr, sr))
    face = torch.where((sl >= 0)[:, None], flux(rl, ul, pl), face)
    face = torch.where((sr <= 0)[:, None], flux(rr, ur, pr), face)
    before = torch.cat([flux(rho[:, :1], u[:, :1], p[:, :1]), face[..., :-1]], 2)
    return state - ratio * (face - before)


@stranger(make_tube, tube_ref, {"b": 3, "n": 19}, {"b": 64, "n": 65536})
@tileflow.kernel
def shock_tube_step(state, gamma: float, ratio: float):
    """Toro, Spruce and Speares, 1994 (HLLC): a step of a gas in tubes by waves between cells, with the middle one."""
    b, _, n = state.shape
    out = torch.empty_like(state)

    def primitive(tb, i):
        rho, m, e = state[tb, 0, i], state[tb, 1, i], state[tb, 2, i]
        u = m / rho
        return rho, u, (gamma - 1) * (e - 0.5 * m * u)

    def flux(r, u, p):
        return r * u, r * u * u + p, u * (p / (gamma - 1) + r * u * u / 2 + p)

    def face(tb, i, j):
        (rl, ul, pl), (rr, ur, pr) = primitive(tb, i), primitive(tb, j)
        al, ar = (gamma * pl / rl).sqrt(), (gamma * pr / rr) ** 0.5
        sl = torch.min(ul - al, ur - ar)
        sr = torch.max(ul + al, ur + ar)
        middle = (pr - pl + rl * ul * (sl - ul) - rr * ur * (sr - ur)) / (rl * (sl - ul) - rr * (sr - ur))
        results = []
        for k, (fl, fr) in enumerate(zip(flux(rl, ul, pl), flux(rr, ur, pr), strict=True)):
            both = []
            for r, u, p, s, f in ((rl, ul, pl, sl, fl), (rr, ur, pr, sr, fr)):
                e = p / (gamma - 1) + 0.5 * r * u.pow(2)
                scale = r * (s - u) / (s - middle)
                inner = (1.0, middle, e / r + (middle - u) * (middle + p / (r * (s - u))))[k]
                both.append(f + s * (scale * inner - (r, r * u, e)[k]))
            starred = torch.where(middle >= 0, *both)
            results.append(torch.where(sl >= 0, fl, torch.where(sr <= 0, fr, starred)))
        return results

    for tb, ti in tfl.tile([b, n]):
        i = ti.index
        right = face(tb, i, torch.clamp(i + 1, max=n - 1))
        left = face(tb, torch.clamp(i - 1, min=0), i)
        for k in range(3):
            out[tb, k, ti] = state[tb, k, ti] - ratio * (right[k] - left[k])
    return out


def make_spread(n: int, grid: int) -> Any:
    return torch.rand(n, 2) * grid, torch.randn(2, n).T, grid, 4, 2.3 * 4


def spread_ref(place: Any, value: Any, grid: int, width: int, beta: float) -> Any:
    out = torch.zeros(grid, grid, 2, dtype=value.dtype)
    first = torch.ceil(place - width / 2).long()
    for dy in range(width):
        for dx in range(width):
            cell = first + torch.tensor([dx, dy])
            z = 2 * (cell - place) / width
            weight = torch.exp(beta * ((1 - z * z).clamp(min=0).sqrt() - 1)).prod(1)
            at = cell % grid
            out.index_put_((at[:, 1], at[:, 0]), weight[:, None] * value, accumulate=True)
    return out


@stranger(make_spread, spread_ref, {"n": 37, "grid": 9}, {"n": 2_000_000, "grid": 2048})
@tileflow.kernel
def spread_to_grid(place, value, grid: int, width: int, beta: float):
    """Barnett, Magland and af Klinteberg, 2019 (FINUFFT): strengths at points, spread to a periodic grid."""
    n = len(place)
    out = torch.zeros((grid, grid, 2), device=place.device)

    def kernel(z):
        return (beta * (torch.sqrt((1 - z * z).clamp(min=0)) - 1)).exp()

    for tn in tfl.tile(n):
        x, y = place[tn, :].unbind(dim=-1)
        x0, y0 = torch.ceil(x - width / 2).int(), torch.ceil(y - width / 2).int()
        for d in range(width * width):
            dy, dx = divmod(d, width)
            cx, cy = x0 + dx, y0 + dy
            weight = kernel(2 * (cx - x) / width) * kernel(2 * (cy - y) / width)
            for part in (0, 1):
                tfl.atomic_add(out, [cy % grid, cx % grid, part], weight * value[tn, part])
    return out
