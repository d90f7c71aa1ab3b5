"""Matter as it is counted: moments of spectra, photons that scatter, fields of charges, spins at many temperatures."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

import tileflow
import tileflow.language as tfl

from .stranger import stranger


def moments_ref(hopping: Any, neighbours: Any, onsite: Any, vectors: Any, count: int) -> Any:
    n = onsite.numel()
    h = torch.zeros(n, n, dtype=torch.float64)
    for k in range(neighbours.size(1)):
        inside = neighbours[:, k] >= 0
        h.index_put_(
            (torch.arange(n)[inside], neighbours[inside, k].long()), hopping[inside, k].double(), accumulate=True
        )
    h += torch.diag(onsite.double())
    a = vectors.double()
    b = h @ a
    found = [(a * a).sum(0), (a * b).sum(0)]
    first = a
    for _ in range(2, count):
        a, b = b, 2 * h @ b - a
        found.append((first * b).sum(0))
    mean = torch.stack(found).mean(1) / n
    m = torch.arange(count, dtype=torch.float64)
    kernel = (
        (count - m + 1) * torch.cos(math.pi * m / (count + 1))
        + torch.sin(math.pi * m / (count + 1)) / math.tan(math.pi / (count + 1))
    ) / (count + 1)
    x = torch.cos(math.pi * (torch.arange(2 * count, dtype=torch.float64) + 0.5) / (2 * count))
    waves = torch.cos(m[:, None] * torch.acos(x))
    weight = torch.where(m == 0, 1.0, 2.0)
    return mean, ((mean * kernel * weight) @ waves / (math.pi * (1 - x * x).sqrt())).float()


def make_chain(n: int, width: int, vectors: int, count: int) -> Any:
    neighbours = torch.stack([torch.arange(n) + d for d in (1, -1, width, -width)], 1)
    neighbours = torch.where((neighbours >= 0) & (neighbours < n), neighbours, -1).int()
    hopping = torch.full((n, 4), -0.15)
    signs = torch.randint(0, 2, (n, vectors)).float() * 2 - 1
    return hopping, neighbours, 0.3 * (torch.rand(n) - 0.5), signs, count


@stranger(
    make_chain,
    moments_ref,
    {"n": 47, "width": 7, "vectors": 3, "count": 9},
    {"n": 1 << 20, "width": 1024, "vectors": 8, "count": 64},
    loops=True,
)
@tileflow.kernel
def spectral_moments(hopping, neighbours, onsite, vectors, count: int):
    """Weiße and others, 2006: the density of states by Chebyshev's moments of random vectors, damped by a kernel."""
    n, several = vectors.shape
    moments = torch.zeros(count, several, dtype=torch.float64, device=vectors.device)
    before, now = vectors, torch.empty_like(vectors)
    for step in range(count):
        after = torch.empty_like(vectors) if step < 3 else before
        for t in tfl.tile(n):
            if step > 0:
                source = before if step == 1 else now
                acc = onsite[t][:, None] * source[t, :]
                for k in range(neighbours.size(1)):
                    place = neighbours[t, k]
                    acc += hopping[t, k][:, None] * torch.where((place >= 0)[:, None], source[place, :], 0.0)
                value = acc if step == 1 else 2 * acc - before[t, :]
                after[t, :] = value
            else:
                value = vectors[t, :]
                after[t, :] = value
            tfl.atomic_add(moments, [step, slice(None)], (vectors[t, :] * value).sum(0))
        if step == 1:
            before, now = vectors, after
        elif step > 1:
            before, now = (torch.empty_like(vectors) if before is vectors else before), now
            before, now = now, after
    mean = torch.empty(count, dtype=torch.float64, device=vectors.device)
    for m in tfl.tile(count):
        mean[m] = moments[m, :].mean(-1) / n
    density = torch.empty(2 * count, device=vectors.device)
    for e in tfl.tile(2 * count):
        angle = math.pi * (e.index.double() + 0.5) / (2 * count)
        total = torch.zeros(e, dtype=torch.float64)
        for m in tfl.tile(count):
            turn = math.pi * m.index.double() / (count + 1)
            damped = (count - m.index + 1) * turn.cos() + turn.sin() / math.tan(math.pi / (count + 1))
            part = mean[m] * damped * torch.where(m.index == 0, 1.0, 2.0) / (count + 1)
            total += (part[None, :] * torch.cos(m.index[None, :] * angle[:, None])).sum(1)
        density[e] = total / (math.pi * angle.sin())
    return mean, density


