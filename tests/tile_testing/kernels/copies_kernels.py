"""Kernels whose programs meet in a few elements, and have copies of these, with what they must give."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl
from tile_testing.kernels.cases import Cases, ints, rand

CASES = Cases()
case = CASES.case
Tensor = torch.Tensor

X, GROUPS = rand(1000), ints(7, 1000, seed=2)
ROWS, COLUMNS = rand(60, 50), ints(5, 60, 50, seed=3)


def copied(count: int, *sites: str) -> dict[str, Any]:
    return {f"atomic:{site}.copies": count for site in sites}


def sums(x: Tensor, groups: Tensor, count: int) -> Tensor:
    return x.new_zeros(count).index_add(0, groups.reshape(-1).long(), x.reshape(-1))


@case(X, GROUPS, wanted=lambda x, g: sums(x, g, 7) + 1, knobs=copied(16, "out#0"), t=16)
@tileflow.kernel
def by_group(x: Tensor, groups: Tensor) -> Tensor:
    """More programs than copies; elements begin as 1, which is not added for each copy."""
    out = torch.ones(7, device=x.device)
    for t in tfl.tile(x.size(0)):
        tfl.atomic_add(out, [groups[t]], x[t])
    return out


@case(X, GROUPS, wanted=lambda x, g: sums(x, g, 7) + sums(-x.abs(), 6 - g, 7), knobs=copied(64, "out#0"), t=128)
@tileflow.kernel
def twice(x: Tensor, groups: Tensor) -> Tensor:
    """Two atomics of one tensor; fewer programs than copies."""
    out = torch.zeros(7, device=x.device)
    for t in tfl.tile(x.size(0)):
        tfl.atomic_add(out, [groups[t]], x[t])
        tfl.atomic_add(out, [6 - groups[t]], -x[t].abs())
    return out


def extremes(x: Tensor, groups: Tensor) -> Tensor:
    least = torch.full((7,), 0.25).scatter_reduce(0, groups.long(), x, "amin")
    most = torch.full((7,), 0.75).scatter_reduce(0, groups.long(), x, "amax")
    return torch.stack([least, most, sums(x, groups, 7)])


@case(X, GROUPS, wanted=extremes, knobs=copied(16, "least#0", "most#0", "total#0"), t=64)
@tileflow.kernel
def three_ways(x: Tensor, groups: Tensor) -> Tensor:
    """Least and greatest numbers, beside those that were there, and sums."""
    out = torch.empty(3, 7, device=x.device)
    least, most, total = out[0], out[1], out[2]
    least.fill_(0.25)
    most.fill_(0.75)
    total.zero_()
    for t in tfl.tile(x.size(0)):
        tfl.atomic_min(least, [groups[t]], x[t])
        tfl.atomic_max(most, [groups[t]], x[t])
        tfl.atomic_add(total, [groups[t]], x[t])
    return out


@case(ROWS, COLUMNS, wanted=lambda x, c: torch.stack([x.sum(1)] * 2, 1), knobs=copied(16, "sums#0"), m=4, n=16)
@tileflow.kernel
def strided(x: Tensor, columns: Tensor) -> Tensor:
    """A view of every second element; a grid of two axes."""
    out = torch.zeros(x.size(0), 2, device=x.device)
    sums = out[:, 1]
    for m, n in tfl.tile([x.size(0), x.size(1)]):
        tfl.atomic_add(sums, [m], x[m, n].sum(1))
    for m in tfl.tile(x.size(0)):
        out[m, 0] = out[m, 1]
    return out


def pair_sums(x: Tensor, columns: Tensor) -> Tensor:
    out = torch.zeros(5, 3, dtype=torch.int64)
    places = columns.long() * 3 + (x > 0).long()
    return out.view(-1).index_add(0, places.reshape(-1), (x * 100).long().reshape(-1)).view(5, 3)


@case(
    *(ROWS, COLUMNS),
    wanted=pair_sums,
    knobs={**copied(256, "out#0"), "grid": "axes"},
    m=2,
    n=16,
)
@tileflow.kernel
def of_pairs(x: Tensor, columns: Tensor) -> Tensor:
    """Sums of 64 bits in two dimensions, to which lanes that a mask lets through add."""
    out = torch.zeros(5, 3, dtype=torch.int64, device=x.device)
    for m, n in tfl.tile([x.size(0), x.size(1)]):
        tfl.atomic_add(out, [columns[m, n], (x[m, n] > 0).int()], (x[m, n] * 100).long())
    return out


@case(
    X,
    wanted=lambda x: torch.bincount((x.sigmoid() * 40).long(), minlength=40).int(),
    knobs={**copied(16, "out#0"), "atomic:out#0.histogram": True},
    t=128,
)
@tileflow.kernel
def counted(x: Tensor) -> Tensor:
    """A histogram whose programs add their counts to copies."""
    out = torch.zeros(40, dtype=torch.int32, device=x.device)
    for t in tfl.tile(x.size(0)):
        tfl.atomic_add(out, [(x[t].sigmoid() * 40).int()], 1)
    return out


@case(X, wanted=lambda x: (x * x).sum(), knobs={**copied(64, "out#0"), "persistent": 1}, t=16)
@tileflow.kernel
def one_number(x: Tensor) -> Tensor:
    """One element, to which each of a few programs adds what many tiles hold."""
    out = torch.zeros((), device=x.device)
    for t in tfl.tile(x.size(0)):
        tfl.atomic_add(out, [], (x[t] * x[t]).sum())
    return out


@case(X.sign(), GROUPS, wanted=lambda x, g: sums(x, g, 7).bfloat16(), knobs=copied(16, "out#0"), t=16)
@tileflow.kernel
def of_halves(x: Tensor, groups: Tensor) -> Tensor:
    """Sums of bfloat16, whose copies are of float32."""
    out = torch.zeros(7, dtype=torch.bfloat16, device=x.device)
    for t in tfl.tile(x.size(0)):
        tfl.atomic_add(out, [groups[t]], x[t])
        tfl.atomic_add(out, [groups[t]], 0.0)
    return out
