"""Kernels of one product with bodies of every kind, and those that have no schedule, by the reason."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl
from examples.matmul import matmul
from tileflow.api import Kernel


def _plain(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.float() @ y.float()


@tileflow.kernel(reference=lambda x, y, z: _plain(x, y) + z.float())
def residual(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), y.size(1), dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
        before = z[tile_m, tile_n].float()
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(x.size(1)):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        out[tile_m, tile_n] = acc + before
    return out


@tileflow.kernel(reference=lambda x, y, factor: _plain(x, y) * factor)
def scaled(x: torch.Tensor, y: torch.Tensor, factor: float) -> torch.Tensor:
    out = torch.empty(x.size(0), y.size(1), dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(x.size(1)):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        out[tile_m, tile_n] = acc * factor
    return out


def _normalised(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    found = _plain(x, y)
    return found / found.abs().amax(1, keepdim=True)


@tileflow.kernel(reference=_normalised)
def normalised(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Whole rows: the columns are no tile."""
    n = y.size(1)
    out = torch.empty(x.size(0), n, dtype=x.dtype, device=x.device)
    for tile_m in tfl.tile(x.size(0)):
        acc = tfl.zeros([tile_m, n])
        for tile_k in tfl.tile(x.size(1)):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, :])
        out[tile_m, :] = acc / torch.amax(torch.abs(acc), dim=1)[:, None]
    return out


def _shared_weights(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.float() @ y.float().repeat_interleave(x.size(0) // y.size(0), 0)


@tileflow.kernel(reference=_shared_weights)
def batched(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Several batches share a right operand: its place is a number that each role computes."""
    batch, m, k = x.shape
    n, share = y.size(2), batch // y.size(0)
    out = torch.empty(batch, m, n, dtype=x.dtype, device=x.device)
    for item, tile_m, tile_n in tfl.tile([batch, m, n], block_size=[1, None, None]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(k):
            acc = torch.addmm(acc, x[item.begin, tile_m, tile_k], y[item.begin // share, tile_k, tile_n])
        out[item.begin, tile_m, tile_n] = acc
    return out


def args_of(kernel: Kernel) -> tuple[Any, ...]:
    """Of 136 rows, 264 columns (128 where rows are whole), 72 summed over."""
    if kernel is batched:
        return torch.randn(4, 136, 72, dtype=torch.bfloat16), torch.randn(2, 72, 136, dtype=torch.bfloat16)
    n = 128 if kernel is normalised else 264
    x, y = torch.randn(136, 72, dtype=torch.bfloat16), torch.randn(72, n, dtype=torch.bfloat16)
    if kernel is residual:
        return x, y, torch.randn(136, n, dtype=torch.bfloat16)
    return (x, y, 0.5) if kernel is scaled else (x, y)


@tileflow.kernel
def begun(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), y.size(1), dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
        acc = tfl.full([tile_m, tile_n], 1.0)
        for tile_k in tfl.tile(x.size(1)):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        out[tile_m, tile_n] = acc
    return out


@tileflow.kernel
def counted(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), y.size(1), dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
        acc = tfl.zeros([tile_m, tile_n])
        total = tfl.zeros([tile_m])
        for tile_k in tfl.tile(x.size(1)):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
            total = total + torch.sum(x[tile_m, tile_k].float(), dim=1)
        out[tile_m, tile_n] = acc / total[:, None]
    return out


@tileflow.kernel
def summed_by_columns(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), y.size(1), dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(x.size(1)):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        out[tile_m, tile_n] = acc - torch.sum(acc, dim=0)[None, :]
    return out


@tileflow.kernel
def in_place(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """A row's first numbers become its product's."""
    m, k = x.shape
    for tile_m in tfl.tile(m):
        acc = tfl.zeros([tile_m, 64])
        for tile_k in tfl.tile(k):
            acc = torch.addmm(acc, x[tile_m, tile_k], w[tile_k, :])
        x[tile_m, 0:64] = acc
    return x


def _meta(m: int = 128, n: int = 128, k: int = 128, dtype: torch.dtype = torch.bfloat16) -> tuple[Any, ...]:
    return torch.empty(m, k, dtype=dtype, device="meta"), torch.empty(k, n, dtype=dtype, device="meta")


REFUSED: dict[str, tuple[Kernel, tuple[Any, ...]]] = {
    "operands are boxes of their tensors, or of copies": (in_place, _meta(n=64, k=129)),
    "its sums begin at zero": (begun, _meta()),
    "its product adds to the sums, which are all that the loop carries": (counted, _meta()),
    "no reduction goes over": (summed_by_columns, _meta()),
    "its product is of bfloat16, float16, fp8 or float32": (matmul, _meta(dtype=torch.float64)),
    "operands of 8 bits lie in memory with the inner dimension last": (matmul, _meta(dtype=torch.float8_e4m3fn)),
}
