"""Renderings: splats and rays, what they meet, features that are hashed, light that an eye gets used to."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def splats_ref(mean: Any, log_scale: Any, quaternion: Any, view: Any, focal: float, near: float) -> Any:
    w, x, y, z = (quaternion / quaternion.norm(dim=1, keepdim=True)).unbind(1)
    v = torch.stack([x, y, z], 1)
    outer = 2 * v[:, :, None] * v[:, None, :]
    zero = torch.zeros_like(w)
    cross = torch.stack([zero, -z, y, z, zero, -x, -y, x, zero], 1).view(-1, 3, 3)
    turn = (w * w - x * x - y * y - z * z)[:, None, None] * torch.eye(3, dtype=w.dtype) + outer
    turn = turn + 2 * w[:, None, None] * cross
    sigma = torch.einsum("nij,nj,nkj->nik", turn, (2 * log_scale).exp(), turn)
    p = mean @ view[:3, :3].T + view[:3, 3]
    depth = p[:, 2].clamp(min=near)
    # the derivatives of focal * (x, y) / z
    du = torch.stack([focal / depth, zero, -focal * p[:, 0] / depth**2], 1) @ view[:3, :3]
    dv = torch.stack([zero, focal / depth, -focal * p[:, 1] / depth**2], 1) @ view[:3, :3]
    a, b, c = (torch.einsum("ni,nij,nj->n", one, sigma, two) for one, two in ((du, du), (du, dv), (dv, dv)))
    a, c = a + 0.3, c + 0.3
    determinant = a * c - b * b
    conic = torch.stack([c, -b, a], 1) / determinant[:, None]
    spread = torch.stack([a, b, b, c], 1).view(-1, 2, 2)
    # of few at a time: a GPU's solver takes a megabyte for each
    largest = torch.cat([torch.linalg.eigvalsh(part)[:, 1] for part in spread.split(1 << 12)])
    seen = p[:, 2] > near
    centre = focal * p[:, :2] / depth[:, None]
    return centre, torch.where(seen[:, None], conic, 0.0), torch.where(seen, 3 * largest.sqrt(), 0.0)


def make_splats(n: int) -> Any:
    turn = torch.tensor([[0.8, 0.0, 0.6, 0.1], [0.0, 1.0, 0.0, -0.2], [-0.6, 0.0, 0.8, 4.0], [0.0, 0.0, 0.0, 1.0]])
    return randn(n, 3) * 1.5, torch.rand(n, 3) * 2 - 4, randn(n, 4), turn, 600.0, 0.2


@stranger(make_splats, splats_ref, {"n": 211}, {"n": 1 << 22})
@tileflow.kernel
def project_gaussians(mean, log_scale, quaternion, view, focal: float, near: float):
    """Zwicker and others, 2001, as in Kerbl and others, 2023: what ellipses Gaussians in space are on the screen."""
    n = mean.size(0)
    centre = torch.empty(n, 2, device=mean.device)
    conic = torch.empty(n, 3, device=mean.device)
    radius = torch.empty(n, device=mean.device)
    for t in tfl.tile(n):
        r, x, y, z = F.normalize(quaternion[t, :], dim=1).unbind(1)
        rows = [
            1 - 2 * (y * y + z * z), 2 * (x * y - r * z), 2 * (x * z + r * y),
            2 * (x * y + r * z), 1 - 2 * (x * x + z * z), 2 * (y * z - r * x),
            2 * (x * z - r * y), 2 * (y * z + r * x), 1 - 2 * (x * x + y * y),
        ]  # fmt: skip
        m = torch.stack(rows, 1).view(t, 3, 3) * torch.exp(log_scale[t, :])[:, None, :]
        sigma = m @ m.transpose(1, 2)
        turn = view[:3, :3]
        p = mean[t, :] @ turn.T + view[:3, 3]
        px, py, pz = p.unbind(1)
        depth = pz.clamp(min=near)
        zero = torch.zeros_like(depth)
        slopes = [focal / depth, zero, -focal * px / depth**2, zero, focal / depth, -focal * py / depth**2]
        j = torch.stack(slopes, 1).view(t, 2, 3) @ turn
        flat = j @ sigma @ j.transpose(1, 2)
        a, b, c = flat[:, 0, 0] + 0.3, flat[:, 0, 1], flat[:, 1, 1] + 0.3
        determinant = a * c - b * b
        middle = 0.5 * (a + c)
        largest = middle + torch.sqrt(torch.clamp(middle * middle - determinant, min=0))
        seen = pz > near
        centre[t, :] = focal * torch.stack([px, py], 1) / depth[:, None]
        conic[t, :] = torch.where(seen[:, None], torch.stack([c, -b, a], 1) / determinant[:, None], 0.0)
        radius[t] = torch.where(seen, 3 * torch.sqrt(largest), 0.0)
    return centre, conic, radius


def hashed_ref(x: Any, table: Any, resolution: Any) -> Any:
    levels, size, _ = table.shape
    found = []
    for level in range(levels):
        r = resolution[level]
        scaled = x * r
        low = scaled.floor().long().clamp(max=r - 1)
        share = scaled - low
        total = 0.0
        for corner in torch.cartesian_prod(*[torch.arange(2)] * 3):
            at = low + corner
            dense = at[:, 0] + (r + 1) * (at[:, 1] + (r + 1) * at[:, 2])
            mixed = at[:, 0] ^ (at[:, 1] * 2654435761) ^ (at[:, 2] * 805459861)
            index = torch.where((r + 1) ** 3 <= size, dense, mixed) % size
            weight = torch.where(corner == 1, share, 1 - share).prod(1)
            total = total + weight[:, None] * table[level][index]
        found.append(total)
    return torch.cat(found, 1)


def make_hashed(n: int, levels: int, size: int, dtype: torch.dtype = torch.float32) -> Any:
    growth = math.exp(math.log(2048 / 16) / 15)
    resolution = (16 * growth ** torch.arange(levels)).floor().long()
    return torch.rand(n, 3), randn(levels, size, 2, dtype=dtype), resolution


@stranger(
    make_hashed,
    hashed_ref,
    {"n": 23, "levels": 2, "size": 1 << 13},
    {"n": 1 << 20, "levels": 16, "size": 1 << 19, "dtype": torch.float16},
)
@tileflow.kernel
def hash_encoding(x, table, resolution):
    """Mueller and others, 2022 (instant graphics): features of points out of hashed grids, one finer than the other."""
    n = x.size(0)
    levels, size, features = table.shape
    out = torch.empty(n, levels * features, dtype=table.dtype, device=x.device)
    parts = out.view(n, levels, features)
    for t in tfl.tile(n):
        for level in range(levels):
            r = resolution[level]
            scaled = x[t, :] * r
            low = torch.minimum(torch.floor(scaled).int(), r - 1)
            share = scaled - low
            total = tfl.zeros([t, features])
            for corner in range(8):
                bits = (corner & 1, corner >> 1 & 1, corner >> 2)
                a, b, c = [low[:, i] + bits[i] for i in range(3)]
                if (r + 1) ** 3 <= size:
                    index = a + (r + 1) * (b + (r + 1) * c)
                else:
                    mixed = b.to(torch.uint32) * 2654435761 ^ c.to(torch.uint32) * 805459861
                    index = ((a.to(torch.uint32) ^ mixed) % size).int()
                weight = 1.0
                for i in range(3):
                    weight = weight * (share[:, i] if bits[i] else 1 - share[:, i])
                total += weight[:, None] * table[level, index, :]
            parts[t, level, :] = total
    return out


def filmic(x: Any) -> Any:
    """Narkowicz's curve for film."""
    return x * (2.51 * x + 0.03) / (x * (2.43 * x + 0.59) + 0.14)


