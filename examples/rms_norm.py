"""RMS normalisation of rows (Zhang and Sennrich, 2019, arXiv:1910.07467): x / sqrt(mean(x^2) + eps) * weight.

For training, the forward kernel also returns the factor of each row. The backward kernel reads ``grad`` and ``x`` once:
each program processes a block of rows and sums their contributions to the weight's gradient in registers.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl

EPS = 1e-5


def inputs(
    m: int, n: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor, float]:
    """Return a random matrix, weights of its columns, and epsilon."""
    return torch.randn(m, n, dtype=dtype, device=device), torch.randn(n, dtype=dtype, device=device), EPS


def reference(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Normalise with torch."""
    return F.rms_norm(x, (x.size(1),), weight, eps)


@tileflow.kernel(inputs=inputs, reference=reference)
def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = EPS) -> torch.Tensor:
    m, n = x.shape
    assert weight.size(0) == n, f"weight has {weight.size(0)} elements for rows of {n}"
    out = torch.empty_like(x)
    for tile_m in tfl.tile(m):
        row = x[tile_m, :].float()
        scale = torch.rsqrt(torch.mean(row * row, dim=1, keepdim=True) + eps)
        out[tile_m, :] = row * scale * weight[:].float()
    return out


def train_reference(x: torch.Tensor, weight: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Normalise with torch, and return each row's factor too."""
    return reference(x, weight, eps), torch.rsqrt(x.square().mean(dim=1) + eps)


@tileflow.kernel(inputs=inputs, reference=train_reference)
def rms_norm_train(x: torch.Tensor, weight: torch.Tensor, eps: float = EPS) -> tuple[torch.Tensor, torch.Tensor]:
    """Also the factor of each row, ``1 / sqrt(mean(x^2) + eps)``, in float32."""
    m, n = x.shape
    assert weight.size(0) == n, f"weight has {weight.size(0)} elements for rows of {n}"
    out = torch.empty_like(x)
    inv_rms = torch.empty(m, dtype=torch.float32, device=x.device)
    for tile_m in tfl.tile(m):
        row = x[tile_m, :].float()
        scale = torch.rsqrt(torch.mean(row * row, dim=1) + eps)
        inv_rms[tile_m] = scale
        out[tile_m, :] = row * scale[:, None] * weight[:].float()
    return out, inv_rms


def bwd_inputs(
    m: int, n: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return a random gradient, and the arguments and the row factors of a forward call."""
    x, weight, eps = inputs(m, n, dtype, device)
    return torch.randn_like(x), x, weight, train_reference(x.float(), weight.float(), eps)[1]


def bwd_reference(
    grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, inv_rms: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradients of ``x`` and ``weight`` by autograd; the factors are computed again."""
    x, weight = x.requires_grad_(), weight.requires_grad_()
    return torch.autograd.grad(reference(x, weight, EPS), (x, weight), grad)


@tileflow.kernel(inputs=bwd_inputs, reference=bwd_reference)
def rms_norm_bwd(
    grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, inv_rms: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients of ``x`` and ``weight``."""
    m, n = x.shape
    block_m = tfl.register_block_size(m)
    grad_x = torch.empty_like(x)
    partial = torch.empty((m + block_m - 1) // block_m, n, dtype=torch.float32, device=x.device)
    for rows in tfl.tile(m, block_size=block_m):
        factor = weight[:].float()
        to_weight = tfl.zeros([n])
        for tile_m in tfl.tile(rows.begin, rows.end):
            scale = inv_rms[tile_m][:, None]
            normed = x[tile_m, :].float() * scale
            g = grad[tile_m, :].float()
            to_weight += (g * normed).sum(dim=0)
            g = g * factor
            grad_x[tile_m, :] = (g - normed * torch.mean(g * normed, dim=1, keepdim=True)) * scale
        partial[rows.id, :] = to_weight
    return grad_x, partial.sum(dim=0).to(weight.dtype)
