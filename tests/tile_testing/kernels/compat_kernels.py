"""Kernels for the unit tests of the dialect."""

import torch

import tileflow.compat.helion as helion
import tileflow.compat.helion.language as hl
from tileflow.compat.helion.autotuner import PowerOfTwoFragment


@helion.kernel
def matmul(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    m, k = x.size()
    n = y.size(1)
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        out[tile_m, tile_n] = acc
    return out


@helion.kernel
def several(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Two launches, a block size that is registered between them, a tunable, rows that can be rolled."""
    repeats = hl.register_tunable("repeats", PowerOfTwoFragment(1, 8))
    rows = x.new_empty(x.size(0))
    for tile_first in hl.tile(x.size(0)):
        rows[tile_first] = torch.exp(x[tile_first, :]).sum(1)
    block_n = hl.register_block_size(x.size(1))
    out = torch.empty_like(x)
    for tile_a, tile_b, tile_c in hl.tile([x.size(0), x.size(1), y.size(0)], block_size=[None, block_n, 1]):
        acc = hl.zeros([tile_a, tile_b])
        for tile_inner in hl.tile(y.size(1)):
            acc = acc + x[tile_a, tile_b] * y[tile_c, tile_inner].sum() * repeats
        hl.atomic_add(out, [tile_a, tile_b], acc)
    return out


@helion.kernel
def pairs(x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    out = x.new_empty(rows.size(0))
    for tile in hl.tile(rows.size(0)):
        out[tile] = x[rows[tile], tile.index]
    return out
