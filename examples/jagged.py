"""Reductions over jagged rows: sequence i of a batch is rows ``offsets[i]`` to ``offsets[i + 1]`` of one matrix."""

from __future__ import annotations

from itertools import pairwise

import torch

import tileflow
import tileflow.language as tfl


def inputs(
    m: int, n: int, batch: int, dtype: torch.dtype = torch.float32, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ``m`` random rows, and the offsets of ``batch`` sequences whose lengths grow."""
    x = torch.randn(m, n, dtype=dtype, device=device)
    steps = torch.arange(batch + 1, device=device)
    return x, (steps * steps * m // max(batch * batch, 1)).int()


def reference(x: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """Average one sequence after another."""
    rows = pairwise(offsets.tolist())
    return torch.stack([x[begin:end].sum(0) / max(end - begin, 1) for begin, end in rows])


@tileflow.kernel(inputs=inputs, reference=reference)
def jagged_mean(x: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """The mean of each sequence's rows; zero for an empty one."""
    n = x.size(1)
    batch = offsets.size(0) - 1
    out = torch.empty(batch, n, dtype=x.dtype, device=x.device)
    for tile_b, tile_n in tfl.tile([batch, n], block_size=[1, None]):
        begin, end = offsets[tile_b.begin], offsets[tile_b.begin + 1]
        total = tfl.zeros([tile_n])
        for tile_m in tfl.tile(begin, end):
            total += x[tile_m, tile_n].sum(dim=0)
        out[tile_b.begin, tile_n] = total / max(end - begin, 1)
    return out
