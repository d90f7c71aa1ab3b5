"""What a gated layer does between its products, silu(a) * b or gelu(a) * b, as differentiable functions and modules."""

from __future__ import annotations

import torch

from ..autograd import Differentiable, differentiable
from . import gated
from .rows import as_before, as_rows, require_rows, require_shape, widened

_SWIGLU = differentiable(
    gated.swiglu, lambda ctx, grad: gated.swiglu_bwd(grad.contiguous(), *ctx.saved), save=("a", "b")
)
_GEGLU = differentiable(gated.geglu, lambda ctx, grad: gated.geglu_bwd(grad.contiguous(), *ctx.saved), save=("a", "b"))


def _gated(name: str, function: Differentiable, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    require_rows(name, a=a, b=b)
    require_shape(name, "b", b, a.shape, "both tensors have one shape")
    a, b = widened(name, a, b)
    rows = as_rows(a)
    return as_before(function(rows, as_rows(b)), rows, a)


def swiglu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``silu(a) * b`` of tensors of one shape, in the wider of their dtypes. Raises CallError for others."""
    return _gated("swiglu", _SWIGLU, a, b)


def geglu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``gelu(a) * b`` of tensors of one shape, by the tanh approximation, in the wider of their dtypes. Raises
    CallError for others."""
    return _gated("geglu", _GEGLU, a, b)


class SwiGLU(torch.nn.Module):
    """:func:`swiglu`."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """``silu(a) * b``, both ``(..., n)``."""
        return swiglu(a, b)


class GeGLU(torch.nn.Module):
    """:func:`geglu`."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """``gelu(a) * b``, both ``(..., n)``."""
        return geglu(a, b)
