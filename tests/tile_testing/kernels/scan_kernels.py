"""Scans, reductions by a function, and what torch makes of NaN: one construct a kernel, with what it must give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import tileflow
import tileflow.language as tfl
from tile_testing.kernels.cases import Cases, ints, rand

CASES = Cases()
case = CASES.case
NAN = float("nan")


def folded(fn: Callable[..., Any], x: torch.Tensor, reverse: bool = False) -> torch.Tensor:
    """The scan of the last dimension, one element after another."""
    columns = list(x.unbind(-1))
    for n in range(len(columns) - 2, -1, -1) if reverse else range(1, len(columns)):
        columns[n] = fn(columns[n + 1], columns[n]) if reverse else fn(columns[n - 1], columns[n])
    return torch.stack(columns, -1)


X = rand(13, 37)
SMALL = torch.sigmoid(X)
COUNTS = ints(5, 13, 37)
SCALE = 0.5

# ---- scans --------------------------------------------------------------------------------------


@case(X, wanted=lambda x: x.cumsum(1), tile=4)
@tileflow.kernel
def cumsum_of_rows(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = torch.cumsum(x[tile, :], dim=-1)
    return out


@case(X, wanted=lambda x: x.flip(0).cumsum(0).flip(0), tile=8)
@tileflow.kernel
def cumsum_from_below(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(1)):
        out[:, tile] = tfl.cumsum(x[:, tile] + 1, 0, reverse=True) - tfl.cumsum(
            tfl.zeros([x.size(0), tile]) + 1, 0, True
        )
    return out


@case(COUNTS, wanted=lambda x: x.cumprod(1) + x.int().cumsum(1) + (x > 2).cumsum(1), tile=4)
@tileflow.kernel
def cumprod_of_ints(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        out[tile, :] = row.cumprod(1) + row.int().cumsum(1) + (row > 2).cumsum(1)
    return out


@case(X.bfloat16(), wanted=lambda x: x.float().flip(1).cumprod(1).flip(1), tile=4)
@tileflow.kernel
def cumprod_in_float32(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.shape)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = tfl.cumprod(torch.cumsum(x[tile, :], 1, dtype=torch.float32) * 0 + x[tile, :], 1, reverse=True)
    return out


def decayed(a1: Any, b1: Any, a2: Any, b2: Any) -> tuple[Any, Any]:
    """Composition of x -> a * x + b: the recurrence of linear state space models."""
    return a1 * a2, b1 * a2 + b2


@case(SMALL, X, wanted=lambda a, b: folded(lambda s, ab: torch.stack((s[0] * ab[0], s[1] * ab[0] + ab[1])),
                                           torch.stack((a, b)))[1], tile=4)  # fmt: skip
@tileflow.kernel
def recurrence(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(a)
    for tile in tfl.tile(a.size(0)):
        out[tile, :] = tfl.associative_scan(decayed, (a[tile, :], b[tile, :]), 1)[1]
    return out


@case(SMALL, X, wanted=lambda a, b: folded(lambda s, ab: torch.stack((s[0] * ab[0], s[1] * ab[0] + ab[1])),
                                           torch.stack((a, b)), reverse=True)[1], tile=4)  # fmt: skip
@tileflow.kernel
def recurrence_backwards(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(a)
    for tile in tfl.tile(a.size(0)):
        _, out[tile, :] = tfl.associative_scan(
            lambda x, y: (x[0] * y[0], x[1] * y[0] + y[1]), (a[tile, :], b[tile, :]), dim=1, reverse=True
        )
    return out


@case(X, wanted=lambda x: x.flip(1).cummax(1).values.flip(1) + x.cummin(1).values, tile=4)
@tileflow.kernel
def running_extremes(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        out[tile, :] = tfl.associative_scan(torch.maximum, row, 1, reverse=True) + tfl.associative_scan(
            lambda a, b: torch.where(a < b, a, b), row, -1
        )
    return out


@case(COUNTS, wanted=lambda x: (x == 3).long().cummax(1).values.bool(), tile=4)
@tileflow.kernel
def seen_before(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.shape, dtype=torch.bool)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = tfl.associative_scan(torch.logical_or, x[tile, :] == 3, 1)
    return out


def segmented(a: Any, b: Any) -> Any:
    """A sum that starts anew where the flag is set."""
    value_a, flag_a = a
    value_b, flag_b = b
    return torch.where(flag_b, value_b, value_a + value_b), flag_a | flag_b


def segmented_reference(x: torch.Tensor, flags: torch.Tensor) -> torch.Tensor:
    out, total = torch.empty_like(x), torch.zeros(x.size(0))
    for n in range(x.size(1)):
        total = torch.where(flags[:, n], x[:, n], total + x[:, n])
        out[:, n] = total
    return out


@case(X, COUNTS == 0, wanted=segmented_reference, tile=4)
@tileflow.kernel
def segmented_sums(x: torch.Tensor, flags: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :], _ = tfl.associative_scan(segmented, (x[tile, :], flags[tile, :]), 1)
    return out


@case(X, wanted=lambda x: torch.cat([p.cumsum(1) for p in x.split(8, 1)], 1), tile=4)
@tileflow.kernel
def scan_within_a_tile(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        for part in tfl.tile(x.size(1), block_size=8):
            out[tile, part] = x[tile, part].cumsum(1)
    return out


LENGTHS = torch.tensor([5, 1, 37, 12, 20, 1, 8, 9, 30, 31, 32, 33, 2])


def jagged_reference(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    inside = torch.arange(x.size(1)) < lengths[:, None]
    peaks = torch.where(inside, x - 9, -99).amax(1)
    from_the_back = torch.where(inside, x, 0).flip(1).cumsum(1).sum(1)
    return torch.stack((peaks, from_the_back, torch.where(inside, x + 1, 0).sum(1)))


@case(X, LENGTHS, wanted=jagged_reference, tile=4)
@tileflow.kernel
def jagged_rows(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Rows of lengths of their own: what is past a row's end never counts, though it is not 0."""
    out = torch.zeros(3, x.size(0), device=x.device)
    for tile in tfl.tile(x.size(0)):
        for part in tfl.jagged_tile(lengths[tile], block_size=64):
            row = x[tile, part]
            out[0, tile] = tfl.reduce(torch.maximum, row - 9, 1)
            out[1, tile] = tfl.cumsum((row + 1) * 1 - 1, 1, reverse=True).sum(1)
            out[2, tile] = tfl.reduce(torch.add, row + 1, 1, other=0)
    return out


