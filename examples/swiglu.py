"""SwiGLU's elementwise part, silu(a) * b, and its gradients (Shazeer, 2020, arXiv:2002.05202)."""

from __future__ import annotations

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl


def inputs(
    m: int, n: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(m, n, dtype=dtype, device=device), torch.randn(m, n, dtype=dtype, device=device)


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.silu(a) * b


@tileflow.kernel(inputs=inputs, reference=reference)
def swiglu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(a)
    for tile in tfl.tile(a.shape):
        out[tile] = F.silu(a[tile].float()) * b[tile]
    return out


def bwd_inputs(
    m: int, n: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.randn(m, n, dtype=dtype, device=device), *inputs(m, n, dtype, device)


def bwd_reference(grad: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    a, b = a.requires_grad_(), b.requires_grad_()
    return torch.autograd.grad(reference(a, b), (a, b), grad)


@tileflow.kernel(inputs=bwd_inputs, reference=bwd_reference)
def swiglu_bwd(grad: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients of ``a`` and ``b``; silu(a) is computed again, which is cheaper than reading it."""
    grad_a, grad_b = torch.empty_like(a), torch.empty_like(b)
    for tile in tfl.tile(a.shape):
        g, gate = grad[tile].float(), a[tile].float()
        sigmoid = torch.sigmoid(gate)
        grad_a[tile] = g * b[tile] * sigmoid * (1 + gate * (1 - sigmoid))
        grad_b[tile] = g * gate * sigmoid
    return grad_a, grad_b
