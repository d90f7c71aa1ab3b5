"""Pictures: colours as eyes see them, morphology, stereo, flow, filters that keep edges, seams."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import stranger

TO_XYZ = (
    (0.4124564 / 0.95047, 0.3575761 / 0.95047, 0.1804375 / 0.95047),
    (0.2126729, 0.7151522, 0.0721750),
    (0.0193339 / 1.08883, 0.1191920 / 1.08883, 0.9503041 / 1.08883),
)


def lab_ref(x: Any) -> Any:
    c = x.float() / 255
    c = torch.where(c > 0.04045, ((c + 0.055) / 1.055) ** 2.4, c / 12.92)
    xyz = c @ torch.tensor(TO_XYZ).T
    f = torch.where(xyz > 0.008856, xyz.clamp(min=1e-6) ** (1 / 3), 7.787 * xyz + 16 / 116)
    a, b, d = f.unbind(-1)
    return torch.stack([116 * b - 16, 500 * (a - b), 200 * (b - d)], -1)


@stranger(
    lambda n: (torch.randint(0, 256, (n, 3), dtype=torch.uint8),),
    lab_ref,
    {"n": 101},
    {"n": 1 << 24},
)
@tileflow.kernel
def srgb_to_lab(x):
    """CIE 1976, of bytes that lie as a picture's do: the three of a pixel side by side."""
    out = torch.empty(x.shape, device=x.device)

    def linear(c):
        c = c.float() / 255
        return torch.where(c > 0.04045, ((c + 0.055) / 1.055) ** 2.4, c / 12.92)

    def curve(v):
        return torch.where(v > 0.008856, torch.clamp(v, min=1e-6) ** (1 / 3), 7.787 * v + 16 / 116)

    for t in tfl.tile(x.size(0)):
        r, g, b = linear(x[t, 0]), linear(x[t, 1]), linear(x[t, 2])
        fx, fy, fz = (curve(row[0] * r + row[1] * g + row[2] * b) for row in TO_XYZ)
        out[t, 0] = 116 * fy - 16
        out[t, 1] = 500 * (fx - fy)
        out[t, 2] = 200 * (fy - fz)
    return out


def opened_ref(x: Any, r: int) -> Any:
    y = x.float()[:, None]
    low = -F.max_pool2d(-y, 2 * r + 1, 1, r)
    high = F.max_pool2d(low, 2 * r + 1, 1, r)
    return (y - high)[:, 0].to(torch.uint8)


@stranger(
    lambda b, h, w: (torch.randint(0, 256, (b, h, w), dtype=torch.uint8), 2),
    opened_ref,
    {"b": 2, "h": 9, "w": 13},
    {"b": 32, "h": 1024, "w": 1024},
)
@tileflow.kernel
def white_top_hat(x, r: tfl.constexpr):
    """What an opening takes away: the least of a square, the largest of those, and the difference."""
    _b, _h, _w = x.shape
    low = torch.empty_like(x)
    out = torch.empty_like(x)
    for tb, ty, tx in tfl.tile(x.shape):
        least = x[tb, ty, tx]
        for dy in range(-r, r + 1):
            for dx in range(-r, r + 1):
                least = torch.minimum(least, tfl.load(x, [tb, ty + dy, tx + dx], other=255))
        low[tb, ty, tx] = least
    for tb, ty, tx in tfl.tile(x.shape):
        top = low[tb, ty, tx]
        for dy in range(-r, r + 1):
            for dx in range(-r, r + 1):
                top = torch.maximum(top, low[tb, ty + dy, tx + dx])
        out[tb, ty, tx] = x[tb, ty, tx] - top
    return out


