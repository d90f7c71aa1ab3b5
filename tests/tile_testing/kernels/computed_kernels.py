"""Kernels of one product whose operand is computed, on either side, and those that have no such schedule."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl
from examples.int4_matmul import unpacked
from tileflow.api import Kernel

GROUP = 64  # numbers of a column of weights that share a scale


def _plain(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The product of operands that are rounded to those of ``x``'s dtype."""
    return (x.float() @ y.to(x.dtype).float()).to(x.dtype)


def _dequantised(packed: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    return unpacked(packed).float() * scales.float().repeat_interleave(GROUP, 0)


@tileflow.kernel(reference=lambda x, packed, scales: _plain(x, _dequantised(packed, scales)))
def int4_scaled(x: torch.Tensor, packed: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """(m, k) by packed (k / 2, n) with a scale for each 64 rows of weights and column."""
    m, n = x.size(0), packed.size(1)
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([m, n]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(packed.size(0), block_size=GROUP // 2):
            begin = tile_k.begin
            y = unpacked(packed[tile_k, tile_n]).to(x.dtype) * scales[begin // (GROUP // 2), tile_n][None, :]
            acc = torch.addmm(acc, x[tile_m, 2 * begin : 2 * begin + GROUP], y)
        out[tile_m, tile_n] = acc
    return out


def _looked_up(packed: torch.Tensor, scales: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    codes = torch.stack([packed >> 4, packed & 15], dim=-1).flatten(1)
    return table[codes.long()] * scales.repeat_interleave(GROUP, 1)


@tileflow.kernel(reference=lambda x, packed, scales, table: _plain(x, _looked_up(packed, scales, table).T))
def looked_up(x: torch.Tensor, packed: torch.Tensor, scales: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """(m, k) by packed (n, k / 2) whose nibbles are places in a table, with a scale for each 64 of a row."""
    m, n = x.size(0), packed.size(0)
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([m, n]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(packed.size(1), block_size=GROUP // 2):
            codes = packed[tile_n, tile_k]
            places = torch.stack([codes >> 4, codes & 15], dim=-1).reshape(tile_n, GROUP)
            y = (table[places.to(torch.int32)] * scales[tile_n, tile_k.id][:, None]).to(x.dtype)
            begin = 2 * tile_k.begin
            acc = torch.addmm(acc, x[tile_m, begin : begin + GROUP], y.T)
        out[tile_m, tile_n] = acc
    return out


def _biased(x: torch.Tensor, y: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    weights = (y.float() * scale).to(x.dtype)
    return torch.relu(x.float() @ weights.float() + bias.float()).to(x.dtype)


@tileflow.kernel(reference=_biased)
def fp8_weights(x: torch.Tensor, y: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Weights of 8 bits with a scale a column, a bias and an activation behind the loop."""
    m, n = x.size(0), y.size(1)
    out = torch.empty(m, n, dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([m, n]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(x.size(1)):
            weights = (y[tile_k, tile_n].to(torch.float32) * scale[tile_n][None, :]).to(x.dtype)
            acc = torch.addmm(acc, x[tile_m, tile_k], weights)
        out[tile_m, tile_n] = torch.relu(acc + bias[tile_n].float()[None, :])
    return out


@tileflow.kernel(reference=lambda x, y: _plain(torch.relu(x), y))
def activated(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The left operand is computed: nothing is transposed."""
    out = torch.empty(x.size(0), y.size(1), dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(x.size(1)):
            acc = torch.addmm(acc, torch.relu(x[tile_m, tile_k]), y[tile_k, tile_n])
        out[tile_m, tile_n] = acc
    return out


@tileflow.kernel(reference=lambda x, y: _plain(torch.abs(x - 1), y))
def shifted(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Past the inner dimension's end the operand would not be zero: it is masked."""
    out = torch.empty(x.size(0), y.size(1), dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(x.size(1)):
            acc = torch.addmm(acc, torch.abs(x[tile_m, tile_k] - 1), y[tile_k, tile_n])
        out[tile_m, tile_n] = acc
    return out


@tileflow.kernel(reference=lambda x, y: torch.abs(x.float() - 1).to(x.dtype).float() @ y.float())
def shifted_in_parts(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The same of an inner dimension in parts, of which the last ones may lie past its end."""
    m, k = x.shape
    n = y.size(1)
    parts = tfl.register_tunable("parts", [1, 2, 4, 8])
    length = -(-k // (parts * 64)) * 64
    sums = torch.empty(parts, m, n, dtype=torch.float32, device=x.device)
    for part, tile_m, tile_n in tfl.tile([parts, m, n], block_size=[1, None, None]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(part.begin * length, min((part.begin + 1) * length, k)):
            acc = torch.addmm(acc, torch.abs(x[tile_m, tile_k] - 1), y[tile_k, tile_n])
        sums[part.begin, tile_m, tile_n] = acc
    return sums.sum(0)


@tileflow.kernel
def up_to_a_number(x: torch.Tensor, y: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """Each tile of rows sums up to a number of its own."""
    out = torch.empty(x.size(0), y.size(1), dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(0, ends[tile_m.id]):
            acc = torch.addmm(acc, torch.relu(x[tile_m, tile_k]), y[tile_k, tile_n])
        out[tile_m, tile_n] = acc
    return out


@tileflow.kernel
def sorted_weights(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), y.size(1), dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(x.size(1)):
            left = x[tile_m, tile_k].float()
            acc = torch.addmm(acc, (left - torch.amax(left, dim=1)[:, None]).to(x.dtype), y[tile_k, tile_n])
        out[tile_m, tile_n] = acc
    return out


@tileflow.kernel
def both(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), y.size(1), dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(x.size(1)):
            acc = torch.addmm(acc, torch.relu(x[tile_m, tile_k]), torch.relu(y[tile_k, tile_n]))
        out[tile_m, tile_n] = acc
    return out


@tileflow.kernel
def made_up(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), y.size(1), dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(x.size(1)):
            left = (tile_m.index[:, None] + tile_k.index[None, :]).to(x.dtype)
            acc = torch.addmm(acc, left, y[tile_k, tile_n])
        out[tile_m, tile_n] = acc
    return out


@tileflow.kernel
def by_columns(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Rows of the result as a whole, of which a group has columns once the product is transposed."""
    out = torch.empty(x.size(0), y.size(1), dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(x.size(1)):
            acc = torch.addmm(acc, x[tile_m, tile_k], torch.relu(y[tile_k, tile_n]))
        out[tile_m, tile_n] = acc - torch.sum(acc, dim=1)[:, None]
    return out


@tileflow.kernel(reference=_plain)
def converted(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Weights of 8 bits as they are."""
    out = torch.empty(x.size(0), y.size(1), dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(x.size(1)):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n].to(x.dtype))
        out[tile_m, tile_n] = acc
    return out


def every_byte(k: int, n: int, dtype: torch.dtype = torch.int8) -> torch.Tensor:
    """All bytes, in another order in each column."""
    return ((torch.arange(k)[:, None] * 37 + torch.arange(n) * 101) % 256).to(torch.uint8).view(dtype)


def inputs_of(kernel: Kernel, m: int = 72, n: int = 144, k: int = 192) -> tuple[Any, ...]:
    """Arguments of sizes that no block divides."""
    x, y = torch.randn(m, k, dtype=torch.bfloat16) / 4, torch.randn(k, n, dtype=torch.bfloat16)
    if kernel is int4_scaled:
        packed = torch.randint(-128, 128, (k // 2, n), dtype=torch.int8)
        return x, packed, torch.rand(k // GROUP, n, dtype=torch.bfloat16)
    if kernel is looked_up:
        packed = torch.randint(0, 256, (n, k // 2), dtype=torch.uint8)
        return x, packed, torch.rand(n, k // GROUP), torch.linspace(-1, 1, 16)
    if kernel is fp8_weights:
        return x, y.to(torch.float8_e4m3fn), torch.rand(n), torch.randn(n, dtype=torch.bfloat16)
    if kernel is converted:
        return x, every_byte(k, n)
    if kernel is up_to_a_number:
        return x, y, torch.full((m,), k, dtype=torch.int32)
    return x, y


def meta_of(kernel: Kernel, **sizes: int) -> tuple[Any, ...]:
    """The same on the meta device."""
    return tuple(a.to("meta") for a in inputs_of(kernel, **sizes))


REFUSED: dict[str, Kernel] = {
    "an operand is computed lane by lane, and by no reduce": sorted_weights,
    "the other one is loaded as the product takes it": both,
    "computed from a box of its rows along the loop": made_up,
    "no reduction goes over": by_columns,
    "bounds are computed goes over one of several equal parts": up_to_a_number,
}
