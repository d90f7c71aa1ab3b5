"""A matrix product and the layer normalisation of its rows in one kernel: a program holds whole rows of the product.

The row of the product never goes to memory before it is normalised; what bounds the size of a row is the registers.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl


def inputs(
    m: int, n: int, k: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, float]:
    """Return two random matrices, (m, k) and (k, n), weights and biases of the columns, and epsilon."""
    x, y = torch.randn(m, k, dtype=dtype, device=device), torch.randn(k, n, dtype=dtype, device=device)
    return x, y, torch.randn(n, dtype=dtype, device=device), torch.randn(n, dtype=dtype, device=device), 1e-5


def reference(x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> torch.Tensor:
    """Multiply, then normalise the rows with torch."""
    return F.layer_norm(x @ y, (y.size(1),), weight, bias, eps)


@tileflow.kernel(inputs=inputs, reference=reference)
def matmul_layer_norm(
    x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    m, k = x.shape
    n = y.size(1)
    assert weight.size(0) == n and bias.size(0) == n, f"weight and bias have {n} elements"
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    for tile_m in tfl.tile(m):
        acc = tfl.zeros([tile_m, n])
        for tile_k in tfl.tile(k):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, :])
        variance, mean = torch.var_mean(acc, dim=1, keepdim=True, correction=0)
        out[tile_m, :] = (acc - mean) * torch.rsqrt(variance + eps) * weight[:].float() + bias[:].float()
    return out
