"""Points and lines of pictures: colours by direction, lines and hypotheses by votes, peaks of heat maps."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger

C0, C1 = 0.28209479177387814, 0.4886025119029199
C2 = (1.0925484305920792, -1.0925484305920792, 0.31539156525252005, -1.0925484305920792, 0.5462742152960396)


def basis(x: Any, y: Any, z: Any, degree: int) -> Any:
    out = [torch.full_like(x, C0)]
    if degree > 0:
        out += [-C1 * y, C1 * z, -C1 * x]
    if degree > 1:
        xx, yy, zz = x * x, y * y, z * z
        out += [C2[0] * x * y, C2[1] * y * z, C2[2] * (2 * zz - xx - yy), C2[3] * x * z, C2[4] * (xx - yy)]
    return out


def harmonics_ref(means: Any, coefficients: Any, eye: Any, degree: int, visible: Any) -> Any:
    ray = F.normalize(means - eye, dim=1)
    terms = torch.stack(basis(*ray.unbind(1), degree), 1)
    colour = (terms[..., None] * coefficients[:, : terms.size(1)].to(terms.dtype)).sum(1) + 0.5
    keep = torch.ones(len(means), dtype=torch.bool) if visible is None else visible
    return torch.where(keep[:, None], colour.clamp(min=0), 0), (colour < 0) & keep[:, None]


@stranger(
    lambda n, degree, dtype=torch.float32: (
        torch.randn(n, 3), randn(n, 9, 3, dtype=dtype), torch.randn(1, 3).expand(n, 3), degree, torch.rand(n) < 0.8,
    ),
    harmonics_ref,
    {"n": 27, "degree": 2},
    {"n": 4_000_000, "degree": 2, "dtype": torch.float16},
)  # fmt: skip
@tileflow.kernel
def view_dependent_colours(means, coefficients, eye, degree: int = 0, visible=None):
    """Kerbl and others, 2023: each Gaussian's colour from where one looks, by spherical harmonics of its own."""
    n = means.shape[0]
    colour = torch.zeros(n, 3, device=means.device)
    clamped = torch.zeros(n, 3, device=means.device, dtype=torch.bool)
    for tn in tfl.tile(n):
        delta = means[tn, :] - eye[tn, :]
        x, y, z = (means[tn, i] - eye[tn, i] for i in range(3))
        norm = torch.linalg.vector_norm(delta, dim=-1).clamp(min=1e-12)
        x, y, z = x / norm, y / norm, z / norm
        for channel in range(3):
            total = tfl.full([tn], 0.5, dtype=torch.float32)
            for k, term in enumerate(basis(x, y, z, degree)):
                total += term * coefficients[tn, k, channel]
            negative = total.lt(0)
            if visible is not None:
                negative = negative.logical_and(visible[tn])
                total = total.masked_fill(~visible[tn], 0)
            clamped[tn, channel] = negative
            colour[tn, channel] = F.relu(total)
    return colour, clamped


def hough_ref(edges: Any, angles: int, step: float) -> Any:
    h, w = edges.shape
    diagonal = math.ceil(math.hypot(h, w) / step)
    y, x = edges.nonzero(as_tuple=True)
    theta = torch.arange(angles).float() * (math.pi / angles)
    rho = torch.round((x[:, None].float() * theta.cos() + y[:, None].float() * theta.sin()) / step).long() + diagonal
    votes = torch.zeros(angles, 2 * diagonal + 1, dtype=torch.int32)
    at = (torch.arange(angles)[None].expand_as(rho).flatten(), rho.flatten())
    return votes.index_put_(at, torch.ones((), dtype=torch.int32), accumulate=True)


@stranger(
    lambda h, w, angles: (torch.rand(h, w) < 0.1, angles, 1.25),
    hough_ref,
    {"h": 12, "w": 17, "angles": 9},
    {"h": 1080, "w": 1920, "angles": 180},
)
@tileflow.kernel
def hough_lines(edges, angles: int, step: float):
    """Duda and Hart, 1972: each point of an edge votes for every line through it, by angle and distance."""
    h, w = edges.shape
    diagonal = math.ceil(math.hypot(h, w) / step)
    votes = torch.zeros([angles, 2 * diagonal + 1], dtype=torch.int32, device=edges.device)
    for ty, tx, ta in tfl.tile([h, w, angles]):
        on = edges[ty, tx].unsqueeze(-1)
        theta = ta.index * (math.pi / angles)
        rho = tx.index[None, :, None] * theta.cos() + ty.index[:, None, None] * theta.sin()
        cell = (rho / step).round().long() + diagonal
        tfl.atomic_add(votes, [ta.index[None, None], cell], on.int())
    return votes