def exposed_ref(image: Any, low: float, high: float, bins: int) -> Any:
    x = image.double()
    luminance = x @ torch.tensor([0.2126, 0.7152, 0.0722], dtype=torch.float64)
    place = ((torch.log2(luminance.clamp(min=1e-6)) - low) / (high - low) * bins).floor().clamp(0, bins - 1)
    counts = torch.bincount(place.long().flatten(), minlength=bins)
    after = counts.cumsum(0).double()
    total = after[-1]
    kept = (after.clamp(max=0.95 * total) - (after - counts).clamp(min=0.5 * total)).clamp(min=0)
    level = low + (torch.arange(bins) + 0.5) * (high - low) / bins
    exposure = 0.18 / torch.exp2((kept * level).sum() / kept.sum())
    colour = filmic(x * exposure).clamp(0, 1) ** (1 / 2.2)
    return counts.int(), exposure, (255 * colour + 0.5).floor().to(torch.uint8)


@stranger(
    lambda h, w, bins: (torch.exp2(4 * randn(h, w, 1) + randn(h, w, 3)).half(), -10.0, 10.0, bins),
    exposed_ref,
    {"h": 19, "w": 37, "bins": 50},
    {"h": 2160, "w": 3840, "bins": 256},
)
@tileflow.kernel
def auto_exposure(image, low: float, high: float, bins: int):
    """Narkowicz, 2016, and Epic's eye adaptation: a histogram of an image's light, the exposure it asks for, bytes."""
    h, w, _ = image.shape
    counts = torch.zeros(bins, dtype=torch.int32, device=image.device)
    exposure = torch.empty((), device=image.device)
    out = torch.empty(h, w, 3, dtype=torch.uint8, device=image.device)
    for ty, tx in tfl.tile([h, w]):
        rgb = image[ty, tx, :].float()
        luminance = (rgb * torch.tensor([0.2126, 0.7152, 0.0722])).sum(-1)
        place = (torch.log2(luminance.clamp(min=1e-6)) - low) / (high - low) * bins
        tfl.atomic_add(counts, [place.floor().clamp(0, bins - 1).int()], 1)
    for _ in tfl.grid(1):
        count = counts[:]
        after = count.cumsum(0)
        total = after[-1].float()
        kept = (after.clamp(max=0.95 * total) - (after - count).clamp(min=0.5 * total)).clamp(min=0)
        level = low + (torch.arange(bins) + 0.5) * (high - low) / bins
        exposure[()] = 0.18 / torch.exp2((kept * level).sum() / kept.sum())
    for ty, tx in tfl.tile([h, w]):
        colour = filmic(image[ty, tx, :].float() * exposure[()]).clamp(0, 1) ** (1 / 2.2)
        out[ty, tx, :] = (255 * colour + 0.5).to(torch.uint8)
    return counts, exposure, out