def scramble(x: Any) -> Any:
    """One number of 32 bits after another, held in 64."""
    x = (x * 747796405 + 2891336453) & 0xFFFFFFFF
    word = (((x >> ((x >> 28) + 4)) ^ x) * 277803737) & 0xFFFFFFFF
    return x, ((word >> 22) ^ word).double() / 4294967296.0


def photons_ref(n: int, layers: Any, bins: int, most: int, seed: int) -> Any:
    depth, absorb, scatter, g = (x.double() for x in layers.unbind(1))
    bottoms = depth.cumsum(0)
    grid = torch.zeros(bins, dtype=torch.float64)
    state = torch.arange(n) * 7919 + seed
    z, cosine, weight = torch.zeros(n, dtype=torch.float64), torch.ones(n, dtype=torch.float64), torch.ones(n).double()
    up, through = torch.zeros(n, dtype=torch.float64), torch.zeros(n, dtype=torch.float64)
    for _ in range(most):
        alive = weight > 1e-4
        layer = (z[:, None] >= bottoms).sum(1).clamp(max=len(depth) - 1)
        total = absorb[layer] + scatter[layer]
        state, first = scramble(state)
        state, second = scramble(state)
        new = z + cosine * -torch.log1p(-first) / total
        up = up + torch.where(alive & (new < 0), weight, 0)
        through = through + torch.where(alive & (new >= bottoms[-1]), weight, 0)
        inside = alive & (new >= 0) & (new < bottoms[-1])
        taken = torch.where(inside, weight * absorb[layer] / total, 0)
        place = (new / bottoms[-1] * bins).long().clamp(0, bins - 1)
        grid.index_add_(0, place, taken)
        weight = torch.where(inside, weight - taken, 0)
        asym = g[layer]
        inner = (1 - asym**2) / (1 - asym + 2 * asym * second)
        bend = torch.where(asym == 0, 2 * second - 1, (1 + asym**2 - inner**2) / (2 * torch.where(asym == 0, 1, asym)))
        state, third = scramble(state)
        swing = torch.cos(2 * math.pi * third)
        cosine = cosine * bend + ((1 - cosine**2) * (1 - bend**2)).clamp(min=0).sqrt() * swing
        z = torch.where(inside, new, z)
    return grid.float() / n, torch.stack([up.sum(), through.sum()]).float() / n


@stranger(
    lambda n, bins, most: (
        n,
        torch.tensor([[0.2, 0.5, 2.0, 0.0], [0.5, 0.1, 9.0, 0.8], [0.3, 1.5, 4.0, 0.6]], dtype=torch.float64),
        bins,
        most,
        99,
    ),
    photons_ref,
    {"n": 203, "bins": 13, "most": 20},
    {"n": 1 << 20, "bins": 200, "most": 200},
)
@tileflow.kernel
def photon_walks(n: int, layers, bins: int, most: int, seed: int):
    """Wang, Jacques and Zheng, 1995: light in layers of tissue, by walks of photons that lose weight on their way."""
    grid = torch.zeros(bins, dtype=torch.float64, device=layers.device)
    escaped = torch.zeros(2, dtype=torch.float64, device=layers.device)
    depth, absorb, scatter, g = layers.unbind(dim=1)
    bottoms = depth.cumsum(0)
    count = depth.numel()
    for t in tfl.tile(n):
        state = t.index.long() * 7919 + seed
        z = torch.zeros(t, dtype=torch.float64)
        cosine, weight = torch.ones_like(z), torch.ones_like(z)
        up, through = torch.zeros_like(z), torch.zeros_like(z)
        bottom = bottoms[count - 1]
        turn = 0
        while (weight > 1e-4).any() and turn < most:
            alive = weight > 1e-4
            layer = torch.bucketize(z, bottoms[:], right=True).clamp(max=count - 1)
            total = absorb[layer] + scatter[layer]
            state, first = scramble(state)
            state, second = scramble(state)
            new = z - cosine * torch.log1p(-first) / total
            up += torch.where(alive & (new < 0), weight, 0)
            through += torch.where(alive & (new >= bottom), weight, 0)
            inside = alive & (new >= 0) & (new < bottom)
            taken = weight * absorb[layer] / total
            tfl.atomic_add(grid, [(new / bottom * bins).int().clamp(0, bins - 1)], taken / n, extra_mask=inside)
            weight = torch.where(inside, weight - taken, 0)
            asym = g[layer]
            inner = (1 - asym**2) / (1 - asym + 2 * asym * second)
            bend = (1 + asym**2 - inner**2) / (2 * torch.where(asym == 0, 1, asym))
            bend = torch.where(asym == 0, 2 * second - 1, bend)
            state, third = scramble(state)
            across = torch.sqrt(((1 - cosine**2) * (1 - bend**2)).clamp(min=0))
            cosine = cosine * bend + across * torch.cos(2 * math.pi * third)
            z = torch.where(inside, new, z)
            turn += 1
        tfl.atomic_add(escaped, [0], up.sum() / n)
        tfl.atomic_add(escaped, [1], through.sum() / n)
    return grid.float(), escaped.float()


