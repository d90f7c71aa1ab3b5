"""Elementwise addition: the smallest kernel, bound by memory alone."""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl


def inputs(n: int, dtype: torch.dtype = torch.float32, device: str = "cpu") -> tuple[torch.Tensor, torch.Tensor]:
    """Return two random vectors of ``n`` elements."""
    return torch.randn(n, dtype=dtype, device=device), torch.randn(n, dtype=dtype, device=device)


def reference(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Add with torch."""
    return x + y


@tileflow.kernel(inputs=inputs, reference=reference)
def vector_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel()):
        out[tile] = x[tile] + y[tile]
    return out
