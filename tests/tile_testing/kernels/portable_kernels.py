"""Kernels whose variants must not mistake one kind of call for another."""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl


@tileflow.kernel
def local_of_nothing(x: torch.Tensor) -> torch.Tensor:
    """Host code allocates a tensor without elements, and the kernel sums its rows."""
    m = x.size(0)
    local = torch.empty(m, 0, dtype=x.dtype, device=x.device)
    out = torch.empty(m, dtype=x.dtype, device=x.device)
    for tile in tfl.tile(m):
        out[tile] = local[tile, :].sum(dim=1) - local[tile, :].prod(dim=1)
    return out


@tileflow.kernel
def between(x: torch.Tensor, begin: int, end: int) -> torch.Tensor:
    """A loop that begins where the call says; the example's begins at 0."""
    out = torch.zeros_like(x)
    for tile in tfl.tile(begin, end):
        out[tile] = x[tile] * (tile.index - begin)
    return out


@tileflow.kernel
def by_parity(x: torch.Tensor) -> torch.Tensor:
    """Host code decides by a size."""
    out = torch.empty_like(x)
    is_even = x.size(0) % 2 == 0
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] * 2 if is_even else -x[tile]
    return out


@tileflow.kernel
def scaled_rows(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """``scale`` has one row, which all rows share, or as many as ``x``."""
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(1)):
        out[:, tile] = x[:, tile] * scale[:, tile]
    return out


@tileflow.kernel
def read_back(x: torch.Tensor, steps: int) -> torch.Tensor:
    """A scratch tensor whose size may be 0, written and read; an int of the call inside."""
    n = x.size(0)
    scratch = torch.empty(n * steps, dtype=x.dtype, device=x.device)
    out = x.clone()
    for tile in tfl.tile(scratch.size(0)):
        scratch[tile] = tile.index.to(x.dtype)
    for tile in tfl.tile(n):
        for step in tfl.grid(steps):
            out[tile] += scratch[tile.index * steps + step]
    return out
