"""Batched matrix products, a batch at a time or a tile of batches at a time.

One matrix a program keeps the matrix units fed where the matrices are large. A tile of batches makes one product of
three dimensions, which pays where a single matrix is too small to fill a program.
"""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl


def inputs(
    b: int, m: int, n: int, k: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ``b`` pairs of random matrices, (b, m, k) and (b, k, n)."""
    return torch.randn(b, m, k, dtype=dtype, device=device), torch.randn(b, k, n, dtype=dtype, device=device)


def reference(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Multiply the batches with torch."""
    return torch.bmm(x, y)


@tileflow.kernel(inputs=inputs, reference=reference)
def bmm(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    b, m, k = x.shape
    n = y.size(2)
    out = torch.empty(b, m, n, dtype=x.dtype, device=x.device)
    for tile_b, tile_m, tile_n in tfl.tile([b, m, n], block_size=[1, None, None]):
        batch = tile_b.begin
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(k):
            acc = torch.addmm(acc, x[batch, tile_m, tile_k], y[batch, tile_k, tile_n])
        out[batch, tile_m, tile_n] = acc
    return out


@tileflow.kernel(inputs=inputs, reference=reference)
def bmm_small(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    b, m, k = x.shape
    n = y.size(2)
    out = torch.empty(b, m, n, dtype=x.dtype, device=x.device)
    for tile_b, tile_m, tile_n in tfl.tile([b, m, n]):
        acc = tfl.zeros([tile_b, tile_m, tile_n])
        for tile_k in tfl.tile(k):
            acc = torch.baddbmm(acc, x[tile_b, tile_m, tile_k], y[tile_b, tile_k, tile_n])
        out[tile_b, tile_m, tile_n] = acc
    return out