def packed_ref(sigma: Any, rgb: Any, start: Any, end: Any, offsets: Any) -> Any:
    weights, colours, losses = torch.zeros_like(sigma), [], []
    for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        delta = end[a:b] - start[a:b]
        alpha = 1 - torch.exp(-sigma[a:b] * delta)
        through = torch.cat([torch.ones(1, dtype=sigma.dtype), (1 - alpha).cumprod(0)])
        w = through[:-1] * alpha
        middle = 0.5 * (start[a:b] + end[a:b])
        weights[a:b] = w
        colours.append((w[:, None] * rgb[a:b]).sum(0) + through[-1])
        pairs = w[:, None] * w[None, :] * (middle[:, None] - middle[None, :]).abs()
        losses.append(pairs.sum() + (w * w * delta).sum() / 3)
    return weights, torch.stack(colours), torch.stack(losses)


def make_packed(rays: int, total: int) -> Any:
    middle = torch.randint(0, total + 1, (rays - 1,)).sort().values
    offsets = torch.cat([torch.tensor([0]), middle, torch.tensor([total])]).int()
    ray = torch.searchsorted(offsets, torch.arange(total), right=True) - 1
    step = 0.01 + 0.05 * torch.rand(total)
    end = step.double().cumsum(0)
    start = end - step
    first = torch.cat([start, end[-1:]])[offsets[ray]]
    return torch.rand(total) * 8, torch.rand(total, 3), (start - first).float(), (end - first).float(), offsets


@stranger(make_packed, packed_ref, {"rays": 17, "total": 331}, {"rays": 1 << 16, "total": 1 << 23}, loops=True)
@tileflow.kernel
def packed_rays(sigma, rgb, start, end, offsets):
    """Li and others, 2023 (NerfAcc), and Barron and others, 2022: colours and distortions of rays, packed together."""
    rays = offsets.numel() - 1
    weights = torch.empty_like(sigma)
    colours = torch.empty(rays, 3, device=sigma.device)
    losses = torch.empty(rays, device=sigma.device)
    for r in tfl.grid(rays):
        through = 1.0
        colour = tfl.zeros([3])
        weight_before, place_before, loss = 0.0, 0.0, 0.0
        for s in tfl.tile(offsets[r], offsets[r + 1]):
            delta = end[s] - start[s]
            alpha = 1 - torch.exp(-sigma[s] * delta)
            left = through * torch.cumprod(1 - alpha, 0)
            w = left / (1 - alpha) * alpha
            middle = 0.5 * (start[s] + end[s])
            weights[s] = w
            colour += (w[:, None] * rgb[s, :]).sum(0)
            heavy = weight_before + torch.cumsum(w, 0) - w
            far = place_before + torch.cumsum(w * middle, 0) - w * middle
            loss += (2 * w * (middle * heavy - far) + w * w * delta / 3).sum()
            through = through * torch.prod(1 - alpha)
            weight_before += w.sum()
            place_before += (w * middle).sum()
        colours[r, :] = colour + through
        losses[r] = loss
    return weights, colours, losses


