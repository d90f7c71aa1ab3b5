"""A call's arguments without their data: what is lowered, and asked what host code does with them."""

from __future__ import annotations

from typing import Any

import torch


class ToMeta:
    """Makes tensors without data for those of one call, aligned or not as they were; other values stay as they are.
    Those that share memory go on to share it."""

    def __init__(self) -> None:
        self._made: dict[int, torch.UntypedStorage] = {}  # by where the memory of the call's tensors begins

    def __call__(self, value: Any) -> Any:
        """``value``, or of a tensor one without data: the same sizes, strides, dtype and place in its memory."""
        if not isinstance(value, torch.Tensor) or value.device.type == "meta":
            return value
        memory, made = value.untyped_storage(), torch.empty(0, dtype=value.dtype, device="meta")
        room = torch.empty(memory.nbytes() + 16, dtype=torch.uint8, device="meta").untyped_storage()
        room = self._made.setdefault(memory.data_ptr(), room) if memory.data_ptr() else room
        # elements further than where memory is aligned: views of one memory lie to each other as the call's do
        offset = value.storage_offset() - (-(memory.data_ptr() % 16) // value.itemsize)
        made.set_(room, offset, value.shape, value.stride())
        says_where(made, value.device)
        return made.requires_grad_(value.requires_grad) if value.requires_grad else made


def says_where(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """``tensor``, which has no data, as one that stands for a tensor on ``device``; returns it."""
    if device.type == "cuda":
        tensor.tileflow_device = device  # type: ignore[attr-defined]
    return tensor
