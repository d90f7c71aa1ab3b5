"""Kernels of loops, one construct each, with what they must give: ``CASES``."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

import tileflow
import tileflow.language as tfl
from tile_testing.kernels.cases import Cases, rand

CASES = Cases()
case = CASES.case

X = rand(13, 37)
V = rand(37, seed=1)
N = torch.arange(-9, 12)


# ---- loops and what they carry ------------------------------------------------------------------


class Moments(NamedTuple):
    count: Any
    mean: Any
    m2: Any


def merged(state: Moments, values: Any, length: Any) -> Moments:
    """Chan's update of a mean and a sum of squares."""
    mean = values.sum(1) / length
    m2 = ((values - mean[:, None]) ** 2).sum(1)
    total = state.count + length
    delta = mean - state.mean
    return Moments(
        total, state.mean + delta * (length / total), state.m2 + m2 + delta * delta * (state.count * length / total)
    )


@case(X[:, :32], wanted=lambda x: torch.stack([x.mean(1), x.var(1)]), tile_m=4)
@tileflow.kernel
def carried_tuples(x: torch.Tensor) -> torch.Tensor:
    """A named tuple and a list go through a loop, a plain tuple through a branch."""
    m, n = x.shape
    out = torch.empty(2, m)
    for tile_m in tfl.tile(m):
        state = Moments(0.0, tfl.zeros([tile_m]), tfl.zeros([tile_m]))
        sums = [tfl.zeros([tile_m]), 0]
        for tile_n in tfl.tile(n, block_size=8):
            state = merged(state, x[tile_m, tile_n], 8.0)
            sums = [sums[0] + x[tile_m, tile_n].sum(1), sums[1] + 8]
        pair = (state.mean, state.m2)
        if tile_m.id == 0:
            pair = (sums[0] / sums[1], state[2])
        out[0, tile_m] = pair[0]
        out[1, tile_m] = pair[1] / (n - 1)
    return out


@case(X, wanted=lambda x: x.sum(1) + x.amax(1), tile_m=4, tile_n=8)
@tileflow.kernel
def temporaries_change_shape(x: torch.Tensor) -> torch.Tensor:
    """A name that no turn reads from the one before is not carried, whatever it holds."""
    m, n = x.shape
    out = torch.empty(m)
    for tile_m in tfl.tile(m):
        total = tfl.zeros([tile_m])
        part = total[:, None]
        for tile_n in tfl.tile(n):
            part = x[tile_m, tile_n]
            part = part.sum(1)
            total = total + part
        part = x[tile_m, :]
        for _ in tfl.grid(1):
            part = part.amax(1)
            total = total + part
            part = x[tile_m, :]
        out[tile_m] = total
    return out


@case(X, wanted=lambda x: x.sum(1) * 4 + 6, tile_m=4)
@tileflow.kernel
def ranges(x: torch.Tensor) -> torch.Tensor:
    """Long ones are loops of the kernel, short and static ones are written out; steps, and bounds that are scalars."""
    m, n = x.shape
    out = torch.empty(m)
    for tile_m in tfl.tile(m):
        total = tfl.zeros([tile_m])
        names = list("abcdefghijklmnopqrstuvwxyz")
        for i in range(n):
            total = total + x[tile_m, i]
        for i in range(n - 1, -1, -1):
            total = total + x[tile_m, i]
        for i in range(0, n, 3):
            for j in tfl.static_range(3):
                if i + j < n:
                    total = total + x[tile_m, i + j]
        for i in tfl.static_range(26):
            total = total + (1 if names[i] in "xyz" else 0)
        for i in range(tile_m.id, tile_m.id + 3):
            total = total + i - tile_m.id
        for i in range(3, 0):
            total = total + i
        for first, _ in zip(range(3), names, strict=False):
            total = total + 0 * first
        out[tile_m] = total + x[tile_m, :].sum(1)
    return out


@case(X, wanted=lambda x: x.clamp(min=0).sum(1) + x[:, ::2].sum(1))
@tileflow.kernel
def continue_and_early_outs(x: torch.Tensor) -> torch.Tensor:
    m, n = x.shape
    out = torch.empty(m)
    for i in tfl.grid(m):
        total = 0.0
        for j in tfl.grid(n):
            if x[i, j] <= 0:
                continue
            total = total + x[i, j]
        for j in range(n):
            if j % 2 == 1:
                continue
            total += x[i, j]
        if total == 0:
            out[i] = -1.0  # not 0: ptxas 12.8 takes `0 if total == 0 else total` of a loop's sum to be 0 always
            continue
        out[i] = total
    return out


@case(rand(5, 13, 9), wanted=lambda x: x.sum((1, 2)), tile_b=2, block_m=4, tile_k=4)
@tileflow.kernel
def boxes_inside(x: torch.Tensor) -> torch.Tensor:
    """A box of tiles in a loop, one of ints in that, and one variable for both axes of a box."""
    b, m, n = x.shape
    block_m = tfl.register_block_size(8)
    out = torch.empty(b)
    for tile_b in tfl.tile(b):
        total = tfl.zeros([tile_b])
        for tile_m, tile_k in tfl.tile([m, n], block_size=[block_m, None]):
            for both in tfl.grid([2, 2]):
                i, j = both
                total += x[tile_b, tile_m, tile_k].sum(2).sum(1) * (i + j)
        out[tile_b] = total / 4
    return out


