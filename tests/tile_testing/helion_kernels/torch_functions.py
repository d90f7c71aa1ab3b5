"""Functions of torch and ways to pass arguments that published kernels of the dialect use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import helion
import helion.language as hl
import torch
import torch.nn.functional as F


@helion.kernel(autotune_effort="none", static_shapes=True)
def weighted_gram(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    n, m = x.shape
    out = torch.zeros((m, m), dtype=x.dtype, device=x.device)
    for tile_i, tile_j in hl.tile([m, m]):
        acc = hl.zeros([tile_i, tile_j], dtype=torch.float32)
        for tile_k in hl.tile(n):
            acc = acc + torch.einsum("ki,k,kj->ij", x[tile_k, tile_i], weight[tile_k], x[tile_k, tile_j])
        out[tile_i, tile_j] = acc
    return out


@helion.kernel(config=helion.Config(block_sizes=[4]))
def expert_choice(logits: torch.Tensor, *, top: hl.constexpr, renormalize: bool = True):  # type: ignore[valid-type]
    rows = logits.size(0)
    weights = torch.empty([rows, top], dtype=torch.float32, device=logits.device)
    chosen = torch.empty([rows, top], dtype=torch.int64, device=logits.device)
    for tile in hl.tile(rows):
        probabilities = torch.softmax(logits[tile, :].float(), dim=-1)
        values, places = torch.topk(probabilities, k=top, dim=-1)
        if renormalize:
            values = values / values.sum(dim=-1, keepdim=True)
        weights[tile, :] = values
        chosen[tile, :] = places
    return weights, chosen


def expert_choice_reference(logits: torch.Tensor, top: int) -> tuple[torch.Tensor, ...]:
    values, places = torch.softmax(logits, -1).topk(top)
    return values / values.sum(-1, keepdim=True), places


@helion.kernel()
def rotary(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    half = x.size(-1) // 2
    for tile_b, tile_s in hl.tile([x.size(0), x.size(1)], block_size=[1, None]):
        row = x[tile_b.begin, tile_s, :]
        turned = torch.cat([-row[:, half:], row[:, :half]], dim=-1)
        out[tile_b.begin, tile_s, :] = row * cos[tile_s, :] + turned * sin[tile_s, :]
    return out


def rotary_reference(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


@helion.kernel()
def gated_pairs(x: torch.Tensor) -> torch.Tensor:
    """Gate and value lie side by side in memory."""
    out = x.new_empty(x.size(0), x.size(1) // 2)
    for tile in hl.tile(x.size(0)):
        gate = torch.clamp(input=x[tile, 0::2], max=7.0)
        out[tile, :] = F.mish(gate) * x[tile, 1::2] + torch.tensor(1.0, device=x.device)
    return out


@dataclass(frozen=True)
class Affine:
    weight: torch.Tensor
    bias: torch.Tensor | None
    eps: float = 1e-5


@helion.kernel()
def normalized(x: torch.Tensor, affine: Any) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        row = x[tile, :]
        deviation, mean = torch.std_mean(row, dim=-1, keepdim=True, unbiased=False)
        row = (row - mean) / (deviation + affine.eps) * affine.weight[None, :]
        out[tile, :] = row if affine.bias is None else row + affine.bias[None, :]
    return out


def normalized_reference(x: torch.Tensor, affine: Affine) -> torch.Tensor:
    row = (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True, unbiased=False) + affine.eps) * affine.weight
    return row if affine.bias is None else row + affine.bias


def cases():
    yield (
        "weighted_gram", weighted_gram, (torch.randn(40, 12), torch.rand(40)),
        lambda x, w: torch.einsum("ki,k,kj->ij", x, w, x),
    )  # fmt: skip
    yield "expert_choice", lambda x, top: expert_choice(x, top=top), (torch.randn(9, 20), 3), expert_choice_reference
    angles = torch.rand(11, 8).repeat(1, 2)
    yield "rotary", rotary, (torch.randn(2, 11, 16), angles.cos(), angles.sin()), rotary_reference
    yield "gated_pairs", gated_pairs, (torch.randn(9, 24),), lambda x: F.mish(x[:, 0::2].clamp(max=7)) * x[:, 1::2] + 1
    yield "normalized", normalized, (torch.randn(7, 30), Affine(torch.rand(30), torch.randn(30))), normalized_reference
    yield "normalized_plain", normalized, (torch.randn(7, 30), Affine(torch.rand(30), None)), normalized_reference
