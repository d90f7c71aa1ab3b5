# mypy: disable-error-code="untyped-decorator, no-untyped-def"
"""Triton as one writes it by hand from the tutorials: one block a row, or one output tile a program, few fixed configs.

They show what a user gets in an afternoon, without a search over structure: a sum, softmax, layer_norm, matmul and
attention, with the arguments of our kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import triton
import triton.language as tl

from .cells import Cell
from .opponent import Opponent, Peer

Tensor = torch.Tensor
_WIDEST = 1 << 16  # elements of a row in registers, 32 warps


@triton.jit
def _add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


@triton.jit
def _softmax(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row + columns, mask=columns < n, other=float("-inf")).to(tl.float32)
    weights = tl.exp(values - tl.max(values, 0))
    tl.store(out + row + columns, weights / tl.sum(weights, 0), mask=columns < n)


@triton.jit
def _rms_norm(x, weight, out, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n
    columns = tl.arange(0, BLOCK)
    inside = columns < n
    values = tl.load(x + row + columns, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(values * values, 0) / n + eps)
    factor = tl.load(weight + columns, mask=inside).to(tl.float32)
    tl.store(out + row + columns, values * scale * factor, mask=inside)


@triton.jit
def _layer_norm(x, weight, bias, out, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n
    columns = tl.arange(0, BLOCK)
    inside = columns < n
    values = tl.load(x + row + columns, mask=inside, other=0.0).to(tl.float32)
    centred = tl.where(inside, values - tl.sum(values, 0) / n, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, 0) / n + eps)
    factor = tl.load(weight + columns, mask=inside).to(tl.float32)
    shift = tl.load(bias + columns, mask=inside).to(tl.float32)
    tl.store(out + row + columns, centred * scale * factor + shift, mask=inside)


@triton.jit
def _matmul(x, y, out, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    tiles_m, tiles_n = tl.cdiv(m, BM), tl.cdiv(n, BN)
    program = tl.program_id(0)
    begin = program // (GROUP * tiles_n) * GROUP
    height = min(tiles_m - begin, GROUP)
    tile_m = begin + program % (GROUP * tiles_n) % height
    tile_n = program % (GROUP * tiles_n) // height
    rows, columns, inner = tile_m * BM + tl.arange(0, BM), tile_n * BN + tl.arange(0, BN), tl.arange(0, BK)
    left = x + rows[:, None] % m * k + inner[None, :]
    right = y + inner[:, None] * n + columns[None, :] % n
    acc = tl.zeros((BM, BN), tl.float32)
    for done in range(0, k, BK):
        a = tl.load(left, mask=inner[None, :] < k - done, other=0.0)
        b = tl.load(right, mask=inner[:, None] < k - done, other=0.0)
        acc = tl.dot(a, b, acc)
        left += BK
        right += BK * n
    where = out + rows[:, None] * n + columns[None, :]
    tl.store(where, acc.to(out.dtype.element_ty), mask=(rows[:, None] < m) & (columns[None, :] < n))


@triton.jit
def _attention(q, k, v, out, n, scale, CAUSAL: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    head = tl.program_id(1).to(tl.int64) * n * D
    begin = tl.program_id(0) * BM
    rows, wide = begin + tl.arange(0, BM), tl.arange(0, D)
    query = tl.load(q + head + rows[:, None] * D + wide[None, :], mask=rows[:, None] < n, other=0.0)
    peak, total = tl.full((BM,), float("-inf"), tl.float32), tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    end = min(begin + BM, n) if CAUSAL else n
    for first in range(0, end, BN):
        columns = first + tl.arange(0, BN)
        key = tl.load(k + head + columns[None, :] * D + wide[:, None], mask=columns[None, :] < n, other=0.0)
        scores = tl.dot(query, key) * scale
        seen = columns[None, :] < n
        if CAUSAL:
            seen = seen & (columns[None, :] <= rows[:, None])
        scores = tl.where(seen, scores, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, 1))
        weights = tl.exp2(scores - new_peak[:, None])
        shrink = tl.exp2(peak - new_peak)
        value = tl.load(v + head + columns[:, None] * D + wide[None, :], mask=columns[:, None] < n, other=0.0)
        acc = tl.dot(weights.to(value.dtype), value, acc * shrink[:, None])
        total = total * shrink + tl.sum(weights, 1)
        peak = new_peak
    result = acc / total[:, None]
    tl.store(out + head + rows[:, None] * D + wide[None, :], result.to(out.dtype.element_ty), mask=rows[:, None] < n)


def add(x: Tensor, y: Tensor) -> Tensor:
    """Return ``x + y``, for up to 2^31 elements."""
    out = torch.empty_like(x)
    _add[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK=1024, num_warps=4)
    return out


def softmax(x: Tensor) -> Tensor:
    """Return the softmax of each row, one program with the whole row in registers."""
    out, (m, n) = torch.empty_like(x), x.shape
    block = triton.next_power_of_2(n)
    _softmax[(m,)](x, out, n, BLOCK=block, num_warps=_warps(block))
    return out


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Return the RMS norm of each row; also used in what torch.compile traces."""
    out, (m, n) = torch.empty_like(x), x.shape
    block = 1 << (n - 1).bit_length()
    _rms_norm[(m,)](x, weight, out, n, eps, BLOCK=block, num_warps=4)
    return out


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Return the layer norm of each row, one program with the whole row in registers."""
    out, (m, n) = torch.empty_like(x), x.shape
    block = triton.next_power_of_2(n)
    _layer_norm[(m,)](x, weight, bias, out, n, eps, BLOCK=block, num_warps=_warps(block))
    return out


def matmul(x: Tensor, y: Tensor) -> Tensor:
    """Return ``x @ y`` by one of two fixed tilings, for many rows or few."""
    (m, k), n = x.shape, y.size(1)
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    bm, bn, bk, stages, warps = (128, 256, 64, 3, 8) if m >= 128 else (64, 64, 128, 4, 4)
    grid = (triton.cdiv(m, bm) * triton.cdiv(n, bn),)
    _matmul[grid](x, y, out, m, n, k, BM=bm, BN=bn, BK=bk, GROUP=8, num_stages=stages, num_warps=warps)
    return out


def attention(q: Tensor, k: Tensor, v: Tensor, causal: bool, with_lse: bool) -> Tensor:
    """Return attention's result alone, for as many keys as queries."""
    assert not with_lse and q.size(2) == k.size(2), "as the suite has it: the result alone, as many keys as queries"
    batch, heads, n, d = q.shape
    out = torch.empty_like(q)
    grid = (triton.cdiv(n, 128), batch * heads)
    scale = 1 / (math.sqrt(d) * math.log(2))
    _attention[grid](q, k, v, out, n, scale, CAUSAL=causal, D=d, BM=128, BN=64, num_stages=3, num_warps=d // 16)
    return out


def _warps(block: int) -> int:
    return min(max(block // 512, 4), 32)


_CALLS: Mapping[str, Callable[..., Any]] = {
    "examples.vector_add:vector_add": add,
    "examples.softmax:softmax": softmax,
    "examples.layer_norm:layer_norm": layer_norm,
    "examples.matmul:matmul": matmul,
    "examples.attention:attention": attention,
}


def _make(cell: Cell, args: Sequence[Any]) -> Opponent | None:
    call = _CALLS.get(cell.kernel)
    if call is None or (args[0].ndim == 2 and cell.bound == "memory" and args[0].size(1) > _WIDEST):
        return None
    return Opponent(call)


def peer() -> Peer:
    """Return these kernels as a peer."""
    return Peer("triton", _make, triton.__version__)
