"""Kernels whose loops put what they reduce of each block to what they carry: ``CASES``."""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl
from tile_testing.kernels.cases import Cases, rand

CASES = Cases()
X = rand(5, 300)
NAN_AND_MORE = torch.where(X > 2, float("nan"), X).index_fill(0, torch.tensor([1]), float("-inf"))
BITS = torch.randint(-8, 8, (5, 300), generator=torch.Generator().manual_seed(1), dtype=torch.int32)


@CASES.case(X, wanted=lambda x: (x * x).sum(1) - x.abs().sum(1), r=2, t=64)
@tileflow.kernel
def added_and_taken(x):
    out = torch.empty_like(x[:, 0])
    for r in tfl.tile(x.size(0)):
        total = torch.zeros_like(x[r, 0])
        for t in tfl.tile(x.size(1)):
            total = total + (x[r, t] * x[r, t]).sum(1)
            total = total - x[r, t].abs().sum(1)
        out[r] = total
    return out


@CASES.case(X, wanted=lambda x: (x > 0.25).sum(1), r=2, t=64)
@tileflow.kernel
def counted(x):
    out = torch.empty(x.size(0), dtype=torch.int64, device=x.device)
    for r in tfl.tile(x.size(0)):
        count = torch.zeros_like(x[r, 0], dtype=torch.int64)
        for t in tfl.tile(x.size(1)):
            count += (x[r, t] > 0.25).sum(1)
        out[r] = count
    return out


@CASES.case(X, X[:3], wanted=lambda x, y: 2 * (x[:, None] > y[None]).sum((1, 2)) + (x != x).sum(1), r=2, n=2, t=64)
@tileflow.kernel
def counted_in_two_loops(x, y):
    out = torch.empty(x.size(0), dtype=torch.int64, device=x.device)
    for r in tfl.tile(x.size(0)):
        twice = torch.zeros_like(x[r, 0], dtype=torch.int64)
        for n in tfl.tile(y.size(0)):
            for t in tfl.tile(x.size(1)):
                twice = twice + 2 * (x[r, t][:, None, :] > y[n, t][None, :, :]).sum((1, 2))
        out[r] = twice
    return out


@CASES.case(NAN_AND_MORE, wanted=lambda x: torch.stack([x.amax(1), x.amin(1)]), r=2, t=128)
@tileflow.kernel
def extrema(x):
    out = torch.empty(2, x.size(0), device=x.device)
    for r in tfl.tile(x.size(0)):
        most = torch.full_like(x[r, 0], float("-inf"))
        least = torch.full_like(x[r, 0], float("inf"))
        for t in tfl.tile(x.size(1)):
            most = torch.maximum(most, x[r, t].amax(1))
            least = torch.minimum(x[r, t].amin(1), least)
        out[0, r] = most
        out[1, r] = least
    return out


@CASES.case(BITS, wanted=lambda x: torch.stack([(x == 7).any(1), (x < 7).all(1)]), r=2, t=64)
@tileflow.kernel
def truths(x):
    out = torch.empty(2, x.size(0), dtype=torch.bool, device=x.device)
    for r in tfl.tile(x.size(0)):
        some = x[r, 0] != x[r, 0]
        every = x[r, 0] == x[r, 0]
        for t in tfl.tile(x.size(1)):
            some = some | (x[r, t] == 7).any(1)
            every = torch.logical_and(every, (x[r, t] < 7).all(1))
        out[0, r] = some
        out[1, r] = every
    return out


@CASES.case(X / 40 + 1, wanted=lambda x: x.prod(1), r=2, t=64)
@tileflow.kernel
def multiplied(x):
    out = torch.empty_like(x[:, 0])
    for r in tfl.tile(x.size(0)):
        product = torch.ones_like(x[r, 0])
        for t in tfl.tile(x.size(1)):
            product = product * x[r, t].prod(1)
        out[r] = product
    return out


@CASES.case(torch.full((3, 300), 1 << 24, dtype=torch.int32), wanted=lambda x: x.double().sum(1), r=2)
@tileflow.kernel
def short_integers(x):
    """Each block's sum is an int32, that of all is not."""
    out = torch.empty(x.size(0), dtype=torch.float64, device=x.device)
    for r in tfl.tile(x.size(0)):
        total = torch.zeros_like(x[r, 0], dtype=torch.float64)
        for t in tfl.tile(x.size(1), block_size=64):
            total = total + x[r, t].sum(1, dtype=torch.int32)
        out[r] = total
    return out


