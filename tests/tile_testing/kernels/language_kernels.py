"""Kernels, one construct each, with what they must give beside them: ``CASES``."""

from __future__ import annotations

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

# ---- indices ------------------------------------------------------------------------------------


@case(V, wanted=lambda x: x[1:], tile=8)
@tileflow.kernel
def index_plus(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0) - 1, dtype=x.dtype, device=x.device)
    for tile in tfl.tile(x.size(0) - 1):
        out[tile] = x[tile.index + 1]
    return out


@case(V, wanted=lambda x: x[3:-1], tile=8)
@tileflow.kernel
def tile_plus(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0) - 4, dtype=x.dtype, device=x.device)
    for tile in tfl.tile(x.size(0) - 4):
        out[tile] = x[tile + 3]
    return out


@case(V, wanted=lambda x: x.flip(0), tile=8)
@tileflow.kernel
def reversed_(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[x.size(0) - 1 - tile.index] = x[tile]
    return out


@case(X, wanted=lambda x: x[:, 2:7] * 2, tile=4)
@tileflow.kernel
def slice_of_columns(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), 5, dtype=x.dtype, device=x.device)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = x[tile, 2:7] * 2
    return out


@case(X, wanted=lambda x: F.pad(x[:, 1:-2], (1, 2)), tile=4)
@tileflow.kernel
def slice_of_store(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, 1:-2] = x[tile, 1:-2]
    return out


