"""Tiles that device code makes by torch's factories, of shapes in tiles, block sizes and ints."""

from collections.abc import Callable, Iterator
from typing import Any

import helion
import helion.language as hl
import torch

Case = tuple[str, Callable[..., Any], tuple[Any, ...], Callable[..., Any]]


@helion.kernel(static_shapes=True)
def zeros_of_tiles(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    m, k = x.shape
    out = torch.empty([m, y.size(1)], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile([m, y.size(1)]):
        acc = torch.zeros([tile_m, tile_n], dtype=torch.float32, device=x.device)
        for tile_k in hl.tile(k):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        out[tile_m, tile_n] = acc
    return out


@helion.kernel(static_shapes=True)
def ones_of_a_tile(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty([x.size(0)], dtype=x.dtype, device=x.device)
    for tile in hl.tile(x.size(0)):
        out[tile] = x[tile, :].sum(1) + torch.ones([tile], dtype=x.dtype, device=x.device)
    return out


@helion.kernel(static_shapes=True)
def full_of_a_tile_and_a_size(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        lowest = torch.full([tile, x.size(1)], 0.25, dtype=x.dtype, device=x.device)
        out[tile, :] = torch.maximum(x[tile, :], lowest)
    return out


@helion.kernel(static_shapes=True)
def zeros_by_several_arguments(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile_m, tile_n in hl.tile(x.shape):
        out[tile_m, tile_n] = torch.zeros(tile_m, tile_n) + x[tile_m, tile_n]
    return out


@helion.kernel(static_shapes=True)
def zeros_of_block_sizes(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile_m, tile_n in hl.tile(x.shape):
        acc = torch.zeros([tile_m.block_size, tile_n.block_size], dtype=x.dtype)
        out[tile_m, tile_n] = acc + 2 * x[tile_m, tile_n]
    return out


@helion.kernel(static_shapes=True)
def new_tiles_of_a_tensor(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        a = x.new_zeros([tile, x.size(1)]) + x.new_ones([tile, x.size(1)]) + x.new_full([tile, x.size(1)], 3.0)
        out[tile, :] = a * x[tile, :]
    return out


@helion.kernel(static_shapes=True)
def running_maximum_from_minus_infinity(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty([x.size(0)], dtype=x.dtype, device=x.device)
    for tile_m in hl.tile(x.size(0)):
        best = torch.full([tile_m], float("-inf"), dtype=torch.float32, device=x.device)
        for tile_n in hl.tile(x.size(1)):
            best = torch.maximum(best, x[tile_m, tile_n].amax(-1))
        out[tile_m] = best
    return out


@helion.kernel(static_shapes=True)
def scalar_full(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile] = x[tile] * torch.full([], 2.5, dtype=x.dtype, device=x.device)
    return out


@helion.kernel(static_shapes=True)
def a_count_of_ones(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty([x.size(0)], dtype=torch.int32, device=x.device)
    for tile_m in hl.tile(x.size(0)):
        count = torch.zeros([tile_m], dtype=torch.int32, device=x.device)
        for tile_n in hl.tile(x.size(1)):
            count += (x[tile_m, tile_n] > 0).to(torch.int32).sum(-1).to(torch.int32)
        out[tile_m] = count
    return out


def cases() -> Iterator[Case]:
    x, y = torch.randn(24, 40), torch.randn(40, 17)
    yield "zeros_of_tiles", zeros_of_tiles, (x, y), torch.matmul
    yield "ones_of_a_tile", ones_of_a_tile, (x,), lambda x: x.sum(1) + 1
    yield "full_of_a_tile_and_a_size", full_of_a_tile_and_a_size, (x,), lambda x: x.clamp(min=0.25)
    yield "zeros_by_several_arguments", zeros_by_several_arguments, (x,), lambda x: x
    yield "zeros_of_block_sizes", zeros_of_block_sizes, (torch.randn(32, 64),), lambda x: 2 * x
    yield "new_tiles_of_a_tensor", new_tiles_of_a_tensor, (x,), lambda x: 4 * x
    yield "running_maximum_from_minus_infinity", running_maximum_from_minus_infinity, (x,), lambda x: x.amax(1)
    yield "scalar_full", scalar_full, (x[0],), lambda x: 2.5 * x
    yield "a_count_of_ones", a_count_of_ones, (x,), lambda x: (x > 0).sum(1).int()
