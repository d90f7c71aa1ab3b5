"""A copy of a tensor that the copy engine of Hopper and later can take boxes of."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

ALIGNMENT = 16  # bytes: of every stride but the last one
_NATURAL = (0, 1, 2, 3, 4)


def aligned_copy(tensor: torch.Tensor, order: tuple[int, ...]) -> torch.Tensor:
    """The tensor's numbers with its dimensions in this order, the last one contiguous and the others at multiples of 16
    bytes. Made on the current stream, in whose order torch's allocator hands its memory out again."""
    import torch

    turned = tensor.detach() if tensor.requires_grad else tensor
    turned = turned if order == _NATURAL[: len(order)] else turned.permute(order)
    unit = max(ALIGNMENT // tensor.element_size(), 1)
    *outer, inner = turned.shape
    strides, step = [1], -(-inner // unit) * unit
    for size in reversed(outer):
        strides.append(step)
        step *= size
    copy = torch.empty_strided(turned.shape, strides[::-1], dtype=tensor.dtype, device=tensor.device)
    return copy.copy_(turned)
