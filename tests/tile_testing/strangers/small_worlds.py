"""Small worlds and what is asked of them: gases, electrons, rays, triangles, boxes, carriers, games, days, trades."""

from __future__ import annotations

import bisect
import datetime
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import stranger


def make_haplotypes(n: int, read: int, haplotype: int) -> Any:
    return (
        torch.randint(0, 4, (n, read), dtype=torch.uint8),
        torch.randint(10, 40, (n, read), dtype=torch.uint8),
        torch.randint(0, 4, (n, haplotype), dtype=torch.uint8),
    )


def haplotypes_ref(reads: Any, qualities: Any, haplotypes: Any, opened: float = 1e-3, extended: float = 0.1) -> Any:
    found = []
    for read, quality, haplotype in zip(reads.tolist(), qualities.tolist(), haplotypes.tolist(), strict=True):
        width = len(haplotype)
        match, insert, delete = [0.0] * (width + 1), [0.0] * (width + 1), [1 / width] * (width + 1)
        for base, q in zip(read, quality, strict=True):
            error = 10 ** (-q / 10)
            m, i, d = [0.0], [0.0], [0.0]
            for j in range(1, width + 1):
                chance = 1 - error if base == haplotype[j - 1] else error / 3
                before = (1 - 2 * opened) * match[j - 1] + (1 - extended) * (insert[j - 1] + delete[j - 1])
                m.append(chance * before)
                i.append(opened * match[j] + extended * insert[j])
                d.append(opened * m[j - 1] + extended * d[j - 1])
            match, insert, delete = m, i, d
        found.append(math.log10(sum(match[1:]) + sum(insert[1:])))
    return torch.tensor(found, dtype=torch.float64)


def chained(a: Any, b: Any) -> Any:
    return a[0] * b[0], a[1] * b[0] + b[1]


@stranger(
    make_haplotypes,
    haplotypes_ref,
    {"n": 5, "read": 7, "haplotype": 13},
    {"n": 16384, "read": 100, "haplotype": 256},
    loops=True,
)
@tileflow.kernel
def pair_hmm(reads, qualities, haplotypes, gap_open: float = 1e-3, gap_extend: float = 0.1):
    """GATK's PairHMM (Poplin et al., 2018): how likely a read is of a haplotype, over all ways to align them."""
    n, length = reads.shape
    width = haplotypes.shape[1]
    out = torch.empty(n, dtype=torch.float64, device=reads.device)
    for t in tfl.tile(n):
        haplotype = haplotypes[t, :]
        match = torch.zeros(t, width, dtype=torch.float64)
        insert = torch.zeros(t, width, dtype=torch.float64)
        delete = torch.full((t, width), 1 / width, dtype=torch.float64)
        start = 1 / width
        for i in range(length):
            error = 10 ** (-qualities[t, i].double() / 10)
            same = haplotype == reads[t, i][:, None]
            chance = torch.where(same, 1 - error[:, None], error[:, None] / 3)
            before = (1 - 2 * gap_open) * match + (1 - gap_extend) * (insert + delete)
            first = (1 - gap_extend) * start
            before = F.pad(before[:, :-1], (1, 0), value=0.0)
            before = before + torch.where(torch.arange(width) == 0, first, 0.0)
            insert = gap_open * match + gap_extend * insert
            match = chance * before
            opened = gap_open * F.pad(match[:, :-1], (1, 0))
            _, delete = tfl.associative_scan(chained, (torch.full_like(opened, gap_extend), opened), dim=1)
            start = 0.0
        out[t] = torch.log10((match + insert).sum(-1))
    return out


def make_electrons(n: int) -> Any:
    f64 = torch.float64
    return (
        0.3 + torch.rand(n, dtype=f64),
        torch.randn(n, 3, dtype=f64),
        torch.rand(n, dtype=f64),
        torch.randn(n, dtype=f64),
    )


