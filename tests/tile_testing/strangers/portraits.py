"""Portraits: clouds that meet, pictures of themselves, lobes of light, colours of a palette."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


class Robust(ABC):
    """How much a residual counts."""

    def __init__(self, scale: float) -> None:
        self._scale = scale

    @abstractmethod
    def shape(self, r: Any) -> Any: ...

    def __call__(self, r: Any) -> Any:
        return self.shape(r / self._scale)


class Tukey(Robust):
    def shape(self, r: Any) -> Any:
        return (1 - r * r).clamp(min=0) ** 2


class Cauchy(Robust):
    def __init__(self, scale: float, lift: float = 1.0) -> None:
        super().__init__(scale)
        self.lift = lift

    def shape(self, r: Any) -> Any:
        return 1 / (self.lift + r * r)


def meet_ref(points: Any, target: Any, normals: Any, pairs: Any, weigh: Robust) -> Any:
    p, q, n = points.double(), target[pairs.long()].double(), normals[pairs.long()].double()
    r = ((p - q) * n).sum(2)
    w = weigh(r)
    j = torch.cat([torch.linalg.cross(p, n), n], 2)
    h = torch.einsum("bk,bki,bkj->bij", w, j, j) + 1e-3 * torch.eye(6)
    g = torch.einsum("bk,bki,bk->bi", w, j, r)
    step = -torch.linalg.solve(h, g)
    return h.float(), step.float(), (w * r * r).sum(1).float()


@stranger(
    lambda clouds, n, m, weigh: (
        torch.randn(clouds, 3, n).mT, torch.randn(m, 3), F.normalize(randn(m, 3), dim=1).half(),
        torch.randint(0, m, (clouds, n), dtype=torch.int32), weigh,
    ),
    meet_ref,
    {"clouds": 3, "n": 85, "m": 40, "weigh": Tukey(3.0)},
    {"clouds": 512, "n": 1 << 14, "m": 1 << 16, "weigh": Cauchy(0.5)},
)  # fmt: skip
@tileflow.kernel
def meet_clouds(points, target, normals, pairs, weigh: Robust):
    """Chen and Medioni, 1992: how a cloud must move to meet planes, by six equations of it and their solution."""
    clouds, n, _ = points.shape
    matrix = torch.zeros(clouds, 6, 6, device=points.device)
    right, loss = torch.zeros(clouds, 6, device=points.device), torch.zeros(clouds, device=points.device)
    for b, t in tfl.tile([clouds, n]):
        p = points[b, t, :]
        q, normal = target[pairs[b, t], :], normals[pairs[b, t], :].float()
        r = torch.linalg.vecdot(p - q, normal)
        w = weigh(r)
        row = torch.cat([F.pad(torch.linalg.cross(p, normal, dim=-1), (0, 1))[..., :3], normal], dim=-1)
        tfl.atomic_add(
            matrix, [b, slice(None), slice(None)], ((w[..., None] * row).unsqueeze(-1) * row.unsqueeze(-2)).sum(1)
        )
        tfl.atomic_add(right, [b, slice(None)], (row * (w * r)[..., None]).sum(1))
        tfl.atomic_add(loss, [b], (w * r * r).sum(1))
    step = torch.empty_like(right)
    for b in tfl.tile(clouds):
        eye = torch.eye(6)
        a = matrix[b, :, :] + 1e-3 * eye
        matrix[b, :, :] = a
        y = -right[b, :]
        for k in range(6):
            pivot = a[:, k, :] / a[:, k, k][:, None]
            own = y[:, k] / a[:, k, k]
            factor = torch.where(torch.arange(6) == k, 0.0, a[:, :, k])
            y = torch.where(torch.arange(6) == k, own[:, None], y - factor * own[:, None])
            a = torch.where(
                (torch.arange(6) == k)[:, None], pivot[:, None, :], a - factor[:, :, None] * pivot[:, None, :]
            )
        step[b, :] = y
    return matrix, step, loss


def selves_ref(x: Any, size: int) -> Any:
    x = x.double()
    ranges = x.unfold(0, size, size).unfold(1, size, size).reshape(-1, size, size)
    small = F.avg_pool2d(x[None], 2)[0]
    domains = small.unfold(0, size, size).unfold(1, size, size).reshape(-1, size, size)
    best = torch.full((len(ranges),), torch.inf).double()
    which, turn, slope = (torch.zeros(len(ranges), dtype=torch.float64) for _ in range(3))
    r = ranges - ranges.mean((1, 2), keepdim=True)
    for k in range(8):
        d = torch.rot90(domains, k % 4, (1, 2))
        d = d.flip(2) if k >= 4 else d
        d = d - d.mean((1, 2), keepdim=True)
        dot = torch.einsum("rij,dij->rd", r, d)
        s = (dot / (d.square().sum((1, 2)) + 1e-6)).clamp(-1, 1)
        error = r.square().sum((1, 2))[:, None] - 2 * s * dot + s * s * d.square().sum((1, 2))
        least, at = error.min(1)
        better = least < best - 1e-5
        best = torch.where(better, least, best)
        which, turn = torch.where(better, at, which), torch.where(better, float(k), turn)
        slope = torch.where(better, s.gather(1, at[:, None])[:, 0], slope)
    return best.float(), which.int(), turn.to(torch.uint8), slope.half()


@stranger(
    lambda h, w, size: (torch.rand(w, h).T, size),
    selves_ref,
    {"h": 48, "w": 32, "size": 4},
    {"h": 512, "w": 512, "size": 8},
)
@tileflow.kernel
def self_alike_blocks(x, size: int):
    """Jacquin, 1992: which part of a picture, made smaller, turned or mirrored, is most like each block of it."""
    h, w = x.shape
    small = x.new_empty(h // 2, w // 2)
    for i, j in tfl.tile(small.shape):
        four = [x[2 * i.index + a, 2 * j.index + b] for a in (0, 1) for b in (0, 1)]
        small[i, j] = torch.stack(four).mean(0)
    rows, columns = h // size, w // size
    ranges = x.reshape(rows, size, columns, size).permute(0, 2, 1, 3).reshape(-1, size, size)
    across = w // 2 // size
    domains = (
        small[: h // 2 // size * size, : across * size].reshape(-1, size, across, size).movedim(1, 2).flatten(0, 1)
    )
    count, pool = ranges.size(0), domains.size(0)
    best, slope = torch.empty(count, device=x.device), torch.empty(count, dtype=torch.float16, device=x.device)
    which = torch.empty(count, dtype=torch.int32, device=x.device)
    turn = torch.empty(count, dtype=torch.uint8, device=x.device)
    for r in tfl.tile(count):
        block = ranges[r, :, :]
        block = block - block.mean(dim=(1, 2), keepdim=True)
        own = block.square().sum((1, 2))[:, None]
        least, place = torch.full([r], math.inf), torch.zeros([r], dtype=torch.int32)
        kind, contrast = torch.zeros([r], dtype=torch.int32), torch.zeros([r])
        for k in range(8):
            now, here, factor = torch.full([r], math.inf), torch.zeros([r], dtype=torch.int32), torch.zeros([r])
            for d in tfl.tile(pool):
                part = domains[d, :, :]
                part = torch.rot90(part, k % 4, dims=(1, 2))
                part = part.flip(-1) if k >= 4 else part
                part = part - part.mean(dim=(1, 2), keepdim=True)
                along = block.flatten(1) @ part.flatten(1).mT
                energy = part.square().sum((1, 2))
                s = (along / (energy + 1e-6)).clamp(-1, 1)
                error = own - 2 * s * along + s * s * energy
                low, at = error.min(dim=1)
                less = low < now
                factor = torch.where(less, torch.gather(s, 1, at[:, None]).squeeze(-1), factor)
                here = torch.where(less, at.int() + d.begin, here)
                now = torch.minimum(now, low)
            better = now < least - 1e-5
            least = torch.where(better, now, least)
            place, kind = torch.where(better, here, place), torch.where(better, k, kind)
            contrast = torch.where(better, factor, contrast)
        best[r], which[r], turn[r], slope[r] = least, place, kind.to(torch.uint8), contrast.half()
    return best, which, turn, slope


@dataclass
class Material:
    base: torch.Tensor
    rough: torch.Tensor
    metal: torch.Tensor
    coats: ClassVar[int] = 2

    def at(self, index: Any) -> Any:
        return self.base[index, :].float(), self.rough[index].float(), self.metal[index].float()

    @staticmethod
    def fresnel(f0: Any, cosine: Any) -> Any:
        return f0 + (1 - f0) * (1 - cosine).clamp(0, 1) ** 5

    @classmethod
    def gloss(cls, rough: Any) -> list[Any]:
        return [(rough * 0.5**i).clamp(min=0.05) ** 2 for i in range(cls.coats)]


def light_ref(ids: Any, normal: Any, view: Any, lamps: Any, colours: Any, material: Material) -> Any:
    n, v = F.normalize(normal.double(), dim=1), F.normalize(view.double(), dim=1)
    base, rough, metal = (x[ids.long()].double() for x in (material.base, material.rough, material.metal))
    f0 = 0.04 + metal[:, None] * (base - 0.04)
    out = torch.zeros(len(ids), 3).double()
    for lamp, colour in zip(lamps.double(), colours.double(), strict=True):
        l = F.normalize(lamp, dim=0).expand_as(n)  # noqa: E741
        half = F.normalize(l + v, dim=1)
        nl, nv = (n * l).sum(1).clamp(min=0), (n * v).sum(1).abs() + 1e-5
        nh, vh = (n * half).sum(1).clamp(min=0), (v * half).sum(1).clamp(min=0)
        f = Material.fresnel(f0, vh[:, None])
        gloss = 0
        for i, a in enumerate(Material.gloss(rough)):
            d = a * a / (torch.pi * (nh * nh * (a * a - 1) + 1) ** 2)
            g = 1 / ((nl * (1 - a / 2) + a / 2) * (nv * (1 - a / 2) + a / 2))
            gloss = gloss + d * g * 0.25 * 0.5**i
        diffuse = (1 - f) * (1 - metal)[:, None] * base / torch.pi
        out += (diffuse + f * gloss[:, None]) * colour * nl[:, None]
    return (out / (1 + out)).half(), out.sum(1).float()


@stranger(
    lambda pixels, kinds, lamps: (
        torch.randint(0, kinds, (pixels,), dtype=torch.uint8), torch.randn(3, pixels).T,
        randn(pixels, 3, dtype=torch.bfloat16), torch.randn(lamps, 3), torch.rand(lamps, 3) * 3,
        Material(torch.rand(kinds, 3).half(), torch.rand(kinds).half(), torch.rand(kinds)),
    ),
    light_ref,
    {"pixels": 77, "kinds": 9, "lamps": 3},
    {"pixels": 1 << 21, "kinds": 200, "lamps": 6},
)  # fmt: skip
@tileflow.kernel
def lobes_of_light(ids, normal, view, lamps, colours, material: Material):
    """Burley, 2012, in short: light off materials that have a rough lobe and a glossier coat, for a few lamps."""
    pixels = len(ids)
    out = torch.empty(pixels, 3, dtype=torch.float16, device=ids.device)
    total = torch.empty(pixels, device=ids.device)
    for p in tfl.tile(pixels):
        n, v = F.normalize(normal[p, :], dim=1), F.normalize(view[p, :].float(), dim=-1)
        base, rough, metal = material.at(ids[p])
        f0 = torch.lerp(torch.full_like(base, 0.04), base, metal[:, None])
        light = torch.zeros_like(base)

        def cosine(a, b, *, low=None):
            c = (a * b).sum(-1)
            return c if low is None else c.clamp(min=low)

        for k in range(lamps.size(0)):
            to = F.normalize(lamps[k, :], dim=0)
            half = F.normalize(to + v, dim=1)
            nl, nv = cosine(n, to, low=0), cosine(n, v).abs() + 1e-5
            nh, vh = cosine(n, half, low=0.0), cosine(v, half, low=0.0)
            f = material.fresnel(f0, vh[:, None])
            gloss = torch.zeros_like(nl)
            for i, a in enumerate(Material.gloss(rough)):
                d = a * a / (math.pi * (nh * nh * (a * a - 1) + 1) ** 2)
                g = 1 / ((nl * (1 - a / 2) + a / 2) * (nv * (1 - a / 2) + a / 2))
                gloss += d * g * 0.25 * 0.5**i
            diffuse = (1 - f) * (1 - metal).unsqueeze(1) * base / math.pi
            light += (diffuse + f * gloss[:, None]) * colours[k, :] * nl[:, None]
        out[p, :] = light / (1 + light)
        total[p] = light.sum(1)
    return out, total


def palette_ref(pixels: Any, centres: Any, turns: int) -> Any:
    x, c = pixels.double() / 255, centres.double()
    for _ in range(turns):
        which = torch.cdist(x, c).argmin(1)
        counts = which.bincount(minlength=len(c))
        sums = torch.zeros_like(c).index_add_(0, which, x)
        c = torch.where(counts[:, None] > 0, sums / counts.clamp(min=1)[:, None], c)
    near = torch.cdist(x, c)
    which = near.argmin(1)
    back = (c[which] * 255).round().clamp(0, 255).to(torch.uint8)
    return c.float(), which.to(torch.uint8), back, near.gather(1, which[:, None]).square().sum().float()


@stranger(
    lambda pixels, colours, turns: (
        torch.randint(0, 256, (3, pixels), dtype=torch.uint8).T, torch.rand(colours, 3), turns,
    ),
    palette_ref,
    {"pixels": 203, "colours": 7, "turns": 2},
    {"pixels": 1 << 20, "colours": 128, "turns": 4},
)  # fmt: skip
@tileflow.kernel
def palette(pixels, centres, turns: int):
    """Heckbert, 1982, with Lloyd's turns: a few colours for all pixels, and the picture in these."""
    n, colours = pixels.size(0), centres.size(0)

    def nearest(p, table):
        colour = pixels[p, :].to(torch.float32) / 255.0
        apart = torch.cdist(colour, table[:, :], compute_mode="donot_use_mm_for_euclid_dist")
        return colour, *torch.min(apart, dim=1)

    current = centres.clone()
    for _ in range(turns):
        sums = torch.zeros(colours, 3, dtype=torch.float64, device=pixels.device)
        counts = torch.zeros(colours, dtype=torch.int32, device=pixels.device)
        for p in tfl.tile(n):
            colour, _, which = nearest(p, current)
            tfl.atomic_add(counts, [which], 1)
            for axis in range(3):
                tfl.atomic_add(sums, [which, axis], colour[:, axis].double())
        for c in tfl.tile(colours):
            has = counts[c] > 0
            mean = sums[c, :] / counts[c].clamp(min=1)[:, None]
            current[c, :] = torch.where(has[:, None], mean.float(), current[c, :])
    index = torch.empty(n, dtype=torch.uint8, device=pixels.device)
    back, loss = torch.empty_like(pixels), torch.zeros((), dtype=torch.float64, device=pixels.device)
    for p in tfl.tile(n):
        _, apart, which = nearest(p, current)
        index[p] = which
        back[p, :] = (current[which, :] * 255).round().clamp(0, 255).to(torch.uint8)
        tfl.atomic_add(loss, [], (apart * apart).double().sum())
    return current, index, back, loss.float()
