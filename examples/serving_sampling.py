"""Sampling a token per row of logits among the k largest and the most probable, without sorting.

The k-th largest logit is found by its bits, about eleven at a time from the highest: float bits are in the order of the
numbers once those of negative ones are flipped. All programs count a row's logits by those bits, and a program a row
finds the bin of the k-th in the counts; the next bits are counted within that bin. The least likely token to keep is
found in the same way, by the probability in each bin. The token is where the sum of the kept probabilities passes the
row's own uniform number. Probabilities are added up as whole numbers, so that no order of programs changes a result.
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


BINS = 1 << 11  # as many as a level tells apart
ONE = 1 << 40  # the largest logit's weight: sums of whole numbers do not depend on their order


def in_order(values):  # type: ignore[no-untyped-def]
    """The bits of float32 numbers as ints in the order of the numbers; both zeros are 0."""
    bits = torch.where(values == 0, 0, values.view(torch.int32))
    return torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


def weighed(values, peak):  # type: ignore[no-untyped-def]
    """exp(values - peak) as whole numbers, of which ``ONE`` is 1."""
    return (torch.exp(values - peak).double() * ONE).long()


def share(portion, whole):  # type: ignore[no-untyped-def]
    """The part of a whole number that the float ``portion`` from 0 to 1 says, not rounded."""
    return portion.double() * whole.double()


@tileflow.kernel(inputs=inputs, reference=reference)
def sample_top_k_top_p(logits: torch.Tensor, k: torch.Tensor, p: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """A token for each row. ``k``: at least 1; ``p``: the share of the k largest's probability to keep; ``uniform``:
    from 0 up to 1, one number a row. The same arguments give the same tokens."""
    m, v = logits.shape
    device = logits.device
    shifts = {torch.float32: [32, 21, 10, 0], torch.float16: [32, 21, 13], torch.bfloat16: [32, 21, 16]}[logits.dtype]
    block_v = tfl.register_block_size(1024, 8192)
    peaks = torch.full((m,), float("-inf"), device=device)
    for row, tile_v in tfl.tile([m, v], block_size=[1, block_v]):
        values = logits[row.begin, tile_v].float()
        tfl.atomic_max(peaks, [row.begin], torch.amax(values, dim=0))
    bounds = torch.full((2, m), -0x80000000, dtype=torch.int32, device=device)  # of the k largest, of the probable
    missing = torch.zeros(2, m, dtype=torch.int64, device=device)  # how much is wanted of the bin of the bound
    bins = torch.zeros(2, len(shifts) - 1, m, BINS, dtype=torch.int64, device=device)
    for by in range(2):
        for level in range(len(shifts) - 1):
            shift, size = shifts[level + 1], 1 << (shifts[level] - shifts[level + 1])
            for row, tile_v in tfl.tile([m, v], block_size=[1, block_v]):
                values = logits[row.begin, tile_v].float()
                keys = in_order(values)
                place = (keys.long() - bounds[by, row.begin].long()) >> shift
                is_here = (place >= 0) & (place < size) & (keys >= bounds[0, row.begin])
                amount = weighed(values, peaks[row.begin]) if by else torch.ones_like(place)
                tfl.atomic_add(bins, [by, level, row.begin, torch.where(is_here, place, 0)], amount, extra_mask=is_here)
            for row in tfl.grid(m):
                amounts = bins[by, level, row, :]
                if level:
                    wanted = missing[by, row]
                elif by:
                    total = amounts.sum(dim=0)
                    wanted = torch.clamp(torch.ceil(share(p[row], total)).long(), min=1, max=total)
                else:
                    wanted = min(k[row].long(), v)
                above = tfl.cumsum(amounts, dim=0, reverse=True)
                digit = (above >= wanted).int().sum(dim=0) - 1
                bounds[by, row] = bounds[by, row] + (digit << shift)
                missing[by, row] = wanted - torch.amax(torch.where(above < wanted, above, 0), dim=0)
    masses = torch.zeros(m, -(-v // block_v), dtype=torch.int64, device=device)
    for row, tile_v in tfl.tile([m, v], block_size=[1, block_v]):
        values = logits[row.begin, tile_v].float()
        is_kept = in_order(values) >= torch.maximum(bounds[0, row.begin], bounds[1, row.begin])
        masses[row.begin, tile_v.id] = torch.where(is_kept, weighed(values, peaks[row.begin]), 0).sum(dim=0)
    out = torch.empty(m, dtype=torch.int64, device=device)
    for row in tfl.grid(m):
        parts = masses[row, :]
        total = parts.sum(dim=0)
        goal = min(share(uniform[row], total).long(), total - 1)
        is_before = torch.cumsum(parts, dim=0) <= goal
        part = is_before.int().sum(dim=0)
        goal = goal - torch.where(is_before, parts, 0).sum(dim=0)
        for tile_v in tfl.tile(part * block_v, min(part * block_v + block_v, v), block_size=block_v):
            values = logits[row, tile_v].float()
            is_kept = in_order(values) >= torch.maximum(bounds[0, row], bounds[1, row])
            running = torch.cumsum(torch.where(is_kept, weighed(values, peaks[row]), 0), dim=0)
            out[row] = tile_v.begin + (running <= goal).int().sum(dim=0)
    return out
