"""Windows and middle dimensions as kernels of the language: pooling, stencils, a causal convolution, reductions."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl


def pooled(size: int, width: int, step: int, room: int) -> int:
    """Return how many windows a dimension has, with ``room`` elements of padding at each end."""
    return (size + 2 * room - width) // step + 1


def is_in(index: Any, size: int) -> Any:
    """Return which of the indices are of a dimension's elements."""
    return (index >= 0) & (index < size)


# ---- pooling, over all but the first dimension -----------------------------------------------------------------------


@tileflow.kernel
def avg_pool_1d(x: torch.Tensor, width: tfl.constexpr, step: tfl.constexpr, room: tfl.constexpr) -> torch.Tensor:
    out = torch.empty(x.size(0), pooled(x.size(1), width, step, room), dtype=x.dtype, device=x.device)
    for tb, tx in tfl.tile(out.shape):
        total = tfl.zeros([tb, tx])
        for d in tfl.static_range(width):
            total += x[tb, tx.index * step + (d - room)]
        out[tb, tx] = total / width
    return out


@tileflow.kernel
def max_pool_1d(x: torch.Tensor, width: tfl.constexpr, step: tfl.constexpr, room: tfl.constexpr) -> torch.Tensor:
    out = torch.empty(x.size(0), pooled(x.size(1), width, step, room), dtype=x.dtype, device=x.device)
    for tb, tx in tfl.tile(out.shape):
        top = tfl.full([tb, tx], float("-inf"), dtype=x.dtype)
        for d in tfl.static_range(width):
            at = tx.index * step + (d - room)
            top = torch.maximum(
                top, tfl.load(x, [tb, at], extra_mask=is_in(at, x.size(1))[None, :], other=float("-inf"))
            )
        out[tb, tx] = top
    return out


@tileflow.kernel
def avg_pool_2d(x: torch.Tensor, width: tfl.constexpr, step: tfl.constexpr, room: tfl.constexpr) -> torch.Tensor:
    b, h, w = x.shape
    out = torch.empty(b, pooled(h, width, step, room), pooled(w, width, step, room), dtype=x.dtype, device=x.device)
    for tb, ty, tx in tfl.tile(out.shape):
        total = tfl.zeros([tb, ty, tx])
        for dy in tfl.static_range(width):
            for dx in tfl.static_range(width):
                total += x[tb, ty.index * step + (dy - room), tx.index * step + (dx - room)]
        out[tb, ty, tx] = total / (width * width)
    return out


@tileflow.kernel
def max_pool_2d(x: torch.Tensor, width: tfl.constexpr, step: tfl.constexpr, room: tfl.constexpr) -> torch.Tensor:
    b, h, w = x.shape
    out = torch.empty(b, pooled(h, width, step, room), pooled(w, width, step, room), dtype=x.dtype, device=x.device)
    for tb, ty, tx in tfl.tile(out.shape):
        top = tfl.full([tb, ty, tx], float("-inf"), dtype=x.dtype)
        for dy in tfl.static_range(width):
            for dx in tfl.static_range(width):
                y, z = ty.index * step + (dy - room), tx.index * step + (dx - room)
                inside = is_in(y, h)[None, :, None] & is_in(z, w)[None, None, :]
                top = torch.maximum(top, tfl.load(x, [tb, y, z], extra_mask=inside, other=float("-inf")))
        out[tb, ty, tx] = top
    return out


@tileflow.kernel
def avg_pool_3d(x: torch.Tensor, width: tfl.constexpr, step: tfl.constexpr, room: tfl.constexpr) -> torch.Tensor:
    b, d, h, w = x.shape
    sizes = [b, *(pooled(size, width, step, room) for size in (d, h, w))]
    out = torch.empty(sizes, dtype=x.dtype, device=x.device)
    for tb, tz, ty, tx in tfl.tile(out.shape):
        total = tfl.zeros([tb, tz, ty, tx])
        for dz in tfl.static_range(width):
            for dy in tfl.static_range(width):
                for dx in tfl.static_range(width):
                    z, y = tz.index * step + (dz - room), ty.index * step + (dy - room)
                    total += x[tb, z, y, tx.index * step + (dx - room)]
        out[tb, tz, ty, tx] = total / (width * width * width)
    return out