def electrons_ref(exponents: Any, centres: Any, factors: Any, density: Any) -> Any:
    p, q = exponents[:, None], exponents
    far = (centres[:, None] - centres).square().sum(2)
    t = p * q / (p + q) * far
    x, w = torch.linspace(0, 1, 4001, dtype=torch.float64), torch.full((4001,), 2.0, dtype=torch.float64)
    w[1::2] = 4.0
    w[0] = w[-1] = 1.0
    boys = (torch.exp(-t[:, :, None] * x * x) * w).sum(2) / 12000
    repulsion = 2 * math.pi**2.5 / (p * q * (p + q).sqrt()) * factors[:, None] * factors * boys
    return repulsion @ density, 0.5 * density @ repulsion @ density


def boys(t: torch.Tensor) -> torch.Tensor:
    small = t < 1e-6
    safe = torch.where(small, 1.0, t)
    return torch.where(small, 1 - t / 3, 0.5 * torch.sqrt(math.pi / safe) * torch.erf(safe.sqrt()))


@stranger(make_electrons, electrons_ref, {"n": 23}, {"n": 16384}, loops=True)
@tileflow.kernel
def coulomb_matrix(exponents, centres, factors, density):
    """Boys, 1950: the repulsion of clouds of electrons that are Gaussians, and the energy of all of them."""
    n = exponents.numel()
    out = torch.empty_like(density)
    energy = torch.zeros((), dtype=density.dtype, device=density.device)
    for i in tfl.tile(n):
        total = tfl.zeros([i], dtype=torch.float64)
        p, a = exponents[i][:, None], centres[i, :]
        for j in tfl.tile(n):
            q, b = exponents[j][None, :], centres[j, :]
            squared = torch.cdist(a, b) ** 2
            factor = 2 * math.pi**2.5 / (p * q * torch.sqrt(p + q))
            value = factor * boys(p * q / (p + q) * squared)
            total += (value * (factors[j] * density[j])[None, :]).sum(dim=1)
        total = total * factors[i]
        out[i] = total
        tfl.atomic_add(energy, (), 0.5 * (total * density[i]).sum())
    return out, energy


class Gas(NamedTuple):
    """What is kept of a gas in each cell, or flows from one to the next."""

    density: Any
    momentum: Any
    energy: Any

    def pressure(self, gamma: float) -> Any:
        return (gamma - 1) * (self.energy - 0.5 * self.momentum**2 / self.density)

    def flux(self, gamma: float) -> Gas:
        u, p = self.momentum / self.density, self.pressure(gamma)
        return Gas(self.momentum, self.momentum * u + p, (self.energy + p) * u)


def make_gas(n: int) -> Any:
    density, u, p = 0.5 + torch.rand(n), torch.randn(n), 0.5 + torch.rand(n)
    return Gas(density, density * u, p / 0.4 + 0.5 * density * u**2), 0.1


def gas_ref(gas: Any, courant: float, gamma: float = 1.4) -> Any:
    x = torch.stack(list(gas)).double()
    left, right = torch.cat([x[:, :1], x], 1), torch.cat([x, x[:, -1:]], 1)
    u = [s[1] / s[0] for s in (left, right)]
    p = [(gamma - 1) * (s[2] - 0.5 * s[1] ** 2 / s[0]) for s in (left, right)]
    c = [(gamma * q / s[0]).sqrt() for q, s in zip(p, (left, right), strict=True)]
    slow, fast = torch.minimum(u[0] - c[0], u[1] - c[1]), torch.maximum(u[0] + c[0], u[1] + c[1])
    fl, fr = (torch.stack([s[1], s[1] * v + q, (s[2] + q) * v]) for s, v, q in zip((left, right), u, p, strict=True))
    middle = (fast * fl - slow * fr + slow * fast * (right - left)) / (fast - slow)
    flux = torch.where(slow >= 0, fl, torch.where(fast <= 0, fr, middle))
    return Gas(*(x - courant * (flux[:, 1:] - flux[:, :-1])).float())


