"""Explicit loads and stores."""

from __future__ import annotations

from typing import Any

import torch

from . import eager
from .marks import device
from .places import Places


@device
def load(
    tensor: torch.Tensor,
    index: Any,
    *,
    extra_mask: torch.Tensor | None = None,
    eviction_policy: str | None = None,
) -> torch.Tensor:
    """``tensor[index]``, zero where ``extra_mask`` is false. ``eviction_policy``: ``evict_first`` or ``evict_last``."""
    eager.current("load")
    return Places(tensor, index).read(extra_mask)


@device
def store(tensor: torch.Tensor, index: Any, value: torch.Tensor, *, extra_mask: torch.Tensor | None = None) -> None:
    """``tensor[index] = value`` where ``extra_mask`` is true."""
    eager.current("store")
    Places(tensor, eager.settled(index)).write(eager.settled(value), extra_mask)
