"""A matrix product whose second operand is stored as int16: it is converted on its way into the matrix units."""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl


def inputs(
    m: int, n: int, k: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a random matrix, (m, k), and random integers from -128 to 127 in int16, (k, n)."""
    x = torch.randn(m, k, dtype=dtype, device=device)
    return x, torch.randint(-128, 128, (k, n), dtype=torch.int16, device=device)


def reference(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Convert the second operand, then multiply with torch."""
    return x @ y.to(x.dtype)


@tileflow.kernel(inputs=inputs, reference=reference)
def mixed_matmul(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    m, k = x.shape
    n = y.size(1)
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([m, n]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(k):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n].to(x.dtype))
        out[tile_m, tile_n] = acc
    return out