def hll(left: Gas, right: Gas, gamma: float) -> Gas:
    ul, ur = left.momentum / left.density, right.momentum / right.density
    cl = (gamma * left.pressure(gamma) / left.density).sqrt()
    cr = (gamma * right.pressure(gamma) / right.density).sqrt()
    slow, fast = torch.minimum(ul - cl, ur - cr), torch.maximum(ul + cl, ur + cr)
    fluxes = []
    for a, b, fl, fr in zip(left, right, left.flux(gamma), right.flux(gamma), strict=True):
        middle = (fast * fl - slow * fr + slow * fast * (b - a)) / (fast - slow)
        fluxes.append(torch.where(slow >= 0, fl, torch.where(fast <= 0, fr, middle)))
    return Gas(*fluxes)


@stranger(make_gas, gas_ref, {"n": 45}, {"n": 1 << 23})
@tileflow.kernel
def hll_step(gas: Gas, courant: float, gamma: float = 1.4) -> Gas:
    """Harten, Lax and van Leer, 1983: a step of a gas in a tube with open ends, by the waves between its cells."""
    new = Gas(*map(torch.empty_like, gas))
    n = gas.density.numel()
    for t in tfl.tile(n):
        here = Gas(*(x[t] for x in gas))
        before = Gas(*(x[(t.index - 1).clamp(min=0)] for x in gas))
        after = Gas(*(x[(t.index + 1).clamp(max=n - 1)] for x in gas))
        flux_in, flux_out = hll(before, here, gamma), hll(here, after, gamma)
        for field, value in here._asdict().items():
            getattr(new, field)[t] = value - courant * (getattr(flux_out, field) - getattr(flux_in, field))
    return new


@dataclass
class Sphere:
    x: float
    y: float
    z: float
    radius: float

    def distance(self, x: Any, y: Any, z: Any) -> Any:
        return torch.sqrt((x - self.x) ** 2 + (y - self.y) ** 2 + (z - self.z) ** 2) - self.radius


@dataclass
class Torus:
    y: float
    large: float
    small: float

    def distance(self, x: Any, y: Any, z: Any) -> Any:
        ring = torch.hypot(x, z) - self.large
        return torch.hypot(ring, y - self.y) - self.small


class SmoothUnion:
    def __init__(self, shapes: list[Any], softness: float) -> None:
        self.shapes = shapes
        self.softness = softness

    def distance(self, x: Any, y: Any, z: Any) -> Any:
        first, *others = [shape.distance(x, y, z) for shape in self.shapes]
        for other in others:
            h = (0.5 + 0.5 * (other - first) / self.softness).clamp(0, 1)
            first = torch.lerp(other, first, h) - self.softness * h * (1 - h)
        return first


def make_scene(height: int, width: int) -> Any:
    scene = SmoothUnion([Sphere(0.0, 0.3, 0.0, 0.8), Torus(-0.4, 1.1, 0.3), Sphere(0.9, 0.9, 0.2, 0.3)], 0.2)
    return scene, torch.empty(height, width), 48


def scene_ref(scene: Any, image: Any, steps: int) -> Any:
    height, width = image.shape
    v = ((torch.arange(height).double() + 0.5) / height * 2 - 1)[:, None].expand(height, width)
    u = ((torch.arange(width).double() + 0.5) / width * 2 - 1).expand(height, width)
    norm = (u**2 + v**2 + 4).sqrt()
    dx, dy, dz = u / norm, -v / norm, 2 / norm
    far = torch.zeros_like(u)
    for _ in range(steps):
        far = (far + scene.distance(far * dx, far * dy, far * dz - 4)).clamp(max=10.0)
    image.copy_(far)


