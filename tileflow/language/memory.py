"""Explicit loads and stores."""

from __future__ import annotations

from typing import Any

import torch

from . import eager_calls, eager_memory, eager_session
from .eager_indexing import IndexedElements, listed
from .marks import device
from .stacks import StackTensor


@device
def load(
    tensor: torch.Tensor | StackTensor,
    index: Any,
    *,
    extra_mask: torch.Tensor | bool | None = None,
    eviction_policy: str | None = None,
    other: torch.Tensor | float = 0,
) -> torch.Tensor:
    """``tensor[index]``; ``other`` where ``extra_mask`` is false, and outside the tensor.

    ``eviction_policy``: ``evict_first`` or ``evict_last``. ``other``: a number of the tensor's dtype, or with
    ``extra_mask`` a tile.
    """
    eager_session.current("load")
    index = listed(index)
    if isinstance(tensor, StackTensor):
        return tensor.read(index, _tensor_of(extra_mask), other)
    tensor = eager_memory.memory_of(tensor, "tfl.load reads")
    found = IndexedElements(tensor, index, reads=True, masked=extra_mask is not None)
    return eager_calls.tile_of(found.read(_tensor_of(extra_mask), other), found.kept)


@device
def store(
    tensor: torch.Tensor | StackTensor,
    index: Any,
    value: torch.Tensor,
    *,
    extra_mask: torch.Tensor | bool | None = None,
) -> None:
    """``tensor[index] = value`` where ``extra_mask`` is true."""
    eager_session.current("store")
    index = listed(index)
    if isinstance(tensor, StackTensor):
        tensor.write(eager_calls.widened(index), eager_calls.widened(value), _tensor_of(extra_mask))
        return
    tensor = eager_memory.memory_of(tensor, "tfl.store writes to")
    place = IndexedElements(tensor, eager_calls.widened(index), masked=extra_mask is not None)
    place.write(eager_calls.widened(value), _tensor_of(extra_mask))


def _tensor_of(mask: torch.Tensor | bool | None) -> torch.Tensor | None:
    """A mask of scalars may be a Python bool."""
    return torch.tensor(mask) if isinstance(mask, bool) else mask
