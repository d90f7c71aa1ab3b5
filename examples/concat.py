"""Two matrices side by side, in one launch: each column of the result is loaded from the one that it belongs to."""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl


def inputs(
    m: int, n: int, k: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return two random matrices with ``m`` rows, (m, n) and (m, k)."""
    return torch.randn(m, n, dtype=dtype, device=device), torch.randn(m, k, dtype=dtype, device=device)


def reference(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Concatenate the columns with torch."""
    return torch.cat([x, y], dim=1)


@tileflow.kernel(inputs=inputs, reference=reference)
def concat(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    m, n = x.shape
    assert y.size(0) == m, f"as many rows in both: {m} and {y.size(0)}"
    out = torch.empty(m, n + y.size(1), dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile(out.shape):
        column = tile_n.index
        left = column < n
        from_x = tfl.load(x, [tile_m, column], extra_mask=left[None, :])
        from_y = tfl.load(y, [tile_m, column - n], extra_mask=~left[None, :])
        out[tile_m, tile_n] = torch.where(left[None, :], from_x, from_y)
    return out