@stranger(make_scene, scene_ref, {"height": 9, "width": 14}, {"height": 2160, "width": 3840})
@tileflow.kernel
def sphere_trace(scene, image, steps: int) -> None:
    """Hart, 1996: rays go as far as the scene says that nothing is; shapes are objects that know their distance."""
    height, width = image.shape
    for row, column in tfl.tile([height, width]):
        v = (row.index + 0.5) / height * 2 - 1
        u = (column.index + 0.5) / width * 2 - 1
        u, v = torch.broadcast_tensors(u[None, :], v[:, None])
        norm = torch.sqrt(u * u + v * v + 4)
        dx, dy, dz = u / norm, -v / norm, 2 / norm
        far = torch.zeros_like(u)
        for _ in range(steps):
            far = far + scene.distance(far * dx, far * dy, far * dz - 4)
            far = far.clamp(max=10.0)
        image[row, column] = far


def make_mesh(n: int, height: int, width: int) -> Any:
    corners = torch.rand(n, 1, 3) * torch.tensor([width, height, 1.0])
    return corners + (torch.rand(n, 3, 3) - 0.5) * torch.tensor([width, height, 0.2]) / 2, height, width


def mesh_ref(triangles: Any, height: int, width: int) -> Any:
    y, x = torch.meshgrid(torch.arange(height) + 0.5, torch.arange(width) + 0.5, indexing="ij")
    depth, face = torch.full((height, width), math.inf), torch.full((height, width), -1, dtype=torch.int32)
    share = torch.zeros(height, width, 3)
    for k, (a, b, c) in enumerate(triangles.double()):
        m = torch.stack([torch.stack([a[0], b[0], c[0]]), torch.stack([a[1], b[1], c[1]]), torch.ones(3).double()])
        w = torch.linalg.solve(m, torch.stack([x.flatten(), y.flatten(), torch.ones(x.numel())]).double())
        z = (w * torch.stack([a[2], b[2], c[2]])[:, None]).sum(0).view(height, width)
        seen = (w >= 0).all(0).view(height, width) & (z < depth) & (z > 0)
        depth = torch.where(seen, z.float(), depth)
        face[seen] = k
        share[seen] = w.T.reshape(height, width, 3).float()[seen]
    return depth, face, share


@stranger(
    make_mesh, mesh_ref, {"n": 6, "height": 11, "width": 18}, {"n": 200, "height": 1080, "width": 1920}, loops=True
)
@tileflow.kernel
def rasterise(triangles, height: int, width: int):
    """Pineda, 1988: which triangle each pixel shows, how far it is, and the shares of its corners."""
    depth = torch.empty(height, width, device=triangles.device)
    face = torch.empty(height, width, dtype=torch.int32, device=triangles.device)
    share = torch.empty(height, width, 3, device=triangles.device)
    for i, j in tfl.tile([height, width]):
        y = i.index[:, None] + 0.5
        x = j.index[None, :] + 0.5
        nearest = tfl.full([i, j], math.inf)
        number = tfl.full([i, j], -1, dtype=torch.int32)
        best = [tfl.zeros([i, j]) for _ in range(3)]
        for k in range(triangles.size(0)):
            (ax, ay, az), (bx, by, bz), (cx, cy, cz) = [[triangles[k, p, q] for q in range(3)] for p in range(3)]
            area = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)
            wa = ((bx - x) * (cy - y) - (by - y) * (cx - x)) / area
            wb = ((cx - x) * (ay - y) - (cy - y) * (ax - x)) / area
            wc = 1 - wa - wb
            z = wa * az + wb * bz + wc * cz
            seen = (wa >= 0) & (wb >= 0) & (wc >= 0) & (z > 0) & (z < nearest)
            nearest = torch.where(seen, z, nearest)
            number = torch.where(seen, k, number)
            best = [torch.where(seen, new, old) for new, old in zip((wa, wb, wc), best, strict=True)]
        depth[i, j] = nearest
        face[i, j] = number
        share[i, j, :] = torch.stack(best, dim=-1)
    return depth, face, share


