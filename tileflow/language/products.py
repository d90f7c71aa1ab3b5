"""Matrix products."""

from __future__ import annotations

import torch

from .marks import device


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
    product = a.to(wide) @ b.to(wide)
    if acc is not None:
        return (acc + product).to(acc.dtype)
    return product if out_dtype is None else product.to(out_dtype)
