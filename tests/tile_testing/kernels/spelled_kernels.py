"""Kernels in the words that people of PyTorch and Python use first, with what they must give beside them: ``CASES``."""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl
from tile_testing.kernels.cases import Cases, ints, rand

CASES = Cases()
case = CASES.case

X, V, N = rand(13, 37), rand(37, seed=1), ints(5, 13)

# ---- del ----------------------------------------------------------------------------------------


def _doubled(r: torch.Tensor) -> torch.Tensor:
    twice = r * 2
    found = twice + 1
    del twice, r
    return found


@case(X, wanted=lambda x: x * 2 + 1 + 20 + 3, tile=4)
@tileflow.kernel
def names_deleted_in_loops(x: torch.Tensor) -> torch.Tensor:
    """Of what a turn assigns, and of what the turn before did."""
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        total = _doubled(x[tile, :])
        for _ in range(20):
            more = total + 1
            del total
            total = more
            del more
        for _ in range(3):
            more = total + 1
            del total
            total = more
        out[tile, :] = total
        del total
    return out


@case(X, N, wanted=lambda x, n: x * (2 if n[0] < 9 else 3) + x, tile=4)
@tileflow.kernel
def names_deleted_in_branches(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        r = x[tile, :]
        twice = r * 2
        if n[0] < 9:
            found = twice
            del twice
        else:
            found = twice + r
        if x.ndim == 2:
            more = r
            del r
        r = more
        if n[0] < 9:
            del more
        out[tile, :] = found + r
    return out
