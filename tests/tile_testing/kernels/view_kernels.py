"""Kernels whose host code takes views that do not start on 16 bytes, with what they must give: ``CASES``."""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl
from tile_testing.kernels.cases import Cases, rand

CASES = Cases()
case = CASES.case


@case(rand(7, 13), wanted=lambda x: x[:, 1:] * 2)
@tileflow.kernel
def without_first(x: torch.Tensor) -> torch.Tensor:
    y = x[:, 1:]
    out = torch.empty_like(y)
    for t, u in tfl.tile(y.shape):
        out[t, u] = y[t, u] * 2
    return out


@case(rand(7, 13), wanted=lambda x: x.cumsum(1))
@tileflow.kernel
def each_row(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for row, o in zip(x, out, strict=True):
        for _ in tfl.grid(1):
            o[:] = row[:].cumsum(0)
    return out


@case(rand(7, 13), wanted=lambda x: x.sum(1))
@tileflow.kernel
def each_row2(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(x.size(0))
    for i, row in enumerate(x):
        for t in tfl.tile(row.size(0)):
            tfl.atomic_add(out, [i], row[t].sum(0))
    return out


@case(rand(7, 3 * 13), wanted=lambda x: x.chunk(3, -1)[0] * x.chunk(3, -1)[1] + x.chunk(3, -1)[2])
@tileflow.kernel
def chunks(qkv: torch.Tensor) -> torch.Tensor:
    q, k, v = qkv.chunk(3, -1)
    out = torch.empty_like(q)
    for t, u in tfl.tile(q.shape):
        out[t, u] = q[t, u] * k[t, u] + v[t, u]
    return out


@case(rand(7, 3 * 13), wanted=lambda x: x.chunk(3, -1)[0] * x.chunk(3, -1)[1] + x.chunk(3, -1)[2])
@tileflow.kernel
def chunks_list(qkv: torch.Tensor) -> torch.Tensor:
    parts = qkv.chunk(3, -1)
    out = torch.empty_like(parts[0])
    for t, u in tfl.tile(out.shape):
        q, k, v = [p[t, u] for p in parts]
        out[t, u] = q * k + v
    return out


@case(rand(16, 3 * 16), rand(16, 16), wanted=lambda x, w: x[:, 1:17] @ w + x.split(16, 1)[2])
@tileflow.kernel
def offset_product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = x[:, 1:17]
    z = x.split(16, 1)[2]
    out = torch.empty_like(w)
    for t, u in tfl.tile(out.shape):
        acc = tfl.zeros([t, u])
        for k in tfl.tile(16):
            acc = torch.addmm(acc, y[t, k], w[k, u])
        out[t, u] = acc + z[t, u]
    return out


@case(rand(7, 13)[:, 1:], wanted=lambda x: x + 1)
@tileflow.kernel
def unaligned_argument(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for t, u in tfl.tile(x.shape):
        out[t, u] = x[t, u] + 1
    return out


@case(rand(7, 13)[:, 1:], wanted=lambda x: x[1:, 2:] + 1)
@tileflow.kernel
def unaligned_argument_view(x: torch.Tensor) -> torch.Tensor:
    y = x[1:, 2:]
    out = torch.empty_like(y)
    for t, u in tfl.tile(y.shape):
        out[t, u] = y[t, u] + 1
    return out


@case(rand(8, 16)[:, 3:], wanted=lambda x: x[:, 3:] + 1)
@tileflow.kernel
def unaligned_view_of_unaligned(x: torch.Tensor) -> torch.Tensor:
    y = x[:, 3:]
    out = torch.empty_like(y)
    for t, u in tfl.tile(y.shape):
        out[t, u] = y[t, u] + 1
    return out


@case(rand(8, 16)[:, 3:], wanted=lambda x: x[:, 1:] + 1)
@tileflow.kernel
def aligned_view_of_unaligned(x: torch.Tensor) -> torch.Tensor:
    y = x[:, 1:]
    out = torch.empty_like(y)
    for t, u in tfl.tile(y.shape):
        out[t, u] = y[t, u] + 1
    return out