def ones(x: Any) -> Any:
    x = x - ((x >> 1) & 0x55555555)
    x = (x & 0x33333333) + ((x >> 2) & 0x33333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F
    return (x + (x >> 8) + (x >> 16)) & 0x1F


def census_of(x: Any) -> Any:
    p = F.pad(x.int(), (2, 2, 2, 2))
    h, w = x.shape
    code = torch.zeros(h, w, dtype=torch.int32)
    for dy in range(5):
        for dx in range(5):
            if (dy, dx) != (2, 2):
                code = code << 1 | (p[dy : dy + h, dx : dx + w] < x).int()
    return code


def stereo_ref(left: Any, right: Any, disparities: int) -> Any:
    a, b = census_of(left), census_of(right)
    cost = []
    for d in range(disparities):
        c = ones(a ^ F.pad(b, (d, 0))[:, : b.size(1)])
        c = torch.where(torch.arange(b.size(1)) < d, 99, c)
        cost.append(c * 256 + d)
    best = torch.stack(cost).amin(0)
    return (best & 255).to(torch.uint8), (best >> 8).to(torch.uint8)


@stranger(
    lambda h, w, d: (
        torch.randint(0, 256, (h, w), dtype=torch.uint8),
        torch.randint(0, 256, (h, w), dtype=torch.uint8),
        d,
    ),
    stereo_ref,
    {"h": 7, "w": 19, "d": 5},
    {"h": 2160, "w": 3840, "d": 64},
)
@tileflow.kernel
def census_stereo(left, right, disparities):
    """Zabih and Woodfill, 1994: bits say which neighbours are darker; the shift where fewest of them differ."""
    h, w = left.shape
    codes = torch.empty(2, h, w, dtype=torch.int32, device=left.device)
    for ty, tx in tfl.tile([h, w]):
        for k, picture in enumerate((left, right)):
            middle = picture[ty, tx]
            code = tfl.zeros([ty, tx], dtype=torch.int32)
            for dy in range(-2, 3):
                for dx in range(-2, 3):
                    if dy != 0 or dx != 0:
                        code = (code << 1) | (picture[ty + dy, tx + dx] < middle).int()
            codes[k, ty, tx] = code
    shift = torch.empty(h, w, dtype=torch.uint8, device=left.device)
    cost = torch.empty_like(shift)
    for ty, tx in tfl.tile([h, w]):
        mine = codes[0, ty, tx]
        least = tfl.full([ty, tx], 99, dtype=torch.int32)
        where = tfl.zeros([ty, tx], dtype=torch.int32)
        for d in range(disparities):
            apart = ones(mine ^ codes[1, ty, tx - d])
            apart = torch.where(tx.index[None, :] >= d, apart, 99)
            where = torch.where(apart < least, d, where)
            least = torch.minimum(apart, least)
        shift[ty, tx] = where
        cost[ty, tx] = least
    return shift, cost


def flow_ref(a: Any, b: Any, r: int) -> Any:
    p = F.pad(a, (1, 1, 1, 1))
    ix, iy = 0.5 * (p[1:-1, 2:] - p[1:-1, :-2]), 0.5 * (p[2:, 1:-1] - p[:-2, 1:-1])
    it = b - a

    def box(z: Any) -> Any:
        return F.avg_pool2d(z[None, None], 2 * r + 1, 1, r, divisor_override=1)[0, 0]

    xx, xy, yy, xt, yt = box(ix * ix) + 0.1, box(ix * iy), box(iy * iy) + 0.1, box(ix * it), box(iy * it)
    det = xx * yy - xy * xy
    return torch.stack([(xy * yt - yy * xt) / det, (xy * xt - xx * yt) / det])


@stranger(
    lambda h, w: (torch.rand(h, w), torch.rand(h, w), 2),
    flow_ref,
    {"h": 9, "w": 14},
    {"h": 2160, "w": 3840},
)
@tileflow.kernel
def lucas_kanade(a, b, r: tfl.constexpr):
    """Lucas and Kanade, 1981: least squares over a window of each pixel, two by two."""
    h, w = a.shape
    flow = torch.empty(2, h, w, device=a.device)
    for ty, tx in tfl.tile([h, w]):
        xx, yy = tfl.full([ty, tx], 0.1), tfl.full([ty, tx], 0.1)
        xy, xt, yt = tfl.zeros([ty, tx]), tfl.zeros([ty, tx]), tfl.zeros([ty, tx])
        for dy in range(-r, r + 1):
            for dx in range(-r, r + 1):
                y, x = ty + dy, tx + dx
                inside = ((y.index >= 0) & (y.index < h))[:, None] & ((x.index >= 0) & (x.index < w))[None, :]
                gx = torch.where(inside, 0.5 * (a[y, tx + (dx + 1)] - a[y, tx + (dx - 1)]), 0.0)
                gy = torch.where(inside, 0.5 * (a[ty + (dy + 1), x] - a[ty + (dy - 1), x]), 0.0)
                gt = b[y, x] - a[y, x]
                xx += gx * gx
                xy += gx * gy
                yy += gy * gy
                xt += gx * gt
                yt += gy * gt
        det = xx * yy - xy * xy
        flow[0, ty, tx] = (xy * yt - yy * xt) / det
        flow[1, ty, tx] = (xy * xt - xx * yt) / det
    return flow


def bilateral_ref(x: Any, r: int, near: float, alike: float) -> Any:
    y = x.float()
    p = F.pad(y, (r, r, r, r), mode="reflect")
    h, w = x.shape[-2:]
    total, weight = torch.zeros_like(y), torch.zeros_like(y[:, :1])
    for dy in range(2 * r + 1):
        for dx in range(2 * r + 1):
            q = p[..., dy : dy + h, dx : dx + w]
            apart = (q - y).square().sum(1, keepdim=True)
            k = torch.exp(-((dy - r) ** 2 + (dx - r) ** 2) / (2 * near**2) - apart / (2 * alike**2))
            total, weight = total + k * q, weight + k
    return (total / weight).to(x.dtype)


@stranger(
    lambda b, h, w, dtype=torch.float32: (torch.rand(b, 3, h, w).to(dtype), 2, 1.5, 0.3),
    bilateral_ref,
    {"b": 1, "h": 9, "w": 13},
    {"b": 8, "h": 1080, "w": 1920, "dtype": torch.float16},
)
@tileflow.kernel
def bilateral_filter(x, r: tfl.constexpr, near, alike):
    """Tomasi and Manduchi, 1998, of colours: near pixels weigh as much as they are alike; mirrored at borders."""
    b, _, h, w = x.shape
    out = torch.empty_like(x)
    for tb, ty, tx in tfl.tile([b, h, w]):
        middle = [x[tb, c, ty, tx].float() for c in range(3)]
        total = [tfl.zeros([tb, ty, tx]) for _ in range(3)]
        weight = tfl.zeros([tb, ty, tx])
        for dy in range(-r, r + 1):
            for dx in range(-r, r + 1):
                y, z = (ty.index + dy).abs(), (tx.index + dx).abs()
                y, z = torch.where(y >= h, 2 * h - 2 - y, y), torch.where(z >= w, 2 * w - 2 - z, z)
                other = [x[tb, c, y, z].float() for c in range(3)]
                apart = sum((p - q) ** 2 for p, q in zip(middle, other, strict=True))
                k = torch.exp(-(dy * dy + dx * dx) / (2 * near**2) - apart / (2 * alike**2))
                weight += k
                for c in range(3):
                    total[c] = total[c] + k * other[c]
        for c in range(3):
            out[tb, c, ty, tx] = total[c] / weight
    return out


def seam_ref(energy: Any) -> Any:
    row = energy[:, 0].long()
    out = [row]
    for y in range(1, energy.size(1)):
        p = F.pad(row, (1, 1), value=1 << 28)
        row = energy[:, y] + torch.minimum(row, torch.minimum(p[:, :-2], p[:, 2:]))
        out.append(row)
    return torch.stack(out, 1).int()


@stranger(
    lambda b, h, w: (torch.randint(0, 256, (b, h, w), dtype=torch.uint8),),
    seam_ref,
    {"b": 2, "h": 9, "w": 21},
    {"b": 256, "h": 512, "w": 1024},
)
@tileflow.kernel
def seam_costs(energy):
    """Avidan and Shamir, 2007: the cheapest way down to each pixel, a row after another."""
    b, h, w = energy.shape
    out = torch.empty(b, h, w, dtype=torch.int32, device=energy.device)
    far = 1 << 28
    for ib in tfl.grid(b):
        column = tfl.arange(w)
        row = energy[ib, 0, :].int()
        out[ib, 0, :] = row
        for y in range(1, h):
            left = torch.where(column == 0, far, row.roll(1, 0))
            right = torch.where(column == w - 1, far, row.roll(-1, 0))
            row = energy[ib, y, :].int() + torch.minimum(row, torch.minimum(left, right))
            out[ib, y, :] = row
    return out
