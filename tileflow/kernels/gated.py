"""The elementwise part of gated layers, silu(a) * b and gelu(a) * b, and its gradients.

Shazeer, 2020, arXiv:2002.05202. gelu is the tanh approximation of Hendrycks and Gimpel (2016, arXiv:1606.08415).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

SCALE = math.sqrt(2 / math.pi)
CUBIC = 0.044715


def inputs(
    m: int, n: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Two random ``(m, n)``."""
    return torch.randn(m, n, dtype=dtype, device=device), torch.randn(m, n, dtype=dtype, device=device)


def swiglu_reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``silu(a) * b`` in torch."""
    return F.silu(a) * b


@tileflow.kernel(inputs=inputs, reference=swiglu_reference)
def swiglu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(a)
    for tile in tfl.tile(a.shape):
        out[tile] = F.silu(a[tile].float()) * b[tile]
    return out


def bwd_inputs(
    m: int, n: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A random gradient ``(m, n)`` and the forward pass's inputs."""
    return torch.randn(m, n, dtype=dtype, device=device), *inputs(m, n, dtype, device)


def swiglu_bwd_reference(grad: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The gradients of ``a`` and ``b`` by torch's autograd."""
    a, b = a.requires_grad_(), b.requires_grad_()
    return torch.autograd.grad(swiglu_reference(a, b), (a, b), grad)


def swiglu_slopes(grad, gate, up):  # type: ignore[no-untyped-def]
    """Of tiles: the gradients of ``gate`` and ``up``; silu(gate) is computed again, which is cheaper than a read."""
    sigmoid = torch.sigmoid(gate)
    return grad * up * sigmoid * (1 + gate * (1 - sigmoid)), grad * gate * sigmoid


@tileflow.kernel(inputs=bwd_inputs, reference=swiglu_bwd_reference)
def swiglu_bwd(grad: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients of ``a`` and ``b``."""
    grad_a, grad_b = torch.empty_like(a), torch.empty_like(b)
    for tile in tfl.tile(a.shape):
        grad_a[tile], grad_b[tile] = swiglu_slopes(grad[tile].float(), a[tile].float(), b[tile])
    return grad_a, grad_b


def swiglu_bwd_over_reference(grad: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The gradient of ``a``; that of ``b`` is written over ``grad``."""
    grad_a, grad_b = swiglu_bwd_reference(grad, a.detach(), b.detach())
    grad.copy_(grad_b)
    return grad_a


@tileflow.kernel(inputs=bwd_inputs, reference=swiglu_bwd_over_reference)
def swiglu_bwd_over(grad: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The gradient of ``a``; that of ``b`` is written over ``grad``, so that it needs no memory."""
    grad_a = torch.empty_like(a)
    for tile in tfl.tile(a.shape):
        grad_a[tile], grad[tile] = swiglu_slopes(grad[tile].float(), a[tile].float(), b[tile])
    return grad_a


def geglu_reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``gelu(a) * b`` in torch, by the tanh approximation."""
    return F.gelu(a, approximate="tanh") * b


@tileflow.kernel(inputs=inputs, reference=geglu_reference)
def geglu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(a)
    for tile in tfl.tile(a.shape):
        out[tile] = F.gelu(a[tile].float(), approximate="tanh") * b[tile]
    return out


def geglu_bwd_reference(grad: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The gradients of ``a`` and ``b`` by torch's autograd."""
    a, b = a.requires_grad_(), b.requires_grad_()
    return torch.autograd.grad(geglu_reference(a, b), (a, b), grad)


def geglu_slopes(grad, gate, up):  # type: ignore[no-untyped-def]
    """Of tiles: the gradients of ``gate`` and ``up``; tanh is computed once for both."""
    tanh = torch.tanh(SCALE * (gate + CUBIC * gate * gate * gate))
    half = 0.5 * (1 + tanh)
    slope = half + 0.5 * gate * (1 - tanh * tanh) * SCALE * (1 + 3 * CUBIC * gate * gate)
    return grad * up * slope, grad * gate * half


@tileflow.kernel(inputs=bwd_inputs, reference=geglu_bwd_reference)
def geglu_bwd(grad: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients of ``a`` and ``b``."""
    grad_a, grad_b = torch.empty_like(a), torch.empty_like(b)
    for tile in tfl.tile(a.shape):
        grad_a[tile], grad_b[tile] = geglu_slopes(grad[tile].float(), a[tile].float(), b[tile])
    return grad_a, grad_b


def geglu_bwd_over_reference(grad: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The gradient of ``a``; that of ``b`` is written over ``grad``."""
    grad_a, grad_b = geglu_bwd_reference(grad, a.detach(), b.detach())
    grad.copy_(grad_b)
    return grad_a


@tileflow.kernel(inputs=bwd_inputs, reference=geglu_bwd_over_reference)
def geglu_bwd_over(grad: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The gradient of ``a``; that of ``b`` is written over ``grad``, so that it needs no memory."""
    grad_a = torch.empty_like(a)
    for tile in tfl.tile(a.shape):
        grad_a[tile], grad[tile] = geglu_slopes(grad[tile].float(), a[tile].float(), b[tile])
    return grad_a


def linear_inputs(
    m: int, n: int, k: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu", activation: str = "silu"
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, str]:
    """Random rows ``(m, k)``, and two weights ``(n, k)`` by which sums are about one."""
    x = torch.randn(m, k, dtype=dtype, device=device)
    gate, up = (torch.randn(n, k, dtype=dtype, device=device) * k**-0.5 for _ in range(2))
    return x, gate, up, activation


def linear_reference(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, activation: str = "silu") -> torch.Tensor:
    """``act(x @ gate.T) * (x @ up.T)`` in torch."""
    a = F.linear(x, gate)
    return (F.silu(a) if activation == "silu" else F.gelu(a, approximate="tanh")) * F.linear(x, up)


@tileflow.kernel(inputs=linear_inputs, reference=linear_reference)
def gated_linear(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, activation: str = "silu") -> torch.Tensor:
    """``act(x @ gate.T) * (x @ up.T)``: both products read each tile of ``x`` once, and neither goes to memory."""
    m, k = x.shape
    n = gate.size(0)
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([m, n]):
        a, b = tfl.zeros([tile_m, tile_n]), tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(k):
            rows = x[tile_m, tile_k]
            a = torch.addmm(a, rows, gate[tile_n, tile_k].t())
            b = torch.addmm(b, rows, up[tile_n, tile_k].t())
        out[tile_m, tile_n] = (F.silu(a) if activation == "silu" else F.gelu(a, approximate="tanh")) * b
    return out