def meets(origin: Any, direction: Any, corner: Any) -> Any:
    """Moeller and Trumbore's way to where lines meet triangles, each as three numbers of any shape."""

    def cross(a: Any, b: Any) -> Any:
        return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]

    def inner(a: Any, b: Any) -> Any:
        return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]

    one = [corner[1][i] - corner[0][i] for i in range(3)]
    two = [corner[2][i] - corner[0][i] for i in range(3)]
    p = cross(direction, two)
    determinant = inner(one, p)
    away = [origin[i] - corner[0][i] for i in range(3)]
    q = cross(away, one)
    scale = 1 / torch.where(determinant == 0, 1.0, determinant)
    u, v, t = inner(away, p) * scale, inner(direction, q) * scale, inner(two, q) * scale
    return t, (determinant != 0) & (u >= 0) & (v >= 0) & (u + v <= 1) & (t > 1e-4)


def linked_ref(origin: Any, direction: Any, triangle: Any, low: Any, high: Any, skip: Any, leaf: Any) -> Any:
    which = torch.full((origin.size(0),), -1, dtype=torch.int32)
    nearest = torch.full_like(origin[:, 0], torch.inf)
    for i in range(triangle.size(0)):
        one, two = triangle[i, 1] - triangle[i, 0], triangle[i, 2] - triangle[i, 0]
        # origin + t * direction = corner + u * one + v * two
        m = torch.stack([-direction, one.expand_as(direction), two.expand_as(direction)], 2)
        t, u, v = torch.linalg.solve(m, origin - triangle[i, 0]).unbind(1)
        hit = (u >= 0) & (v >= 0) & (u + v <= 1) & (t > 1e-4) & (t < nearest)
        nearest, which = torch.where(hit, t, nearest), torch.where(hit, i, which)
    return nearest, which


def make_linked(n: int, levels: int) -> Any:
    count = 1 << levels
    centre = torch.rand(count, 1, 3)
    triangle = centre[centre[:, 0, 0].argsort()] + 0.2 * randn(count, 3, 3)
    low, high = triangle.amin(1) - 1e-3, triangle.amax(1) + 1e-3
    lows, highs = [low], [high]
    for _ in range(levels):
        low, high = low.view(-1, 2, 3).amin(1), high.view(-1, 2, 3).amax(1)
        lows, highs = [low, *lows], [high, *highs]
    place = torch.zeros(1, dtype=torch.int64)  # of a level's nodes, a parent before its children
    order, skip, leaf = [], [], []
    for level in range(levels + 1):
        under = (1 << (levels - level + 1)) - 1
        order.append(place)
        skip.append(place + under)
        leaf.append(torch.arange(count) if level == levels else torch.full_like(place, -1))
        place = torch.stack([place + 1, place + 1 + under // 2], 1).flatten()
    back = torch.cat(order).argsort()
    nodes = [torch.cat(a)[back] for a in (lows, highs, skip, leaf)]
    towards = torch.rand(n, 3) - torch.tensor([0.5, 0.5, -3.0])
    origin = torch.tensor([0.5, 0.5, -3.0]) + 0.01 * randn(n, 3)
    return origin, F.normalize(towards, dim=1), triangle, nodes[0], nodes[1], nodes[2].int(), nodes[3].int()


@stranger(make_linked, linked_ref, {"n": 61, "levels": 4}, {"n": 1 << 18, "levels": 9}, loops=True)
@tileflow.kernel
def skip_links(origin, direction, triangle, low, high, skip, leaf):
    """Smits, 1998: what rays see first in a tree of boxes that is walked by skip pointers, with no stack."""
    n = origin.size(0)
    nodes = skip.numel()
    depth = torch.empty(n, device=origin.device)
    seen = torch.empty(n, dtype=torch.int32, device=origin.device)
    for t in tfl.tile(n):
        o, d = origin[t, :], direction[t, :]
        node = tfl.zeros([t], dtype=torch.int32)
        nearest = tfl.full([t], float("inf"))
        which = tfl.full([t], -1, dtype=torch.int32)
        for _ in range(nodes):
            if (node < nodes).any():
                a, b = (low[node, :] - o) / d, (high[node, :] - o) / d
                enter, leave = torch.minimum(a, b).amax(1), torch.maximum(a, b).amin(1)
                inside = (enter <= leave) & (leave > 0) & (enter < nearest)
                i = leaf[node]
                corners = [triangle[i, k, :].unbind(1) for k in range(3)]
                far, hit = meets(o.unbind(1), d.unbind(1), corners)
                hit = hit & inside & (i >= 0) & (far < nearest)
                nearest = torch.where(hit, far, nearest)
                which = torch.where(hit, i, which)
                node = torch.where(node < nodes, torch.where(inside, node + 1, skip[node]), node)
        depth[t] = nearest
        seen[t] = which
    return depth, seen
