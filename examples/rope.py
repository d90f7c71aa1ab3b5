"""Rotary position embedding of queries and keys (Su et al., 2021, arXiv:2104.09864), in the half-rotated form.

Element ``i`` of a head's first half and element ``i`` of its second half are rotated together, by an angle of its own
for each position. All heads of a position share the angles, which are loaded once.
"""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl

BASE = 10_000.0

Rope = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def inputs(s: int, d: int, h: int, hk: int, b: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu") -> Rope:
    """Return random queries and keys of ``h`` and ``hk`` heads, [b, heads, s, d], and the angles' cosines and sines.

    Cosines and sines have shape [s, d / 2].
    """
    q, k = (torch.randn(b, heads, s, d, dtype=dtype, device=device) for heads in (h, hk))
    frequencies = BASE ** (-torch.arange(0, d, 2, device=device) / d)
    angles = torch.arange(s, device=device)[:, None] * frequencies
    return q, k, angles.cos().to(dtype), angles.sin().to(dtype)


def turn(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate as models do: the halves swapped and the first negated, with the angles of both halves."""
    cos, sin = torch.cat([cos, cos], dim=1), torch.cat([sin, sin], dim=1)
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


def reference(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rotate queries and keys in torch."""
    return turn(q, cos, sin), turn(k, cos, sin)


def rotate(x, out, tile_b, tile_s, cos, sin):
    """The rotation of every head of ``x`` at some positions, stored in ``out``."""
    half = x.size(3) // 2
    for tile_h in tfl.tile(x.size(1)):
        first, second = x[tile_b, tile_h, tile_s, :half].float(), x[tile_b, tile_h, tile_s, half:].float()
        out[tile_b, tile_h, tile_s, :half] = first * cos - second * sin
        out[tile_b, tile_h, tile_s, half:] = second * cos + first * sin


@tileflow.kernel(inputs=inputs, reference=reference)
def rope(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    b, _, s, _ = q.shape
    out_q, out_k = torch.empty_like(q), torch.empty_like(k)
    for tile_b, tile_s in tfl.tile([b, s], block_size=[1, None]):
        c, s_ = cos[tile_s, :].float(), sin[tile_s, :].float()
        rotate(q, out_q, tile_b, tile_s, c, s_)
        rotate(k, out_k, tile_b, tile_s, c, s_)
    return out_q, out_k


def bwd_reference(
    grad_q: torch.Tensor, grad_k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradients of queries and keys by autograd."""
    q, k = torch.zeros_like(grad_q, requires_grad=True), torch.zeros_like(grad_k, requires_grad=True)
    return torch.autograd.grad(reference(q, k, cos, sin), (q, k), (grad_q, grad_k))


@tileflow.kernel(inputs=inputs, reference=bwd_reference)
def rope_bwd(
    grad_q: torch.Tensor, grad_k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients of ``q`` and ``k``: a rotation's transpose turns the other way."""
    b, _, s, _ = grad_q.shape
    out_q, out_k = torch.empty_like(grad_q), torch.empty_like(grad_k)
    for tile_b, tile_s in tfl.tile([b, s], block_size=[1, None]):
        c, s_ = cos[tile_s, :].float(), -sin[tile_s, :].float()
        rotate(grad_q, out_q, tile_b, tile_s, c, s_)
        rotate(grad_k, out_k, tile_b, tile_s, c, s_)
    return out_q, out_k
