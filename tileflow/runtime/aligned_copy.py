"""A copy of a tensor that the copy engine of Hopper and later can take boxes of."""

from __future__ import annotations

from itertools import accumulate
from operator import mul
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

ALIGNMENT = 16  # bytes: of every stride but the last one


def aligned_copy(tensor: torch.Tensor, order: tuple[int, ...]) -> torch.Tensor:
    """The tensor's numbers with its dimensions in this order, the last one contiguous and the others at multiples of 16
    bytes. Made on the current stream, in whose order torch's allocator hands its memory out again."""
    import torch

    turned = tensor.detach().permute(order)
    *outer, inner = turned.shape
    unit = max(ALIGNMENT // tensor.element_size(), 1)
    row = -(-inner // unit) * unit
    strides = (*reversed([*accumulate(reversed(outer[1:]), mul, initial=row)]), 1)
    copy = torch.empty_strided(turned.shape, strides, dtype=tensor.dtype, device=tensor.device)
    return copy.copy_(turned)
