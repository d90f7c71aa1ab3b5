"""Copies of a tensor that a launch's programs share out among them, since all would wait for its few elements.

Memory changes one element after the other: two numbers to which two million lanes add took 2022 us (an H200,
2026-11-30; docs/measurements/default-rules.md). A launch has copies that begin as what the combination leaves alone,
programs add to one each, and the launch combines them with the tensor by torch's own kernels, on its stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from .abi import Copies

ALIGNMENT = 32  # elements at multiples of which copies begin: no two of them share a sector of the cache


def copies_of(tensor: torch.Tensor, copies: Copies) -> torch.Tensor:
    """New memory of ``copies.count`` rows, each of which has the tensor's elements at its own strides."""
    import torch

    shape = (copies.count, room(tensor.shape, tensor.stride()))
    dtype: torch.dtype = getattr(torch, copies.dtype)
    if copies.how == "add":
        return torch.zeros(shape, dtype=dtype, device=tensor.device)
    least, most = float("-inf"), float("inf")
    if not dtype.is_floating_point:
        least, most = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    return torch.full(shape, most if copies.how == "min" else least, dtype=dtype, device=tensor.device)


def room(shape: Sequence[Any], strides: Sequence[Any]) -> Any:
    """From one copy to the next, in elements: at least what a tensor spans, without a difference, whose sign a kernel
    would have to ask for. Of ints, or of Exprs."""
    whole = sum((size * stride for size, stride in zip(shape, strides, strict=True)), start=ALIGNMENT)
    return whole // ALIGNMENT * ALIGNMENT


def _span(tensor: torch.Tensor) -> int:
    """From a tensor's first element to behind its last."""
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def combine(tensor: torch.Tensor, made: torch.Tensor, copies: Copies) -> None:
    """What programs left in the copies, into the tensor. Counts as one write of it for autograd."""
    import torch

    inside = tensor.is_inference() and not torch.is_inference_mode_enabled()
    with torch.inference_mode() if inside else nullcontext():  # torch lets nobody else write into such a tensor
        into = tensor.detach()
        shape, strides = tuple(tensor.shape), tensor.stride()
        if not _lie_apart(shape, strides):  # nor an element twice; what lies between them stays as it is
            shape, strides = (_span(tensor),), (1,)
            into = into.as_strided(shape, strides)
        each = made.as_strided((copies.count, *shape), (made.shape[1], *strides))
        match copies.how:
            case "add":
                into.add_(each.sum(0, dtype=made.dtype))
            case "min":
                torch.minimum(into, each.amin(0), out=into)
            case "max":
                torch.maximum(into, each.amax(0), out=into)


def _lie_apart(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether no two elements share memory, as far as their strides tell."""
    reach = 1
    for stride, size in sorted((stride, size) for stride, size in zip(strides, shape, strict=True) if size != 1):
        if stride < reach:
            return False
        reach = stride * (size - 1) + reach
    return True
