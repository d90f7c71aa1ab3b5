"""The exponential of each element of a tensor of any rank, and its gradient: exp is its own derivative."""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl


def inputs(m: int, n: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu") -> tuple[torch.Tensor]:
    """Return a random matrix, (m, n)."""
    return (torch.randn(m, n, dtype=dtype, device=device),)


def reference(x: torch.Tensor) -> torch.Tensor:
    """Compute the exponential with torch."""
    return torch.exp(x)


@tileflow.kernel(inputs=inputs, reference=reference)
def exp(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.shape):
        out[tile] = torch.exp(x[tile])
    return out


def bwd_inputs(
    m: int, n: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a random gradient and the result of a forward call."""
    (x,) = inputs(m, n, dtype, device)
    return torch.randn_like(x), torch.exp(x)


def bwd_reference(grad: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """Return the gradient of ``x = log(out)`` by autograd."""
    x = out.log().requires_grad_()
    torch.exp(x).backward(grad)
    return x.grad


@tileflow.kernel(inputs=bwd_inputs, reference=bwd_reference)
def exp_bwd(grad: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """The gradient of ``x`` for ``out = exp(x)``."""
    grad_x = torch.empty_like(out)
    for tile in tfl.tile(out.shape):
        grad_x[tile] = grad[tile] * out[tile]
    return grad_x