def make_hierarchy(queries: int, levels: int) -> Any:
    """A whole binary tree over boxes in the order of their places on a line."""
    leaves = 1 << levels
    low = torch.rand(leaves, 2)
    low = low[low[:, 0].argsort()]
    boxes = [torch.cat([low, low + 0.1 * torch.rand(leaves, 2)], 1)]
    while boxes[0].size(0) > 1:
        pairs = boxes[0].view(-1, 2, 4)
        boxes.insert(0, torch.cat([pairs[..., :2].amin(1), pairs[..., 2:].amax(1)], 1))
    corner = torch.rand(queries, 2)
    return torch.cat(boxes), torch.cat([corner, corner + 0.2 * torch.rand(queries, 2)], 1)


def hierarchy_ref(boxes: Any, queries: Any) -> Any:
    first = boxes.size(0) // 2
    leaves = boxes[first:]
    meets = (queries[:, None, :2] <= leaves[:, 2:]) & (leaves[:, :2] <= queries[:, None, 2:])
    meets = meets.all(2)
    shared = torch.minimum(queries[:, None, 2:], leaves[:, 2:]) - torch.maximum(queries[:, None, :2], leaves[:, :2])
    return meets.sum(1).int(), torch.where(meets, shared.prod(2), 0.0).sum(1)


@stranger(make_hierarchy, hierarchy_ref, {"queries": 21, "levels": 4}, {"queries": 1 << 18, "levels": 12})
@tileflow.kernel
def hierarchy_overlaps(boxes, queries):
    """Karras, 2012: boxes that meet a box, by a walk through a tree of boxes with a stack for each query."""
    n = queries.size(0)
    nodes = boxes.size(0)
    counts = torch.empty(n, dtype=torch.int32, device=boxes.device)
    areas = torch.empty(n, device=boxes.device)
    for t in tfl.tile(n):
        x0, y0, x1, y1 = torch.unbind(queries[t, :], dim=-1)
        stack = torch.zeros(t, 16, dtype=torch.int32)
        slot = torch.arange(16)
        height = torch.ones_like(x0, dtype=torch.int32)
        count = tfl.zeros([t], dtype=torch.int32)
        area = tfl.zeros([t])
        while (height > 0).any():
            busy = height > 0
            height = torch.where(busy, height - 1, height)
            node = stack.gather(1, height[:, None].long()).squeeze(1)
            left, top, right, bottom = [boxes[node, k] for k in range(4)]
            meets = busy & (x0 <= right) & (left <= x1) & (y0 <= bottom) & (top <= y1)
            leaf = node >= nodes // 2
            shared = (torch.minimum(x1, right) - torch.maximum(x0, left)) * (
                torch.minimum(y1, bottom) - torch.maximum(y0, top)
            )
            count += meets & leaf
            area += torch.where(meets & leaf, shared, 0.0)
            push = meets & ~leaf
            for child in (2 * node + 1, 2 * node + 2):
                stack = torch.where(push[:, None] & (slot == height[:, None]), child[:, None], stack)
                height += push
        counts[t] = count
        areas[t] = area
    return counts, areas


def make_carriers(channels: int, n: int) -> Any:
    bits = torch.where(torch.rand(n, channels) < 0.5, -1.0, 1.0)
    phase = 0.01 * torch.arange(n)[:, None] + 0.5 * torch.rand(channels)
    noise = 0.05 * torch.randn(n, channels, dtype=torch.complex64)
    return (torch.polar(bits.abs(), phase) * bits + noise).T, 0.1, 0.01


def carriers_ref(samples: Any, alpha: float, beta: float) -> Any:
    x = samples.to(torch.complex128)
    phase = torch.zeros(x.size(0)).double()
    rate = torch.zeros(x.size(0)).double()
    out = []
    for i in range(x.size(1)):
        y = x[:, i] * torch.polar(torch.ones_like(phase), -phase)
        out.append(y)
        error = y.real * y.imag
        rate = rate + beta * error
        phase = torch.remainder(phase + rate + alpha * error, 2 * math.pi)
    return torch.stack(out, 1).to(torch.complex64), rate.float()


