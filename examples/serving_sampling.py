"""Sampling a token of each row of logits among the k largest and the most probable, without sorting.

The k-th largest logit is found by bisection over the bits of the numbers, which are in the order of the numbers once
those of negative ones are flipped: each step counts what lies above. The least likely token to keep is found in the
same manner, by what probability lies above. A row stays in the second-level cache meanwhile. The token is where the sum
of the kept probabilities passes the row's own uniform number.
"""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl


def inputs(
    m: int, v: int, k: int = 50, p: float = 0.9, dtype: torch.dtype = torch.float32, device: str = "cpu"
) -> tuple[torch.Tensor, ...]:
    """``k``, ``p``: of the last row; others have fewer and less, the first is greedy."""
    rows = torch.arange(1, m + 1, device=device)
    ks, ps = (k * rows // max(m, 1)).clamp(1, v).int(), p * rows / max(m, 1)
    uniform = (torch.arange(m, device=device) * 0.61803399 + 0.3) % 1
    return torch.randn(m, v, dtype=dtype, device=device) * 3, ks, ps.float(), uniform.float()


def reference(logits: torch.Tensor, k: torch.Tensor, p: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """By sorting, ties of the last kept logit kept as well."""
    logits = logits.float()
    ordered = logits.sort(dim=1, descending=True).values
    least = ordered.gather(1, (k.long() - 1)[:, None])
    weights = torch.exp(logits - ordered[:, :1]).where(logits >= least, 0.0)
    by_rank = torch.exp(ordered - ordered[:, :1]).where(ordered >= least, 0.0)
    is_enough = by_rank.cumsum(1) >= p[:, None] * by_rank.sum(1, keepdim=True)
    last = torch.where(is_enough.any(1), is_enough.int().argmax(1), logits.size(1) - 1)
    weights = weights.where(logits >= ordered.gather(1, last[:, None]), 0.0)
    running = weights.cumsum(1)
    return (running > uniform[:, None] * running[:, -1:]).int().argmax(1)


def in_order(values):  # type: ignore[no-untyped-def]
    """The bits of float32 numbers as ints in the order of the numbers."""
    bits = values.float().view(torch.int32)
    return torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


def middle(low, high):  # type: ignore[no-untyped-def]
    """Between two ints, rounded up, without passing the largest."""
    return (low >> 1) + (high >> 1) + ((low | high) & 1)


@tileflow.kernel(inputs=inputs, reference=reference)
def sample_top_k_top_p(logits: torch.Tensor, k: torch.Tensor, p: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """A token for each row. ``k``: at least 1; ``p``: the share of the k largest's probability to keep; ``uniform``:
    from 0 up to 1, one number a row."""
    m, v = logits.shape
    out = torch.empty(m, dtype=torch.int64, device=logits.device)
    steps = 32 if logits.dtype == torch.float32 else 20  # the lower bits of a 16-bit type's numbers are zeros
    block_v = tfl.register_block_size(v)
    for row in tfl.grid(m):
        peak = tfl.full([], float("-inf"))
        for tile_v in tfl.tile(v, block_size=block_v):
            peak = torch.maximum(peak, torch.amax(logits[row, tile_v].float(), dim=0))
        low, high = -0x7F800001, in_order(peak)
        for _ in range(steps):
            guess = middle(low, high)
            count = 0
            for tile_v in tfl.tile(v, block_size=block_v):
                count += (in_order(logits[row, tile_v]) >= guess).int().sum(dim=0)
            low, high = torch.where(count >= k[row], guess, low), torch.where(count >= k[row], high, guess - 1)
        least = low
        total = 0.0
        for tile_v in tfl.tile(v, block_size=block_v):
            values = logits[row, tile_v].float()
            total += torch.where(in_order(values) >= least, torch.exp(values - peak), 0.0).sum(dim=0)
        wanted = p[row] * total
        high = in_order(peak)
        for _ in range(steps):
            guess = middle(low, high)
            mass = 0.0
            for tile_v in tfl.tile(v, block_size=block_v):
                values = logits[row, tile_v].float()
                mass += torch.where(in_order(values) >= guess, torch.exp(values - peak), 0.0).sum(dim=0)
            low, high = torch.where(mass >= wanted, guess, low), torch.where(mass >= wanted, high, guess - 1)
        kept = 0.0
        for tile_v in tfl.tile(v, block_size=block_v):
            values = logits[row, tile_v].float()
            kept += torch.where(in_order(values) >= low, torch.exp(values - peak), 0.0).sum(dim=0)
        running, token = 0.0, 0
        for tile_v in tfl.tile(v, block_size=block_v):
            values = logits[row, tile_v].float()
            weights = torch.where(in_order(values) >= low, torch.exp(values - peak), 0.0)
            sums = running + torch.cumsum(weights, dim=0)
            token += (sums <= uniform[row] * kept).int().sum(dim=0)
            running += weights.sum(dim=0)
        out[row] = min(token, v - 1)
    return out
