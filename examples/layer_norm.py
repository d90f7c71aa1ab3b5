"""Layer normalisation of rows (Ba, Kiros and Hinton, 2016, arXiv:1607.06450), with weight and bias.

For training, the forward kernel also returns each row's mean and the reciprocal of its deviation. The backward kernel
reads ``grad`` and ``x`` once: each program processes a block of rows and sums their contributions to the gradients of
weight and bias in registers. Registers of one block do not hold a long row and its two sums, so those get a launch of
their own, unless the blocks of a cluster hold them together.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl
from tileflow.kernels import layer

EPS = 1e-5
LONG_ROW, LONG_ROW_OF_CLUSTERS = 8192, 65536
HOPPER = (9, 0)


def inputs(
    m: int, n: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, float]:
    """Return a random matrix, weights and biases of its columns, and epsilon."""
    x = torch.randn(m, n, dtype=dtype, device=device)
    return x, torch.randn(n, dtype=dtype, device=device), torch.randn(n, dtype=dtype, device=device), EPS


def reference(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> torch.Tensor:
    """Normalise with torch."""
    return F.layer_norm(x, (x.size(1),), weight, bias, eps)


@tileflow.kernel(inputs=inputs, reference=reference)
def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float = EPS) -> torch.Tensor:
    m, n = x.shape
    assert weight.size(0) == n and bias.size(0) == n, f"weight and bias have {n} elements"
    out = torch.empty_like(x)
    for tile_m in tfl.tile(m):
        row = x[tile_m, :].float()
        variance, mean = torch.var_mean(row, dim=1, keepdim=True, correction=0)
        out[tile_m, :] = (row - mean) * torch.rsqrt(variance + eps) * weight[:].float() + bias[:].float()
    return out


train_reference = layer.reference
layer_norm_train = layer.layer_norm_train.alias("examples.layer_norm:layer_norm_train")


def bwd_inputs(
    m: int, n: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return a random gradient, and the arguments and the statistics of a forward call."""
    x, weight, bias, eps = inputs(m, n, dtype, device)
    _, mean, scale = train_reference(x.float(), weight.float(), bias.float(), eps)
    return torch.randn_like(x), x, weight, mean, scale


def bwd_reference(
    grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, mean: torch.Tensor, scale: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the gradients of ``x``, ``weight`` and ``bias`` by autograd; the statistics are computed again."""
    x, weight, bias = x.requires_grad_(), weight.requires_grad_(), torch.zeros_like(weight, requires_grad=True)
    return torch.autograd.grad(reference(x, weight, bias, EPS), (x, weight, bias), grad)


def through_row(g, normed):  # type: ignore[no-untyped-def]
    """The gradient of what was normalised from that of the result, but for the row's scale."""
    return g - torch.mean(g, dim=1, keepdim=True) - normed * torch.mean(g * normed, dim=1, keepdim=True)


def long_row(device: torch.device) -> int:
    """Return the most elements of a row that one launch sums up on a device."""
    has_clusters = device.type == "cuda" and torch.cuda.get_device_capability(device) == HOPPER
    return LONG_ROW_OF_CLUSTERS if has_clusters else LONG_ROW


@tileflow.kernel(inputs=bwd_inputs, reference=bwd_reference)
def layer_norm_bwd(
    grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, mean: torch.Tensor, scale: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The gradients of ``x``, ``weight`` and ``bias``."""
    m, n = x.shape
    block_m = tfl.register_block_size(m)
    grad_x = torch.empty_like(x)
    blocks = (m + block_m - 1) // block_m
    weights, biases = (torch.empty(blocks, n, dtype=torch.float32, device=x.device) for _ in range(2))
    if n <= long_row(x.device):
        for rows in tfl.tile(m, block_size=block_m):
            factor = weight[:].float()
            to_weight, to_bias = tfl.zeros([n]), tfl.zeros([n])
            for tile_m in tfl.tile(rows.begin, rows.end):
                row_scale = scale[tile_m][:, None]
                normed = (x[tile_m, :].float() - mean[tile_m][:, None]) * row_scale
                g = grad[tile_m, :].float()
                to_weight += (g * normed).sum(dim=0)
                to_bias += g.sum(dim=0)
                grad_x[tile_m, :] = through_row(g * factor, normed) * row_scale
            weights[rows.id, :] = to_weight
            biases[rows.id, :] = to_bias
    else:
        for tile_m in tfl.tile(m):
            normed = (x[tile_m, :].float() - mean[tile_m][:, None]) * scale[tile_m][:, None]
            g = grad[tile_m, :].float() * weight[:].float()
            grad_x[tile_m, :] = through_row(g, normed) * scale[tile_m][:, None]
        for rows, tile_n in tfl.tile([m, n], block_size=[block_m, None]):
            to_weight, to_bias = tfl.zeros([tile_n]), tfl.zeros([tile_n])
            for tile_m in tfl.tile(rows.begin, rows.end):
                normed = (x[tile_m, tile_n].float() - mean[tile_m][:, None]) * scale[tile_m][:, None]
                g = grad[tile_m, tile_n].float()
                to_weight += (g * normed).sum(dim=0)
                to_bias += g.sum(dim=0)
            weights[rows.id, tile_n] = to_weight
            biases[rows.id, tile_n] = to_bias
    return grad_x, weights.sum(dim=0).to(weight.dtype), biases.sum(dim=0).to(weight.dtype)
