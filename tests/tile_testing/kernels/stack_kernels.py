"""Kernels that load and store through stacks of tensors, with what they must give beside them: ``CASES``.

The tensors live in this module, and the kernels get their addresses, so that both are of one process.
"""

from __future__ import annotations

import torch

import tileflow
import tileflow.compat.helion as helion
import tileflow.compat.helion.language as hl
import tileflow.language as tfl
from tile_testing.kernels.cases import Cases, ints, rand

CASES = Cases()
Tensor = torch.Tensor


def addresses(tensors: list[Tensor], *shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
    return torch.tensor([t.data_ptr() for t in tensors]).to(dtype).view(shape or (len(tensors),))


ROWS = [rand(37, seed=n) for n in range(3)]
TABLES = [rand(5, 19, seed=n) for n in range(6)]
TURNED = [rand(19, 7, seed=n).T for n in range(3)]
HALVES = [rand(7, 33, seed=n).bfloat16() for n in range(4)]
FLAGS = [rand(21, seed=n) > 0 for n in range(3)]
EIGHTHS = [rand(21, seed=n).to(torch.float8_e4m3fn) for n in range(3)]
WRITTEN = [torch.zeros(5, 19) for _ in range(3)]


@CASES.case(addresses(ROWS, dtype=torch.uint64), ROWS[0], wanted=lambda p, like: torch.stack(ROWS) * 2, tile=8)
@tileflow.kernel
def all_of_a_stack(pointers: Tensor, like: Tensor) -> Tensor:
    """Three tensors in registers for four: the fourth's address is none."""
    out = torch.empty(pointers.size(0), like.size(0), dtype=like.dtype, device=like.device)
    for tile in tfl.tile(like.size(0)):
        out[:, tile] = tfl.stacktensor_like(like, pointers[:])[tile] * 2
    return out


@CASES.case(
    addresses(ROWS), ROWS[0], rand(37, seed=9), tile=8,
    wanted=lambda p, like, m: torch.where(m > 0, torch.stack(ROWS), -1.0),
)  # fmt: skip
@tileflow.kernel
def masked(pointers: Tensor, like: Tensor, mask: Tensor) -> Tensor:
    out = torch.empty(pointers.size(0), like.size(0), dtype=like.dtype, device=like.device)
    for tile in tfl.tile(like.size(0)):
        stack = tfl.stacktensor_like(like, pointers[:])
        out[:, tile] = tfl.load(stack, [tile], extra_mask=mask[tile][None, :] > 0, other=-1)
    return out


@CASES.case(addresses(TABLES, 2, 3), TABLES[0], wanted=lambda p, like: torch.stack(TABLES).view(2, 3, 5, 19), tile_n=8)
@tileflow.kernel
def two_stack_dimensions(pointers: Tensor, like: Tensor) -> Tensor:
    out = torch.empty(*pointers.shape, *like.shape, dtype=like.dtype, device=like.device)
    for tile_m, tile_n in tfl.tile(like.shape):
        out[:, :, tile_m, tile_n] = tfl.stacktensor_like(like, pointers[:, :])[tile_m, tile_n]
    return out


@CASES.case(addresses(TABLES), TABLES[0], wanted=lambda p, like: torch.stack(TABLES)[:, 2], tile_p=4, tile_n=8)
@tileflow.kernel
def tiles_of_a_stack(pointers: Tensor, like: Tensor) -> Tensor:
    out = torch.empty(pointers.size(0), like.size(1), dtype=like.dtype, device=like.device)
    for tile_p, tile_n in tfl.tile([pointers.size(0), like.size(1)]):
        out[tile_p, tile_n] = tfl.stacktensor_like(like, pointers[tile_p])[2, tile_n]
    return out


@CASES.case(addresses(TABLES), TABLES[0], wanted=lambda p, like: torch.stack(TABLES).sum((0, 2)))
@tileflow.kernel
def summed(pointers: Tensor, like: Tensor) -> Tensor:
    """Six tensors of nineteen columns: lanes of neither count."""
    out = torch.empty(like.size(0), dtype=like.dtype, device=like.device)
    for tile in tfl.tile(like.size(0)):
        out[tile] = tfl.stacktensor_like(like, pointers[:])[tile, :].sum(2).sum(0)
    return out


@CASES.case(
    addresses(HALVES), HALVES[0], wanted=lambda p, like: torch.stack([x[:, 1:].float().exp().sum(1) for x in HALVES])
)
@tileflow.kernel
def one_at_a_time_in_loops(pointers: Tensor, like: Tensor) -> Tensor:
    out = torch.empty(pointers.size(0), like.size(0), device=like.device)
    for tile_m in tfl.tile(like.size(0)):
        for p in tfl.grid(pointers.size(0)):
            stack = tfl.stacktensor_like(like, pointers[p])
            total = tfl.zeros([tile_m])
            for tile_n in tfl.tile(1, like.size(1)):
                total = total + stack[tile_m, tile_n].float().exp().sum(1)
            out[p, tile_m] = total
    return out


@CASES.case(
    addresses(TURNED), TURNED[0], ints(7, 11), wanted=lambda p, like, rows: torch.stack([x[rows] for x in TURNED])
)
@tileflow.kernel
def gathered_with_strides(pointers: Tensor, like: Tensor, rows: Tensor) -> Tensor:
    out = torch.empty(pointers.size(0), rows.size(0), like.size(1), device=like.device)
    for tile_m, tile_n in tfl.tile([rows.size(0), like.size(1)]):
        out[:, tile_m, tile_n] = tfl.stacktensor_like(like, pointers[:])[rows[tile_m], tile_n]
    return out


@CASES.case(addresses(FLAGS), FLAGS[0], wanted=lambda p, like: ~torch.stack(FLAGS), tile=8)
@tileflow.kernel
def of_bools(pointers: Tensor, like: Tensor) -> Tensor:
    out = torch.empty(pointers.size(0), like.size(0), dtype=torch.bool, device=like.device)
    for tile in tfl.tile(like.size(0)):
        out[:, tile] = ~tfl.stacktensor_like(like, pointers[:])[tile]
    return out


@CASES.case(addresses(EIGHTHS), EIGHTHS[0], wanted=lambda p, like: torch.stack([x.float() for x in EIGHTHS]), tile=8)
@tileflow.kernel
def of_fp8(pointers: Tensor, like: Tensor) -> Tensor:
    out = torch.empty(pointers.size(0), like.size(0), device=like.device)
    for tile in tfl.tile(like.size(0)):
        out[:, tile] = tfl.stacktensor_like(like, pointers[:])[tile].float()
    return out


def _written(pointers: Tensor, like: Tensor, x: Tensor) -> Tensor:
    each = torch.stack([(x + n) * 3 for n in range(3)])
    each[:, 0] = 7
    return each


@CASES.case(addresses(WRITTEN), WRITTEN[0], rand(5, 19, seed=8), wanted=_written, tile_m=2, tile_n=8)
@tileflow.kernel
def stored_and_read_back(pointers: Tensor, like: Tensor, x: Tensor) -> Tensor:
    out = torch.empty(pointers.size(0), *x.shape, device=x.device)
    for tile_m, tile_n in tfl.tile(x.shape):
        stack = tfl.stacktensor_like(like, pointers[:])
        number = tfl.arange(pointers.size(0))[:, None, None]
        stack[tile_m, tile_n] = x[tile_m, tile_n] + number
        stack[tile_m, tile_n] = stack[tile_m, tile_n] * 3
        tfl.store(stack, [tile_m, tile_n], 7, extra_mask=tile_m.index[None, :, None] == 0)
    for tile_m, tile_n in tfl.tile(x.shape):
        out[:, tile_m, tile_n] = tfl.stacktensor_like(like, pointers[:])[tile_m, tile_n]
    return out


@helion.kernel(static_shapes=True)
def helion_stack(dev_ptrs: Tensor, example: Tensor) -> Tensor:
    out = torch.empty(dev_ptrs.size(0), example.size(0), dtype=example.dtype, device=example.device)
    for tile in hl.tile(example.size(0)):
        tensors = hl.stacktensor_like(example, dev_ptrs[:])
        out[:, tile] = hl.load(tensors, [tile])
    return out


in_the_dialect = CASES.case(
    addresses(ROWS, dtype=torch.uint64), ROWS[0], wanted=lambda p, like: torch.stack(ROWS), tile=8
)(helion_stack.__tileflow_kernel__)
CASES["in_the_dialect"] = CASES.pop(in_the_dialect.__name__)
