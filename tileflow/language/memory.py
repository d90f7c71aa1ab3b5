"""Explicit loads and stores."""

from __future__ import annotations

from typing import Any

import torch

from . import eager
from .marks import device


@device
def load(
    tensor: torch.Tensor,
    index: Any,
    *,
    extra_mask: torch.Tensor | None = None,
    eviction_policy: str | None = None,
) -> torch.Tensor:
    """``tensor[index]``, zero where ``extra_mask`` is false. ``eviction_policy``: ``evict_first`` or ``evict_last``."""
    if extra_mask is None:
        return tensor[tuple(index) if isinstance(index, list) else index]
    places, chosen = eager.places(tensor, index, extra_mask)
    values = torch.zeros(chosen.shape, dtype=tensor.dtype, device=tensor.device)
    values[chosen] = tensor[places]
    return values


@device
def store(tensor: torch.Tensor, index: Any, value: torch.Tensor, *, extra_mask: torch.Tensor | None = None) -> None:
    """``tensor[index] = value`` where ``extra_mask`` is true."""
    if extra_mask is None:
        tensor[tuple(index) if isinstance(index, list) else index] = value
        return
    places, chosen = eager.places(tensor, index, extra_mask)
    tensor[places] = value.to(tensor.dtype).expand(chosen.shape)[chosen]
