"""RMS normalisation of rows (Zhang and Sennrich, 2019, arXiv:1910.07467): x / sqrt(mean(x^2) + eps) * weight."""

from __future__ import annotations

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl


def inputs(
    m: int, n: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor, float]:
    return torch.randn(m, n, dtype=dtype, device=device), torch.randn(n, dtype=dtype, device=device), 1e-5


def reference(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return F.rms_norm(x, (x.size(1),), weight, eps)


@tileflow.kernel(inputs=inputs, reference=reference)
def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    m, n = x.shape
    assert weight.size(0) == n, f"weight has {weight.size(0)} elements for rows of {n}"
    out = torch.empty_like(x)
    for tile_m in tfl.tile(m):
        row = x[tile_m, :].float()
        scale = torch.rsqrt(torch.mean(row * row, dim=1, keepdim=True) + eps)
        out[tile_m, :] = row * scale * weight[:].float()
    return out
