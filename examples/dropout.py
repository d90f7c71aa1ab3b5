"""Dropout that stores no mask: the gradient draws the same random numbers again, from the same seed.

An element's number depends on the seed and on its position alone (Philox; Salmon et al., 2011), so that neither block
sizes nor the order of programs change which elements are dropped.
"""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl
from tileflow.language.random import UNIT, philox


def inputs(m: int, n: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu") -> tuple[torch.Tensor, float, int]:
    """Return a random matrix, a probability of 0.3, and a seed."""
    return torch.randn(m, n, dtype=dtype, device=device), 0.3, 1234


def reference(x: torch.Tensor, p: float, seed: int) -> torch.Tensor:
    """Draw the numbers of ``tfl.rand``: four of 24 bits to a counter, counted row by row."""
    position = torch.arange(x.numel(), device=x.device)
    words = torch.stack(torch.broadcast_tensors(*philox((position // 4, 0, 0, 0), seed)))
    number = UNIT * (words.gather(0, position[None] % 4) >> 8).view(x.shape)
    return torch.where(number >= p, x / (1 - p), 0)


@tileflow.kernel(inputs=inputs, reference=reference)
def dropout(x: torch.Tensor, p: float, seed: int) -> torch.Tensor:
    """Each element is 0 with probability ``p``, else divided by ``1 - p``; 0 <= p < 1."""
    out = torch.empty_like(x)
    for tile in tfl.tile(x.shape):
        keep = tfl.rand(tile, seed) >= p
        out[tile] = torch.where(keep, x[tile] / (1 - p), 0.0)
    return out


@tileflow.kernel(inputs=inputs, reference=reference)
def dropout_bwd(grad: torch.Tensor, p: float, seed: int) -> torch.Tensor:
    """The gradient of ``x`` for ``dropout(x, p, seed)``."""
    grad_x = torch.empty_like(grad)
    for tile in tfl.tile(grad.shape):
        keep = tfl.rand(tile, seed) >= p
        grad_x[tile] = torch.where(keep, grad[tile] / (1 - p), 0.0)
    return grad_x