def over_parents_reference(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    inside = torch.arange(x.size(1)) < lengths[:, None]
    return torch.where(inside, torch.where(inside, x + 1, 0).cumsum(0), 0)


@case(X, LENGTHS, wanted=over_parents_reference)
@tileflow.kernel
def down_jagged_columns(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Down the parent's dimension the lanes that do not count lie in between."""
    out = torch.zeros_like(x)
    for tile in tfl.tile(x.size(0), block_size=16):
        for part in tfl.jagged_tile(lengths[tile], block_size=64):
            out[tile, part] = tfl.associative_scan(lambda a, b: a + b, x[tile, part] + 1, 0)
    return out


# ---- reductions by a function -------------------------------------------------------------------


@case(X, wanted=lambda x: (x * SCALE).logsumexp(1), tile=4)
@tileflow.kernel
def log_sum_exp(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0))

    def merge(a: Any, b: Any) -> Any:
        peak = torch.maximum(a, b)
        return peak + torch.log(torch.exp(a - peak) + torch.exp(b - peak))

    for tile in tfl.tile(x.size(0)):
        out[tile] = tfl.reduce(merge, x[tile, :] * SCALE, 1)
    return out


def welford(n1: Any, m1: Any, s1: Any, n2: Any, m2: Any, s2: Any) -> tuple[Any, Any, Any]:
    """Counts, means and sums of squared differences of two samples (Chan, Golub and LeVeque 1979)."""
    n = n1 + n2
    difference = m2 - m1
    share = n2 / n
    return n, m1 + difference * share, s1 + s2 + difference * difference * n1 * share


@case(X, wanted=lambda x: torch.stack((x.mean(1), x.var(1))), tile=4)
@tileflow.kernel
def mean_and_variance(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(2, x.size(0))
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        count, mean, squares = tfl.reduce(welford, (torch.ones_like(row), row, torch.zeros_like(row)), dim=1)
        out[0, tile] = mean
        out[1, tile] = squares / (count - 1)
    return out


def larger(a: Any, b: Any) -> Any:
    first = (a[0] > b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
    return torch.where(first, a[0], b[0]), torch.where(first, a[1], b[1])


@case(COUNTS, wanted=lambda x: x.argmax(1), tile=4)
@tileflow.kernel
def place_of_largest(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), dtype=torch.int64)
    for tile in tfl.tile(x.size(0)):
        places = tfl.arange(x.size(1))[None, :]
        out[tile] = tfl.reduce(larger, (x[tile, :], places), 1, other=(-1, 1000))[1]
    return out


@case(X, wanted=lambda x: x - x.sum(1, keepdim=True), tile=4)
@tileflow.kernel
def kept_dimension(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        out[tile, :] = row - tfl.reduce(torch.add, row, -1, keep_dims=True, other=0)
    return out


@case(COUNTS, wanted=lambda x: x.amin().expand(13), tile=16)
@tileflow.kernel
def over_all_dimensions(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), dtype=x.dtype)
    for tile in tfl.tile(x.size(0)):
        out[tile] = tfl.reduce(lambda a, b: torch.minimum(a, b), x[:, :]) + tfl.full([tile], 0, dtype=torch.int64)
    return out


@case(COUNTS, wanted=lambda x: (x != 4).all(1), tile=4)
@tileflow.kernel
def every(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), dtype=torch.bool)
    for tile in tfl.tile(x.size(0)):
        out[tile] = tfl.reduce(lambda a, b: a & b, x[tile, :] != 4, 1)
    return out


# ---- NaN and ties -------------------------------------------------------------------------------


def holes() -> torch.Tensor:
    """Rows with no NaN, one, several, the last, all; equal numbers; infinities."""
    x = rand(8, 300, seed=4).round()
    x[1, 5] = x[2, 7] = x[2, 130] = x[3, 299] = NAN
    x[4] = NAN
    x[5] = float("-inf")
    x[6, 3] = float("inf")
    x[6, 9] = float("-inf")
    return x


@case(holes(), wanted=lambda x: torch.stack((x.amax(1), x.amin(1), x.max(1).values, x.min(1).values)), tile=4)
@tileflow.kernel
def extremes_with_nan(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(4, x.size(0))
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        out[0, tile], out[1, tile] = row.amax(1), row.amin(1)
        out[2, tile], out[3, tile] = row.max(1).values, row.min(1)[0]
    return out


@case(holes(), wanted=lambda x: torch.stack((x.argmax(1), x.argmin(1), x.max(1)[1], x.min(1).indices)), tile=4)
@tileflow.kernel
def places_with_nan(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(4, x.size(0), dtype=torch.int64)
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        out[0, tile], out[1, tile] = row.argmax(1), row.argmin(1)
        out[2, tile], out[3, tile] = row.max(1)[1], row.min(1).indices
    return out


@case(holes()[:5], wanted=lambda x: torch.softmax(x, 1), tile=4)
@tileflow.kernel
def softmax_with_nan(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = torch.softmax(x[tile, :], 1)
    return out


@case(holes(), wanted=lambda x: x.logsumexp(1), tile=4)
@tileflow.kernel
def logsumexp_of_infinities(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0))
    for tile in tfl.tile(x.size(0)):
        out[tile] = torch.logsumexp(x[tile, :], 1)
    return out


@case(rand(13, 5, 7).round(), wanted=lambda x: torch.stack((x.amax((1, 2)), x.amin((0, 2))[0].expand(13))), tile=4)
@tileflow.kernel
def over_several_dimensions(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(2, x.size(0))
    for tile in tfl.tile(x.size(0)):
        out[0, tile] = x[tile, :, :].amax((1, 2))
        out[1, tile] = torch.amin(x[:, 0, :]) + tfl.zeros([tile])
    return out


@case(holes(), COUNTS, wanted=lambda x, y: torch.stack((x.argmax(), x[:1].argmin(), y.argmax(), y.argmin())))
@tileflow.kernel
def places_among_all(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty(4, dtype=torch.int64)
    for _ in tfl.grid(1):
        out[0], out[1] = torch.argmax(x[:, :]), x[:1, :].argmin()
        out[2], out[3] = torch.argmax(y[:, :]), y[:, :].argmin()
    return out
