"""Grids of cells: noise, contours, components, distances, alignments; vectors that turn."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def perlin_ref(x: Any, y: Any, table: Any) -> Any:
    gx = torch.tensor([1.0, -1, 1, -1, 1, -1, 0, 0])
    gy = torch.tensor([1.0, 1, -1, -1, 0, 0, 1, -1])
    ix, iy = x.floor().long(), y.floor().long()
    fx, fy = x - ix, y - iy
    v = {}
    for dy in range(2):
        for dx in range(2):
            k = table[(table[(ix + dx) % 256] + iy + dy) % 256] % 8
            v[dx, dy] = gx[k] * (fx - dx) + gy[k] * (fy - dy)
    u, w = fade(fx), fade(fy)
    return torch.lerp(torch.lerp(v[0, 0], v[1, 0], u), torch.lerp(v[0, 1], v[1, 1], u), w)


def perlin_whole(h: Any, w: Any, scale: Any, octaves: Any, table: Any) -> Any:
    ys, xs = torch.arange(h)[:, None] * scale, torch.arange(w)[None] * scale
    out = torch.zeros(h, w, dtype=torch.float64)
    for o in range(octaves):
        out += perlin_ref((xs * 2.0**o).expand(h, w), (ys * 2.0**o).expand(h, w), table.long()) * 0.5**o
    return out.float()


def fade(t: Any) -> Any:
    return t * t * t * (t * (t * 6 - 15) + 10)


def gradient(k: Any, x: Any, y: Any) -> Any:
    """A dot product with one of eight directions."""
    u, v = torch.where(k < 6, x, 0.0), torch.where((k < 4) | (k >= 6), y, 0.0)
    u = torch.where(k % 2 == 1, -u, u)
    down = torch.where(k < 4, (k & 2) > 0, k == 7)
    return u + torch.where(down, -v, v)


@stranger(
    lambda h, w, scale, octaves: (h, w, scale, octaves, torch.randperm(256).int()),
    perlin_whole,
    {"h": 9, "w": 13, "scale": 0.37, "octaves": 3},
    {"h": 4096, "w": 4096, "scale": 0.015625, "octaves": 6},
)
@tileflow.kernel
def perlin_noise(h, w, scale, octaves: tfl.constexpr, table):
    out = torch.empty(h, w, device=table.device)
    for ty, tx in tfl.tile([h, w]):
        total = tfl.zeros([ty, tx])
        frequency, amplitude = scale, 1.0
        for _ in range(octaves):
            x, y = tx.index * frequency, ty.index * frequency
            ix, iy = x.floor().int(), y.floor().int()
            fx, fy = (x - ix)[None, :], (y - iy)[:, None]
            corner = []
            for dy in range(2):
                for dx in range(2):
                    k = table[(table[(ix + dx) % 256][None, :] + iy[:, None] + dy) % 256] % 8
                    corner.append(gradient(k, fx - dx, fy - dy))
            u, v = fade(fx), fade(fy)
            top, bottom = torch.lerp(corner[0], corner[1], u), torch.lerp(corner[2], corner[3], u)
            total += amplitude * torch.lerp(top, bottom, v)
            frequency *= 2
            amplitude /= 2
        out[ty, tx] = total
    return out


def marching_ref(f: Any, level: Any) -> Any:
    inside = (f > level).long()
    code = inside[:-1, :-1] | inside[:-1, 1:] << 1 | inside[1:, 1:] << 2 | inside[1:, :-1] << 3
    lines = torch.tensor([0, 1, 1, 1, 1, 2, 1, 1, 1, 1, 2, 1, 1, 1, 1, 0])[code]
    return code.to(torch.uint8), torch.bincount(code.flatten(), minlength=16).int(), lines.sum()


@stranger(lambda h, w: (randn(h, w), 0.2), marching_ref, {"h": 9, "w": 14}, {"h": 8192, "w": 8192})
@tileflow.kernel
def marching_squares(field, level):
    """The case of each cell, how often each case is met, and how many lines that makes."""
    h, w = field.shape
    case = torch.empty(h - 1, w - 1, dtype=torch.uint8, device=field.device)
    counts = torch.zeros(16, dtype=torch.int32, device=field.device)
    lines = torch.zeros((), dtype=torch.int64, device=field.device)
    for ty, tx in tfl.tile([h - 1, w - 1]):
        a, b = field[ty, tx] > level, field[ty, tx + 1] > level
        d, c = field[ty + 1, tx] > level, field[ty + 1, tx + 1] > level
        code = a.int() | b.int() << 1 | c.int() << 2 | d.int() << 3
        case[ty, tx] = code
        tfl.atomic_add(counts, [code], 1)
        saddle = (code == 5) | (code == 10)
        some = (code != 0) & (code != 15)
        tfl.atomic_add(lines, [], (some.int() + saddle.int()).sum())
    return case, counts, lines


def label_ref(mask: Any) -> Any:
    h, w = mask.shape
    lab = torch.where(mask, torch.arange(h * w).view(h, w), -1).int()
    big = 1 << 30
    for _ in range(4):
        p = torch.where(lab < 0, big, lab)
        p = F.pad(p, (1, 1, 1, 1), value=big)
        near = torch.stack([p[1:-1, 1:-1], p[:-2, 1:-1], p[2:, 1:-1], p[1:-1, :-2], p[1:-1, 2:]]).amin(0)
        lab = torch.where(mask, near, -1).int()
    return lab


@stranger(lambda h, w: (torch.rand(h, w) < 0.6,), label_ref, {"h": 9, "w": 13}, {"h": 4096, "w": 4096})
@tileflow.kernel
def component_labels(mask):
    """Four rounds of the least label among neighbours."""
    h, w = mask.shape
    labels = torch.empty(2, h, w, dtype=torch.int32, device=mask.device)
    for ty, tx in tfl.tile([h, w]):
        labels[0, ty, tx] = torch.where(mask[ty, tx], ty.index[:, None] * w + tx.index[None, :], -1)
    for step in range(4):
        src, dst = step % 2, 1 - step % 2
        for ty, tx in tfl.tile([h, w]):
            best = labels[src, ty, tx]
            for dy, dx in ((-1, 0), (1, 0), (0, -1), (0, 1)):
                near = tfl.load(labels, [src, ty + dy, tx + dx], other=-1)
                best = torch.where(near >= 0, torch.minimum(best, near), best)
            labels[dst, ty, tx] = torch.where(mask[ty, tx], best, -1)
    return labels[0]


def edt_ref(mask: Any) -> Any:
    h, w = mask.shape
    i, j = torch.arange(h), torch.arange(w)
    rows, found = torch.full((h, w), 1 << 20), torch.full((h, w), 1 << 20)
    for k in range(w):
        rows = torch.where(mask[:, k, None], torch.minimum(rows, (j - k) ** 2), rows)
    for k in range(h):
        found = torch.minimum(found, rows[k] + (i[:, None] - k) ** 2)
    return found.float().sqrt()


@stranger(lambda h, w: (torch.rand(h, w) < 0.1,), edt_ref, {"h": 11, "w": 13}, {"h": 1024, "w": 1024})
@tileflow.kernel
def distance_transform(mask):
    h, w = mask.shape
    rows = torch.empty(h, w, dtype=torch.int32, device=mask.device)
    out = torch.empty(h, w, device=mask.device)
    far = 1 << 20
    for ty, tx in tfl.tile([h, w]):
        best = tfl.full([ty, tx], far, dtype=torch.int32)
        for k in range(w):
            there = torch.where(mask[ty, k][:, None], (tx.index - k)[None, :] ** 2, far)
            best = torch.minimum(best, there)
        rows[ty, tx] = best
    for ty, tx in tfl.tile([h, w]):
        best = tfl.full([ty, tx], far, dtype=torch.int32)
        for k in range(h):
            best = torch.minimum(best, rows[k, tx] + ((ty.index - k) ** 2)[:, None])
        out[ty, tx] = best.float().sqrt()
    return out


def gotoh_ref(a: Any, b: Any, match: Any, mismatch: Any, open_gap: Any, extend: Any) -> Any:
    batch, m = b.shape
    best, low = torch.zeros(batch), torch.full((batch,), -1e9)
    above, down = [torch.zeros(batch)] * (m + 1), [low] * (m + 1)
    for i in range(a.size(1)):
        row, along = [torch.zeros(batch)], low
        for j in range(m):
            along = torch.maximum(along - extend, row[j] - open_gap)
            down[j + 1] = torch.maximum(down[j + 1] - extend, above[j + 1] - open_gap)
            aligned = above[j] + torch.where(a[:, i] == b[:, j], match, -mismatch)
            row.append(torch.maximum(aligned, torch.maximum(along, down[j + 1])).clamp(min=0))
            best = torch.maximum(best, row[-1])
        above = row
    return best


@stranger(
    lambda b, n, m: (
        torch.randint(0, 4, (b, n), dtype=torch.uint8),
        torch.randint(0, 4, (b, m), dtype=torch.uint8),
        2.0,
        1.0,
        3.0,
        1.0,
    ),
    gotoh_ref,
    {"b": 3, "n": 9, "m": 13},
    {"b": 16384, "n": 128, "m": 512},
)
@tileflow.kernel
def smith_waterman(a, b, match, mismatch, open_gap, extend):
    """Local alignment with affine gaps, an anti-diagonal at a time."""
    batch, n = a.shape
    m = b.size(1)
    out = torch.empty(batch, device=a.device)
    for ib in tfl.grid(batch):
        i = tfl.arange(n)
        x = a[ib, :]
        h1, h2 = tfl.zeros([n]), tfl.zeros([n])
        e, f = tfl.full([n], -1e9), tfl.full([n], -1e9)
        best = tfl.zeros([n])
        for d in range(n + m - 1):
            j = d - i
            inside = (j >= 0) & (j < m)
            y = tfl.load(b, [ib, j], extra_mask=inside)
            e = torch.maximum(e - extend, h1 - open_gap)
            up_f, up_h = f.roll(1, 0), h1.roll(1, 0)
            f = torch.where(i == 0, -1e9, torch.maximum(up_f - extend, up_h - open_gap))
            f = torch.maximum(f, torch.where(i == 0, -open_gap, -1e9))
            diagonal = torch.where((i == 0) | (j == 0), 0.0, h2.roll(1, 0))
            h = diagonal + torch.where(x == y, match, -mismatch)
            h = torch.maximum(torch.maximum(h, e), torch.maximum(f, tfl.zeros([n])))
            h = torch.where(inside, h, 0.0)
            e = torch.where(inside, e, -1e9)
            f = torch.where(inside, f, -1e9)
            best = torch.maximum(best, h)
            h2, h1 = h1, h
        out[ib] = best.max()
    return out


def rotate_ref(q: Any, v: Any) -> Any:
    q = F.normalize(q, dim=-1)
    w, u = q[..., :1], q[..., 1:]
    t = 2 * torch.linalg.cross(u, v)
    return v + w * t + torch.linalg.cross(u, t)


def cross(a: Any, b: Any) -> Any:
    return a.roll(-1, 1) * b.roll(1, 1) - a.roll(1, 1) * b.roll(-1, 1)


@stranger(lambda n: (randn(n, 4), randn(n, 3)), rotate_ref, {"n": 37}, {"n": 1 << 22})
@tileflow.kernel
def rotate_vectors(q, v):
    out = torch.empty_like(v)
    for t in tfl.tile(v.size(0)):
        quat = F.normalize(q[t, :], dim=-1)
        w, u = quat[:, :1], quat[:, 1:]
        x = v[t, :]
        twice = 2 * cross(u, x)
        out[t, :] = x + w * twice + cross(u, twice)
    return out
