"""Scaled dot-product attention: the kernels of :mod:`tileflow.kernels.flash`, and one with a score function.

The caller's function changes the scores while they are in registers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

import tileflow
import tileflow.language as tfl
from tileflow.kernels import flash
from tileflow.kernels.flash import LOG2_E, absorb, scaled_scores

inputs = flash.inputs
reference = flash.reference
backward_inputs = flash.backward_inputs
backward_reference = flash.backward_reference

attention = flash.attention.alias("examples.attention:attention")
attention_backward = flash.attention_backward.alias("examples.attention:attention_backward")
attention_backward_fused = flash.attention_backward_fused.alias("examples.attention:attention_backward_fused")

Score = Callable[[torch.Tensor, Any, Any, Any], torch.Tensor]


def position_bias(bias: torch.Tensor) -> Score:
    """``scores + bias``, a finite bias of shape (heads, queries, keys), the same for each batch."""
    return lambda scores, head, tile_m, tile_n: scores + bias[head % bias.size(0), tile_m, tile_n].float()


def biased_inputs(
    batch: int, heads: int, m: int, n: int, d: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, Score]:
    """Return queries, keys and values of random numbers, and a score function that adds a random bias."""
    q = torch.randn(batch, heads, m, d, dtype=dtype, device=device)
    k, v = (torch.randn(batch, heads, n, d, dtype=dtype, device=device) for _ in range(2))
    return q, k, v, position_bias(torch.randn(heads, m, n, dtype=dtype, device=device))


def scored_reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, score: Score) -> torch.Tensor:
    """Compute attention over the whole matrix of scores, changed by ``score`` before the softmax."""
    scores = scaled_scores(q, k, causal=False).flatten(0, 1)
    heads = torch.arange(scores.size(0), device=q.device)
    weights = torch.softmax(score(scores, heads, slice(None), slice(None)), dim=-1)
    return weights.unflatten(0, q.shape[:2]).to(v.dtype) @ v


@tileflow.kernel(inputs=biased_inputs, reference=scored_reference)
def attention_scored(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, score: Score) -> torch.Tensor:
    """``score(scores, head, tile_m, tile_n)`` changes the scaled scores while they are in registers."""
    batch, heads, m, d = q.shape
    n = k.size(2)
    q, k, v = q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1)
    out = torch.empty_like(q)
    scale = 1 / math.sqrt(d)
    for head, tile_m in tfl.tile([batch * heads, m], block_size=[1, None]):
        query = q[head.begin, tile_m, :]
        peak, total = tfl.full([tile_m], float("-inf")), tfl.zeros([tile_m])
        acc = tfl.zeros([tile_m, d])
        for tile_n in tfl.tile(n):
            scores = score(tfl.dot(query, k[head.begin, tile_n, :].T) * scale, head.begin, tile_m, tile_n)
            peak, total, acc = absorb(peak, total, acc, scores, v[head.begin, tile_n, :], LOG2_E)
        out[head.begin, tile_m, :] = acc / total[:, None]
    return out.view(batch, heads, m, d)
