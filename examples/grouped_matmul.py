"""Matrix products of ragged groups (the experts of a mixture): group g multiplies its rows of x by matrix g."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl


def inputs(
    groups: int, m: int, n: int, k: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return ``m`` rows in ``groups`` groups of uneven sizes, one of them empty where there are several.

    These are the rows, (m, k), a matrix for each group, (groups, k, n), and where the groups begin and the last one
    ends.
    """
    x, y = torch.randn(m, k, dtype=dtype, device=device), torch.randn(groups, k, n, dtype=dtype, device=device)
    shares = torch.arange(groups + 1, device=device) * torch.arange(groups + 1, device=device)
    return x, y, (shares * m // max(groups * groups, 1)).int()


def reference(x: torch.Tensor, y: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """Multiply by the device's own grouped product where it has one; else one product after another."""
    if x.is_cuda and x.dtype == torch.bfloat16:
        return F.grouped_mm(x, y, offs=offsets[1:])
    rows = pairwise(offsets.tolist())
    return torch.cat([x[begin:end] @ matrix for (begin, end), matrix in zip(rows, y, strict=True)])


@tileflow.kernel(inputs=inputs, reference=reference)
def grouped_matmul(x: torch.Tensor, y: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    m, k = x.shape
    groups, _, n = y.shape
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    for tile_g, tile_n in tfl.tile([groups, n], block_size=[1, None]):
        group = tile_g.begin
        for tile_m in tfl.tile(offsets[group], offsets[group + 1]):
            acc = tfl.zeros([tile_m, tile_n])
            for tile_k in tfl.tile(k):
                acc = torch.addmm(acc, x[tile_m, tile_k], y[group, tile_k, tile_n])
            out[tile_m, tile_n] = acc
    return out


@tileflow.kernel(inputs=inputs, reference=reference)
def grouped_matmul_flat(x: torch.Tensor, y: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """The same with a program for each tile of rows of any group, so that a large group is shared by many.

    How many tiles the groups have is known on the device only: there are at most ``m // block_m + groups``, and a
    program past the last one has nothing to do.
    """
    m, k = x.shape
    groups, _, n = y.shape
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    block_m = tfl.register_block_size(16, 256)
    for tile, tile_n in tfl.tile([m // block_m + groups, n], block_size=[1, None]):
        counts = (offsets[1:] - offsets[:-1] + block_m - 1) // block_m
        is_before = torch.cumsum(counts, dim=0) <= tile.begin
        group = min(is_before.sum(), groups - 1)
        begin = offsets[group] + (tile.begin - torch.where(is_before, counts, 0).sum()) * block_m
        for tile_m in tfl.tile(begin, min(begin + block_m, offsets[group + 1]), block_size=block_m):
            acc = tfl.zeros([tile_m, tile_n])
            for tile_k in tfl.tile(k):
                acc = torch.addmm(acc, x[tile_m, tile_k], y[group, tile_k, tile_n])
            out[tile_m, tile_n] = acc
    return out
