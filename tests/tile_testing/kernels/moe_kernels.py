"""Routed experts as people write them: tokens sorted by expert, ragged counts; with what they must give: ``CASES``."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl
from tile_testing.kernels.cases import Cases, ints, rand

CASES = Cases()
case = CASES.case

TOKENS, EXPERTS = rand(37, 16), rand(4, 16, 24, seed=2)
EXPERT = torch.where((chosen := ints(4, 37)) == 2, 1, chosen)  # the third has none
ORDER = torch.argsort(EXPERT, stable=True)
OFFSETS = torch.cat([torch.zeros(1, dtype=torch.int64), torch.bincount(EXPERT, minlength=4).cumsum(0)]).int()
MOST = int(OFFSETS.diff().max())


def routed(x: torch.Tensor, w: torch.Tensor, *_: Any) -> torch.Tensor:
    return torch.stack([x[i] @ w[e] for i, e in enumerate(EXPERT.tolist())])


@case(TOKENS, EXPERTS, ORDER, OFFSETS, wanted=routed)
@tileflow.kernel
def by_ragged_loops(x: torch.Tensor, w: torch.Tensor, order: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), w.size(2))
    for e, n in tfl.tile([w.size(0), w.size(2)], block_size=[1, None]):
        for t in tfl.tile(offsets[e.begin], offsets[e.begin + 1]):
            rows = order[t]
            acc = tfl.zeros([t, n])
            for k in tfl.tile(x.size(1)):
                acc = torch.addmm(acc, x[rows, k], w[e.begin, k, n])
            out[rows, n] = acc
    return out


@case(TOKENS, EXPERTS, ORDER, OFFSETS, MOST, wanted=routed)
@tileflow.kernel
def by_masked_lanes(
    x: torch.Tensor, w: torch.Tensor, order: torch.Tensor, offsets: torch.Tensor, most: int
) -> torch.Tensor:
    """As many tiles for each expert as the largest needs. Lanes past an expert's tokens name its first one, and store
    what they loaded from there."""
    out = torch.zeros(x.size(0), w.size(2))
    for e, t, n in tfl.tile([w.size(0), most, w.size(2)], block_size=[1, None, None]):
        start, count = offsets[e.begin], offsets[e.begin + 1] - offsets[e.begin]
        valid = t.index < count
        rows = order[start + torch.where(valid, t.index, 0)]
        acc = tfl.zeros([t, n])
        for k in tfl.tile(x.size(1)):
            acc = torch.addmm(acc, x[rows, k], w[e.begin, k, n])
        old = out[rows, n]
        out[rows, n] = torch.where(valid[:, None], acc, old)
    return out
