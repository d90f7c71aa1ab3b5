"""What a gated layer does between its products, silu(a) * b or gelu(a) * b, as differentiable functions and modules."""

from __future__ import annotations

import torch

from ..autograd import Differentiable, differentiable
from . import gated
from .rows import as_rows

_SWIGLU = differentiable(
    gated.swiglu, lambda ctx, grad: gated.swiglu_bwd(grad.contiguous(), *ctx.saved), save=("a", "b")
)
_GEGLU = differentiable(gated.geglu, lambda ctx, grad: gated.geglu_bwd(grad.contiguous(), *ctx.saved), save=("a", "b"))


def _gated(function: Differentiable, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    out: torch.Tensor = function(as_rows(a), as_rows(b))
    return out.view(a.shape)


def swiglu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``silu(a) * b`` of tensors of one shape."""
    return _gated(_SWIGLU, a, b)


def geglu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``gelu(a) * b`` of tensors of one shape, by the tanh approximation."""
    return _gated(_GEGLU, a, b)


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
