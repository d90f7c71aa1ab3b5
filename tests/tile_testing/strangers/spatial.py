"""Images: pooling, stencils, convolutions, normalisation over regions."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from .stranger import randn, stranger

PLANES = {"b": 2, "h": 13, "w": 19}
MANY_PLANES = {"b": 256, "h": 512, "w": 512}


def make_planes(b: int, h: int, w: int) -> tuple[Any, ...]:
    return (randn(b, h, w),)


@stranger(make_planes, lambda x: F.max_pool2d(x, 3, 2), PLANES, MANY_PLANES)
@tileflow.kernel
def max_pool(x):
    """3 by 3, every second."""
    b, h, w = x.shape
    out = torch.empty(b, (h - 3) // 2 + 1, (w - 3) // 2 + 1, device=x.device)
    for tb, ty, tx in tfl.tile(out.shape):
        top = tfl.full([tb, ty, tx], float("-inf"))
        for dy in range(3):
            for dx in range(3):
                top = torch.maximum(top, x[tb, ty.index * 2 + dy, tx.index * 2 + dx])
        out[tb, ty, tx] = top
    return out


@stranger(make_planes, lambda x: x.mean((1, 2)), PLANES, {"b": 16384, "h": 56, "w": 56})
@tileflow.kernel
def global_average(x):
    b, h, w = x.shape
    flat = x.view(b, h * w)
    out = torch.empty(b, device=x.device)
    for tb in tfl.tile(b):
        out[tb] = flat[tb, :].mean(1)
    return out


def heat(x: Any) -> torch.Tensor:
    y = F.pad(x, (1, 1, 1, 1))
    return x + 0.1 * (y[:, :-2, 1:-1] + y[:, 2:, 1:-1] + y[:, 1:-1, :-2] + y[:, 1:-1, 2:] - 4 * x)


@stranger(make_planes, heat, PLANES, MANY_PLANES)
@tileflow.kernel
def heat_step(x):
    """Five points, zero outside."""
    out = torch.empty_like(x)
    for tb, ty, tx in tfl.tile(x.shape):
        middle = x[tb, ty, tx]
        around = x[tb, ty - 1, tx] + x[tb, ty + 1, tx] + x[tb, ty, tx - 1] + x[tb, ty, tx + 1]
        out[tb, ty, tx] = middle + 0.1 * (around - 4 * middle)
    return out


def sobel(x: Any) -> torch.Tensor:
    rows = torch.tensor([[1.0, 2, 1], [0, 0, 0], [-1, -2, -1]], device=x.device)
    both = F.conv2d(x[:, None], torch.stack([rows, rows.T])[:, None])
    return both.square().sum(1).sqrt()


@stranger(make_planes, sobel, PLANES, MANY_PLANES)
@tileflow.kernel
def edges(x):
    b, h, w = x.shape
    out = torch.empty(b, h - 2, w - 2, device=x.device)
    for tb, ty, tx in tfl.tile(out.shape):
        p = [[x[tb, ty + dy, tx + dx] for dx in range(3)] for dy in range(3)]
        down = p[0][0] + 2 * p[0][1] + p[0][2] - p[2][0] - 2 * p[2][1] - p[2][2]
        right = p[0][0] + 2 * p[1][0] + p[2][0] - p[0][2] - 2 * p[1][2] - p[2][2]
        out[tb, ty, tx] = torch.sqrt(down * down + right * right)
    return out


def make_channels(b: int, c: int, h: int, w: int) -> tuple[Any, ...]:
    return randn(b, c, h, w), randn(c, 3, 3), randn(c)


def depthwise(x: Any, w: Any, bias: Any) -> torch.Tensor:
    return F.conv2d(x, w[:, None], bias, padding=1, groups=x.size(1))


@stranger(make_channels, depthwise, {"b": 1, "c": 3, "h": 11, "w": 17}, {"b": 32, "c": 256, "h": 112, "w": 112})
@tileflow.kernel
def depthwise_convolution(x, w, bias):
    out = torch.empty_like(x)
    for tb, tc, ty, tx in tfl.tile(x.shape, block_size=[1, 1, None, None]):
        b, c = tb.begin, tc.begin
        acc = tfl.zeros([ty, tx]) + bias[c]
        for dy in range(3):
            for dx in range(3):
                acc = acc + x[b, c, ty + (dy - 1), tx + (dx - 1)] * w[c, dy, dx]
        out[b, c, ty, tx] = acc
    return out


def make_groups(b: int, groups: int, size: int, h: int) -> tuple[Any, ...]:
    return randn(b, groups * size, h, h), randn(groups * size), randn(groups * size), groups


def grouped(x: Any, weight: Any, bias: Any, groups: int) -> torch.Tensor:
    return F.group_norm(x, groups, weight, bias)


@stranger(make_groups, grouped, {"b": 2, "groups": 3, "size": 2, "h": 7}, {"b": 64, "groups": 32, "size": 8, "h": 64})
@tileflow.kernel
def group_norm(x, weight, bias, groups):
    """Wu and He, 2018, arXiv:1803.08494."""
    b, c, h, w = x.shape
    size = c // groups
    parts, out = x.view(b * groups, size, h * w), torch.empty(b * groups, size, h * w, device=x.device)
    for tile in tfl.tile(b * groups):
        values = parts[tile, :, :]
        mean = values.mean((1, 2))[:, None, None]
        var = ((values - mean) * (values - mean)).mean((1, 2))[:, None, None]
        channel = (tile.index % groups)[:, None] * size + tfl.arange(size)[None, :]
        scaled = (values - mean) * torch.rsqrt(var + 1e-5)
        out[tile, :, :] = scaled * weight[channel][:, :, None] + bias[channel][:, :, None]
    return out.view(x.shape)


@stranger(make_planes, lambda x: F.interpolate(x[:, None], scale_factor=2, mode="bilinear")[:, 0], PLANES,
          {"b": 64, "h": 512, "w": 512})  # fmt: skip
@tileflow.kernel
def upsample(x):
    """Bilinear, twice as high and as wide."""
    b, h, w = x.shape
    out = torch.empty(b, 2 * h, 2 * w, device=x.device)
    for tb, ty, tx in tfl.tile(out.shape):
        y = torch.clamp((ty.index + 0.5) * 0.5 - 0.5, min=0.0)
        z = torch.clamp((tx.index + 0.5) * 0.5 - 0.5, min=0.0)
        y0, z0 = torch.floor(y).to(torch.int32), torch.floor(z).to(torch.int32)
        y1, z1 = torch.clamp(y0 + 1, max=h - 1), torch.clamp(z0 + 1, max=w - 1)
        fy, fz = (y - y0)[None, :, None], (z - z0)[None, None, :]
        top = x[tb, y0, z0] * (1 - fz) + x[tb, y0, z1] * fz
        bottom = x[tb, y1, z0] * (1 - fz) + x[tb, y1, z1] * fz
        out[tb, ty, tx] = top * (1 - fy) + bottom * fy
    return out


def make_shuffle(b: int, c: int, h: int, w: int) -> tuple[Any, ...]:
    return (randn(b, 4 * c, h, w),)


@stranger(make_shuffle, lambda x: F.pixel_shuffle(x, 2), {"b": 1, "c": 3, "h": 5, "w": 7},
          {"b": 16, "c": 32, "h": 256, "w": 256})  # fmt: skip
@tileflow.kernel
def pixel_shuffle(x):
    """Shi et al., 2016, arXiv:1609.05158."""
    b, c, h, w = x.shape
    out = torch.empty(b, c // 4, 2 * h, 2 * w, device=x.device)
    for tb, tc, ty, tx in tfl.tile(out.shape, block_size=[1, 1, None, None]):
        part = (ty.index % 2)[:, None] * 2 + (tx.index % 2)[None, :]
        out[tb.begin, tc.begin, ty, tx] = x[
            tb.begin, tc.begin * 4 + part, (ty.index // 2)[:, None], (tx.index // 2)[None, :]
        ]
    return out