@case(torch.tensor([5, 0, 37, 8]), V, wanted=lambda n, x: torch.stack([x[:k].sum() for k in n.tolist()]))
@tileflow.kernel
def bounds_that_are_loaded(n: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(n.size(0))
    for i in tfl.grid(n.size(0)):
        total = 0.0
        for j in range(n[i]):
            total = total + x[j]
        out[i] = total
    return out


# ---- loops that the kernel ends ------------------------------------------------------------------


def _halvings(x: torch.Tensor) -> torch.Tensor:
    """What is left of each element once it is halved down to 1 or less, and how often it was."""
    turns = torch.zeros_like(x)
    while (x > 1).any():
        turns, x = turns + (x > 1), torch.where(x > 1, x * 0.5, x)
    return torch.stack([x, turns])


@case(V.abs() * 20, wanted=_halvings, tile=8)
@tileflow.kernel
def while_any_of_a_tile(x: torch.Tensor) -> torch.Tensor:
    """One tile of the condition's own, and a count that is a number before the loop."""
    out = torch.empty(2, x.size(0))
    for tile in tfl.tile(x.size(0)):
        value, turns, left = x[tile], 0, x[tile] > 1
        while left.any():
            value, turns = torch.where(left, value * 0.5, value), turns + left
            left = value > 1
        out[0, tile], out[1, tile] = value, turns
    return out


@case(X.abs() * 9, wanted=lambda x: _halvings(x)[0], tile=4)
@tileflow.kernel
def while_of_rows(x: torch.Tensor) -> torch.Tensor:
    """The condition is of an extremum that lanes past the rows and past the last row have no part in; what is stored in
    a turn is loaded in the next."""
    out = x + 0
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        while row.amax() > 1 and tile.begin >= 0:
            out[tile, :] = torch.where(row > 1, row * 0.5, row)
            row = out[tile, :]
    return out


def _power(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    while x.abs().amax() > 0.1:
        x = x @ y
    return x


def _turned(value: Any, tile: Any, y: torch.Tensor) -> Any:
    while value.abs().amax() > 0.1:
        found = tfl.zeros([tile, y.size(1)])
        for inner in tfl.tile(y.size(1)):
            found = found + (value[:, None, :] * y[:, inner].T[None, :, :]).sum(2).sum(1)[:, None] * 0
        value = value @ y[:, :] + found
    return value


@case(rand(1, 16), torch.eye(16).roll(1, 0) * 0.7, wanted=_power)
@tileflow.kernel
def while_with_a_product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """In a function of the author's, with a tile loop inside it."""
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = _turned(x[tile, :], tile, y)
    return out


def _roots(parents: torch.Tensor) -> torch.Tensor:
    while (parents != parents[parents.long()]).any():
        parents = parents[parents.long()]
    return parents


@case(torch.tensor([0, 0, 1, 2, 3, 5, 5, 6, 7, 4], dtype=torch.int32), wanted=_roots, tile=4)
@tileflow.kernel
def while_that_gathers(parents: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(parents)
    for tile in tfl.tile(parents.size(0)):
        at = parents[tile]
        above = parents[at]
        while not (at == above).all():
            at, above = above, parents[above]
        out[tile] = at
    return out


# ---- loops backwards and in pairs ----------------------------------------------------------------


def _decayed(x: torch.Tensor, order: list[tuple[int, float]]) -> torch.Tensor:
    """Sums of rows one after the other, each at its row; with what each row counts."""
    out, total = torch.zeros_like(x), torch.zeros_like(x[0])
    for i, weight in order:
        total = total * 0.5 + x[i] * weight
        out[i] = total
    return out


@case(torch.cat([X, X + 1, X]), wanted=lambda x: _decayed(x, [(i, 1) for i in range(x.size(0) - 1, -1, -1)]), tile=8)
@tileflow.kernel
def backwards_over_a_size(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(1)):
        total = tfl.zeros([tile])
        for i in reversed(range(x.size(0))):
            total = total * 0.5 + x[i, tile]
            out[i, tile] = total
    return out


@case(torch.cat([X, X + 1, X]), 38, wanted=lambda x, n: _decayed(x, [(i, 1) for i in range(1, n, 3)][::-1]), tile=8)
@tileflow.kernel
def backwards_by_a_step(x: torch.Tensor, end: int) -> torch.Tensor:
    out = torch.zeros_like(x)
    for tile in tfl.tile(x.size(1)):
        total = tfl.zeros([tile])
        for i in reversed(range(1, end, 3)):
            total = total * 0.5 + x[i, tile]
            out[i, tile] = total
    return out


LENGTHS = torch.tensor([0, 1, 2, 13, 5, 7])


@case(
    X[:, : len(LENGTHS)].contiguous(),
    LENGTHS,
    wanted=lambda x, n: torch.stack([_decayed(x[:, k], [(i, 1) for i in range(m)][::-1]) for k, m in enumerate(n)], 1),
)
@tileflow.kernel
def backwards_from_a_loaded_length(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    for k in tfl.grid(x.size(1)):
        total = 0.0
        for i in reversed(range(lengths[k])):
            total = total * 0.5 + x[i, k]
            out[i, k] = total
    return out


@case(
    torch.cat([X, X + 1, X]),
    wanted=lambda x: (
        _decayed(x, [(i, k) for k, i in enumerate(reversed(range(3, 38)), 7)])
        + _decayed(x, [(i, k + j) for (k, i), j in zip(enumerate(range(2, 30)), reversed(range(50)), strict=False)])
    ),
    tile=8,
)
@tileflow.kernel
def counted_and_in_pairs(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    for tile in tfl.tile(x.size(1)):
        total = tfl.zeros([tile])
        for k, i in enumerate(reversed(range(3, 38)), 7):
            total = total * 0.5 + x[i, tile] * k
            out[i, tile] = total
        total = tfl.zeros([tile])
        for (k, i), j in zip(enumerate(range(2, 30)), reversed(range(50)), strict=False):
            total = total * 0.5 + x[i, tile] * (k + j)
            out[i, tile] = out[i, tile] + total
    return out
