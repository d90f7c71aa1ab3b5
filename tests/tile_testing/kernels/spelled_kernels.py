"""Kernels in the words that people of PyTorch and Python use first, with what they must give beside them: ``CASES``."""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl
from tile_testing.kernels.cases import Cases, ints, rand

CASES = Cases()
case = CASES.case

X, V, N = rand(13, 37), rand(37, seed=1), ints(5, 13)

# ---- del ----------------------------------------------------------------------------------------


def _doubled(r: torch.Tensor) -> torch.Tensor:
    twice = r * 2
    found = twice + 1
    del twice, r
    return found


@case(X, wanted=lambda x: x * 2 + 1 + 20 + 3, tile=4)
@tileflow.kernel
def names_deleted_in_loops(x: torch.Tensor) -> torch.Tensor:
    """Of what a turn assigns, and of what the turn before did."""
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        total = _doubled(x[tile, :])
        for _ in range(20):
            more = total + 1
            del total
            total = more
            del more
        for _ in range(3):
            more = total + 1
            del total
            total = more
        out[tile, :] = total
        del total
    return out


@case(X, N, wanted=lambda x, n: x * (2 if n[0] < 9 else 3) + x, tile=4)
@tileflow.kernel
def names_deleted_in_branches(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        r = x[tile, :]
        twice = r * 2
        if n[0] < 9:
            found = twice
            del twice
        else:
            found = twice + r
        if x.ndim == 2:
            more = r
            del r
        r = more
        if n[0] < 9:
            del more
        out[tile, :] = found + r
    return out


# ---- signs, bits and conditions -----------------------------------------------------------------

SIGNS = torch.tensor([[0.0, -0.0, 2.0, -2.0, float("inf")]]).repeat(5, 1)


@case(SIGNS, wanted=lambda x: torch.stack([torch.signbit(-x) * 1.0, 1 / -x, torch.atan2(-x, x - 1)], 1), tile=4)
@tileflow.kernel
def signs_of_negative_zeros(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), 3, x.size(1), device=x.device)
    for tile in tfl.tile(x.size(0)):
        r = x[tile, :]
        out[tile, 0, :] = torch.signbit(-r) * 1.0
        out[tile, 1, :] = 1 / -r
        out[tile, 2, :] = torch.atan2(torch.neg(r), r - 1)
    return out


@case(X, wanted=lambda x: (x > 0).view(torch.uint8) + 2 * (x > 1).view(torch.int8).view(torch.bool), tile=4)
@tileflow.kernel
def bools_as_bytes(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.shape, dtype=torch.int64, device=x.device)
    for tile in tfl.tile(x.size(0)):
        positive, more = x[tile, :] > 0, x[tile, :] > 1
        out[tile, :] = positive.view(torch.uint8) + 2 * more.view(torch.int8).view(torch.bool)
    return out


@case(X, V, wanted=lambda x, v: ((v[0] > 9) | (x > 0)) & ~((v[1] == v[1] + 1) ^ (x > 1)), tile=4)
@tileflow.kernel
def conditions_of_scalars_and_tiles(x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.shape, dtype=torch.bool, device=x.device)
    for tile in tfl.tile(x.size(0)):
        r = x[tile, :]
        out[tile, :] = ((v[0] > 9) | (r > 0)) & ~((v[1] == v[1] + 1) ^ (r > 1))
    return out


# ---- tables that are searched -------------------------------------------------------------------


@case(X, V, wanted=lambda x, v: torch.searchsorted(v.sort()[0], x) + 100 * torch.bucketize(x, v[:3].sort()[0]), tile=4)
@tileflow.kernel
def searches_of_rows(x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.shape, dtype=torch.int64, device=x.device)
    for tile in tfl.tile(x.size(0)):
        row, few, r = torch.sort(v[:])[0], torch.sort(v[:3])[0], x[tile, :]
        out[tile, :] = torch.searchsorted(row, r) + 100 * torch.bucketize(r, few, out_int32=True)
    return out


def _ends(n: torch.Tensor) -> torch.Tensor:
    edges = torch.tensor([1, 3, 3])
    return torch.searchsorted(edges, n, right=True) * 10 + torch.searchsorted(edges, n, side="left")


