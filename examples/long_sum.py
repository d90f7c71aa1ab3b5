"""Sums of few long rows, three ways.

In one piece the tuner decides whether a row is held in registers or read in a loop. The explicit loop keeps a sum for
each lane of a tile, and adds those up at the end. With few rows neither keeps a GPU busy: the third way shares a row
among many programs, and adds up their sums afterwards.
"""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl


def inputs(m: int, n: int, dtype: torch.dtype = torch.float32, device: str = "cpu") -> tuple[torch.Tensor]:
    """Return a random matrix, (m, n)."""
    return (torch.randn(m, n, dtype=dtype, device=device),)


def reference(x: torch.Tensor) -> torch.Tensor:
    """Sum the rows with torch."""
    return x.sum(1)


@tileflow.kernel(inputs=inputs, reference=reference)
def long_sum(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), dtype=x.dtype, device=x.device)
    for tile_m in tfl.tile(x.size(0)):
        out[tile_m] = x[tile_m, :].sum(1)
    return out


@tileflow.kernel(inputs=inputs, reference=reference)
def long_sum_looped(x: torch.Tensor) -> torch.Tensor:
    m, n = x.shape
    block_n = tfl.register_block_size(n)
    out = torch.empty(m, dtype=x.dtype, device=x.device)
    for tile_m in tfl.tile(m):
        sums = tfl.zeros([tile_m, block_n])
        for tile_n in tfl.tile(n, block_size=block_n):
            sums += x[tile_m, tile_n]
        out[tile_m] = sums.sum(1)
    return out


@tileflow.kernel(inputs=inputs, reference=reference)
def long_sum_split(x: torch.Tensor) -> torch.Tensor:
    m, n = x.shape
    part = tfl.register_block_size(n)
    partial = torch.empty(m, (n + part - 1) // part, dtype=torch.float32, device=x.device)
    for tile_m, tile_n in tfl.tile([m, n], block_size=[None, part]):
        partial[tile_m, tile_n.id] = x[tile_m, tile_n].float().sum(1)
    return partial.sum(1).to(x.dtype)
