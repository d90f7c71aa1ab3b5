"""Softmax over the rows of a matrix, twice: as one line of torch, and as a two-pass online algorithm.

In the one-liner the tuner decides whether a row is held in registers or read in a loop. The online form (Milakov and
Gimelshein, 2018, arXiv:1805.02867) reads a row twice, whatever its length. The gradient needs the result alone.
"""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl


def inputs(m: int, n: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu") -> tuple[torch.Tensor]:
    """Return a random matrix, (m, n)."""
    return (torch.randn(m, n, dtype=dtype, device=device),)


def reference(x: torch.Tensor) -> torch.Tensor:
    """Compute the softmax of each row with torch."""
    return torch.softmax(x, dim=1)


@tileflow.kernel(inputs=inputs, reference=reference)
def softmax(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile_m in tfl.tile(x.size(0)):
        out[tile_m, :] = torch.softmax(x[tile_m, :], dim=1)
    return out


@tileflow.kernel(inputs=inputs, reference=reference)
def softmax_online(x: torch.Tensor) -> torch.Tensor:
    m, n = x.shape
    out = torch.empty_like(x)
    block_n = tfl.register_block_size(n)
    for tile_m in tfl.tile(m):
        peak = tfl.full([tile_m], float("-inf"))
        total = tfl.zeros([tile_m])
        for tile_n in tfl.tile(n, block_size=block_n):
            values = x[tile_m, tile_n].float()
            new_peak = torch.maximum(peak, torch.amax(values, dim=1))
            shift = torch.where(new_peak == float("-inf"), 0.0, new_peak)  # so far all may be masked
            total = total * torch.exp(peak - shift) + torch.exp(values - shift[:, None]).sum(dim=1)
            peak = new_peak
        for tile_n in tfl.tile(n, block_size=block_n):
            values = x[tile_m, tile_n].float()
            out[tile_m, tile_n] = torch.exp(values - peak[:, None]) / total[:, None]
    return out


def bwd_inputs(
    m: int, n: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a random gradient and the result of a forward call."""
    (x,) = inputs(m, n, dtype, device)
    return torch.randn_like(x), torch.softmax(x, dim=1)


def bwd_reference(grad: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """Return the gradient of ``x = log(out)`` by autograd."""
    x = out.log().requires_grad_()
    return torch.autograd.grad(torch.softmax(x, dim=1), x, grad)[0]


@tileflow.kernel(inputs=bwd_inputs, reference=bwd_reference)
def softmax_bwd(grad: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """The gradient of ``x`` for ``out = softmax(x)``."""
    grad_x = torch.empty_like(out)
    for tile_m in tfl.tile(out.size(0)):
        y, g = out[tile_m, :].float(), grad[tile_m, :].float()
        grad_x[tile_m, :] = y * (g - (y * g).sum(dim=1, keepdim=True))
    return grad_x