@stranger(make_carriers, carriers_ref, {"channels": 7, "n": 50}, {"channels": 8192, "n": 2048})
@tileflow.kernel
def costas_loop(samples, alpha: float, beta: float):
    """Costas, 1956: a carrier's phase and rate, followed sample by sample by the product of both quadratures."""
    channels, n = samples.shape
    out = torch.empty_like(samples)
    rates = torch.empty(channels, device=samples.device)
    x, y = torch.view_as_real(samples), torch.view_as_real(out)
    for t in tfl.tile(channels):
        phase = tfl.zeros([t])
        rate = tfl.zeros([t])
        for i in range(n):
            re, im = x[t, i, 0], x[t, i, 1]
            c, s = torch.cos(phase), torch.sin(phase)
            re, im = re * c + im * s, im * c - re * s
            y[t, i, 0], y[t, i, 1] = re, im
            error = re * im
            rate += beta * error
            phase = torch.remainder(phase + rate + alpha * error, 2 * math.pi)
        rates[t] = rate
    return out, rates


def make_returns(n: int, atoms: int) -> Any:
    return torch.rand(n, atoms).softmax(1), torch.randn(n, atoms), torch.randn(n) * 3, torch.rand(n) < 0.2


def returns_ref(chances: Any, logits: Any, rewards: Any, done: Any, gamma: float = 0.99) -> Any:
    low, high, n = -10.0, 10.0, chances.size(1)
    step = (high - low) / (n - 1)
    z = low + step * torch.arange(n)
    b = ((rewards[:, None] + gamma * torch.where(done[:, None], 0, z)).clamp(low, high) - low) / step
    down, up = b.floor(), b.ceil()
    out = torch.zeros_like(chances)
    out.scatter_add_(1, down.long(), chances * (up - b + (up == down)))
    out.scatter_add_(1, up.long(), chances * (b - down))
    return out, -(out * logits.log_softmax(1)).sum(1)


@stranger(make_returns, returns_ref, {"n": 9, "atoms": 21}, {"n": 1 << 16, "atoms": 51})
@tileflow.kernel
def categorical_projection(chances, logits, rewards, done, gamma: float = 0.99, v_min=-10.0, v_max=10.0):
    """C51 (Bellemare et al., 2017): a distribution of returns, moved and put back onto its atoms, and its loss."""
    n, atoms = chances.shape
    out = torch.empty_like(chances)
    loss = torch.empty(n, device=chances.device)
    for t in tfl.tile(n):
        support = torch.linspace(v_min, v_max, atoms)
        step = (v_max - v_min) / (atoms - 1)
        target = rewards[t][:, None] + gamma * support * (~done[t])[:, None]
        b = (target.clamp(v_min, v_max) - v_min) / step
        weight = (1 - (b[:, :, None] - torch.arange(atoms)).abs()).clamp(min=0)
        projected = torch.einsum("ti,tij->tj", chances[t, :], weight)
        out[t, :] = projected
        loss[t] = -(projected * torch.log_softmax(logits[t, :], dim=-1)).sum(-1)
    return out, loss


def days_ref(days: Any) -> Any:
    first = datetime.date(1970, 1, 1).toordinal()
    rows = []
    for d in days.tolist():
        date = datetime.date.fromordinal(d + first)
        week = date.isocalendar()
        rows.append((date.year, date.month, date.day, week.week, date.timetuple().tm_yday))
    year, month, day, week, place = zip(*rows, strict=True)
    narrow = [torch.tensor(x, dtype=torch.uint8) for x in (month, day, week)]
    return torch.tensor(year, dtype=torch.int16), *narrow, torch.tensor(place, dtype=torch.int16)


def year_and_place(days: Any) -> Any:
    """Years that begin in March, and the day of such a year."""
    era = torch.div(days, 146097, rounding_mode="floor")
    of_era = days - era * 146097
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    return year + era * 400, of_era - (365 * year + year // 4 - year // 100)


def leap(year: Any) -> Any:
    return (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))


