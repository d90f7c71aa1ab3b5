"""Kernels whose lanes choose the elements that they add to, counted in the program first, with what they must give."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl
from tile_testing.kernels.cases import Cases, ints, rand

CASES = Cases()
case = CASES.case
Tensor = torch.Tensor

X, ROWS, KEYS = rand(1000).sigmoid(), rand(6, 300).sigmoid(), ints(70, 1000, seed=1)


def counted(*sites: str) -> dict[str, Any]:
    return {f"atomic:{site}.histogram": True for site in sites}


def bincount(places: Tensor, bins: int) -> Tensor:
    """How often each of some bins is named; what lies outside is not."""
    inside = places[(places >= 0) & (places < bins)]
    return torch.bincount(inside.reshape(-1).long(), minlength=bins).int()


@case(X, wanted=lambda x: bincount((x * 20).int(), 20), knobs=counted("out#0"), t=128)
@tileflow.kernel
def vector(x: Tensor) -> Tensor:
    """Fewer bins than a warp has lanes, and a last block that is not whole."""
    out = torch.zeros(20, dtype=torch.int32, device=x.device)
    for t in tfl.tile(x.size(0)):
        tfl.atomic_add(out, [(x[t] * 20).int()], 1)
    return out


@case(ROWS, wanted=lambda x: bincount((x * 40).int() - 3, 34), knobs=counted("out#0"), m=2, n=128)
@tileflow.kernel
def matrix(x: Tensor) -> Tensor:
    """Lanes of two dimensions, some of which choose what lies before and behind all bins."""
    out = torch.zeros(34, dtype=torch.int32, device=x.device)
    for m, n in tfl.tile([x.size(0), x.size(1)]):
        tfl.atomic_add(out, [(x[m, n] * 40).int() - 3], 1)
    return out


@case(
    X,
    KEYS,
    wanted=lambda x, k: 3 * bincount(k.div(10, rounding_mode="floor") * 9 + (x * 9).int(), 63).view(7, 9).long(),
    knobs=counted("out#0"),
    t=256,
)
@tileflow.kernel
def pairs(x: Tensor, keys: Tensor) -> Tensor:
    """Bins of two dimensions, to which 3 is added, in int64."""
    out = torch.zeros(7, 9, dtype=torch.int64, device=x.device)
    for t in tfl.tile(x.size(0)):
        tfl.atomic_add(out, [keys[t] // 10, (x[t] * 9).int()], 3)
    return out


@case(
    X,
    KEYS,
    wanted=lambda x, k: torch.stack([bincount(k[x > 0.5], 70), bincount(k[x <= 0.25], 70)]).float(),
    knobs=counted("out#0", "out#1"),
    t=64,
)
@tileflow.kernel
def truths(x: Tensor, keys: Tensor) -> Tensor:
    """Truths in float32, and a mask of the author's; a row of bins by its number."""
    out = torch.zeros(2, 70, device=x.device)
    for t in tfl.tile(x.size(0)):
        tfl.atomic_add(out, [0, keys[t]], (x[t] > 0.5).float())
        tfl.atomic_add(out, [1, keys[t]], 1, extra_mask=x[t] <= 0.25)
    return out


@case(
    ROWS,
    wanted=lambda x: -2.5 * torch.stack([bincount((row * 50).int(), 50) for row in x]).float(),
    knobs=counted("out#0"),
    n=128,
)
@tileflow.kernel
def each_row(x: Tensor) -> Tensor:
    """Bins of each row, of which a program has one."""
    out = torch.zeros(6, 50, device=x.device)
    for m in tfl.grid(x.size(0)):
        for n in tfl.tile(x.size(1)):
            tfl.atomic_add(out, [m, (x[m, n] * 50).int()], -2.5)
    return out


@case(
    ROWS,
    wanted=lambda x: torch.stack([bincount((row * 50).int(), 50) for row in x]).T,
    knobs=counted("out#0"),
    m=1,
    n=64,
)
@tileflow.kernel
def each_row_by_index(x: Tensor) -> Tensor:
    """The same by the tile's indices, in a loop of the program, with the bins first."""
    out = torch.zeros(50, 6, dtype=torch.int32, device=x.device)
    for m in tfl.tile(x.size(0)):
        for n in tfl.tile(x.size(1)):
            tfl.atomic_add(out, [(x[m, n] * 50).int(), m.index[:, None]], 1)
    return out


@case(
    rand(64, 150).sigmoid(),
    wanted=lambda x: torch.stack([bincount((row * 50).int(), 50) for row in x]),
    knobs=counted("out#0"),
    m=1,
    n=64,
)
@tileflow.kernel
def each_row_of_many(x: Tensor) -> Tensor:
    """More bins in all than a program counts: it has one row's."""
    out = torch.zeros(64, 50, dtype=torch.int32, device=x.device)
    for m, n in tfl.tile([x.size(0), x.size(1)]):
        tfl.atomic_add(out, [m.index[:, None], (x[m, n] * 50).int()], 1)
    return out


@case(
    X,
    wanted=lambda x: 5_000_000_000 * bincount((x * 37).int(), 37).long(),
    knobs=counted("out#0", "out#1"),
    t=128,
)
@tileflow.kernel
def beyond_32_bits(x: Tensor) -> Tensor:
    """Places of 64 bits, some of which are inside by their lower half alone, and a number that 32 bits do not hold."""
    out = torch.zeros(37, dtype=torch.int64, device=x.device)
    for t in tfl.tile(x.size(0)):
        place = (x[t] * 37).long()
        tfl.atomic_add(out, [place], 5_000_000_000)
        tfl.atomic_add(out, [place + 2**32 * (1 + (place > 20).long())], 1)
    return out


@case(
    torch.zeros(12, 80, dtype=torch.int32)[::3, ::2],
    KEYS,
    wanted=lambda counts, k: counts + F.pad(bincount(k * 7 % 40, 40)[None], (0, 0, 2, 1)),
    knobs=counted("counts#0"),
    t=256,
)
@tileflow.kernel
def into_strided(counts: Tensor, keys: Tensor) -> Tensor:
    """Bins that lie apart, a row of them by a number of the call's."""
    for t in tfl.tile(keys.size(0)):
        tfl.atomic_add(counts, [counts.size(0) - 2, keys[t] * 7 % 40], 1)
    return counts
