"""Materials: mixtures that part, magnets, heaps of sand, cracks, metals, electrons on a grid, how dense a liquid is."""

from __future__ import annotations

import math
from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def around(u: Any) -> Any:
    return sum(u.roll(s, a) for a in range(3) for s in (1, -1)) - 6 * u


def parting_ref(c: Any, dt: float, kappa: float, steps: int) -> Any:
    for _ in range(steps):
        c = c + dt * around(c.pow(3) - c - kappa * around(c))
    return c


@stranger(
    lambda d, h, w: (0.1 * randn(d, h, w), 0.01, 0.5, 2),
    parting_ref,
    {"d": 5, "h": 6, "w": 9},
    {"d": 256, "h": 256, "w": 256},
)
@tileflow.kernel
def parting_mixture(c, dt, kappa, steps: int):
    """Cahn and Hilliard, 1958: two substances part; the chemical potential, then what flows down it, on a torus."""
    d, h, w = c.shape

    def laplacian(u, z, y, x):
        here = u[z, y, x]
        total = u[(z + 1) % d, y, x] + u[(z + d - 1) % d, y, x]
        total = total + u[z, (y + 1) % h, x] + u[z, (y + h - 1) % h, x]
        total = total + u[z, y, (x + 1) % w] + u[z, y, (x + w - 1) % w]
        return total - 6 * here

    for _ in range(steps):
        potential, new = torch.empty_like(c), torch.empty_like(c)
        for tz, ty, tx in tfl.tile([d, h, w]):
            here = c[tz, ty, tx]
            potential[tz, ty, tx] = here**3 - here - kappa * laplacian(c, tz.index, ty.index, tx.index)
        for tz, ty, tx in tfl.tile([d, h, w]):
            new[tz, ty, tx] = c[tz, ty, tx] + dt * laplacian(potential, tz.index, ty.index, tx.index)
        c = new
    return c


def magnet_ref(m: Any, field: Any, exchange: float, easy: float, damping: float, dt: float) -> Any:
    padded = torch.nn.functional.pad(m, (1, 1, 1, 1, 1, 1))
    inner = slice(1, -1)
    near = padded[:, :-2, inner, inner] + padded[:, 2:, inner, inner]
    near = near + padded[:, inner, :-2, inner] + padded[:, inner, 2:, inner]
    near = near + padded[:, inner, inner, :-2] + padded[:, inner, inner, 2:]
    total = exchange * near + field[:, None, None, None]
    total[2] += easy * m[2]
    turn = torch.linalg.cross(m, total, dim=0)
    moved = m - dt / (1 + damping**2) * (turn + damping * torch.linalg.cross(m, turn, dim=0))
    return moved / torch.linalg.vector_norm(moved, dim=0, keepdim=True)


@stranger(
    lambda d, h, w: (
        torch.nn.functional.normalize(randn(3, d, h, w), dim=0),
        torch.tensor([0.1, 0.0, 0.3]),
        0.4,
        0.2,
        0.1,
        0.05,
    ),
    magnet_ref,
    {"d": 3, "h": 7, "w": 11},
    {"d": 16, "h": 1024, "w": 1024},
)
@tileflow.kernel
def magnet_step(m, field, exchange, easy, damping, dt):
    """Landau and Lifshitz, 1935: each spin turns around the field that its neighbours and an axis make, and settles."""
    _, d, h, w = m.shape
    out = torch.empty_like(m)

    def cross(a, b):
        return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]

    for tz, ty, tx in tfl.tile([d, h, w]):
        spin, total = [], []
        for k in range(3):
            near = m[k, tz - 1, ty, tx] + m[k, tz + 1, ty, tx]
            near = near + m[k, tz, ty - 1, tx] + m[k, tz, ty + 1, tx]
            near = near + m[k, tz, ty, tx - 1] + m[k, tz, ty, tx + 1]
            spin.append(m[k, tz, ty, tx])
            total.append(exchange * near + field[k])
        total[2] = total[2] + easy * spin[2]
        turn = cross(spin, total)
        settle = cross(spin, turn)
        moved = [s - dt / (1 + damping**2) * (a + damping * b) for s, a, b in zip(spin, turn, settle, strict=True)]
        size = torch.sqrt(moved[0] ** 2 + moved[1] ** 2 + moved[2] ** 2)
        for k in range(3):
            out[k, tz, ty, tx] = moved[k] / size
    return out