@stranger(
    lambda n: (torch.randint(-600_000, 600_000, (n,), dtype=torch.int32),),
    days_ref,
    {"n": 77},
    {"n": 1 << 24},
    loops=True,
)
@tileflow.kernel
def civil_dates(days):
    """Days since 1970 as years, months, days, ISO weeks and days of the year (Hinnant, 2013), as databases ask."""
    n = days.numel()
    years = torch.empty(n, dtype=torch.int16, device=days.device)
    months, dates, weeks = (torch.empty(n, dtype=torch.uint8, device=days.device) for _ in range(3))
    places = torch.empty(n, dtype=torch.int16, device=days.device)
    for t in tfl.tile(n):
        day = days[t]
        year, place = year_and_place(day + 719468)
        month = (5 * place + 2) // 153
        date = place - (153 * month + 2) // 5 + 1
        month = torch.where(month < 10, month + 3, month - 9)
        year = torch.where(month <= 2, year + 1, year)
        in_year = torch.where(month <= 2, place - 305, place + 60 + leap(year).int())
        weekday = (day + 3) % 7
        week = (in_year - weekday + 9) // 7
        before = 52 + has_53(year - 1).int()
        week, limit = torch.where(week < 1, before, week), 52 + has_53(year).int()
        week = torch.where((in_year - weekday + 9) // 7 > limit, 1, week)
        years[t], months[t], dates[t], weeks[t], places[t] = year, month, date, week, in_year
    return years, months, dates, weeks, places


def has_53(year: Any) -> Any:
    def ends(y: Any) -> Any:
        return (y + y // 4 - y // 100 + y // 400) % 7

    return (ends(year) == 4) | (ends(year - 1) == 3)


def make_quotes_and_trades(symbols: int, quotes: int, trades: int) -> Any:
    counts = torch.randint(0, quotes, (symbols,))
    counts[0] = 0
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
    times = (
        torch.cat([torch.randint(0, 1000, (int(c),)).sort().values for c in counts.tolist()])
        if not counts.is_meta
        else None
    )
    if times is None:
        times = torch.empty(symbols * quotes // 2, dtype=torch.int64)
    bids = torch.randn(len(times))
    return torch.randint(0, symbols, (trades,)), torch.randint(0, 1000, (trades,)), offsets, times, bids, 200


def trades_ref(symbol: Any, when: Any, offsets: Any, times: Any, bids: Any, tolerance: int) -> Any:
    bounds, times = offsets.tolist(), times.tolist()
    rows, prices = [], []
    for s, w in zip(symbol.tolist(), when.tolist(), strict=True):
        place = bisect.bisect_right(times, w, bounds[s], bounds[s + 1]) - 1
        good = place >= bounds[s] and w - times[place] <= tolerance
        rows.append(place if good else -1)
        prices.append(bids[place].item() if good else math.nan)
    return torch.tensor(rows), torch.nan_to_num(torch.tensor(prices), nan=-1.0)


@stranger(
    make_quotes_and_trades,
    trades_ref,
    {"symbols": 5, "quotes": 12, "trades": 31},
    {"symbols": 500, "quotes": 20000, "trades": 1 << 20},
    loops=True,
)
@tileflow.kernel
def asof_join(symbol, when, offsets, times, bids, tolerance: int):
    """pandas' merge_asof by symbol: each trade with the last quote not after it, if that is not too old."""
    n = symbol.numel()
    rows = torch.empty(n, dtype=torch.int64, device=symbol.device)
    prices = torch.full((n,), -1.0, device=symbol.device)
    for t in tfl.tile(n):
        start = offsets[symbol[t]]
        low, high = start, offsets[symbol[t] + 1]
        while (low < high).any():
            middle = (low + high) // 2
            after = times[middle] > when[t]
            open_ = low < high
            high = torch.where(open_ & after, middle, high)
            low = torch.where(open_ & ~after, middle + 1, low)
        place = low - 1
        good = (place >= start) & (when[t] - times[place] <= tolerance)
        rows[t] = torch.where(good, place, -1)
        prices[t] = torch.where(good, bids[place], prices[t])
    return rows, prices
