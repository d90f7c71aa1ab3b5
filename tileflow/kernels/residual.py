"""A matrix product and the addition of a residual in one kernel, residual + x @ weight.T."""

from __future__ import annotations

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl


def inputs(
    m: int, n: int, k: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Random rows ``(m, k)``, a weight ``(n, k)`` by which sums are about one, and a residual ``(m, n)``."""
    x, residual = (torch.randn(m, size, dtype=dtype, device=device) for size in (k, n))
    return x, torch.randn(n, k, dtype=dtype, device=device) * k**-0.5, residual


def reference(x: torch.Tensor, weight: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
    """``residual + x @ weight.T`` in torch."""
    return residual + F.linear(x, weight)


@tileflow.kernel(inputs=inputs, reference=reference)
def linear_add(x: torch.Tensor, weight: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
    """``residual + x @ weight.T``: the product does not go to memory by itself."""
    m, k = x.shape
    out = torch.empty_like(residual)
    for tile_m, tile_n in tfl.tile([m, weight.size(0)]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(k):
            acc = torch.addmm(acc, x[tile_m, tile_k], weight[tile_n, tile_k].t())
        out[tile_m, tile_n] = acc + residual[tile_m, tile_n]
    return out
