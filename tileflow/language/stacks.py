"""Stacks: tensors of one shape that lie anywhere in memory, given by their addresses.

Loads and stores through a stack have its dimensions in front of those that the index names.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch

from ..errors import CallError
from . import eager_session
from .dim_identity import lanes_of, tag
from .eager_indexing import IndexedElements
from .marks import device

ADDRESSES = (torch.int64, torch.uint64)


class StackTensor:
    """What :func:`stacktensor_like` gives: ``stack[tile]`` loads from each of its tensors, ``stack[tile] = value``
    stores to each."""

    def __init__(self, tensor_like: torch.Tensor, dev_ptrs: torch.Tensor) -> None:
        self.tensor_like, self.dev_ptrs = tensor_like, dev_ptrs

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the tensors' elements."""
        return self.tensor_like.dtype

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes of the stack, then those of a tensor of it."""
        return (*self.dev_ptrs.shape, *self.tensor_like.shape)

    def __getitem__(self, index: Any) -> torch.Tensor:
        return self.read(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        self.write(index, value)

    def read(self, index: Any, mask: torch.Tensor | None = None, other: Any = 0) -> torch.Tensor:
        """The elements of each tensor; ``other`` outside it, and where ``mask`` is false."""
        masked = mask is not None
        like = IndexedElements(self.tensor_like, index, reads=True, masked=masked)
        shape = (*self.dev_ptrs.shape, *like.shape)
        masks = self._each(mask, like.shape)
        parts = [
            IndexedElements(t, index, reads=True, masked=masked).read(m, other)
            for t, m in zip(self._tensors, masks, strict=True)
        ]
        found = torch.stack(parts).reshape(shape) if parts else self.tensor_like.new_zeros(shape)
        return tag(found, (*lanes_of(self.dev_ptrs), *like.lanes))

    def write(self, index: Any, value: Any, mask: torch.Tensor | None = None) -> None:
        """Store to each tensor its part of ``value``, or all of it where it has no dimensions of the stack."""
        masked = mask is not None
        shape = IndexedElements(self.tensor_like, index, masked=masked).shape
        made = torch.as_tensor(value, device=self.tensor_like.device)
        values, masks = self._each(made, shape), self._each(mask, shape)
        for tensor, part, own in zip(self._tensors, values, masks, strict=True):
            IndexedElements(tensor, index, masked=masked).write(part, own)

    def _each(self, value: torch.Tensor | None, shape: Sequence[int]) -> list[Any]:
        """For each tensor its part of a value of the stack's shape and then ``shape``."""
        count, rank = self.dev_ptrs.numel(), len(shape)
        if value is None or value.ndim <= rank:
            return [value] * count
        own = value.shape[value.ndim - rank :]
        parts = value.expand(*self.dev_ptrs.shape, *own).reshape(count, *own)
        return [tag(part, lanes_of(value)[value.ndim - rank :]) for part in parts]

    @property
    def _tensors(self) -> list[torch.Tensor]:
        return [_at(int(address), self.tensor_like) for address in self.dev_ptrs.flatten().tolist()]


class _Device:
    """Memory of a GPU as its own interface says it."""

    def __init__(self, address: int, count: int) -> None:
        self.__cuda_array_interface__ = {"data": (address, False), "shape": (count,), "typestr": "|u1", "version": 2}


def _at(address: int, like: torch.Tensor) -> torch.Tensor:
    """The tensor at an address, with the sizes, strides and dtype of ``like``. It does not keep the memory alive."""
    if not like.numel():
        return torch.empty_like(like)
    elements = 1 + sum((n - 1) * s for n, s in zip(like.shape, like.stride(), strict=True))
    count = elements * like.element_size()
    if like.device.type == "cpu":
        memory = torch.frombuffer((ctypes.c_byte * count).from_address(address), dtype=torch.uint8)
    else:
        memory = torch.as_tensor(_Device(address, count), device=like.device)
    return memory.view(like.dtype).as_strided(like.shape, like.stride())


@device
def stacktensor_like(example: torch.Tensor, dev_ptrs: torch.Tensor) -> StackTensor:
    """The tensors at the addresses ``dev_ptrs`` as a stack: each has the sizes, strides and dtype of ``example``.

    ``example``: an argument of the kernel. ``dev_ptrs``: a tile of int64 or uint64 that the kernel loaded, as
    ``pointers[:]``, of what ``data_ptr()`` gave. Whoever calls the kernel keeps those tensors alive, on the device of
    ``example``. What is stored through a stack is not to be read by another name in the same launch.
    """
    eager_session.current("stacktensor_like")
    if dev_ptrs.dtype not in ADDRESSES:
        raise CallError("a stack's addresses are int64 or uint64", got=str(dev_ptrs.dtype))
    return StackTensor(example, dev_ptrs)