@case(X, V, wanted=lambda x, v: x[:, None, 3] + v[None, :], tile=4)
@tileflow.kernel
def none_and_int(x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = x[tile, None, 3] + v[None, :]
    return out


@case(X, wanted=lambda x: x[-1] + x[0], tile=8)
@tileflow.kernel
def negative_int(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(1), dtype=x.dtype, device=x.device)
    for tile in tfl.tile(x.size(1)):
        out[tile] = x[-1, tile] + x[0, tile]
    return out


@case(rand(3, 5, 37), wanted=lambda x: x * 2, tile=8)
@tileflow.kernel
def ellipsis(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(2)):
        out[..., tile] = x[..., tile] * 2
    return out


@case(X, ROWS, wanted=lambda x, rows: x[rows], tile=4)
@tileflow.kernel
def gather_rows(x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    out = torch.empty(rows.size(0), x.size(1), dtype=x.dtype, device=x.device)
    for tile in tfl.tile(rows.size(0)):
        out[tile, :] = x[rows[tile], :]
    return out


@case(X, ROWS, wanted=lambda x, rows: x[rows])
@tileflow.kernel
def gather_one_row_each(x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    out = torch.empty(rows.size(0), x.size(1), dtype=x.dtype, device=x.device)
    for i in tfl.grid(rows.size(0)):
        out[i, :] = x[rows[i], :]
    return out


@case(X, ints(37, 13, 9, seed=4), wanted=lambda x, index: x.gather(1, index), tile_m=4, tile_n=4)
@tileflow.kernel
def gather_elements(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    out = torch.empty(index.shape, dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([index.size(0), index.size(1)]):
        out[tile_m, tile_n] = x[tile_m.index[:, None], index[tile_m, tile_n]]
    return out


@case(X, ROWS, COLUMNS, wanted=lambda x, rows, columns: x[rows][:, columns], tile_m=4, tile_n=4)
@tileflow.kernel
def outer_product(x: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    out = torch.empty(rows.size(0), columns.size(0), dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([rows.size(0), columns.size(0)]):
        out[tile_m, tile_n] = x[rows[tile_m], columns[tile_n]]
    return out


@case(X, ROWS, ints(37, 21, seed=5), wanted=lambda x, rows, columns: x[rows, columns], tile=4)
@tileflow.kernel
def same_loop_together(x: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    out = torch.empty(rows.size(0), dtype=x.dtype, device=x.device)
    for tile in tfl.tile(rows.size(0)):
        out[tile] = x[rows[tile], columns[tile]]
    return out


@case(X, ROWS, wanted=lambda x, rows: x[:, None, :][:, :, rows], tile_m=4, tile_n=8)
@tileflow.kernel
def tile_then_gather(x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), 1, rows.size(0), dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([x.size(0), rows.size(0)]):
        out[tile_m, :, tile_n] = x[tile_m, rows[tile_n]][:, None, :]
    return out


@case(X, torch.randperm(13, generator=torch.Generator().manual_seed(1)), tile=4,
      wanted=lambda x, order: torch.empty_like(x).index_copy_(0, order, x))  # fmt: skip
@tileflow.kernel
def scatter_rows(x: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[order[tile], :] = x[tile, :]
    return out


@case(X, wanted=lambda x: x.T.contiguous() + 1, tile_m=4, tile_n=8)
@tileflow.kernel
def transposed(x: torch.Tensor) -> torch.Tensor:
    m, n = x.shape
    out = torch.empty(n, m, dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([m, n]):
        out[tile_n, tile_m] = x[tile_m, tile_n].T + 1
    return out


@case(V, wanted=lambda x: torch.where(torch.arange(37) % 3 == 0, x, 0), tile=8)
@tileflow.kernel
def masked_load_and_store(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    for tile in tfl.tile(x.size(0)):
        third = tile.index % 3 == 0
        values = tfl.load(x, [tile], extra_mask=third)
        tfl.store(out, [tile], values, extra_mask=third)
    return out


@case(V, wanted=lambda x: torch.cat([x[1:], x.new_zeros(1)]), tile=8)
@tileflow.kernel
def past_the_end_under_a_mask(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = tfl.load(x, [tile.index + 1], extra_mask=tile.index + 1 < x.size(0))
    return out


@case(X, wanted=lambda x: torch.full_like(x, 3.0), tile_m=4, tile_n=8)
@tileflow.kernel
def store_of_a_number(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile_m, tile_n in tfl.tile([x.size(0), x.size(1)]):
        out[tile_m, tile_n] = 3
    return out


@case(V, wanted=lambda x: x[10:30], tile=8)
@tileflow.kernel
def loop_with_a_begin(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(20, dtype=x.dtype, device=x.device)
    for tile in tfl.tile(10, 30):
        out[tile - 10] = x[tile]
    return out


@case(X, wanted=lambda x: torch.stack([x.sum(1), torch.arange(13.0)]), tile=4)
@tileflow.kernel
def scalars_of_a_tile(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(2, x.size(0), dtype=x.dtype, device=x.device)
    for tile in tfl.tile(x.size(0)):
        out[0, tile] = x[tile, :].sum(1)
        out[1, tile] = (tile.id * tile.block_size + tile.index - tile.begin).float()
    return out


# ---- loops and carried values -------------------------------------------------------------------


@case(X, wanted=lambda x: torch.exp(x).sum(1), tile_m=4, block_n=16)
@tileflow.kernel
def lanes_past_the_end_keep_their_value(x: torch.Tensor) -> torch.Tensor:
    m, n = x.shape
    out = torch.empty(m, dtype=x.dtype, device=x.device)
    block_n = tfl.register_block_size(n)
    for tile_m in tfl.tile(m):
        acc = tfl.zeros([tile_m, block_n])
        for tile_n in tfl.tile(n, block_size=block_n):
            acc += torch.exp(x[tile_m, tile_n])
        out[tile_m] = acc.sum(1)
    return out


@case(X, wanted=lambda x: x.amax(1), tile_m=4, block_n=16)
@tileflow.kernel
def running_maximum(x: torch.Tensor) -> torch.Tensor:
    m, n = x.shape
    out = torch.empty(m, dtype=x.dtype, device=x.device)
    block_n = tfl.register_block_size(n)
    for tile_m in tfl.tile(m):
        best = tfl.full([tile_m, block_n], float("-inf"))
        for tile_n in tfl.tile(n, block_size=block_n):
            best = torch.maximum(best, x[tile_m, tile_n])
        out[tile_m] = best.amax(1)
    return out


@case(X, wanted=lambda x: (x * x.amax(1, keepdim=True)).sum(1) + x.where(x > 0, 0).amax(1), tile_m=4, block_n=16)
@tileflow.kernel
def sums_within_and_after_a_loop(x: torch.Tensor) -> torch.Tensor:
    """Within the loop what has met a tile has its lanes, after it those of the block again."""
    m, n = x.shape
    out = torch.empty(m, dtype=x.dtype, device=x.device)
    block_n = tfl.register_block_size(n)
    for tile_m in tfl.tile(m):
        peaks = tfl.full([tile_m, block_n], float("-inf"))
        positive = tfl.zeros([tile_m, block_n])
        total = tfl.zeros([tile_m])
        for tile_n in tfl.tile(n, block_size=block_n):
            part = x[tile_m, tile_n]
            peaks = torch.maximum(peaks, part)
            positive = torch.where(part > positive, part, positive).to(torch.float32)
            total = total + (positive * 0 + part).sum(1)
        out[tile_m] = total * peaks.amax(1) + positive.amax(1)
    return out


@case(X, rand(13, 21, seed=6), wanted=lambda x, y: (x.T @ y + 1).sum(1) + 11, tile_m=16, tile_k=16, block=16)
@tileflow.kernel
def block_wide_product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """A product accumulates into the lanes that the tiles have."""
    (k, m), n = x.shape, y.size(1)
    out = torch.empty(m, dtype=x.dtype, device=x.device)
    block = tfl.register_block_size(n)
    for tile_m in tfl.tile(m):
        total = tfl.zeros([tile_m])
        for tile_n in tfl.tile(n, block_size=block):
            acc = tfl.full([tile_m, block], 1.0)
            for tile_k in tfl.tile(k):
                acc = torch.addmm(acc, x[tile_k, tile_m].T, y[tile_k, tile_n])
            total = total + acc.sum(1)
        out[tile_m] = total
    return out


@case(X, wanted=lambda x: x.sum(1), tile_m=4, tile_n=8)
@tileflow.kernel
def number_becomes_a_tile(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), dtype=x.dtype, device=x.device)
    for tile_m in tfl.tile(x.size(0)):
        total = 0
        for tile_n in tfl.tile(x.size(1)):
            total = total + x[tile_m, tile_n].sum(1)
        out[tile_m] = total
    return out


@case(X.to(torch.bfloat16), wanted=lambda x: x.float().sum(1), tile_m=4, tile_n=8)
@tileflow.kernel
def carried_dtype_is_promoted(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), dtype=torch.float32, device=x.device)
    for tile_m in tfl.tile(x.size(0)):
        total = tfl.zeros([tile_m], dtype=torch.int32)
        for tile_n in tfl.tile(x.size(1)):
            total = total + x[tile_m, tile_n].float().sum(1)
        assert total.dtype == torch.float32
        out[tile_m] = total
    return out


@case(X, wanted=lambda x: x.to(torch.bfloat16), tile_m=4, tile_n=8)
@tileflow.kernel
def augmented_assignment_keeps_the_dtype(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.shape, dtype=torch.bfloat16, device=x.device)
    for tile_m, tile_n in tfl.tile([x.size(0), x.size(1)]):
        acc = tfl.zeros([tile_m, tile_n], dtype=torch.bfloat16)
        acc += x[tile_m, tile_n]
        assert acc.dtype == torch.bfloat16
        out[tile_m, tile_n] = acc
    return out


def _fibonacci(x: torch.Tensor) -> torch.Tensor:
    a, b = x[0], x[0] * 0 + 1
    for _ in range(10):
        a, b = b, a + b
    return a + b * x


@case(V, wanted=_fibonacci, tile=8)
@tileflow.kernel
def values_change_places(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        a, b = x[0], x[0] * 0 + 1
        for _ in tfl.grid(10):
            a, b = b, a + b
        out[tile] = a + b * x[tile]
    return out


@case(rand(5, 13, 37), wanted=lambda x: x.sum((1, 2)), tile_b=2, tile_m=4, tile_n=8)
@tileflow.kernel
def three_loops(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), dtype=x.dtype, device=x.device)
    for tile_b in tfl.tile(x.size(0)):
        total = tfl.zeros([tile_b])
        for tile_m in tfl.tile(x.size(1)):
            part = tfl.zeros([tile_b, tile_m])
            for tile_n in tfl.tile(x.size(2)):
                part += x[tile_b, tile_m, tile_n].sum(2)
            total += part.sum(1)
        out[tile_b] = total
    return out


@case(rand(5, 13, 37), wanted=lambda x: x.sum((1, 2)), tile_b=2, tile_m=4, tile_n=8)
@tileflow.kernel
def one_loop_of_two_axes(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), dtype=x.dtype, device=x.device)
    for tile_b in tfl.tile(x.size(0)):
        total = tfl.zeros([tile_b])
        for tile_m, tile_n in tfl.tile([x.size(1), x.size(2)]):
            total += x[tile_b, tile_m, tile_n].sum(2).sum(1)
        out[tile_b] = total
    return out


@case(rand(37, 37), wanted=lambda x: x.tril().sum(1), tile_m=8, tile_n=4)
@tileflow.kernel
def causal_bound(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), dtype=x.dtype, device=x.device)
    for tile_m in tfl.tile(x.size(0)):
        total = tfl.zeros([tile_m])
        for tile_n in tfl.tile(tile_m.end):
            keep = tile_n.index[None, :] <= tile_m.index[:, None]
            total += torch.where(keep, x[tile_m, tile_n], 0.0).sum(1)
        out[tile_m] = total
    return out


OFFSETS = torch.tensor([0, 3, 3, 20, 37])


@case(V, OFFSETS, tile=8, wanted=lambda x, offsets: torch.stack(
    [x[a:b].sum() for a, b in zip(offsets.tolist(), offsets.tolist()[1:], strict=False)]))  # fmt: skip
@tileflow.kernel
def ragged_bounds(x: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    out = torch.empty(offsets.size(0) - 1, dtype=x.dtype, device=x.device)
    for i in tfl.grid(offsets.size(0) - 1):
        total = 0.0
        for tile in tfl.tile(offsets[i], offsets[i + 1]):
            total = total + x[tile].sum()
        out[i] = total
    return out


@case(X, wanted=lambda x: x.cumsum(0)[-1] * 3, tile=8)
@tileflow.kernel
def python_range_over_a_size(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(1), dtype=x.dtype, device=x.device)
    for tile in tfl.tile(x.size(1)):
        total = tfl.zeros([tile])
        for i in range(x.size(0)):
            for scale in (1, 2):
                total += x[i, tile] * scale
        out[tile] = total
    return out


@case(rand(6, 5), wanted=lambda x: x * 2)
@tileflow.kernel
def grid_of_two(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for i, j in tfl.grid([x.size(0), x.size(1)]):
        out[i, j] = x[i, j] * 2
    return out


# ---- branches -----------------------------------------------------------------------------------


@case(V, torch.tensor([1]), wanted=lambda x, flag: x + 1, tile=8)
@tileflow.kernel
def if_of_a_loaded_scalar(x: torch.Tensor, flag: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        if flag[0] > 0:
            y = x[tile] + 1
        else:
            y = x[tile] - 1
        out[tile] = y
    return out


@case(V, wanted=lambda x: torch.where(torch.arange(37) < 8, x * 2, x))
@tileflow.kernel
def if_of_a_tile_scalar(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0), block_size=8):
        y = x[tile]
        if tile.begin == 0:
            y = y * 2
        out[tile] = y
    return out


@case(torch.arange(-5, 6), wanted=lambda n: torch.where((n >= 0) & (n < 3), n * 10, torch.where(n == -2, 7, n)))
@tileflow.kernel
def chained_conditions(n: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(n)
    for i in tfl.grid(n.size(0)):
        value = n[i]
        if 0 <= value < 3:
            result = value * 10
        elif value == -2 and not value > 0:
            result = value * 0 + 7
        else:
            result = value if value != 100 or value < 0 else value + 1
        out[i] = result
    return out


@case(V, wanted=lambda x: torch.stack([x[: k + 1].sum() if k % 3 else x[k] for k in range(37)]), tile=8)
@tileflow.kernel
def loop_in_a_branch(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for i in tfl.grid(x.size(0)):
        total = x[i]
        if i % 3 != 0:
            total = total * 0
            for tile in tfl.tile(i + 1):
                total = total + x[tile].sum()
        out[i] = total
    return out


@case(V, True, None, wanted=lambda x, double, bias: x * 2, tile=8)
@tileflow.kernel
def python_values_choose_code(x: torch.Tensor, double: bool, bias: torch.Tensor | None) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        y = x[tile] * 2 if double else x[tile]
        if bias is not None:
            y = y + bias[tile]
        out[tile] = y
    return out


def _eighths(x: torch.Tensor, y: float) -> torch.Tensor:
    u = x * y
    return torch.stack([((u - u.floor()) * 8).floor(), torch.frac(u).sign(), (u - u.int()).sign(), u % 0.3])


@case(torch.arange(-18, 19) / 3.3, 3.3, wanted=_eighths, tile=8)
@tileflow.kernel
def rests_of_products(x: torch.Tensor, y: float) -> torch.Tensor:
    """Some products are rounded to a whole number from below, whose rest is 0 and no negative number."""
    out = torch.empty(4, x.size(0))
    for tile in tfl.tile(x.size(0)):
        u = x[tile] * y
        out[0, tile] = torch.floor((u - torch.floor(u)) * 8)
        out[1, tile] = torch.sign(torch.frac(u))
        out[2, tile] = torch.sign(u - u.int())
        out[3, tile] = u % 0.3
    return out
