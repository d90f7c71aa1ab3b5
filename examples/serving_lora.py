"""Low-rank adapters of many requests in one batch (Chen et al., Punica, 2023, arXiv:2310.18547).

Each token has its own adapter. Tokens are sorted by adapter: ``order`` lists them, and ``offsets`` gives where each
adapter's begin in it. Those before the first offset have none. Shrinking a long row to a few columns would keep few
multiprocessors busy, so it is split into parts along the row; expanding adds the parts up as it reads them.
"""

from __future__ import annotations

from itertools import pairwise

import torch

import tileflow
import tileflow.language as tfl

PARTS = 8
CHUNK = 64  # parts are whole multiples of it

Routes = tuple[torch.Tensor, torch.Tensor]


def routes(tokens: int, adapters: int, device: str) -> Routes:
    """Return ``order`` and ``offsets``: every fourth token has no adapter, the others take turns."""
    rows = torch.arange(tokens, device=device)
    ids = torch.where(rows % 4 == 3, -1, rows % max(adapters, 1))
    order = torch.argsort(ids, stable=True)
    first = (ids < 0).sum()
    counts = (ids[None, :] == torch.arange(adapters, device=device)[:, None]).sum(1)
    return order, torch.cat([first[None], first + counts.cumsum(0)]).int()


def shrink_inputs(
    tokens: int, k: int, rank: int, adapters: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> tuple[torch.Tensor, ...]:
    """Return random rows, (tokens, k), random adapters, (adapters, rank, k), and the routes."""
    x = torch.randn(tokens, k, dtype=dtype, device=device)
    return x, torch.randn(adapters, rank, k, dtype=dtype, device=device), *routes(tokens, adapters, device)


def shrink_reference(x: torch.Tensor, a: torch.Tensor, order: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """Multiply adapter by adapter, in the same parts of columns as the kernel."""
    length = part_length(x.size(1))
    out = torch.zeros(-(-x.size(1) // length), x.size(0), a.size(1), dtype=x.dtype, device=x.device)
    for (begin, end), matrix in zip(pairwise(offsets.tolist()), a, strict=True):
        rows = order[begin:end]
        for part, (left, right) in enumerate(zip(x[rows].split(length, 1), matrix.split(length, 1), strict=True)):
            out[part, rows] = left @ right.T
    return out


def part_length(k: int) -> int:
    """Return the columns of a part: a multiple of :data:`CHUNK` that makes at most :data:`PARTS` parts."""
    return max(-(-k // (PARTS * CHUNK)) * CHUNK, CHUNK)


@tileflow.kernel(inputs=shrink_inputs, reference=shrink_reference)
def lora_shrink(x: torch.Tensor, a: torch.Tensor, order: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """(tokens, k) by (adapters, rank, k) to (parts, tokens, rank) in float32, zeros for a token without an adapter."""
    tokens, k = x.shape
    adapters, rank, _ = a.shape
    length = part_length(k)
    parts = -(-k // length)
    out = torch.zeros(parts, tokens, rank, dtype=torch.float32, device=x.device)
    for part, adapter in tfl.grid([parts, adapters]):
        for tile_t in tfl.tile(offsets[adapter], offsets[adapter + 1]):
            rows = order[tile_t]
            acc = tfl.zeros([tile_t, rank])
            for tile_k in tfl.tile(part * length, min((part + 1) * length, k)):
                acc = tfl.dot(x[rows, tile_k], a[adapter, :, tile_k].T, acc=acc)
            out[part, rows, :] = acc
    return out


def expand_inputs(
    tokens: int, n: int, rank: int, adapters: int, dtype: torch.dtype = torch.bfloat16, device: str = "cpu"
) -> tuple[torch.Tensor, ...]:
    """Return random outputs, (tokens, n), two random parts to expand, random adapters, and the routes."""
    y, shrunk = torch.randn(tokens, n, dtype=dtype, device=device), torch.randn(2, tokens, rank, device=device)
    return y, shrunk, torch.randn(adapters, n, rank, dtype=dtype, device=device), *routes(tokens, adapters, device)


def expand_reference(
    y: torch.Tensor, shrunk: torch.Tensor, b: torch.Tensor, order: torch.Tensor, offsets: torch.Tensor
) -> None:
    """Add the products to ``y`` adapter by adapter."""
    whole = shrunk.sum(0).to(y.dtype)
    for (begin, end), matrix in zip(pairwise(offsets.tolist()), b, strict=True):
        rows = order[begin:end]
        y[rows] += whole[rows] @ matrix.T.to(y.dtype)


@tileflow.kernel(inputs=expand_inputs, reference=expand_reference)
def lora_expand(
    y: torch.Tensor, shrunk: torch.Tensor, b: torch.Tensor, order: torch.Tensor, offsets: torch.Tensor
) -> None:
    """Adds (parts, tokens, rank) by (adapters, n, rank) to ``y``, (tokens, n), in place."""
    n = y.size(1)
    adapters = b.size(0)
    for adapter, tile_n in tfl.tile([adapters, n], block_size=[1, None]):
        weights = b[adapter.begin, tile_n, :]
        for tile_t in tfl.tile(offsets[adapter.begin], offsets[adapter.begin + 1]):
            rows = order[tile_t]
            low = shrunk[:, rows, :].sum(dim=0).to(weights.dtype)
            y[rows, tile_n] = y[rows, tile_n].float() + tfl.dot(low, weights.T)
