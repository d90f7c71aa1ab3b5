"""Kernels with helper functions, host code of several launches, views and products: ``CASES``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl
from tile_testing.kernels.cases import Cases, ints, rand

CASES = Cases()
case = CASES.case

X = rand(13, 37)
V = rand(37, seed=1)
ROWS, COLUMNS = ints(13, 21, seed=2), ints(37, 11, seed=3)

# ---- functions, host code -----------------------------------------------------------------------

SCALE = 0.5


def row_sum(x: Any, tile_m: Any, n: int) -> Any:
    """A helper with a device loop and an early return."""
    total = tfl.zeros([tile_m])
    if n == 0:
        return total
    for tile_n in tfl.tile(n):
        total += x[tile_m, tile_n].sum(1)
    return total * SCALE


@case(X, wanted=lambda x: x.sum(1) * 0.5, tile_m=4, tile_n=8)
@tileflow.kernel
def helper_functions(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), dtype=x.dtype, device=x.device)
    for tile_m in tfl.tile(x.size(0)):
        out[tile_m] = row_sum(x, tile_m, x.size(1))
    return out


def closure(bias: torch.Tensor, scale: float) -> Callable[..., Any]:
    return lambda value, tile: value * scale + bias[tile]


@case(V, closure(rand(37, seed=9), 3.0), wanted=lambda x, f: f(x, slice(None)), tile=8)
@tileflow.kernel
def closures(x: torch.Tensor, f: Callable[..., Any]) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = f(x[tile], tile)
    return out


@case(X, wanted=lambda x: torch.softmax(x, 1) * 2, tile_m=4)
@tileflow.kernel
def several_launches(x: torch.Tensor) -> torch.Tensor:
    m, n = x.shape
    weights, totals = torch.empty_like(x), torch.empty(m, dtype=x.dtype, device=x.device)
    for tile_m in tfl.tile(m):
        weights[tile_m, :] = torch.exp(x[tile_m, :])
    for tile_m in tfl.tile(m):
        totals[tile_m] = weights[tile_m, :].sum(1)
    if n > 1:
        for tile_m, tile_n in tfl.tile([m, n]):
            weights[tile_m, tile_n] = weights[tile_m, tile_n] / totals[tile_m][:, None]
    return weights + weights


@case(X, wanted=lambda x: x.sum(0), block_m=4)
@tileflow.kernel
def partial_sums(x: torch.Tensor) -> torch.Tensor:
    m, n = x.shape
    block_m = tfl.register_block_size(m)
    parts = torch.empty((m + block_m - 1) // block_m, n, dtype=x.dtype, device=x.device)
    for tile_m in tfl.tile(m, block_size=block_m):
        parts[tile_m.id, :] = x[tile_m, :].sum(0)
    return parts.sum(0)


@case(V, 3, 0.25, wanted=lambda x, k, a: x * k + a, tile=8)
@tileflow.kernel
def numbers_as_arguments(x: torch.Tensor, k: int, a: float) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] * k + a
    return out


# ---- shapes and products ------------------------------------------------------------------------


@case(rand(13, 8, 4), wanted=lambda x: x.permute(0, 2, 1).reshape(13, 32) + 1, tile=4)
@tileflow.kernel
def views(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), 32, dtype=x.dtype, device=x.device)
    for tile in tfl.tile(x.size(0)):
        y = x[tile, :, :].permute(0, 2, 1)
        assert y.shape[1:] == (4, 8)
        out[tile, :] = y.reshape(tile, 32) + torch.ones_like(y).flatten(1)
    return out


@case(X, V, wanted=lambda x, v: x * v + torch.arange(37), tile=4)
@tileflow.kernel
def broadcasts(x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        row = v[:].unsqueeze(0).expand(tile, -1)
        out[tile, :] = x[tile, :] * row + torch.arange(x.size(1))
    return out


@case(rand(3, 17, 20), rand(3, 20, 9, seed=1), wanted=torch.bmm, tile_m=16, tile_n=16, tile_k=16)
@tileflow.kernel
def batched_product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    b, m, k = x.shape
    n = y.size(2)
    out = torch.empty(b, m, n, dtype=x.dtype, device=x.device)
    for tile_b, tile_m, tile_n in tfl.tile([b, m, n], block_size=[1, None, None]):
        acc = tfl.zeros([tile_b, tile_m, tile_n])
        for tile_k in tfl.tile(k):
            acc = torch.baddbmm(acc, x[tile_b, tile_m, tile_k], y[tile_b, tile_k, tile_n])
        out[tile_b, tile_m, tile_n] = acc
    return out


@case(rand(17, 40).half(), rand(9, 40, seed=1).half(), wanted=F.linear, tile_m=16, tile_n=16, tile_k=16)
@tileflow.kernel
def product_of_a_transpose(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), w.size(0), dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([x.size(0), w.size(0)]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(x.size(1)):
            acc = tfl.dot(x[tile_m, tile_k], w[tile_n, tile_k].T, acc=acc)
        out[tile_m, tile_n] = acc
    return out


@case((rand(17, 40) * 9).to(torch.int8), (rand(40, 9, seed=1) * 9).to(torch.int8), tile_m=16, tile_n=16, tile_k=32,
      wanted=lambda x, y: x.int() @ y.int())  # fmt: skip
@tileflow.kernel
def product_of_bytes(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), y.size(1), dtype=torch.int32, device=x.device)
    for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
        acc = tfl.zeros([tile_m, tile_n], dtype=torch.int32)
        for tile_k in tfl.tile(x.size(1)):
            acc += tfl.dot(x[tile_m, tile_k], y[tile_k, tile_n])
        out[tile_m, tile_n] = acc
    return out


@case(
    rand(17, 40), rand(40, 9, seed=1), wanted=lambda x, y: 0.5 + 2 * (torch.exp(x) @ y), tile_m=16, tile_n=16, tile_k=16
)
@tileflow.kernel
def masked_operand_of_a_product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """exp(0) is 1: lanes past the end of k must not count."""
    out = torch.empty(x.size(0), y.size(1), dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
        acc = tfl.full([tile_m, tile_n], 0.5)
        for tile_k in tfl.tile(x.size(1)):
            acc = torch.addmm(acc, torch.exp(x[tile_m, tile_k]), y[tile_k, tile_n], alpha=2)
        out[tile_m, tile_n] = acc
    return out


@case(rand(9, 11), ints(9, 13, seed=4), wanted=lambda x, i: F.embedding(i, x) + F.one_hot(i, 11), tile=4)
@tileflow.kernel
def rows_of_a_table(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    out = torch.empty(index.size(0), x.size(1), dtype=x.dtype, device=x.device)
    for tile in tfl.tile(index.size(0)):
        out[tile, :] = F.embedding(index[tile], x) + F.one_hot(index[tile], x.size(1))
    return out


@case(X, rand(13, 37, seed=5), wanted=lambda x, y: F.kl_div(x, y.sigmoid(), reduction="batchmean") + F.l1_loss(x, y))
@tileflow.kernel
def averaged_losses(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty(1, dtype=x.dtype, device=x.device)
    for i in tfl.grid(1):
        p, q = x[:, :], y[:, :]
        out[i] = F.kl_div(p, q.sigmoid(), reduction="batchmean") + F.l1_loss(p, q)
    return out[0]


@case(
    rand(4, 4), rand(4, seed=6), wanted=lambda x, v: torch.diag(torch.vander(v)) + torch.vstack([v, x])[1] * v.inner(v)
)
@tileflow.kernel
def small_matrices(x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(v)
    for _ in tfl.grid(1):
        row = v[:]
        out[:] = torch.diag(torch.vander(row)) + torch.vstack([row, x[:, :]])[1, :] * row.inner(row)
    return out


def widened(v: Any) -> Any:
    """A helper that is given tiles and numbers, and asks which."""
    return v.float() if isinstance(v, torch.Tensor) else float(v)


@case(V, 2.5, -7, wanted=lambda x, p, q: x + p + 8 + 0.25 * len(str(x.size(0))))
@tileflow.kernel
def kinds_of_operands(x: torch.Tensor, p: float, q: int) -> torch.Tensor:
    """What tiles and numbers are for ``isinstance`` and ``type``, and the digits of a size."""
    out = torch.empty_like(x)
    n = x.size(0)
    for tile in tfl.tile(n):
        row = x[tile]
        total = widened(row) + widened(p)
        for turn in range(2):
            total = total + isinstance(turn, int)
        total = total + isinstance(row, torch.Tensor) + isinstance(p, (float, str)) + isinstance(q, int)
        total = total + isinstance(n, int) + (type(p * 2) is float) + int(not isinstance(row.sum(), float))
        out[tile] = total + 0.25 * len(str(n))
    return out
