"""What pictures are compared by: structure, patches, gradients, bits of pairs, views of another camera, votes."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger


def ssim_ref(a: Any, b: Any) -> Any:
    def mean(v: Any) -> Any:
        return F.avg_pool2d(v[:, None], 7, 1)[:, 0]

    ma, mb = mean(a), mean(b)
    va, vb, cov = mean(a * a) - ma * ma, mean(b * b) - mb * mb, mean(a * b) - ma * mb
    s = (2 * ma * mb + 1e-4) * (2 * cov + 9e-4) / ((ma * ma + mb * mb + 1e-4) * (va + vb + 9e-4))
    return s.mean((1, 2))


def make_pictures(n: int, h: int, w: int) -> Any:
    a = torch.rand(n, h, w)
    return a, (a + 0.1 * torch.rand(n, h, w)).clamp(0, 1)


@stranger(make_pictures, ssim_ref, {"n": 2, "h": 21, "w": 27}, {"n": 8, "h": 1080, "w": 1920})
@tileflow.kernel
def structural_similarity(a, b):
    """Wang and others, 2004: local means, variances and the covariance of two pictures, over windows of 7 x 7."""
    n, h, w = a.shape
    out = torch.zeros(n, device=a.device)
    for i, ty, tx in tfl.tile([n, h - 6, w - 6], block_size=[1, None, None]):
        sa, sb, saa, sbb, sab = (tfl.zeros([ty, tx]) for _ in range(5))
        for dy in tfl.static_range(7):
            for dx in tfl.static_range(7):
                u = a[i.id, ty + dy, tx + dx]
                v = b[i.id, ty + dy, tx + dx]
                sa += u
                sb += v
                saa += u * u
                sbb += v * v
                sab += u * v
        ma, mb = sa / 49, sb / 49
        va, vb, cov = saa / 49 - ma * ma, sbb / 49 - mb * mb, sab / 49 - ma * mb
        s = (2 * ma * mb + 1e-4) * (2 * cov + 9e-4) / ((ma * ma + mb * mb + 1e-4) * (va + vb + 9e-4))
        inside = (ty.index < h - 6)[:, None] & (tx.index < w - 6)[None, :]
        tfl.atomic_add(out, [i.id], torch.where(inside, s, 0.0).sum() / ((h - 6) * (w - 6)))
    return out


def patches_ref(x: Any, strength: float) -> Any:
    h, w = x.shape
    p = F.pad(x[None, None], (4, 4, 4, 4), mode="replicate")[0, 0]
    centre = [p[3 + py : 3 + py + h, 3 + px : 3 + px + w] for py in range(3) for px in range(3)]
    total, weights = torch.zeros_like(x), torch.zeros_like(x)
    for dy in range(-3, 4):
        for dx in range(-3, 4):
            gap = torch.zeros_like(x)
            for k, (py, px) in enumerate((py, px) for py in range(3) for px in range(3)):
                y0, x0 = 3 + py + dy, 3 + px + dx
                gap += (p[y0 : y0 + h, x0 : x0 + w] - centre[k]) ** 2
            weight = torch.exp(-gap * strength)
            total += weight * p[4 + dy : 4 + dy + h, 4 + dx : 4 + dx + w]
            weights += weight
    return total / weights


@stranger(lambda h, w: (torch.rand(h, w), 3.0), patches_ref, {"h": 17, "w": 23}, {"h": 1024, "w": 1024})
@tileflow.kernel
def non_local_means(x, strength: float):
    """Buades, Coll and Morel, 2005: pixels averaged by how alike the patches around them are."""
    h, w = x.shape
    out = torch.empty_like(x)
    for ty, tx in tfl.tile([h, w]):
        total = tfl.zeros([ty, tx])
        weights = tfl.zeros([ty, tx])
        for dy in range(7):
            for dx in range(7):
                gap = tfl.zeros([ty, tx])
                for py in tfl.static_range(3):
                    for px in tfl.static_range(3):
                        y0 = (ty.index + (py - 1)).clamp(0, h - 1)
                        x0 = (tx.index + (px - 1)).clamp(0, w - 1)
                        y1 = (ty.index + (dy + py - 4)).clamp(0, h - 1)
                        x1 = (tx.index + (dx + px - 4)).clamp(0, w - 1)
                        apart = x[y1[:, None], x1[None, :]] - x[y0[:, None], x0[None, :]]
                        gap += apart * apart
                weight = torch.exp(-gap * strength)
                yc = (ty.index + (dy - 3)).clamp(0, h - 1)
                xc = (tx.index + (dx - 3)).clamp(0, w - 1)
                total += weight * x[yc[:, None], xc[None, :]]
                weights += weight
        out[ty, tx] = total / weights
    return out


def gradients_ref(x: Any) -> Any:
    h, w = x.shape
    p = F.pad(x[None, None], (1, 1, 1, 1), mode="replicate")[0, 0]
    gx, gy = p[1:-1, 2:] - p[1:-1, :-2], p[2:, 1:-1] - p[:-2, 1:-1]
    size = torch.sqrt(gx * gx + gy * gy)
    upper = (gy < 0) | ((gy == 0) & (gx < 0))
    cx, cy = torch.where(upper, -gx, gx), torch.where(upper, -gy, gy)
    bins = torch.zeros_like(size, dtype=torch.long)
    for k in range(1, 9):
        angle = torch.tensor(torch.pi * k / 9)
        bins += (cy * torch.cos(angle) - cx * torch.sin(angle) >= 0).long()
    cells = torch.zeros(h // 8, w // 8, 9)
    for k in range(9):
        cells[:, :, k] = torch.where(bins == k, size, 0.0).view(h // 8, 8, w // 8, 8).sum((1, 3))
    return cells / torch.sqrt((cells * cells).sum(2, keepdim=True) + 1e-6)


@stranger(lambda h, w: (torch.rand(h, w),), gradients_ref, {"h": 24, "w": 40}, {"h": 2048, "w": 2048})
@tileflow.kernel
def gradient_cells(x):
    """Dalal and Triggs, 2005: gradients of cells of 8 x 8 pixels by direction, in nine bins, each cell normalised."""
    h, w = x.shape
    out = torch.empty(h // 8, w // 8, 9, device=x.device)
    cosines = [0.9396926, 0.7660444, 0.5, 0.1736482, -0.1736482, -0.5, -0.7660444, -0.9396926]
    sines = [0.3420201, 0.6427876, 0.8660254, 0.9848078, 0.9848078, 0.8660254, 0.6427876, 0.3420201]
    for ty, tx in tfl.tile([h // 8, w // 8]):
        sums = [tfl.zeros([ty, tx]) for _ in range(9)]
        for j in range(8):
            for i in range(8):
                y, z = ty.index * 8 + j, tx.index * 8 + i
                left, right = (z - 1).clamp(min=0), (z + 1).clamp(max=w - 1)
                above, under = (y - 1).clamp(min=0), (y + 1).clamp(max=h - 1)
                gx = x[y[:, None], right[None, :]] - x[y[:, None], left[None, :]]
                gy = x[under[:, None], z[None, :]] - x[above[:, None], z[None, :]]
                size = torch.sqrt(gx * gx + gy * gy)
                upper = (gy < 0) | ((gy == 0) & (gx < 0))
                cx, cy = torch.where(upper, -gx, gx), torch.where(upper, -gy, gy)
                turned = tfl.zeros([ty, tx], dtype=torch.int32)
                for k in tfl.static_range(8):
                    turned += (cy * cosines[k] - cx * sines[k] >= 0).to(torch.int32)
                for k in tfl.static_range(9):
                    sums[k] = sums[k] + torch.where(turned == k, size, 0.0)
        norm = tfl.zeros([ty, tx])
        for k in tfl.static_range(9):
            norm += sums[k] * sums[k]
        for k in tfl.static_range(9):
            out[ty, tx, k] = sums[k] * torch.rsqrt(norm + 1e-6)
    return out


def brief_ref(x: Any, keys: Any, pairs: Any) -> Any:
    h, w = x.shape
    at = keys[:, None, None, :].long() + pairs[None].long()
    value = x[at[..., 0].clamp(0, h - 1), at[..., 1].clamp(0, w - 1)]
    bits = (value[:, :, 0] < value[:, :, 1]).long().view(keys.shape[0], -1, 32)
    words = (bits << torch.arange(32)).sum(2)
    return (words - ((words >> 31) << 32)).int()


@stranger(
    lambda h, w, n, bits: (
        torch.rand(h, w),
        torch.stack([torch.randint(0, h, (n,)), torch.randint(0, w, (n,))], 1).int(),
        torch.randint(-12, 13, (bits, 2, 2), dtype=torch.int32),
    ),
    brief_ref,
    {"h": 40, "w": 60, "n": 11, "bits": 64},
    {"h": 1080, "w": 1920, "n": 1 << 16, "bits": 256},
)
@tileflow.kernel
def brief_bits(x, keys, pairs):
    """Calonder and others, 2010: bits of which of two pixels near a key is darker, packed in words of 32."""
    h, w = x.shape
    n, words = keys.shape[0], pairs.shape[0] // 32
    out = torch.empty(n, words, dtype=torch.int32, device=x.device)
    for tn, tw in tfl.tile([n, words]):
        word = tfl.zeros([tn, tw], dtype=torch.int32)
        ky, kx = keys[tn, 0], keys[tn, 1]
        for b in range(32):
            at = tw.index * 32 + b
            y0 = (ky[:, None] + pairs[at, 0, 0][None, :]).clamp(0, h - 1)
            x0 = (kx[:, None] + pairs[at, 0, 1][None, :]).clamp(0, w - 1)
            y1 = (ky[:, None] + pairs[at, 1, 0][None, :]).clamp(0, h - 1)
            x1 = (kx[:, None] + pairs[at, 1, 1][None, :]).clamp(0, w - 1)
            word |= (x[y0, x0] < x[y1, x1]).to(torch.int32) << b
        out[tn, tw] = word
    return out


def homography_ref(x: Any, m: Any) -> Any:
    _, h, w = x.shape
    y, z = torch.meshgrid(torch.arange(h).float(), torch.arange(w).float(), indexing="ij")
    d = m[2, 0] * z + m[2, 1] * y + m[2, 2]
    u, v = (m[0, 0] * z + m[0, 1] * y + m[0, 2]) / d, (m[1, 0] * z + m[1, 1] * y + m[1, 2]) / d
    grid = torch.stack([2 * u / (w - 1) - 1, 2 * v / (h - 1) - 1], 2)[None]
    return F.grid_sample(x[None], grid, align_corners=True)[0]


@stranger(
    lambda c, h, w: (
        torch.rand(c, h, w),
        torch.tensor([[0.9, 0.05, 3.0], [-0.04, 0.95, 2.0], [1e-5, 2e-5, 1.0]]),
    ),
    homography_ref,
    {"c": 3, "h": 19, "w": 29},
    {"c": 3, "h": 2160, "w": 3840},
)
@tileflow.kernel
def homography_warp(x, m):
    """A plane as another camera sees it: four neighbours of where each pixel comes from, weighted."""
    c, h, w = x.shape
    out = torch.empty_like(x)
    for ty, tx in tfl.tile([h, w]):
        y, z = ty.index.to(torch.float32)[:, None], tx.index.to(torch.float32)[None, :]
        d = m[2, 0] * z + m[2, 1] * y + m[2, 2]
        u = (m[0, 0] * z + m[0, 1] * y + m[0, 2]) / d
        v = (m[1, 0] * z + m[1, 1] * y + m[1, 2]) / d
        u0, v0 = torch.floor(u), torch.floor(v)
        fu, fv = u - u0, v - v0
        iu, iv = u0.to(torch.int32), v0.to(torch.int32)
        for k in range(c):
            total = tfl.zeros([ty, tx])
            for dy in tfl.static_range(2):
                for dx in tfl.static_range(2):
                    yy, xx = iv + dy, iu + dx
                    inside = (yy >= 0) & (yy < h) & (xx >= 0) & (xx < w)
                    weight = (fv if dy else 1 - fv) * (fu if dx else 1 - fu)
                    value = x[k, yy.clamp(0, h - 1), xx.clamp(0, w - 1)]
                    total += torch.where(inside, value * weight, 0.0)
            out[k, ty, tx] = total
    return out


def capsules_ref(votes: Any, rounds: int) -> Any:
    b, i, j, _ = votes.shape
    logits = torch.zeros(b, i, j)
    for _ in range(rounds):
        share = torch.softmax(logits, 2)
        s = (share[..., None] * votes).sum(1)
        square = (s * s).sum(2, keepdim=True)
        v = s * square / (1 + square) * torch.rsqrt(square + 1e-7)
        logits = logits + (votes * v[:, None]).sum(3)
    return v


@stranger(
    lambda b, i, j, d, rounds: (randn(b, i, j, d) * 0.3, rounds),
    capsules_ref,
    {"b": 2, "i": 21, "j": 5, "d": 8, "rounds": 3},
    {"b": 256, "i": 1152, "j": 10, "d": 16, "rounds": 3},
)
@tileflow.kernel
def route_capsules(votes, rounds: int):
    """Sabour, Frosst and Hinton, 2017: votes weighted by how they agree with what was voted for."""
    b, i, j, d = votes.shape
    out = torch.empty(b, j, d, device=votes.device)
    logits = torch.zeros(b, i, j, device=votes.device)
    for tb in tfl.tile(b, block_size=1):
        for _ in range(rounds):
            s = tfl.zeros([j, d])
            for ti in tfl.tile(i):
                share = torch.softmax(logits[tb.id, ti, :], dim=1)
                s += (share[:, :, None] * votes[tb.id, ti, :, :]).sum(0)
            square = (s * s).sum(1, keepdim=True)
            v = s * square / (1 + square) * torch.rsqrt(square + 1e-7)
            for ti in tfl.tile(i):
                logits[tb.id, ti, :] += (votes[tb.id, ti, :, :] * v[None, :, :]).sum(2)
            out[tb.id, :, :] = v
    return out
