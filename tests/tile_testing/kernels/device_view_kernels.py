"""Kernels whose device code takes views of the tensors that it is given, with what they must give: ``CASES``."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl
from tile_testing.kernels.cases import Cases, ints, rand

CASES = Cases()
case = CASES.case
Tensor = torch.Tensor

X, TURNED, GROUPS = rand(13, 20), rand(20, 13).t(), rand(5, 12)


@case(X, wanted=lambda x: x * 2 + 1, tile=8)
@tileflow.kernel
def flat(x: Tensor) -> Tensor:
    """Elements in a row, in three spellings and stored by a fourth."""
    out = torch.empty_like(x)
    for tile in tfl.tile(x.numel()):
        out.view(-1)[tile] = x.flatten()[tile] + x.reshape(-1)[tile] * torch.ones_like(x.ravel()[tile]) + 1
    return out


@case(TURNED, wanted=lambda x: x * 2, a=4, b=8)
@tileflow.kernel
def turned(x: Tensor) -> Tensor:
    """A transposed argument, turned back by each spelling, and a result that is stored turned."""
    out = torch.empty(x.shape)
    for a, b in tfl.tile(x.shape):
        both = x.T[b, a] + x.t()[b, a] - x.mT[b, a] + x.transpose(0, 1)[b, a] - x.permute(1, 0)[b, a]
        both += torch.swapaxes(x, 0, 1)[b, a] - x.movedim(0, 1)[b, a] + x.transpose(dim0=0, dim1=-1)[b, a]
        out.T[b, a] = both
    return out


@case(GROUPS, wanted=lambda x: torch.stack([c * (n + 1) for n, c in enumerate(x.chunk(3, 1))], 1), a=4, b=2)
@tileflow.kernel
def groups(x: Tensor) -> Tensor:
    """Groups of columns as a dimension, by sizes and without; a part of each by number."""
    m, n = x.shape
    out = torch.empty(m, 3, n // 3)
    for a, b in tfl.tile([m, n // 3]):
        for i in tfl.static_range(3):
            out[a, i, b] = x.view(m, 3, n // 3)[a, i, b]
            out.select(1, i)[a, b] += x.unflatten(1, (3, -1))[a, i, b] * i
    return out


@case(GROUPS, wanted=lambda x: sum(x.chunk(3, 1)) + sum(x.split(4, 1)) + sum(x.split([4, 4, 4], 1)), a=4, b=2)
@tileflow.kernel
def parts(x: Tensor) -> Tensor:
    """Parts of the columns, each a view."""
    out = torch.empty(x.size(0), 4)
    for a, b in tfl.tile(out.shape):
        total = tfl.zeros([a, b])
        for part in (*x.chunk(3, dim=1), *x.split(4, 1), *torch.split(x, [4, 4, 4], dim=1)):
            total += part[a, b]
        out[a, b] = total
    return out


@case(rand(6), rand(13, 1, 20), wanted=lambda v, x: x[:, 0] + v.expand(20, 6).T.sum(0), a=4, b=8)
@tileflow.kernel
def sizes_of_one(v: Tensor, x: Tensor) -> Tensor:
    """Dimensions that are put in, taken out, and repeated."""
    out = torch.empty(x.size(0), x.size(2))
    for a, b in tfl.tile(out.shape):
        total = x.squeeze(1)[a, b] + v.unsqueeze(0)[0, :].sum() - v.expand(20, 6)[b, :].sum(1)[None, :]
        out[a, b] = total + v.expand(20, -1)[b, :].sum(1)
    return out


@case(X, wanted=lambda x: torch.cat([x[:, 3:11], x.diagonal()[:, None].expand(13, 1)], 1), a=4, b=4)
@tileflow.kernel
def narrowed(x: Tensor) -> Tensor:
    """Some columns, which do not start on 16 bytes, and the diagonal."""
    out = torch.empty(x.size(0), 9)
    for a, b in tfl.tile([x.size(0), 8]):
        out.narrow(1, 0, 8)[a, b] = x.narrow(1, 3, 8)[a, b]
    for t in tfl.tile(13):
        out.select(1, 8)[t] = x.diagonal()[t]
    return out


@case(X, ints(260, 7), wanted=lambda x, at: x.view(-1)[at], tile=4)
@tileflow.kernel
def gathered(x: Tensor, at: Tensor) -> Tensor:
    """Elements of the row of all by places that are loaded."""
    out = torch.empty(at.size(0))
    for tile in tfl.tile(at.size(0)):
        out[tile] = x.view(-1)[at[tile]]
    return out


def _turned_row(x: Any, b: Any) -> Any:
    return x["of"].T[b, 0]


@case({"of": X}, wanted=lambda held: held["of"][0] * 2, tile=8)
@tileflow.kernel
def held(held: dict[str, Tensor]) -> Tensor:
    """Of a tensor that a dictionary holds, in a function that the kernel calls, in a loop."""
    out = torch.empty(held["of"].size(1))
    for tile in tfl.tile(held["of"].size(1)):
        total = tfl.zeros([tile])
        for _ in range(2):
            total += _turned_row(held, tile)
        out[tile] = total
    return out


@case(X, wanted=lambda x: x.unfold(1, 3, 2).sum(2), a=4, b=4)
@tileflow.kernel
def windows(x: Tensor) -> Tensor:
    """Windows, which share elements."""
    out = torch.empty(x.size(0), 9)
    for a, b in tfl.tile(out.shape):
        out[a, b] = x.unfold(1, 3, 2)[a, b, :].sum(-1)
    return out


@case(X, wanted=lambda x: x.exp(), a=4, b=4)
@tileflow.kernel
def in_place(x: Tensor) -> Tensor:
    """Read and stored by one view."""
    out = x.clone()
    for a, b in tfl.tile(x.shape):
        out.T[b, a] = out.T[b, a].exp()
    return out


@case(X, wanted=lambda x: x * 3, a=4, b=4)
@tileflow.kernel
def in_place_by_both(x: Tensor) -> Tensor:
    """Read as it lies, and stored turned: each program its own elements."""
    out = x.clone()
    for a, b in tfl.tile(x.shape):
        out.T[b, a] = out[a, b].T * 3
    return out


@case(X, wanted=lambda x: -x.abs(), a=4, b=8)
@tileflow.kernel
def bits(x: Tensor) -> Tensor:
    """The bits as ints of the same width: read, stored as, and of a view of a view."""
    out = torch.empty_like(x)
    for a, b in tfl.tile(x.shape):
        sign = x.view(torch.int32)[a, b] | -(2**31)
        out.T.view(dtype=torch.int32)[b, a] = (sign & x.T.view(torch.int32)[b, a].T | -(2**31)).T
    return out


@case(rand(6, 32).bfloat16(), wanted=lambda x: x.view(torch.int16).int() + 1, a=4, b=8)
@tileflow.kernel
def bits_of_halves(x: Tensor) -> Tensor:
    """Those of numbers of 16 bits."""
    out = torch.empty(x.shape, dtype=torch.int32)
    for a, b in tfl.tile(x.shape):
        out[a, b] = x.view(torch.int16)[a, b].int() + 1
    return out
