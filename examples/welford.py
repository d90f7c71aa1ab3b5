"""Layer normalisation in which mean and variance are combined tile by tile.

Each tile of a row has a count, a mean and a sum of squared distances from it; two such triples combine into one
(Welford, 1962; Chan, Golub and LeVeque, 1983). Unlike a difference of sums of squares this has no cancellation, and
unlike two passes it reads the row once before it is normalised.
"""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl

from . import layer_norm

inputs = layer_norm.inputs
reference = layer_norm.reference


@tileflow.kernel(inputs=inputs, reference=reference)
def welford(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    m, n = x.shape
    out = torch.empty_like(x)
    block_n = tfl.register_block_size(n)
    for tile_m in tfl.tile(m):
        count = 0.0
        mean, squares = tfl.zeros([tile_m]), tfl.zeros([tile_m])
        for tile_n in tfl.tile(n, block_size=block_n):
            values = x[tile_m, tile_n].float()
            here = tile_n.end - tile_n.begin
            here_mean = values.sum(dim=1) / here
            distance = values - here_mean[:, None]
            gap = here_mean - mean
            total = count + here
            mean += gap * (here / total)
            squares += (distance * distance).sum(dim=1) + gap * gap * (count * here / total)
            count = total
        scale = torch.rsqrt(squares / n + eps)
        for tile_n in tfl.tile(n, block_size=block_n):
            values = (x[tile_m, tile_n].float() - mean[:, None]) * scale[:, None]
            out[tile_m, tile_n] = values * weight[tile_n].float() + bias[tile_n].float()
    return out
