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
    extra_mask: torch.Tensor | bool | None = None,
    eviction_policy: str | None = None,
) -> torch.Tensor:
    """``tensor[index]``, zero where ``extra_mask`` is false. ``eviction_policy``: ``evict_first`` or ``evict_last``."""
    eager.current("load")
    return Places(tensor, index, reads=True).read(_tensor_of(extra_mask))


@device
def store(
    tensor: torch.Tensor, index: Any, value: torch.Tensor, *, extra_mask: torch.Tensor | bool | None = None
) -> None:
    """``tensor[index] = value`` where ``extra_mask`` is true."""
    eager.current("store")
    Places(tensor, eager.settled(index)).write(eager.settled(value), _tensor_of(extra_mask))


def _tensor_of(mask: torch.Tensor | bool | None) -> torch.Tensor | None:
    """A mask of scalars may be a Python bool."""
    return torch.tensor(mask) if isinstance(mask, bool) else mask
