"""Sampling a token per row of logits among the k largest and the most probable, without sorting.

The k-th largest logit is found by its bits, four at a time from the highest: float bits are in the order of the numbers
once those of negative ones are flipped. Each pass over a row counts the logits above each of sixteen thresholds. The
least likely token to keep is found in the same way, by the probability above. A row stays in the L2 cache meanwhile.
The token is where the sum of the kept probabilities passes the row's own uniform number.
"""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl


def inputs(
    m: int, v: int, k: int = 50, p: float = 0.9, dtype: torch.dtype = torch.float32, device: str = "cpu"
) -> tuple[torch.Tensor, ...]:
    """Return random logits, and each row's k, p and uniform number.

    ``k``, ``p``: of the last row; others have fewer and less, and the first is greedy.
    """
    rows = torch.arange(1, m + 1, device=device)
    ks, ps = (k * rows // max(m, 1)).clamp(1, v).int(), p * rows / max(m, 1)
    uniform = (torch.arange(m, device=device) * 0.61803399 + 0.3) % 1
    return torch.randn(m, v, dtype=dtype, device=device) * 3, ks, ps.float(), uniform.float()


def reference(logits: torch.Tensor, k: torch.Tensor, p: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """Sample by sorting; ties of the last kept logit are kept as well."""
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


DIGITS = 16  # that four bits tell apart


def in_order(values):  # type: ignore[no-untyped-def]
    """The bits of float32 numbers as ints in the order of the numbers."""
    bits = values.float().view(torch.int32)
    return torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


def guesses(found, step):  # type: ignore[no-untyped-def]
    """``found`` with each digit that may come next; sums past the largest int wrap to where they belong."""
    return found + (tfl.arange(0, DIGITS) << (28 - 4 * step))


def chosen(found, step, is_enough):  # type: ignore[no-untyped-def]
    """``found`` with the largest digit of which there is enough above; of the first there always is."""
    digit = torch.clamp(is_enough.int().sum(dim=0) - 1, min=0)
    return found + (digit << (28 - 4 * step))


@tileflow.kernel(inputs=inputs, reference=reference)
def sample_top_k_top_p(logits: torch.Tensor, k: torch.Tensor, p: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """A token for each row. ``k``: at least 1; ``p``: the share of the k largest's probability to keep; ``uniform``:
    from 0 up to 1, one number a row."""
    m, v = logits.shape
    out = torch.empty(m, dtype=torch.int64, device=logits.device)
    steps = {torch.float32: 8, torch.float16: 5, torch.bfloat16: 4}[logits.dtype]  # further bits are all alike
    block_v = tfl.register_block_size(1024, 8192)  # shorter ones wait for each other more than they count
    for row in tfl.grid(m):
        peak = tfl.full([], float("-inf"))
        for tile_v in tfl.tile(v, block_size=block_v):
            peak = torch.maximum(peak, torch.amax(logits[row, tile_v].float(), dim=0))
        least = tfl.full([], -0x80000000, dtype=torch.int32)
        for step in tfl.grid(steps):
            above = guesses(least, step)
            counts = tfl.zeros([DIGITS], dtype=torch.int32)
            for tile_v in tfl.tile(v, block_size=block_v):
                keys = in_order(logits[row, tile_v])
                counts += (keys[None, :] >= above[:, None]).int().sum(dim=1)
            least = chosen(least, step, counts >= k[row])
        total = 0.0
        for tile_v in tfl.tile(v, block_size=block_v):
            values = logits[row, tile_v].float()
            total += torch.where(in_order(values) >= least, torch.exp(values - peak), 0.0).sum(dim=0)
        last = tfl.full([], -0x80000000, dtype=torch.int32)
        for step in tfl.grid(steps):
            above = guesses(last, step)
            masses = tfl.zeros([DIGITS])
            for tile_v in tfl.tile(v, block_size=block_v):
                values = logits[row, tile_v].float()
                keys = in_order(values)
                weights = torch.where(keys >= least, torch.exp(values - peak), 0.0)
                masses += torch.where(keys[None, :] >= above[:, None], weights[None, :], 0.0).sum(dim=1)
            last = chosen(last, step, masses >= p[row] * total)
        last = torch.maximum(least, last)
        kept = 0.0
        for tile_v in tfl.tile(v, block_size=block_v):
            values = logits[row, tile_v].float()
            kept += torch.where(in_order(values) >= last, torch.exp(values - peak), 0.0).sum(dim=0)
        running, token = 0.0, 0
        for tile_v in tfl.tile(v, block_size=block_v):
            values = logits[row, tile_v].float()
            weights = torch.where(in_order(values) >= last, torch.exp(values - peak), 0.0)
            sums = running + torch.cumsum(weights, dim=0)
            token += (sums <= uniform[row] * kept).int().sum(dim=0)
            running += weights.sum(dim=0)
        out[row] = min(token, v - 1)
    return out
