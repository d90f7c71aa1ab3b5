"""Tensors of any leading dimensions as the matrices that row-wise kernels take."""

from __future__ import annotations

import torch


def as_rows(x: torch.Tensor) -> torch.Tensor:
    """``x`` as (rows, last dimension), contiguous: no copy where it already is."""
    return x.reshape(-1, x.size(-1)).contiguous()
