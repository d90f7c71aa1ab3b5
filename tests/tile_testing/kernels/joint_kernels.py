"""Kernels of two products of one left operand, as authors write them; those that have no schedule, by the reason."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl
from tileflow.api import Kernel


def _products(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.float() @ gate.float().T, x.float() @ up.float().T


def _swish(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    a, b = _products(x, gate, up)
    return F.silu(a) * b


@tileflow.kernel(reference=_swish)
def once(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), gate.size(0), dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile(out.shape):
        a, b = tfl.zeros([tile_m, tile_n]), tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(x.size(1)):
            rows = x[tile_m, tile_k]
            a = torch.addmm(a, rows, gate[tile_n, tile_k].t())
            b = torch.addmm(b, rows, up[tile_n, tile_k].t())
        out[tile_m, tile_n] = F.silu(a) * b
    return out


@tileflow.kernel(reference=_swish)
def for_each(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """The left operand is loaded for each product."""
    out = torch.empty(x.size(0), gate.size(0), dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile(out.shape):
        a, b = tfl.zeros([tile_m, tile_n]), tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(x.size(1)):
            a = torch.addmm(a, x[tile_m, tile_k], gate[tile_n, tile_k].t())
            b = torch.addmm(b, x[tile_m, tile_k], up[tile_n, tile_k].t())
        out[tile_m, tile_n] = F.silu(a) * b
    return out


@tileflow.kernel(reference=_swish)
def other_order(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """The second of the sums is added to first."""
    out = torch.empty(x.size(0), gate.size(0), dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile(out.shape):
        a, b = tfl.zeros([tile_m, tile_n]), tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(x.size(1)):
            b = torch.addmm(b, x[tile_m, tile_k], up[tile_n, tile_k].t())
            a = torch.addmm(a, x[tile_m, tile_k], gate[tile_n, tile_k].t())
        out[tile_m, tile_n] = F.silu(a) * b
    return out


@tileflow.kernel(reference=_swish)
def one_zero(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Both sums begin with one value."""
    out = torch.empty(x.size(0), gate.size(0), dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile(out.shape):
        a = tfl.zeros([tile_m, tile_n])
        b = a
        for tile_k in tfl.tile(x.size(1)):
            rows = x[tile_m, tile_k]
            a = torch.addmm(a, rows, gate[tile_n, tile_k].t())
            b = torch.addmm(b, rows, up[tile_n, tile_k].t())
        out[tile_m, tile_n] = F.silu(a) * b
    return out


@tileflow.kernel(reference=lambda x, gate, up, z: _swish(x, gate, up) + z.float())
def with_residual(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), gate.size(0), dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile(out.shape):
        a, b = tfl.zeros([tile_m, tile_n]), tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(x.size(1)):
            rows = x[tile_m, tile_k]
            a = torch.addmm(a, rows, gate[tile_n, tile_k].t())
            b = torch.addmm(b, rows, up[tile_n, tile_k].t())
        out[tile_m, tile_n] = F.silu(a) * b + z[tile_m, tile_n]
    return out


def _of_rows(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    a, b = _products(x, gate, up)
    return (a - b) / a.abs().amax(1, keepdim=True)


@tileflow.kernel(reference=_of_rows)
def of_rows(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Whole rows: the columns are no tile."""
    n = gate.size(0)
    out = torch.empty(x.size(0), n, dtype=x.dtype, device=x.device)
    for tile_m in tfl.tile(x.size(0)):
        a, b = tfl.zeros([tile_m, n]), tfl.zeros([tile_m, n])
        for tile_k in tfl.tile(x.size(1)):
            rows = x[tile_m, tile_k]
            a = torch.addmm(a, rows, gate[:, tile_k].t())
            b = torch.addmm(b, rows, up[:, tile_k].t())
        out[tile_m, :] = (a - b) / torch.amax(torch.abs(a), dim=1)[:, None]
    return out


@tileflow.kernel(reference=lambda x, gate, up: _swish(x, gate.T, up.T))
def by_rows(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Right operands are read as the product takes them, whatever their layout."""
    out = torch.empty(x.size(0), gate.size(1), dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile(out.shape):
        a, b = tfl.zeros([tile_m, tile_n]), tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(x.size(1)):
            rows = x[tile_m, tile_k]
            a = torch.addmm(a, rows, gate[tile_k, tile_n])
            b = torch.addmm(b, rows, up[tile_k, tile_n])
        out[tile_m, tile_n] = F.silu(a) * b
    return out


SPELLINGS: tuple[Kernel, ...] = (once, for_each, other_order, one_zero, with_residual, of_rows)


def args_of(kernel: Kernel, m: int = 136, n: int = 264, k: int = 72, dtype: torch.dtype = torch.bfloat16) -> Any:
    """Of sizes that no block divides; 64 columns where rows are whole."""
    n = 64 if kernel is of_rows else n
    x = torch.randn(m, k, dtype=dtype)
    gate, up = (torch.randn(n, k, dtype=dtype) / 8 for _ in range(2))
    if kernel is by_rows:
        return x, gate.T.contiguous(), up.T.contiguous()
    return (x, gate, up, torch.randn(m, n, dtype=dtype)) if kernel is with_residual else (x, gate, up)


@tileflow.kernel
def other_columns(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """The second product has columns of another tile."""
    out = torch.empty(x.size(0), gate.size(0), dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile(out.shape):
        a, b = tfl.zeros([tile_m, tile_n]), tfl.zeros([tile_m, up.size(0)])
        for tile_k in tfl.tile(x.size(1)):
            rows = x[tile_m, tile_k]
            a = torch.addmm(a, rows, gate[tile_n, tile_k].t())
            b = torch.addmm(b, rows, up[:, tile_k].t())
        out[tile_m, tile_n] = a + torch.sum(b, dim=1)[:, None]
    return out


@tileflow.kernel
def read_both_ways(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """One of the right operands lies along the columns."""
    out = torch.empty(x.size(0), gate.size(0), dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile(out.shape):
        a, b = tfl.zeros([tile_m, tile_n]), tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(x.size(1)):
            rows = x[tile_m, tile_k]
            a = torch.addmm(a, rows, gate[tile_n, tile_k].t())
            b = torch.addmm(b, rows, up[tile_k, tile_n])
        out[tile_m, tile_n] = a * b
    return out


@tileflow.kernel
def in_groups(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    groups, _, n = gate.shape
    out = torch.empty(x.size(0), n, dtype=x.dtype, device=x.device)
    for tile_g, tile_n in tfl.tile([groups, n], block_size=[1, None]):
        group = tile_g.begin
        for tile_m in tfl.tile(offsets[group], offsets[group + 1]):
            a, b = tfl.zeros([tile_m, tile_n]), tfl.zeros([tile_m, tile_n])
            for tile_k in tfl.tile(x.size(1)):
                rows = x[tile_m, tile_k]
                a = torch.addmm(a, rows, gate[group, tile_k, tile_n])
                b = torch.addmm(b, rows, up[group, tile_k, tile_n])
            out[tile_m, tile_n] = a * b
    return out


@tileflow.kernel
def in_parts(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Parts of the inner dimension; what is stored of each is the author's."""
    m, k = x.shape
    length = k // 2
    out = torch.empty(2, m, gate.size(0), dtype=torch.float32, device=x.device)
    for tile_m, tile_n, part in tfl.tile([m, gate.size(0), 2], block_size=[None, None, 1]):
        a, b = tfl.zeros([tile_m, tile_n]), tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(part.begin * length, min((part.begin + 1) * length, k)):
            rows = x[tile_m, tile_k]
            a = torch.addmm(a, rows, gate[tile_n, tile_k].t())
            b = torch.addmm(b, rows, up[tile_n, tile_k].t())
        out[part.begin, tile_m, tile_n] = a + b
    return out


@tileflow.kernel
def of_three(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, third: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), gate.size(0), dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile(out.shape):
        a, b, c = tfl.zeros([tile_m, tile_n]), tfl.zeros([tile_m, tile_n]), tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(x.size(1)):
            rows = x[tile_m, tile_k]
            a = torch.addmm(a, rows, gate[tile_n, tile_k].t())
            b = torch.addmm(b, rows, up[tile_n, tile_k].t())
            c = torch.addmm(c, rows, third[tile_n, tile_k].t())
        out[tile_m, tile_n] = a * b + c
    return out


@tileflow.kernel
def of_other_rows(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """Each product has a left operand of its own."""
    out = torch.empty(x.size(0), gate.size(0), dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile(out.shape):
        a, b = tfl.zeros([tile_m, tile_n]), tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(x.size(1)):
            a = torch.addmm(a, x[tile_m, tile_k], gate[tile_n, tile_k].t())
            b = torch.addmm(b, z[tile_m, tile_k], up[tile_n, tile_k].t())
        out[tile_m, tile_n] = a * b
    return out


@tileflow.kernel
def half_begun(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), gate.size(0), dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile(out.shape):
        a, b = tfl.zeros([tile_m, tile_n]), tfl.full([tile_m, tile_n], 1.0)
        for tile_k in tfl.tile(x.size(1)):
            rows = x[tile_m, tile_k]
            a = torch.addmm(a, rows, gate[tile_n, tile_k].t())
            b = torch.addmm(b, rows, up[tile_n, tile_k].t())
        out[tile_m, tile_n] = a * b
    return out


def _meta(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


_X, _W, _BYTES = _meta(128, 128), _meta(128, 128), _meta(128, 128, dtype=torch.float8_e4m3fn)
REFUSED: dict[str, tuple[Kernel, tuple[Any, ...]]] = {
    "right operands that lie beside each other have the same tile of columns": (
        other_columns, (_X, _W, _meta(32, 128)),
    ),
    "right operands that lie beside each other have their dimensions in one order": (read_both_ways, (_X, _W, _W)),
    "two products sum over the whole inner dimension": (
        in_groups, (_X, _meta(4, 128, 128), _meta(4, 128, 128), _meta(5, dtype=torch.int32)),
    ),
    "of the rows of a tile of the grid": (in_parts, (_X, _W, _W)),
    "a float32 product is alone": (once, (_meta(128, 128, dtype=torch.float32),) * 3),
    "operands of 8 bits lie in memory with the inner dimension last": (by_rows, (_BYTES, _BYTES, _BYTES)),
    "fp8 or float32, summed in float32": (once, (_BYTES, _BYTES, _meta(128, 128, dtype=torch.float8_e5m2))),
    "its sums begin at zero": (half_begun, (_X, _W, _W)),
    "a turn has up to 2 products of boxes": (of_three, (_X, _W, _W, _W)),
    "its first product adds to nothing": (of_other_rows, (_X, _W, _W, _X)),
}  # fmt: skip
