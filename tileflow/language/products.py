"""Matrix products."""

from __future__ import annotations

import torch

from . import eager_calls
from .marks import device
from .scaled import widened


@device
def dot(
    a: torch.Tensor, b: torch.Tensor, acc: torch.Tensor | None = None, out_dtype: torch.dtype | None = None
) -> torch.Tensor:
    """``a @ b + acc`` on the matrix units: (..., m, k) by (..., k, n). Half and fp8 operands accumulate in float32,
    int8 ones in int32; the result has ``acc``'s dtype, ``out_dtype``, or the accumulator's."""
    if a.dtype.is_floating_point:
        wide = torch.float64 if a.dtype == torch.float64 else torch.float32  # torch promotes no fp8 type
    else:
        wide = torch.int32
    multiply = _ints_product if wide == torch.int32 else lambda a, b: a.to(wide) @ b.to(wide)
    if acc is not None:
        return eager_calls.product(lambda acc, a, b: (acc + multiply(a, b)).to(acc.dtype), acc, a, b)
    return eager_calls.product(lambda a, b: multiply(a, b).to(out_dtype or wide), a, b)


def _ints_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """In int32. torch has no such product on a GPU; float64 holds those of up to 16 bits exactly."""
    if a.device.type == "cpu" or max(a.dtype.itemsize, b.dtype.itemsize) > 2:
        return a.to(torch.int32) @ b.to(torch.int32)
    return (a.double() @ b.double()).long().int()


@device
def dot_scaled(
    a: torch.Tensor,
    a_scale: torch.Tensor | None,
    a_format: str,
    b: torch.Tensor,
    b_scale: torch.Tensor | None,
    b_format: str,
    acc: torch.Tensor | None = None,
) -> torch.Tensor:
    """The product in microscaling formats, in float32: (m, k) by (k, n).

    Formats: ``e2m1`` (two numbers in a uint8 along k, the first in the low bits), ``e4m3`` and ``e5m2`` (fp8 or uint8),
    ``bf16``, ``fp16``. Scales: uint8 exponents of 2, biased by 127, for 32 numbers each: (m, k / 32) and (n, k / 32);
    None is 1. Devices without the formats widen them to bfloat16 first.
    """
    product = widened(a, a_scale, a_format, 1) @ widened(b, b_scale, b_format, 0)
    return product if acc is None else (acc + product).to(acc.dtype)
