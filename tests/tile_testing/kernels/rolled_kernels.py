"""Kernels that reduce two dimensions of a tile, each of which may become a loop."""

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
