"""Products whose inner dimension is divided among programs: in the ways that authors write it, and ones refused."""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl

T = torch.Tensor
_PARTS = 3


@tileflow.kernel
def partial_sums(x: T, y: T) -> T:
    """Sums of each part at a place of its own, which the caller adds up in order: the same bits each time."""
    m, k = x.shape
    n = y.size(1)
    length = -(-k // (_PARTS * 64)) * 64
    out = torch.empty(_PARTS, m, n, dtype=torch.float32, device=x.device)
    for tile_m, tile_n, part in tfl.tile([m, n, _PARTS], block_size=[None, None, 1]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(part.begin * length, min(k, length * (part.begin + 1))):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        out[part.begin, tile_m, tile_n] = acc
    return out


@tileflow.kernel
def by_a_tile(x: T, y: T) -> T:
    """Parts are the tiles of a grid over the inner dimension."""
    m, k = x.shape
    n = y.size(1)
    out = torch.zeros(m, n, dtype=torch.float32, device=x.device)
    for tile_m, tile_n, part in tfl.tile([m, n, k], block_size=[None, None, 128]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(part.begin, part.end):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        tfl.atomic_add(out, [tile_m, tile_n], acc)
    return out


@tileflow.kernel
def overlapping(x: T, y: T) -> T:
    """Each part reaches into the next one."""
    m, k = x.shape
    n = y.size(1)
    out = torch.zeros(m, n, dtype=torch.float32, device=x.device)
    for tile_m, tile_n, part in tfl.tile([m, n, 2], block_size=[None, None, 1]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(part.begin * 64, min((part.begin + 2) * 64, k)):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        tfl.atomic_add(out, [tile_m, tile_n], acc)
    return out


@tileflow.kernel
def unequal(x: T, y: T) -> T:
    """The second part is longer than the first."""
    m, k = x.shape
    n = y.size(1)
    out = torch.zeros(m, n, dtype=torch.float32, device=x.device)
    for tile_m, tile_n, part in tfl.tile([m, n, 2], block_size=[None, None, 1]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(part.begin * 64, min((part.begin + 1) * 128, k)):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        tfl.atomic_add(out, [tile_m, tile_n], acc)
    return out


@tileflow.kernel
def of_half(x: T, y: T) -> T:
    """Parts end where half of the inner dimension does: past it there are no zeros."""
    m, k = x.shape
    n = y.size(1)
    out = torch.zeros(m, n, dtype=torch.float32, device=x.device)
    for tile_m, tile_n, part in tfl.tile([m, n, 2], block_size=[None, None, 1]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(part.begin * 64, min((part.begin + 1) * 64, k // 2)):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        tfl.atomic_add(out, [tile_m, tile_n], acc)
    return out


@tileflow.kernel
def most(x: T, y: T) -> T:
    """Parts are combined by another function than a sum."""
    m, k = x.shape
    n = y.size(1)
    out = torch.zeros(m, n, dtype=torch.float32, device=x.device)
    for tile_m, tile_n, part in tfl.tile([m, n, 2], block_size=[None, None, 1]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(part.begin * 128, min((part.begin + 1) * 128, k)):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        tfl.atomic_max(out, [tile_m, tile_n], acc)
    return out


_PLACES = "one of its equal parts"
REFUSED = (
    (overlapping, _PLACES),
    (unequal, _PLACES),
    (of_half, "to the ends of their dimensions"),
    (most, "atomics are additions"),
)
