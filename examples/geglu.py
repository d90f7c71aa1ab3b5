"""GEGLU's elementwise part, gelu(a) * b, and its gradients (Shazeer, 2020, arXiv:2002.05202).

gelu is the tanh approximation of Hendrycks and Gimpel (2016, arXiv:1606.08415).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

from . import swiglu

SCALE = math.sqrt(2 / math.pi)
CUBIC = 0.044715

inputs = swiglu.inputs
bwd_inputs = swiglu.bwd_inputs


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.gelu(a, approximate="tanh") * b


@tileflow.kernel(inputs=inputs, reference=reference)
def geglu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(a)
    for tile in tfl.tile(a.shape):
        out[tile] = F.gelu(a[tile].float(), approximate="tanh") * b[tile]
    return out


def bwd_reference(grad: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    a, b = a.requires_grad_(), b.requires_grad_()
    return torch.autograd.grad(reference(a, b), (a, b), grad)


@tileflow.kernel(inputs=bwd_inputs, reference=bwd_reference)
def geglu_bwd(grad: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients of ``a`` and ``b``; tanh is computed once for both."""
    grad_a, grad_b = torch.empty_like(a), torch.empty_like(b)
    for tile in tfl.tile(a.shape):
        g, gate = grad[tile].float(), a[tile].float()
        tanh = torch.tanh(SCALE * (gate + CUBIC * gate * gate * gate))
        half = 0.5 * (1 + tanh)
        slope = half + 0.5 * gate * (1 - tanh * tanh) * SCALE * (1 + 3 * CUBIC * gate * gate)
        grad_a[tile] = g * b[tile] * slope
        grad_b[tile] = g * gate * half
    return grad_a, grad_b