def sand_ref(heap: Any, turns: int) -> Any:
    counts = []
    kernel = torch.tensor([[0, 1, 0], [1, -4, 1], [0, 1, 0]]).float()[None, None]
    for _ in range(turns):
        falls = heap >= 4
        heap = heap + torch.nn.functional.conv2d(falls.float()[None, None], kernel, padding=1)[0, 0].int()
        counts.append(falls.sum())
    return heap, torch.stack(counts).int()


@stranger(
    lambda h, w: (torch.randint(0, 8, (h, w), dtype=torch.int32), 3),
    sand_ref,
    {"h": 9, "w": 23},
    {"h": 4096, "w": 4096},
)
@tileflow.kernel
def sand_heap(heap, turns: int):
    """Bak, Tang and Wiesenfeld, 1987: four grains of a steep place fall to its sides, and how often each turn."""
    h, w = heap.shape
    falls = torch.zeros(turns, dtype=torch.int32, device=heap.device)
    for turn in range(turns):
        new = torch.empty_like(heap)
        for ty, tx in tfl.tile([h, w]):
            steep = heap[ty, tx] >= 4
            new[ty, tx] = (
                heap[ty, tx]
                - 4 * steep.int()
                + (heap[ty - 1, tx] >= 4).int()
                + (heap[ty + 1, tx] >= 4).int()
                + (heap[ty, tx - 1] >= 4).int()
                + (heap[ty, tx + 1] >= 4).int()
            )
            tfl.atomic_add(falls, [turn], steep.sum())
        heap = new
    return heap, falls


def make_bonds(n: Any, most: Any) -> Any:
    count = torch.randint(0, most, (n,))
    start = torch.cat([torch.zeros(1, dtype=torch.int64), count.cumsum(0)])
    m = int(start[-1])
    mine = torch.repeat_interleave(torch.arange(n), count)
    other = ((mine + torch.randint(1, 50, (m,))) % n).int()
    place = torch.stack([torch.arange(n) * 0.1, torch.rand(n)], 1)
    moved = 0.02 * randn(n, 2)
    rest = place[other.long()] - place[mine]
    now = rest + moved[other.long()] - moved[mine]
    length, size = torch.linalg.vector_norm(rest, dim=1), torch.linalg.vector_norm(now, dim=1)
    clear = ((size - length) / length - 0.05).abs() > 1e-4  # no bond that rounding may break
    return place, moved, start.int(), other, clear & (torch.rand(m) < 0.9), 0.05


def crack_ref(place: Any, moved: Any, start: Any, other: Any, alive: Any, most: float) -> Any:
    n = place.size(0)
    count = start.diff().long()
    mine, other = torch.repeat_interleave(torch.arange(n), count), other.long()
    rest = place[other] - place[mine]
    now = rest + moved[other] - moved[mine]
    length, size = torch.hypot(*rest.unbind(1)), torch.hypot(*now.unbind(1))
    stretch = (size - length) / length
    holds = alive & (stretch <= most)
    pull = torch.where(holds, stretch / size, 0.0)[:, None] * now
    kept = torch.zeros(n).index_add(0, mine, holds.float())
    return torch.zeros(n, 2).index_add(0, mine, pull), 1 - kept / count.clamp(min=1), holds


@stranger(make_bonds, crack_ref, {"n": 37, "most": 9}, {"n": 1 << 19, "most": 60})
@tileflow.kernel
def crack_forces(place, moved, start, other, alive, most):
    """Silling and Askari, 2005: bonds of points pull as they stretch, and break for good; what is broken of each."""
    n = place.size(0)
    force = torch.empty_like(place)
    damage = torch.empty(n, device=place.device)
    holds = torch.empty_like(alive)
    for t in tfl.tile(n):
        begin = start[t]
        count = start[t + 1] - begin
        x, y = place[t, 0][:, None], place[t, 1][:, None]
        u, v = moved[t, 0][:, None], moved[t, 1][:, None]
        fx, fy, kept = tfl.zeros([t]), tfl.zeros([t]), tfl.zeros([t])
        for tj in tfl.jagged_tile(count):
            bond = begin[:, None] + tj.index[None, :]
            j = other[bond]
            rx, ry = place[j, 0] - x, place[j, 1] - y
            nx, ny = rx + moved[j, 0] - u, ry + moved[j, 1] - v
            length, size = torch.hypot(rx, ry), torch.hypot(nx, ny)
            stretch = (size - length) / length
            whole = alive[bond] & (stretch <= most)
            pull = torch.where(whole, stretch / size, 0.0)
            fx += (pull * nx).sum(1)
            fy += (pull * ny).sum(1)
            kept += whole.float().sum(1)
            holds[bond] = whole
        force[t, 0] = fx
        force[t, 1] = fy
        damage[t] = 1 - kept / torch.clamp(count, min=1)
    return force, damage, holds


