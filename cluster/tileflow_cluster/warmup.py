"""The warm-up kernel, which is built to load a compiler: a product, a reduction over rows, elementwise arithmetic."""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl

SIZE = 64


@tileflow.kernel
def scaled_product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """``x @ y``, each row divided by the sum of its absolute values. (m, k), (k, n) -> (m, n)."""
    m, k = x.shape
    out = torch.empty(m, y.size(1), dtype=x.dtype, device=x.device)
    for tile in tfl.tile(m):
        acc = tfl.zeros([tile, y.size(1)])
        for inner in tfl.tile(k):
            acc = tfl.dot(x[tile, inner], y[inner, :], acc=acc)
        out[tile, :] = acc / (acc.abs().sum(1, keepdim=True) + 1.0)
    return out


def problem() -> tuple[torch.Tensor, torch.Tensor]:
    """Return the arguments that the kernel is built for: two square bfloat16 matrices without memory."""
    # Random ones would be the same, and load sympy: torch writes ``randn`` of meta tensors in Python.
    square = torch.empty(SIZE, SIZE, dtype=torch.bfloat16, device="meta")
    return square, square
