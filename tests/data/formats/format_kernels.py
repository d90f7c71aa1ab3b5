"""The kernels of the old formats' fixtures. Rows are found by their semantic hash: do not change them."""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl


def add_inputs(n: int, device: str = "cpu") -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(n, device=device), torch.randn(n, device=device)


@tileflow.kernel(inputs=add_inputs)
def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """One region, pointers alone: an ABI of version 1."""
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] + y[tile]
    return out


def scaled_inputs(m: int, n: int, device: str = "cpu") -> tuple[torch.Tensor, float]:
    return torch.randn(m, n, dtype=torch.bfloat16, device=device), 0.5


@tileflow.kernel(inputs=scaled_inputs)
def normalised(x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
    """Two regions, of which the second may read through a descriptor: an ABI of version 2."""
    m, n = x.shape
    peaks = torch.empty(m, dtype=torch.float32, device=x.device)
    for tile_m in tfl.tile(m):
        peaks[tile_m] = torch.amax(x[tile_m, :].float(), dim=1)
    out = torch.empty_like(x)
    for tile_m, tile_n in tfl.tile([m, n]):
        out[tile_m, tile_n] = x[tile_m, tile_n] * (scale / peaks[tile_m][:, None])
    return out
