"""A decoder of the Llama family that reads one token of each sequence a step, with random weights.

What it does between its products is a set of :class:`Parts`: torch's own operations, or tileflow's kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from tileflow.kernels.gated import swiglu
from tileflow.kernels.rms import add_rms_norm_forward, rms_norm_forward

from .. import serving_paged_attention, serving_rope_cache, serving_sampling

EPS = 1e-5
BASE = 500_000.0

Tensor = torch.Tensor


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a decoder. The defaults are those of Llama 3 8B, with fewer layers."""

    layers: int = 4
    hidden: int = 4096
    inner: int = 14336
    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    vocabulary: int = 128256
    positions: int = 8192


TINY = Sizes(layers=2, hidden=32, inner=48, heads=4, kv_heads=2, head_dim=16, vocabulary=61, positions=64)


@dataclass(frozen=True, slots=True)
class Batch:
    """A token of each sequence. ``table``: its pages; ``lengths``: its tokens, this one among them; ``slots``: where
    this one's key goes, -1 for rows that only fill the batch up. ``k``, ``p``, ``uniform``: of the sampling."""

    tokens: Tensor
    positions: Tensor
    table: Tensor
    lengths: Tensor
    slots: Tensor
    k: Tensor
    p: Tensor
    uniform: Tensor


@dataclass(frozen=True, slots=True)
class Parts:
    """What is done between products."""

    norm: Callable[[Tensor, Tensor], Tensor]
    add_norm: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
    rope_write: Callable[..., None]
    attend: Callable[..., Tensor]
    gate: Callable[[Tensor], Tensor]
    sample: Callable[..., Tensor]


def _plain_add_norm(x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    summed = x + residual
    return F.rms_norm(summed, (x.size(1),), weight, EPS), summed


def _plain_rope_write(
    q: Tensor, k: Tensor, v: Tensor, positions: Tensor, angles: Tensor, keys: Tensor, values: Tensor, slots: Tensor
) -> None:
    """Without a wait for the device, which no capture may have: rows without a slot go to page 0, which is nobody's."""
    cos, sin = angles[positions].chunk(2, dim=-1)
    q.copy_(serving_rope_cache.turned(q, cos, sin))
    at = slots.clamp(min=0)
    keys.flatten(0, 1)[at] = serving_rope_cache.turned(k, cos, sin).to(keys.dtype)
    values.flatten(0, 1)[at] = v.to(values.dtype)


def _plain_attend(q: Tensor, keys: Tensor, values: Tensor, table: Tensor, lengths: Tensor) -> Tensor:
    """Pages gathered, then torch's own attention with shared heads."""
    keys, values = (cache[table.long()].flatten(1, 2).to(q.dtype).transpose(1, 2) for cache in (keys, values))
    mask = torch.arange(keys.size(2), device=q.device) < lengths[:, None]
    out = F.scaled_dot_product_attention(q[:, :, None], keys, values, attn_mask=mask[:, None, None], enable_gqa=True)
    return out[:, :, 0]


def _kernel_add_norm(x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    normed, summed, _ = add_rms_norm_forward(x, residual, weight, EPS, 0.0)
    return normed, summed


PLAIN = Parts(
    norm=lambda x, weight: F.rms_norm(x, (x.size(1),), weight, EPS),
    add_norm=_plain_add_norm,
    rope_write=_plain_rope_write,
    attend=_plain_attend,
    gate=lambda x: F.silu(x.chunk(2, dim=1)[0]) * x.chunk(2, dim=1)[1],
    sample=serving_sampling.reference,
)
KERNELS = Parts(
    norm=lambda x, weight: rms_norm_forward(x, weight, EPS, 0.0)[0],
    add_norm=_kernel_add_norm,
    rope_write=serving_rope_cache.rope_cache_write,
    attend=serving_paged_attention.paged_attention,
    gate=lambda x: swiglu(*x.chunk(2, dim=1)),
    sample=serving_sampling.sample_top_k_top_p,
)


class Decoder:
    """Weights of a seed, and one step of a batch."""

    def __init__(self, sizes: Sizes, device: str, dtype: torch.dtype = torch.bfloat16, seed: int = 0) -> None:
        generator = torch.Generator(device).manual_seed(seed)

        def weight(rows: int, columns: int) -> Tensor:
            drawn = torch.randn(rows, columns, generator=generator, device=device)
            return (drawn * columns**-0.5).to(dtype)

        s, heads = sizes, sizes.heads + 2 * sizes.kv_heads
        self.sizes, self.device, self.dtype = sizes, torch.device(device), dtype
        self.embedding = weight(s.vocabulary, s.hidden)
        self.layers = [
            {
                "qkv": weight(heads * s.head_dim, s.hidden),
                "out": weight(s.hidden, s.heads * s.head_dim),
                "up": weight(2 * s.inner, s.hidden),
                "down": weight(s.hidden, s.inner),
            }
            for _ in range(s.layers)
        ]
        self.norms = torch.ones(2 * s.layers + 1, s.hidden, dtype=dtype, device=device)
        frequencies = BASE ** (-torch.arange(0, s.head_dim, 2, dtype=torch.float32, device=device) / s.head_dim)
        angles = torch.arange(s.positions, device=device)[:, None] * frequencies
        self.angles = torch.cat([angles.cos(), angles.sin()], dim=1).to(dtype)

    def logits(self, batch: Batch, keys: Tensor, values: Tensor, parts: Parts) -> Tensor:
        """(sequences, vocabulary); writes the tokens' keys and values into the caches (layers, pages, 16, heads, d)."""
        s = self.sizes
        residual = self.embedding[batch.tokens]
        hidden = parts.norm(residual, self.norms[0])
        for n, layer in enumerate(self.layers):
            qkv = (hidden @ layer["qkv"].T).unflatten(1, (-1, s.head_dim))
            q, k, v = qkv.split((s.heads, s.kv_heads, s.kv_heads), dim=1)
            parts.rope_write(q, k, v, batch.positions, self.angles, keys[n], values[n], batch.slots)
            attended = parts.attend(q, keys[n], values[n], batch.table, batch.lengths)
            hidden, residual = parts.add_norm(attended.flatten(1) @ layer["out"].T, residual, self.norms[2 * n + 1])
            hidden = parts.gate(hidden @ layer["up"].T) @ layer["down"].T
            hidden, residual = parts.add_norm(hidden, residual, self.norms[2 * n + 2])
        return hidden @ self.embedding.T

    def step(self, batch: Batch, keys: Tensor, values: Tensor, parts: Parts) -> Tensor:
        """The next token of each sequence."""
        logits = self.logits(batch, keys, values, parts).float()
        return parts.sample(logits, batch.k, batch.p, batch.uniform)
