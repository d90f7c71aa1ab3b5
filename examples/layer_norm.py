"""Layer normalisation of rows (Ba, Kiros and Hinton, 2016, arXiv:1607.06450), with weight and bias."""

from __future__ import annotations

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl


def inputs(
    m: int, n: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, float]:
    x = torch.randn(m, n, dtype=dtype, device=device)
    return x, torch.randn(n, dtype=dtype, device=device), torch.randn(n, dtype=dtype, device=device), 1e-5


def reference(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> torch.Tensor:
    return F.layer_norm(x, (x.size(1),), weight, bias, eps)


@tileflow.kernel(inputs=inputs, reference=reference)
def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    m, n = x.shape
    assert weight.size(0) == n and bias.size(0) == n, f"weight and bias have {n} elements"
    out = torch.empty_like(x)
    for tile_m in tfl.tile(m):
        row = x[tile_m, :].float()
        variance, mean = torch.var_mean(row, dim=1, keepdim=True, correction=0)
        out[tile_m, :] = (row - mean) * torch.rsqrt(variance + eps) * weight[:].float() + bias[:].float()
    return out
