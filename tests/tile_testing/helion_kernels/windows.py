"""Normalisations by channel and windows of pooling, in the sizes that powers of two are not."""

from collections.abc import Callable, Iterator
from typing import Any

import helion
import helion.language as hl
import torch
import torch.nn.functional as F
from torch import nn

Case = tuple[str, Callable[..., Any], tuple[Any, ...], Callable[..., Any]]


@helion.kernel(static_shapes=True)
def pooled(x: torch.Tensor, f: Any, size: int) -> torch.Tensor:
    out = torch.empty([x.size(0), x.size(1), size], dtype=x.dtype, device=x.device)
    for tile in hl.tile(x.size(0)):
        out[tile, :, :] = f(x[tile, :, :])
    return out


@helion.kernel(static_shapes=True)
def pooled_planes(x: torch.Tensor, f: Any, rows: int, columns: int) -> torch.Tensor:
    out = torch.empty([x.size(0), x.size(1), rows, columns], dtype=x.dtype, device=x.device)
    for tile in hl.tile(x.size(0)):
        out[tile, :, :, :] = f(x[tile, :, :, :])
    return out


@helion.kernel(static_shapes=True)
def grouped(x: torch.Tensor, groups: int, weight: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :, :] = F.group_norm(x[tile, :, :], groups, weight[:], eps=1e-3)
    return out


@helion.kernel(static_shapes=True)
def grouped_rows(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile, :] = F.group_norm(x[tile, :], 3)
    return out


@helion.kernel(static_shapes=True)
def by_channel(x: torch.Tensor, mean: torch.Tensor, var: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile_n, tile_c, tile_l in hl.tile(x.shape):
        out[tile_n, tile_c, tile_l] = F.batch_norm(
            x[tile_n, tile_c, tile_l], mean[tile_c], var[tile_c], None, bias[tile_c], training=False, eps=1e-2
        )
    return out


def cases() -> Iterator[Case]:
    x, wide, weight = torch.randn(4, 6, 10), torch.randn(2, 3, 6, 8), torch.randn(6)
    for groups in (1, 2, 3, 6):
        yield f"group_norm_{groups}", grouped, (x, groups, weight), lambda x, n, w: F.group_norm(x, n, w, eps=1e-3)
    half = torch.randn(4, 8, 16).half()
    yield (
        "group_norm_half",
        grouped,
        (half, 4, torch.randn(8).half()),
        lambda x, n, w: F.group_norm(x.float(), n, w.float(), eps=1e-3).half(),
    )
    yield "group_norm_of_rows", grouped_rows, (x[:, :, 0].clone(),), lambda x: F.group_norm(x, 3)
    statistics = torch.randn(6), torch.rand(6) + 0.5, torch.randn(6)
    yield (
        "batch_norm_by_tiles",
        by_channel,
        (x, *statistics),
        lambda x, m, v, b: F.batch_norm(x, m, v, None, b, eps=1e-2),
    )
    rows: dict[str, tuple[Any, int]] = {
        "average": (nn.AvgPool1d(2), 5), "overlapping": (nn.AvgPool1d(3, 2), 4), "largest": (nn.MaxPool1d(5), 2),
        "dilated": (nn.MaxPool1d(2, 1, dilation=3), 7), "rest_left_out": (nn.MaxPool1d(4), 2),
        "adaptive": (nn.AdaptiveAvgPool1d(5), 5), "adaptive_largest": (nn.AdaptiveMaxPool1d(2), 2),
        "of_all": (nn.AdaptiveAvgPool1d(1), 1), "padded": (nn.AvgPool1d(3, 2, padding=1), 5),
        "padded_uncounted": (nn.AvgPool1d(4, 2, padding=2, count_include_pad=False), 6),
        "padded_largest": (nn.MaxPool1d(3, 2, padding=1, dilation=2), 4),
    }  # fmt: skip
    for name, (pool, size) in rows.items():
        yield f"pool_{name}", pooled, (x, pool, size), lambda x, f, n: f(x)
    planes: dict[str, tuple[Any, int, int]] = {
        "average": (nn.AvgPool2d(2), 3, 4), "largest": (nn.MaxPool2d((3, 2), stride=(3, 2)), 2, 4),
        "adaptive": (nn.AdaptiveAvgPool2d((3, 2)), 3, 2), "padded": (nn.AvgPool2d(3, 2, padding=(1, 0)), 3, 3),
    }  # fmt: skip
    for name, (pool, height, width) in planes.items():
        yield f"pool_planes_{name}", pooled_planes, (wide, pool, height, width), lambda x, f, m, n: f(x)