@CASES.case(X.bfloat16(), wanted=lambda x: x.float().sum() / 3 + 1, t=64, r=2)
@tileflow.kernel
def one_number(x):
    """A sum over two tiles, scaled, of half types, put to a number that does not begin at 0."""
    out = torch.empty(1, device=x.device)
    for _ in tfl.tile(1, block_size=1):
        total = tfl.full([], 1.0, dtype=torch.float32)
        for r in tfl.tile(x.size(0)):
            for t in tfl.tile(x.size(1)):
                total = total + x[r, t].float().sum() / 3
        out[0] = total
    return out[0]


@CASES.case(X, wanted=lambda x: x.cumsum(1)[:, [255, 299]].sum(1), r=2)
@tileflow.kernel
def read_between(x):
    """What another op of a turn reads is whole in each turn."""
    out = torch.empty_like(x[:, 0])
    for r in tfl.tile(x.size(0)):
        total, seen = torch.zeros_like(x[r, 0]), torch.zeros_like(x[r, 0])
        for t in tfl.tile(x.size(1), block_size=256):
            total = total + x[r, t].sum(1)
            seen = seen + total
        out[r] = seen
    return out


@CASES.case(
    X,
    torch.tensor([0, 7, 300, 123, 1]),
    wanted=lambda x, n: (x * (torch.arange(x.size(1)) < n[:, None])).sum(1),
    t=64,
)
@tileflow.kernel
def rows_of_lengths(x, lengths):
    out = torch.empty_like(x[:, 0])
    for r in tfl.tile(x.size(0), block_size=1):
        total = torch.zeros_like(x[r, 0])
        for t in tfl.tile(lengths[r.begin]):
            total = total + x[r, t].sum(1)
        out[r] = total
    return out


OFFSETS = torch.tensor([0, 4, 4, 20])
SHORT = torch.randint(0, 200, (6, 20), generator=torch.Generator().manual_seed(2), dtype=torch.uint8)
MINUS_ONE = torch.full((6,), -1, dtype=torch.int32)


@CASES.case(X[0, :20], OFFSETS, wanted=lambda x, _: torch.stack([x[:4].mean(), x.new_zeros(()), x[4:].mean()]), t=8)
@tileflow.kernel
def means_of_segments(x, offsets):
    """A segment without elements: its sum over its length would be NaN."""
    out = torch.empty(offsets.size(0) - 1, device=x.device)
    for i in tfl.grid(offsets.size(0) - 1):
        total, length = 0.0, offsets[i + 1] - offsets[i]
        for t in tfl.tile(offsets[i], offsets[i + 1]):
            total += x[t].sum() / length
        out[i] = total
    return out


@CASES.case(
    SHORT,
    OFFSETS,
    wanted=lambda x, _: torch.stack([x[:, :4].amax(1).int(), MINUS_ONE, x[:, 4:].amax(1).int()]),
    r=4,
    t=8,
)
@tileflow.kernel
def extrema_of_segments(x, offsets):
    """A segment without elements: the least byte is more than what the extremum begins with."""
    out = torch.empty(offsets.size(0) - 1, x.size(0), dtype=torch.int32, device=x.device)
    for i in tfl.grid(offsets.size(0) - 1):
        for r in tfl.tile(x.size(0)):
            most = tfl.full([r], -1, dtype=torch.int32)
            for t in tfl.tile(offsets[i], offsets[i + 1]):
                most = torch.maximum(most, x[r, t].amax(1).int())
            out[i, r] = most
    return out


@CASES.case(BITS, OFFSETS, wanted=lambda *_: torch.tensor([[0], [6], [0]], dtype=torch.int32).expand(3, 5), r=2, t=8)
@tileflow.kernel
def bits_of_segments(x, offsets):
    """A segment without elements: that all are so is 1, which is not all bits."""
    out = torch.empty(offsets.size(0) - 1, x.size(0), dtype=torch.int32, device=x.device)
    for i in tfl.grid(offsets.size(0) - 1):
        for r in tfl.tile(x.size(0)):
            bits = tfl.full([r], 6, dtype=torch.int32)
            for t in tfl.tile(offsets[i], offsets[i + 1]):
                bits = bits & (x[r, t] > -9).all(1).int()
            out[i, r] = bits
    return out


@CASES.case(X, 300, torch.zeros(1), wanted=lambda x, *_: torch.stack([0 * x[:, 0], 0 * x[:, 0] - 1e30]), r=2, t=64)
@tileflow.kernel
def no_turn_of_a_size(x, begin, divisor):
    """The loop's bounds are numbers of the call."""
    out = torch.empty(2, x.size(0), device=x.device)
    for r in tfl.tile(x.size(0)):
        total, most, by = tfl.zeros([r]), tfl.full([r], -1e30), divisor[0]
        for t in tfl.tile(begin, x.size(1)):
            total += x[r, t].sum(1) / by
            most = torch.maximum(most, x[r, t].to(torch.int32).amax(1))
        out[0, r], out[1, r] = total, most
    return out