def far_ref(charges: Any, places: Any, targets: Any, order: int, levels: int) -> Any:
    z = torch.view_as_complex(places).to(torch.complex128)
    at = torch.view_as_complex(targets).to(torch.complex128)
    return torch.log((at[:, None] - z).abs()).double() @ charges.double()


def make_far(n: int, targets: int, order: int, levels: int) -> Any:
    leaf = (torch.arange(n) * 2**levels // n + 0.5) / 2**levels
    places = torch.stack([leaf + (torch.rand(n) - 0.5) / 2**levels, (torch.rand(n) - 0.5) / 2**levels], 1)
    far = torch.stack([torch.rand(targets), 8 + torch.rand(targets)], 1)
    return torch.randn(n, dtype=torch.float64), places.double(), far.double(), order, levels


def times(a: Any, b: Any) -> Any:
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


@stranger(
    make_far,
    far_ref,
    {"n": 88, "targets": 13, "order": 12, "levels": 3},
    {"n": 1 << 20, "targets": 4096, "order": 12, "levels": 14},
    loops=True,
)
@tileflow.kernel
def multipole_field(charges, places, targets, order: int, levels: int):
    """Greengard and Rokhlin, 1987: the field of charges far away, by series of their cells that are joined in pairs."""
    n = charges.numel()
    cells, per = 2**levels, n // 2**levels
    series = charges.new_zeros(cells, order, 2)
    x, y = (places[:, i].view(cells, per) for i in range(2))
    q = charges.view(cells, per)
    for c in tfl.tile(cells):
        centre = (c.index.double() + 0.5) / cells
        for k in tfl.tile(per):
            apart = x[c, k] - centre[:, None], y[c, k]
            power = torch.ones_like(apart[0]), torch.zeros_like(apart[0])
            for m in range(order):
                scale = 1.0 if m == 0 else -1.0 / m
                series[c, m, 0] += scale * (q[c, k] * power[0]).sum(1)
                series[c, m, 1] += scale * (q[c, k] * power[1]).sum(1)
                power = times(power, apart)
    binomial = torch.tensor([[math.comb(a, b) for b in range(order)] for a in range(order)], device=charges.device)
    while cells > 1:
        cells //= 2
        joined = series.new_empty(cells, order, 2)
        pairs = series.view(cells, 2, order, 2)
        for c in tfl.tile(cells):
            for m in range(order):
                re, im = torch.zeros(c, dtype=torch.float64), torch.zeros(c, dtype=torch.float64)
                for side in range(2):
                    shift = (side - 0.5) / (2 * cells)
                    if m == 0:
                        re += pairs[c, side, 0, 0]
                    else:
                        re -= pairs[c, side, 0, 0] * shift**m / m
                        for k in range(1, m + 1):
                            factor = binomial[m - 1, k - 1] * shift ** (m - k)
                            re += pairs[c, side, k, 0] * factor
                            im += pairs[c, side, k, 1] * factor
                joined[c, m, 0], joined[c, m, 1] = re, im
        series = joined
    out = torch.empty(targets.size(0), dtype=torch.float64, device=targets.device)
    for t in tfl.tile(targets.size(0)):
        a, b = targets[t, 0] - 0.5, targets[t, 1]
        square = a * a + b * b
        inverse = a / square, -b / square
        total = series[0, 0, 0] * 0.5 * torch.log(square)
        power = inverse
        for m in range(1, order):
            total = total + series[0, m, 0] * power[0] - series[0, m, 1] * power[1]
            power = times(power, inverse)
        out[t] = total
    return out


def chance(seed: Any, place: Any) -> Any:
    x = (place * 0x27D4EB2F + seed * 0x165667B1 + 0x9E3779B9) & 0xFFFFFFFF
    x = ((x ^ (x >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
    x = ((x ^ (x >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
    return (x ^ (x >> 16)).double() / 4294967296.0


def around(spins: Any, at: Callable[[Any, int, int], Any]) -> Any:
    return sum(at(spins, dy, dx) for dy, dx in ((0, 1), (0, -1), (1, 0), (-1, 0)))


def tempered_ref(spins: Any, betas: Any, sweeps: int, seed: int) -> Any:
    s = spins.long()
    count, h, w = s.shape
    order = torch.arange(count)
    y, x = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    for sweep in range(sweeps):
        for colour in range(2):
            field = around(s, lambda v, dy, dx: v.roll((-dy, -dx), (1, 2)))
            cost = 2.0 * s * field
            place = (torch.arange(count)[:, None, None] * h + y) * w + x
            flip = chance(seed + 2 * sweep + colour, place) < torch.exp(-betas[order].double()[:, None, None] * cost)
            s = torch.where(flip & ((y + x) % 2 == colour), -s, s)
        energy = -(s * (s.roll(-1, 1) + s.roll(-1, 2))).sum((1, 2))
        by_rank = torch.empty(count, dtype=torch.int64)
        by_rank[order] = torch.arange(count)
        for left in range(sweep % 2, count - 1, 2):
            a, b = by_rank[left], by_rank[left + 1]
            gain = (betas[left + 1] - betas[left]).double() * (energy[b] - energy[a])
            if chance(torch.tensor(seed + 1000 + sweep), torch.tensor(left)) < torch.exp(gain):
                order[a], order[b] = left + 1, left
    return s.to(torch.int8), order.int(), energy


@stranger(
    lambda count, h, w, sweeps: (
        torch.randint(0, 2, (count, h, w), dtype=torch.int8) * 2 - 1,
        torch.linspace(0.2, 0.6, count),
        sweeps,
        31,
    ),
    tempered_ref,
    {"count": 5, "h": 8, "w": 10, "sweeps": 3},
    {"count": 32, "h": 512, "w": 512, "sweeps": 6},
)
@tileflow.kernel
def tempered_spins(spins, betas, sweeps: int, seed: int):
    """Swendsen and Wang, 1986: magnets at many temperatures, which neighbours in temperature exchange."""
    count, h, w = spins.shape
    device = spins.device
    spins = spins.clone()
    order = torch.arange(count, dtype=torch.int32, device=device)
    energy = torch.empty(count, dtype=torch.int64, device=device)
    for sweep in range(sweeps):
        for colour in range(2):
            for c, y, x in tfl.tile([count, h, w]):
                here = spins[c, y, x]
                field = torch.zeros_like(here)
                for dy, dx in ((0, 1), (0, -1), (1, 0), (-1, 0)):
                    field += spins[c, (y.index + dy + h) % h, (x.index + dx + w) % w]
                cost = 2.0 * here * field
                place = (c.index.long()[:, None, None] * h + y.index[:, None]) * w + x.index
                rate = torch.exp(-betas[order[c]].double()[:, None, None] * cost)
                mine = (y.index[:, None] + x.index) % 2 == colour
                flip = (chance(seed + 2 * sweep + colour, place) < rate) & mine
                spins[c, y, x] = torch.where(flip, -here, here)
        for c in tfl.tile(count, block_size=1):
            total = torch.zeros(c, dtype=torch.int64)
            for y, x in tfl.tile([h, w]):
                after = spins[c, (y.index + 1) % h, x] + spins[c, y, (x.index + 1) % w]
                total += (spins[c, y, x] * after).sum((1, 2))
            energy[c] = -total
        for _ in tfl.grid(1):
            rank = torch.arange(count)
            ranks = order[:]
            holder = (ranks[None, :] == rank[:, None]).int().argmax(1)
            partner = torch.where((rank - sweep % 2) % 2 == 0, rank + 1, rank - 1)
            paired = (partner >= sweep % 2) & (partner < count)
            partner = torch.where(paired, partner, rank)
            low, high = torch.minimum(rank, partner), torch.maximum(rank, partner)
            gain = (betas[high] - betas[low]).double() * (energy[holder[high]] - energy[holder[low]])
            swap = paired & (chance(seed + 1000 + sweep, low.long()) < torch.exp(gain))
            order[holder] = torch.where(swap, partner, rank)
    return spins, order, energy