def make_metal(n: Any, k: Any, points: Any) -> Any:
    side = math.ceil(n ** (1 / 3))
    site = torch.arange(n)
    place = torch.stack([site % side, site // side % side, site // side**2], 1) * 2.0 + torch.rand(n, 3) * 0.2
    near = (site[:, None] + torch.randint(1, 40, (n, k))) % n
    near = torch.where(torch.rand(n, k) < 0.8, near, -1).int()
    r = torch.linspace(0, 1, points)
    return place, near, (1 - r) ** 2, (1 - r) ** 3 * 4, 6.0, 2.0 * side


def metal_ref(place: Any, near: Any, density: Any, pair: Any, cutoff: float, box: float) -> Any:
    points = density.numel()
    other = near.clamp(min=0).long()
    apart = place[other] - place[:, None]
    apart = apart - box * (apart / box).round()
    r = torch.linalg.vector_norm(apart, dim=2).clamp(min=1e-6)
    inside = (near >= 0) & (r < cutoff)
    at = r * ((points - 1) / cutoff)
    i = at.long().clamp(max=points - 2)

    def slope(table: Any) -> Any:
        return table.diff()[i]

    def value(table: Any) -> Any:
        return torch.where(inside, table[i] + (at - i) * slope(table), 0.0)

    rho = value(density).sum(1)
    energy = value(pair).sum(1) / 2 - rho.sqrt()
    root = torch.where(rho > 0, -0.5 * rho.clamp(min=1e-12).rsqrt(), 0.0)
    push = (slope(pair) + (root[:, None] + root[other]) * slope(density)) * ((points - 1) / cutoff)
    return energy, (torch.where(inside, push / r, 0.0)[..., None] * apart).sum(1)


@stranger(
    make_metal,
    metal_ref,
    {"n": 29, "k": 7, "points": 33},
    {"n": 1 << 18, "k": 48, "points": 2000},
)
@tileflow.kernel
def embedded_atoms(place, near, density, pair, cutoff, box):
    """Daw and Baskes, 1984: metals' energies and forces, by tables; a first launch finds where electrons are dense."""
    n = near.size(0)
    points = density.size(0)
    scale = (points - 1) / cutoff
    energy, root = torch.empty(n, device=place.device), torch.empty(n, device=place.device)
    force = torch.empty_like(place)

    def neighbours(t):
        j = near[t, :]
        apart = []
        for axis in range(3):
            d = place[j, axis] - place[t, axis][:, None]
            apart.append(d - box * torch.round(d / box))
        r = torch.clamp(torch.sqrt(sum(d * d for d in apart)), min=1e-6)
        return j, apart, r, (j >= 0) & (r < cutoff)

    def look_up(table, r):
        i = torch.clamp((r * scale).int(), max=points - 2)
        low = table[i]
        rise = table[i + 1] - low
        return low + (r * scale - i) * rise, rise * scale

    for t in tfl.tile(n):
        _, _, r, inside = neighbours(t)
        rho = torch.where(inside, look_up(density, r)[0], 0.0).sum(1)
        energy[t] = torch.where(inside, look_up(pair, r)[0], 0.0).sum(1) / 2 - torch.sqrt(rho)
        root[t] = torch.where(rho > 0, -0.5 * torch.rsqrt(rho), 0.0)
    for t in tfl.tile(n):
        j, apart, r, inside = neighbours(t)
        push = look_up(pair, r)[1] + (root[t][:, None] + root[j]) * look_up(density, r)[1]
        push = torch.where(inside, push / r, 0.0)
        for axis in range(3):
            force[t, axis] = (push * apart[axis]).sum(1)
    return energy, force


def exchange_ref(rho: Any) -> Any:
    rho = rho.detach().requires_grad_()
    rs = (3 / (4 * math.pi * rho)) ** (1 / 3)
    thin = -0.1423 / (1 + 1.0529 * rs.sqrt() + 0.3334 * rs)
    thick = 0.0311 * rs.log() - 0.048 + 0.002 * rs * rs.log() - 0.0116 * rs
    each = -0.75 * (3 / math.pi) ** (1 / 3) * rho ** (1 / 3) + torch.where(rs >= 1, thin, thick)
    (potential,) = torch.autograd.grad((each * rho).sum(), rho)
    return (each * rho).detach(), potential


@stranger(
    lambda n, dtype=torch.float64: (torch.exp(2 * torch.randn(n, dtype=dtype)),),
    exchange_ref,
    {"n": 101},
    {"n": 1 << 23},
)
@tileflow.kernel
def local_density(rho):
    """Perdew and Zunger, 1981: exchange and correlation of electrons by their density alone, and the potential."""
    energy, potential = torch.empty_like(rho), torch.empty_like(rho)
    for t in tfl.tile(rho.numel()):
        n = rho[t]
        rs = (3 / (4 * math.pi * n)) ** (1 / 3)
        root, log = torch.sqrt(rs), torch.log(rs)
        below = 1 + 1.0529 * root + 0.3334 * rs
        thin = -0.1423 / below
        thin_v = thin * (1 + 7 / 6 * 1.0529 * root + 4 / 3 * 0.3334 * rs) / below
        thick = 0.0311 * log - 0.048 + 0.002 * rs * log - 0.0116 * rs
        thick_v = 0.0311 * log - (0.048 + 0.0311 / 3) + 2 / 3 * 0.002 * rs * log + (2 * -0.0116 - 0.002) / 3 * rs
        exchange = -0.75 * (3 / math.pi) ** (1 / 3) * n ** (1 / 3)
        energy[t] = n * (exchange + torch.where(rs >= 1, thin, thick))
        potential[t] = 4 / 3 * exchange + torch.where(rs >= 1, thin_v, thick_v)
    return energy, potential


def distribution_ref(place: Any, box: float, bins: int) -> Any:
    n, counts = place.size(0), torch.zeros(bins, dtype=torch.int64)
    for k, part in enumerate(place.split(1024)):
        d = part[:, None] - place
        d = d - box * torch.round(d / box)
        bin = (torch.sqrt(d[..., 0] ** 2 + d[..., 1] ** 2 + d[..., 2] ** 2) * (2 * bins / box)).long()
        other = torch.arange(k * 1024, k * 1024 + part.size(0))[:, None] != torch.arange(n)
        counts += torch.bincount(bin[other & (bin < bins)], minlength=bins)
    edge = torch.arange(bins + 1).double() * (box / (2 * bins))
    shell = (4 / 3 * math.pi) * edge.pow(3).diff()
    return counts.int(), (counts * (box**3 / n**2) / shell).float()


@stranger(
    lambda n, bins: (torch.randint(0, 1024, (n, 3)) / 128, 8.0, bins),  # whose squares' sums are exact
    distribution_ref,
    {"n": 43, "bins": 16},
    {"n": 8192, "bins": 256},
)
@tileflow.kernel
def pair_distribution(place, box, bins: tfl.constexpr):
    """Rahman, 1964: how many atoms are at each distance from another, against as many spread evenly."""
    n = place.size(0)
    counts = torch.zeros(bins, dtype=torch.int32, device=place.device)
    ratio = torch.empty(bins, device=place.device)
    width = box / (2 * bins)
    for ti, tj in tfl.tile([n, n]):
        square = tfl.zeros([ti, tj])
        for axis in range(3):
            d = place[ti, axis][:, None] - place[tj, axis][None, :]
            d = d - box * torch.round(d / box)
            square += d * d
        bin = (torch.sqrt(square) / width).int()
        tfl.atomic_add(counts, [bin], 1, extra_mask=(ti.index[:, None] != tj.index[None, :]) & (bin < bins))
    for t in tfl.tile(bins):
        inner, outer = t.index * width, (t.index + 1) * width
        shell = 4 / 3 * math.pi * (outer**3 - inner**3)
        ratio[t] = counts[t] * (box**3 / n**2) / shell
    return counts, ratio
