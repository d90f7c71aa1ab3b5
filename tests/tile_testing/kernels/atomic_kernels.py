"""Atomics: one construct a kernel, with what it must give."""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl
from tile_testing.kernels.cases import Cases, ints, rand

CASES = Cases()
case = CASES.case

X = rand(13, 37)
KEYS = ints(7, 37, seed=5)
ROWS = ints(13, 37, seed=6)
WORDS = ints(1 << 20, 13, 37, seed=7)


@case(KEYS, wanted=lambda keys: keys.bincount(minlength=7).int(), tile=8)
@tileflow.kernel
def histogram(keys: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(7, dtype=torch.int32, device=keys.device)
    for tile in tfl.tile(keys.size(0)):
        tfl.atomic_add(out, [keys[tile]], 1)
    return out


@case(X, wanted=lambda x: x.sum(0), tile_m=4, tile_n=8)
@tileflow.kernel
def column_sums(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(x.size(1), device=x.device)
    for tile_m, tile_n in tfl.tile(x.shape):
        tfl.atomic_add(out, [tile_n], x[tile_m, tile_n].sum(0), sem="relaxed")
    return out


@case(X, wanted=lambda x: x.sum(), tile=4)
@tileflow.kernel
def sum_of_all(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros((), device=x.device)
    for tile in tfl.tile(x.size(0)):
        tfl.atomic_add(out, [], x[tile, :].sum(), "release")
    return out


@case(X, X.new_zeros(13, 37), wanted=lambda x, out: x * 3, tile=4)
@tileflow.kernel
def in_place(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """An argument accumulated into, over the whole second dimension, in a loop."""
    for tile in tfl.tile(x.size(0)):
        for _ in tfl.grid(3):
            tfl.atomic_add(out, (tile, slice(None)), x[tile, :])
    return out


@case(X, ROWS, wanted=lambda x, rows: torch.zeros(13, 13).index_add(1, rows, x), tile=4)
@tileflow.kernel
def scattered(x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(x.size(0), x.size(0), device=x.device)
    for tile in tfl.tile(x.size(0)):
        tfl.atomic_add(out, [tile, rows[:]], x[tile, :])
    return out


@case(X, ROWS[:13], wanted=lambda x, rows: torch.zeros(13, 37).index_add(0, rows, x), tile=1)
@tileflow.kernel
def scattered_row_by_row(x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """One mask and one number for a row of places: Triton's interpreter updated the first one alone."""
    out = torch.zeros_like(x)
    for tile in tfl.tile(x.size(0)):
        tfl.atomic_add(out, [rows[tile], slice(None)], x[tile, :])
        tfl.atomic_add(out, [rows[tile], slice(None)], x[tile, 0][:, None])
        tfl.atomic_add(out, [rows[tile], slice(None)], -x[tile, 0][:, None])
    return out


@case(X.half(), wanted=lambda x: torch.full((37,), 6.0).half(), tile=8)
@tileflow.kernel
def half_sums(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(x.size(1), dtype=x.dtype, device=x.device)
    for tile in tfl.tile(x.size(1)):
        for n in tfl.grid(4):
            tfl.atomic_add(out, [tile], n)
    return out


@case(X.bfloat16(), KEYS, wanted=lambda x, keys: torch.zeros(7).index_add(0, keys, torch.ones(37)).bfloat16(), tile=8)
@tileflow.kernel
def bfloat16_counts(x: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(7, dtype=x.dtype, device=x.device)
    for tile in tfl.tile(x.size(1)):
        tfl.atomic_add(out, [keys[tile]], 1.0)
    return out


@case(X, KEYS, wanted=lambda x, keys: torch.stack((
    torch.full((7,), -9.0).scatter_reduce(0, keys, x[0], "amax"), torch.full((7,), 9.0).scatter_reduce(0, keys, x[1],
    "amin"))), tile=8)  # fmt: skip
@tileflow.kernel
def extremes_by_key(x: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    out = torch.full((2, 7), 9.0, device=x.device)
    out[0] = -9.0
    for tile in tfl.tile(x.size(1)):
        tfl.atomic_max(out, [0, keys[tile]], x[0, tile])
        tfl.atomic_min(out, [-1, keys[tile]], x[1, tile], sem="acq_rel")
    return out


def by_bits(words: torch.Tensor) -> torch.Tensor:
    found = [words[0], words[0], words[0]]
    for row in words[1:]:
        found = [found[0] & row, found[1] | row, found[2] ^ row]
    return torch.stack(found)


@case(WORDS, wanted=by_bits, tile_m=4, tile_n=16)
@tileflow.kernel
def bits(words: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(3, words.size(1), dtype=words.dtype, device=words.device)
    out[0] = -1
    for tile_m, tile_n in tfl.tile(words.shape):
        part = words[tile_m, tile_n]
        for n in range(3):
            place = tile_n.index[None, :] + tile_m.index[:, None] * 0
            if n == 0:
                tfl.atomic_and(out, [n, place], part)
            elif n == 1:
                tfl.atomic_or(out, [n, place], part)
            else:
                tfl.atomic_xor(out, [n, place], part)
    return out


@case(X, X * 2, wanted=lambda x, y: torch.stack((x, x * 2)), tile=4)
@tileflow.kernel
def exchange(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The old values come back: of the arguments' own elements, and as the next value."""
    out = torch.empty(2, *x.shape, device=x.device)
    kept = x.clone()
    for tile in tfl.tile(x.size(0)):
        old = tfl.atomic_xchg(kept, (tile, slice(None)), y[tile, :])
        out[0, tile, :] = old
        out[1, tile, :] = tfl.atomic_xchg(kept, (tile, slice(None)), old, sem="acquire")
    return out


@case(KEYS, wanted=lambda keys: torch.stack((keys, torch.where(keys == 3, 100, keys))), tile=8)
@tileflow.kernel
def swap_where_equal(keys: torch.Tensor) -> torch.Tensor:
    out = torch.empty(2, keys.size(0), dtype=keys.dtype, device=keys.device)
    kept = keys.clone()
    for tile in tfl.tile(keys.size(0)):
        out[0, tile] = tfl.atomic_cas(kept, [tile], 3, 100, sem="acq_rel")
    out[1] = kept
    return out


@case(X, wanted=lambda x: torch.where(x > 0, x * 0 + 1, x), tile=4)
@tileflow.kernel
def swap_floats(x: torch.Tensor) -> torch.Tensor:
    out = x.clone()
    for tile in tfl.tile(x.size(0)):
        value = x[tile, :]
        tfl.atomic_cas(out, [tile, slice(None)], torch.where(value > 0, value, 5.0), 1.0)
    return out


@case(X, wanted=lambda x: torch.stack((torch.where(x > 0, x, 0), torch.where(x > 0, 1.0, 0) + 1)), tile=4)
@tileflow.kernel
def only_some_lanes(x: torch.Tensor) -> torch.Tensor:
    """Lanes that are masked give 0 and are not updated, though they lie outside the tensor."""
    out = torch.ones(2, *x.shape, device=x.device)
    kept = x.clone()
    for tile in tfl.tile(x.size(0)):
        keep = x[tile, :] > 0
        place = torch.where(keep, tile.index[:, None], 10**6)
        column = tfl.arange(x.size(1))[None, :]
        out[0, tile, :] = tfl.atomic_xchg(kept, [place, column], 0.0, extra_mask=keep)
        tfl.atomic_add(out, [1, place, column], 1.0, extra_mask=keep)
    return out


@case(KEYS, wanted=lambda keys: torch.tensor([1, 19]))
@tileflow.kernel
def one_winner(keys: torch.Tensor) -> torch.Tensor:
    """Scalar locks and tickets: the first program takes the lock, every program takes a number."""
    out = torch.zeros(2, dtype=torch.int64, device=keys.device)
    lock = torch.zeros(2, dtype=torch.int32, device=keys.device)
    for _ in tfl.tile(keys.size(0), block_size=2):
        taken = tfl.atomic_cas(lock, [0], 0, 1, sem="acquire")
        if taken == 0:
            tfl.atomic_add(out, [0], 1)
        ticket = tfl.atomic_add(lock, [1], 1)
        tfl.atomic_max(out, [1], ticket + 1)
    return out


@case(X, wanted=lambda x: torch.stack((x.sum(1), x.sum(1).cumsum(0))))
@tileflow.kernel
def running_total(x: torch.Tensor) -> torch.Tensor:
    """The old value used, with a dimension reduced beside it that may be looped."""
    out = torch.zeros(2, x.size(0), device=x.device)
    total = torch.zeros(1, device=x.device)
    for i in tfl.grid(1):
        for tile in tfl.tile(x.size(0), block_size=1):
            sums = x[tile, :].sum(1)
            out[0, tile] = sums
            out[1, tile] = tfl.atomic_add(total, [i + tile.index * 0], sums) + sums
    return out


@case(X, wanted=lambda x: torch.stack((x.sum(), x.sum() / 2)), tile=4)
@tileflow.kernel
def looped_beside(x: torch.Tensor) -> torch.Tensor:
    """A reduction that rolls must leave the atomics beside it alone: each happens once."""
    out = torch.zeros(2, device=x.device)
    for tile in tfl.tile(x.size(0)):
        total = x[tile, :].sum(1)
        tfl.atomic_add(out, [0], total.sum())
        tfl.atomic_add(out, [1], (x[tile, :] * 0.5).sum())
    return out


@case(KEYS, wanted=lambda keys: torch.stack((torch.cat((keys.new_ones(3), keys[3:] * 0 + 2)),
                                             torch.cat((keys[3:] * 0 + 1, keys.new_zeros(3))))), tile=8)  # fmt: skip
@tileflow.kernel
def past_the_end(keys: torch.Tensor) -> torch.Tensor:
    """A shifted tile's lanes outside the tensor update nothing and give 0."""
    out = torch.ones(2, keys.size(0), dtype=keys.dtype, device=keys.device)
    for tile in tfl.tile(keys.size(0)):
        out[1, tile] = tfl.atomic_xchg(out, [0, tile + 3], 2)
    return out


@case(X, torch.tensor([5, 0, 37, 12, 20, 1, 8, 9, 30, 31, 32, 33, 2]), tile=4, part=8,
      wanted=lambda x, n: torch.where(torch.arange(37) < n[:, None], x, 0).sum(0))  # fmt: skip
@tileflow.kernel
def jagged_columns(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(x.size(1), device=x.device)
    for tile in tfl.tile(x.size(0)):
        for part in tfl.jagged_tile(lengths[tile]):
            place = part.index[None, :] + tile.index[:, None] * 0
            tfl.atomic_add(out, [place], x[tile, part] + 1 - 1)
    return out