@case(N, wanted=lambda n: _ends(n) + 100 * torch.bucketize(n, torch.tensor([0, 4]), right=True) + 2000, tile=4)
@tileflow.kernel
def searches_of_equal_elements(n: torch.Tensor) -> torch.Tensor:
    out = torch.empty(n.shape, dtype=torch.int64, device=n.device)
    for tile in tfl.tile(n.size(0)):
        edges, a = torch.tensor([1, 3, 3]), n[tile]
        both = torch.searchsorted(edges, a, right=True) * 10 + torch.searchsorted(edges, a, side="left")
        of_a_number = torch.searchsorted(torch.tensor([0.5, 2.5, 3.5]), 3.0) * 1000
        out[tile] = both + 100 * torch.bucketize(a, torch.tensor([0, 4]), right=True) + of_a_number
    return out


NAN_LAST = torch.tensor([-2.0, -1.0, 0.0, 0.5, 3.0, 4.0, float("inf"), float("nan")])
ODD_ONES = torch.tensor([[float("nan"), float("inf"), float("-inf"), 0.0, 0.5, 9.0, -0.0]]).repeat(5, 1)


def _among_nan(x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    few = v[[0, 1, 2, 3, 4, 7]]  # what is beyond all of these comes behind NaN
    return torch.searchsorted(v, x) + 100 * torch.bucketize(x, v, right=True) + 10_000 * torch.searchsorted(few, x)


@case(ODD_ONES, NAN_LAST, wanted=_among_nan, tile=4)
@tileflow.kernel
def searches_among_nan(x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.shape, dtype=torch.int64, device=x.device)
    for tile in tfl.tile(x.size(0)):
        row, r = v[:], x[tile, :]
        few = torch.cat([row[:5], row[7:]])
        both = torch.searchsorted(row, r) + 100 * torch.bucketize(r, row, right=True)
        out[tile, :] = both + 10_000 * torch.searchsorted(few, r)
    return out


@case(X, wanted=lambda x: torch.searchsorted(x.sort(1)[0], x.flip(1)), tile=4)
@tileflow.kernel
def searches_of_each_row_in_its_own(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.shape, dtype=torch.int64, device=x.device)
    for tile in tfl.tile(x.size(0)):
        r = x[tile, :]
        out[tile, :] = torch.searchsorted(r.sort(1)[0], r.flip(1))
    return out


@case(N, wanted=lambda n: torch.isin(n, n[:2]) * 1 + ~torch.isin(n, torch.tensor([1, 2])) * 2 + (n == 3) * 4, tile=4)
@tileflow.kernel
def elements_among_others(n: torch.Tensor) -> torch.Tensor:
    out = torch.empty(n.shape, dtype=torch.int64, device=n.device)
    for tile in tfl.tile(n.size(0)):
        a = n[tile]
        others = torch.isin(a, torch.tensor([[1], [2]]), invert=True)
        out[tile] = torch.isin(a, n[:2]) * 1 + others * 2 + torch.isin(a, 3) * 4
    return out


# ---- hints that are right -----------------------------------------------------------------------


@case(rand(4, 9, 5), ints(5, 4, 9), wanted=lambda x, y: x.gather(2, y[:, :, None])[:, :, 0], tile_b=2, tile_t=4)
@tileflow.kernel
def one_element_for_each_pair_of_lanes(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty(y.shape, device=x.device)
    for tile_b, tile_t in tfl.tile(y.shape):
        out[tile_b, tile_t] = x[tile_b.index[:, None], tile_t.index[None, :], y[tile_b, tile_t]]
    return out


@case(X, N, wanted=lambda x, n: torch.zeros(5, 37).index_add(0, n, x), tile=4)
@tileflow.kernel
def additions_by_index(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(5, x.size(1), device=x.device)
    for tile in tfl.tile(x.size(0)):
        tfl.atomic_add(out, [n[tile], slice(None)], x[tile, :])
    return out


@case(N, V, wanted=lambda n, v: torch.zeros(5).index_add(0, n, v[:13]), tile=16)
@tileflow.kernel
def additions_in_registers(n: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(5, device=v.device)
    for tile in tfl.tile(n.size(0)):
        found = torch.where(n[tile][:, None] == tfl.arange(5), v[tile][:, None], 0).sum(0)
        tfl.atomic_add(out, [slice(None)], found)
    return out
