"""Kernels that reduce or store whole dimensions of a tile, each of which may become a loop."""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl


@tileflow.kernel
def norm_by_groups(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A norm over both dimensions, then the largest element of each group."""
    out, most = torch.empty_like(x), torch.empty_like(x[:, :, 0])
    for tile in tfl.tile(x.size(0), block_size=1):
        row = x[tile, :, :]
        scaled = row * torch.rsqrt((row * row).sum(dim=(1, 2)))[:, None, None]
        most[tile, :] = scaled.amax(-1)
        out[tile, :, :] = scaled
    return out, most


@tileflow.kernel
def less_both_maxima(x: torch.Tensor) -> torch.Tensor:
    """Less the largest of its row and of its column: each maximum is needed whole in the other's loops."""
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0), block_size=1):
        row = x[tile, :, :]
        out[tile, :, :] = row - row.amax(1)[:, None, :] - row.amax(2)[:, :, None]
    return out


@tileflow.kernel
def stored_rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Two results of a row, which nothing reduces."""
    twice, scaled = torch.empty_like(x), torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        twice[tile, :] = x[tile, :] * 2
        scaled[tile, :] = x[tile, :] * x[tile, 0][:, None]
    return twice, scaled


@tileflow.kernel
def stored_boxes(x: torch.Tensor) -> torch.Tensor:
    """Both dimensions of each box, which nothing reduces."""
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0), block_size=1):
        out[tile, :, :] = x[tile, :, :] * 2
    return out


@tileflow.kernel
def stored_beside_a_sum(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """One dimension is reduced in a loop of its own, and stored beside one that is not."""
    out, sums = torch.empty_like(x), torch.empty_like(x[:, :, 0])
    for tile in tfl.tile(x.size(0), block_size=1):
        row = x[tile, :, :]
        sums[tile, :] = row.sum(2)
        out[tile, :, :] = row - row.mean(2, keepdim=True)
    return out, sums