@tileflow.kernel
def max_pool_3d(x: torch.Tensor, width: tfl.constexpr, step: tfl.constexpr, room: tfl.constexpr) -> torch.Tensor:
    b, d, h, w = x.shape
    sizes = [b, *(pooled(size, width, step, room) for size in (d, h, w))]
    out = torch.empty(sizes, dtype=x.dtype, device=x.device)
    for tb, tz, ty, tx in tfl.tile(out.shape):
        top = tfl.full([tb, tz, ty, tx], float("-inf"), dtype=x.dtype)
        for dz in tfl.static_range(width):
            for dy in tfl.static_range(width):
                for dx in tfl.static_range(width):
                    z, y = tz.index * step + (dz - room), ty.index * step + (dy - room)
                    at = tx.index * step + (dx - room)
                    inside = is_in(z, d)[None, :, None, None] & is_in(y, h)[None, None, :, None]
                    inside = inside & is_in(at, w)[None, None, None, :]
                    top = torch.maximum(top, tfl.load(x, [tb, z, y, at], extra_mask=inside, other=float("-inf")))
        out[tb, tz, ty, tx] = top
    return out


# ---- stencils --------------------------------------------------------------------------------------------------------


@tileflow.kernel
def five_points(x: torch.Tensor) -> torch.Tensor:
    """A step of the heat equation, zero outside."""
    out = torch.empty_like(x)
    for tb, ty, tx in tfl.tile(x.shape):
        middle = x[tb, ty, tx].float()
        around = x[tb, ty - 1, tx].float() + x[tb, ty + 1, tx] + x[tb, ty, tx - 1] + x[tb, ty, tx + 1]
        out[tb, ty, tx] = middle + 0.1 * (around - 4 * middle)
    return out


@tileflow.kernel
def nine_points(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Each point and its eight neighbours, by weights; zero outside."""
    out = torch.empty_like(x)
    for tb, ty, tx in tfl.tile(x.shape):
        total = tfl.zeros([tb, ty, tx])
        for dy in range(3):
            for dx in range(3):
                total += x[tb, ty + (dy - 1), tx + (dx - 1)].float() * w[dy, dx]
        out[tb, ty, tx] = total
    return out


@tileflow.kernel
def causal_convolution(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Each channel with weights of its own, the present element and those before it."""
    out = torch.empty_like(x)
    width = w.size(1)
    for tb, tc, tx in tfl.tile(x.shape):
        total = tfl.zeros([tb, tc, tx]) + bias[tc][None, :, None]
        for d in tfl.static_range(width):
            total += x[tb, tc, tx + (d - width + 1)].float() * w[tc, d][None, :, None]
        out[tb, tc, tx] = total
    return out


# ---- the middle of three dimensions ----------------------------------------------------------------------------------


@tileflow.kernel
def middle_sum(x: torch.Tensor) -> torch.Tensor:
    b, _, c = x.shape
    out = torch.empty(b, c, dtype=x.dtype, device=x.device)
    for tb, tc in tfl.tile([b, c]):
        out[tb, tc] = x[tb, :, tc].float().sum(1)
    return out


@tileflow.kernel
def middle_mean(x: torch.Tensor) -> torch.Tensor:
    b, _, c = x.shape
    out = torch.empty(b, c, dtype=x.dtype, device=x.device)
    for tb, tc in tfl.tile([b, c]):
        out[tb, tc] = x[tb, :, tc].float().mean(1)
    return out


@tileflow.kernel
def middle_max(x: torch.Tensor) -> torch.Tensor:
    b, _, c = x.shape
    out = torch.empty(b, c, dtype=x.dtype, device=x.device)
    for tb, tc in tfl.tile([b, c]):
        out[tb, tc] = x[tb, :, tc].amax(1)
    return out


@tileflow.kernel
def middle_argmax(x: torch.Tensor) -> torch.Tensor:
    b, _, c = x.shape
    out = torch.empty(b, c, dtype=torch.int64, device=x.device)
    for tb, tc in tfl.tile([b, c]):
        out[tb, tc] = x[tb, :, tc].argmax(1)
    return out


@tileflow.kernel
def middle_softmax(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tb, tc in tfl.tile([x.size(0), x.size(2)]):
        out[tb, :, tc] = torch.softmax(x[tb, :, tc].float(), 1)
    return out


@tileflow.kernel
def middle_cumsum(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tb, tc in tfl.tile([x.size(0), x.size(2)]):
        out[tb, :, tc] = torch.cumsum(x[tb, :, tc].float(), 1)
    return out
