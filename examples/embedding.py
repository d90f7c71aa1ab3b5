"""Embedding: rows of a table, gathered by index."""

from __future__ import annotations

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl


def inputs(
    m: int, n: int, rows: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ``m`` random indices of rows, and a random table, (rows, n)."""
    return torch.randint(rows, (m,), device=device), torch.randn(rows, n, dtype=dtype, device=device)


def reference(indices: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Look the rows up with torch."""
    return F.embedding(indices, table)


@tileflow.kernel(inputs=inputs, reference=reference)
def embedding(indices: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """``table[indices]`` for indices of one dimension."""
    m, n = indices.size(0), table.size(1)
    out = torch.empty(m, n, dtype=table.dtype, device=table.device)
    for tile_m, tile_n in tfl.tile([m, n]):
        out[tile_m, tile_n] = table[indices[tile_m], tile_n]
    return out