def sampson_ref(f: Any, left: Any, right: Any, bar: float) -> Any:
    one = torch.ones(left.size(0), 1)
    a, b = torch.cat([left, one], 1), torch.cat([right, one], 1)
    fa = torch.einsum("hij,nj->hni", f, a.to(f.dtype))
    fb = torch.einsum("hji,nj->hni", f, b.to(f.dtype))
    top = (b.to(f.dtype) * fa).sum(2)
    error = top**2 / (fa[..., 0] ** 2 + fa[..., 1] ** 2 + fb[..., 0] ** 2 + fb[..., 1] ** 2 + 1e-12)
    counts = (error < bar).sum(1)
    score = torch.clamp(error, max=bar).sum(1)
    return counts, score, score.argmin()


@stranger(
    lambda hypotheses, n: (torch.randn(hypotheses, 3, 3), torch.rand(n, 2), torch.rand(2, n).T, 0.05),
    sampson_ref,
    {"hypotheses": 11, "n": 45},
    {"hypotheses": 4096, "n": 20000},
)
@tileflow.kernel
def sampson_scores(f, left, right, bar: float):
    """Torr and Zisserman, 2000 (MSAC): how well fundamental matrices fit matches, by first-order distances."""
    count, n = f.size(0), left.size(0)
    inliers = f.new_zeros(count, dtype=torch.int64)
    score = f.new_zeros(count)
    for th in tfl.tile(count):
        m = [[f[th, i, j, None] for j in range(3)] for i in range(3)]
        good = tfl.zeros([th], dtype=torch.int64)
        cost = tfl.zeros([th])
        for tn in tfl.tile(n):
            a = (left[tn, 0][None], left[tn, 1][None], 1.0)
            b = (right[None, tn, 0], right[None, tn, 1], 1.0)
            fa = [sum(m[i][j] * a[j] for j in range(3)) for i in range(3)]
            fb = [sum(m[j][i] * b[j] for j in range(3)) for i in range(3)]
            top = sum(x * y for x, y in zip(b, fa, strict=True))
            error = top.square() / sum(part**2 for part in (*fa[:2], *fb[:2], 1e-6))
            inside = tn.index < n
            good += ((error < bar) & inside).sum(-1)
            cost += torch.where(inside, error.clamp(max=bar), 0).sum(axis=1)
        inliers[th], score[th] = good, cost
    best = torch.zeros((), dtype=torch.int64, device=f.device)
    for _ in tfl.grid(1):
        best[...] = score[:].argmin()
    return inliers, score, best


def make_heat(b: int, c: int, h: int, w: int, k: int, dtype: torch.dtype = torch.float32) -> Any:
    heat = torch.randperm(b * c * h * w).view(b, c, h, w) / (b * c * h * w)
    return heat.to(dtype), randn(b, 2, h, w, dtype=dtype), k


def heat_ref(heat: Any, offset: Any, k: int) -> Any:
    b, _, h, w = heat.shape
    wide = heat.to(torch.promote_types(heat.dtype, torch.float32))
    peak = torch.where(F.max_pool2d(wide, 3, 1, 1) == wide, wide, 0)
    score, at = peak.flatten(1).topk(k, dim=1)
    cls, cell = at // (h * w), at % (h * w)
    moved = offset.flatten(2).to(wide.dtype).gather(2, cell[:, None].expand(b, 2, k))
    return score, cls.int(), torch.stack([cell % w + moved[:, 0], cell // w + moved[:, 1]], 2)


@stranger(
    make_heat,
    heat_ref,
    {"b": 2, "c": 3, "h": 8, "w": 11, "k": 4},
    {"b": 16, "c": 80, "h": 128, "w": 128, "k": 100},
)
@tileflow.kernel
def heatmap_peaks(heat, offset, k: int):
    """Zhou and others, 2019 (CenterNet): objects are the strongest peaks of their class's map, moved by an offset."""
    b, _, h, w = heat.shape
    peak = torch.empty_like(heat, dtype=torch.float32)
    for tb, tc, ty, tx in tfl.tile(heat.shape):
        here = heat[tb, tc, ty, tx].float()
        highest = here
        for dy in (-1, 0, 1):
            for dx in (-1, 0, 1):
                y, x = ty.index + dy, tx.index + dx
                inside = ((y >= 0) & (y < h))[:, None] & ((x >= 0) & (x < w))[None, :]
                near = tfl.load(heat, [tb, tc, y, x], extra_mask=inside[None, None], other=-math.inf)
                highest = torch.fmax(highest, near.float())
        peak[tb, tc, ty, tx] = here * (highest == here)
    flat = peak.reshape(b, -1)
    score, at = torch.topk(flat, k, dim=-1)
    classes = torch.empty(b, k, dtype=torch.int32, device=heat.device)
    centre = torch.empty(b, k, 2, device=heat.device)
    for tb, tk in tfl.tile([b, k]):
        where = at[tb, tk]
        row = tb.index.unsqueeze(1)
        cell = where % (h * w)
        classes[tb, tk] = torch.div(where, h * w, rounding_mode="floor")
        y, x = torch.div(cell, w, rounding_mode="trunc"), torch.fmod(cell, w)
        centre[tb, tk, 0] = x + offset[row, 0, y, x]
        centre[tb, tk, 1] = y + offset[row, 1, y, x]
    return score, classes, centre
