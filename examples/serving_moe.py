"""A mixture of experts for decoders: each token's few best experts, gated products, weighted sums.

Routing takes the softmax of a row's logits and its largest entries. Copies of tokens are then sorted by expert on the
device. Both products have a program for each tile of copies of any expert, so that a popular expert is shared by many
programs; only the device knows how many tiles there are. The first product gathers its rows and ends in silu(gate) *
up; the second is weighted, and a last launch adds up each token's parts.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl


def route_inputs(
    m: int, experts: int, k: int = 8, dtype: torch.dtype = torch.float32, device: str = "cpu"
) -> tuple[torch.Tensor, int]:
    """Return random logits, (m, experts), and ``k``."""
    return torch.randn(m, experts, dtype=dtype, device=device), k


def route_reference(logits: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the largest probabilities, scaled to a sum of 1, and their experts."""
    weights, ids = torch.softmax(logits.float(), dim=1).topk(k, dim=1)
    return weights / weights.sum(dim=1, keepdim=True), ids.int()


@tileflow.kernel(inputs=route_inputs, reference=route_reference)
def route(logits: torch.Tensor, k: tfl.constexpr = 8) -> tuple[torch.Tensor, torch.Tensor]:
    """The weights of each token's ``k`` best experts, which add up to 1, and the experts, (tokens, k)."""
    m, experts = logits.shape
    assert 0 < k <= experts, f"{k} of {experts} experts"
    weights = torch.empty(m, k, dtype=torch.float32, device=logits.device)
    ids = torch.empty(m, k, dtype=torch.int32, device=logits.device)
    for tile_m in tfl.tile(m):
        row = logits[tile_m, :].float()
        best, expert = torch.topk(row, k, dim=1)
        shares = torch.exp(best - torch.amax(best, dim=1)[:, None])
        weights[tile_m, :] = shares / shares.sum(dim=1)[:, None]
        ids[tile_m, :] = expert
    return weights, ids


def ordered(ids: torch.Tensor, experts: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the copies of tokens, row * k + rank, sorted by expert, and where each expert's begin."""
    flat = ids.flatten()
    counts = torch.zeros(experts + 1, dtype=torch.int32, device=ids.device)
    counts[1:] = (flat[None, :] == torch.arange(experts, device=ids.device)[:, None]).sum(1)
    return torch.argsort(flat, stable=True).int(), counts.cumsum(0).int()


def inputs(
    m: int,
    n: int,
    hidden: int,
    experts: int,
    k: int = 2,
    dtype: torch.dtype = torch.bfloat16,
    device: str = "cpu",
) -> tuple[torch.Tensor, ...]:
    """Return random tokens, experts, weights and routes. ``n``: the inner size of an expert.

    The experts' matrices are scaled to keep the results near 1.
    """
    x = torch.randn(m, hidden, dtype=dtype, device=device)
    up = torch.randn(experts, 2 * n, hidden, dtype=dtype, device=device) * hidden**-0.5
    down = torch.randn(experts, hidden, n, dtype=dtype, device=device) * n**-0.5
    rows, ranks = torch.arange(m, device=device)[:, None], torch.arange(k, device=device)[None, :]
    ids = (rows * rows + ranks) % experts  # uneven: squares are not every remainder
    weights = torch.rand(m, k, device=device)
    return x, up, down, weights, *ordered(ids, experts)


def reference(
    x: torch.Tensor,
    up: torch.Tensor,
    down: torch.Tensor,
    weights: torch.Tensor,
    order: torch.Tensor,
    offsets: torch.Tensor,
) -> torch.Tensor:
    """Run one expert after another, and add up the weighted results."""
    out = torch.zeros(x.shape, dtype=weights.dtype, device=x.device)
    k, bounds = weights.size(1), offsets.tolist()
    for expert in range(up.size(0)):
        copies = order[bounds[expert] : bounds[expert + 1]].long()
        gate, other = (x[copies // k] @ up[expert].T).chunk(2, dim=1)
        part = (F.silu(gate) * other) @ down[expert].T
        out.index_add_(0, copies // k, (part * weights.flatten()[copies][:, None]).to(out.dtype))
    return out.to(x.dtype)


def largest_block(rows: int) -> int:
    """Return the largest useful block for experts with ``rows`` copies on average: a larger one is mostly empty."""
    return min(max(1 << rows.bit_length(), 32), 128)


def group_of(tile, offsets, experts, block_m):  # type: ignore[no-untyped-def]
    """The expert whose copies a tile of any expert's has, and where in the order the tile begins."""
    counts = (offsets[1:] - offsets[:-1] + block_m - 1) // block_m
    is_before = torch.cumsum(counts, dim=0) <= tile
    group = min(is_before.sum(), experts - 1)
    return group, offsets[group] + (tile - torch.where(is_before, counts, 0).sum()) * block_m


@tileflow.kernel(inputs=inputs, reference=reference)
def fused_moe(
    x: torch.Tensor,
    up: torch.Tensor,
    down: torch.Tensor,
    weights: torch.Tensor,
    order: torch.Tensor,
    offsets: torch.Tensor,
) -> torch.Tensor:
    """(tokens, hidden) through (experts, 2 n, hidden), gates first, and (experts, hidden, n); ``weights``: (tokens, k);
    ``order`` and ``offsets``: see :func:`ordered`."""
    m, hidden = x.shape
    experts, n, k = up.size(0), up.size(1) // 2, weights.size(1)
    copies = order.size(0)
    flat = weights.flatten()
    inner = torch.empty(copies, n, dtype=x.dtype, device=x.device)
    parts = torch.empty(m * k, hidden, dtype=x.dtype, device=x.device)
    out = torch.empty_like(x)
    block_m = tfl.register_block_size(16, largest_block(copies // experts))
    for tile, tile_n in tfl.tile([copies // block_m + experts, n], block_size=[1, None]):
        group, begin = group_of(tile.begin, offsets, experts, block_m)
        for tile_m in tfl.tile(begin, min(begin + block_m, offsets[group + 1]), block_size=block_m):
            rows = order[tile_m] // k
            gate, other = tfl.zeros([tile_m, tile_n]), tfl.zeros([tile_m, tile_n])
            for tile_k in tfl.tile(hidden):
                values = x[rows, tile_k]
                gate = tfl.dot(values, up[group, tile_n, tile_k].T, acc=gate)
                other = tfl.dot(values, up[group, tile_n + n, tile_k].T, acc=other)
            inner[tile_m, tile_n] = F.silu(gate) * other
    for tile, tile_n in tfl.tile([copies // block_m + experts, hidden], block_size=[1, None]):
        group, begin = group_of(tile.begin, offsets, experts, block_m)
        for tile_m in tfl.tile(begin, min(begin + block_m, offsets[group + 1]), block_size=block_m):
            acc = tfl.zeros([tile_m, tile_n])
            for tile_k in tfl.tile(n):
                acc = tfl.dot(inner[tile_m, tile_k], down[group, tile_n, tile_k].T, acc=acc)
            copy = order[tile_m]
            parts[copy, tile_n] = acc * flat[copy][:, None]
    ranked = parts.unflatten(0, (m, k))
    for tile_m, tile_n in tfl.tile([m, hidden]):
        out[tile_m, tile_n] = ranked[tile_m, :, tile_n].float().sum(dim=1)
    return out
