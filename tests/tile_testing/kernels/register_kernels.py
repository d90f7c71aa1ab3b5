"""Kernels of what people make in registers, with what they must give beside them: ``CASES``.

Tiles from nothing, aranges from scalars, loads with a fill, reshapes of blocks, 0-d tensors as numbers, whole tensors
stored.
"""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl
from tile_testing.kernels.cases import SHORT_TILES, Cases, ints, rand

CASES = Cases()
case = CASES.case

X, V = rand(13, 37), rand(37, seed=1)

# ---- factories ----------------------------------------------------------------------------------


@case(X, wanted=lambda x: x * 4 + 10, tile_m=4, tile_n=8)
@tileflow.kernel
def factories_by_every_spelling(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile_m, tile_n in tfl.tile([x.size(0), x.size(1)]):
        a = x[tile_m, tile_n]
        found = a + torch.zeros(tile_m, tile_n) + torch.zeros((tile_m, tile_n)) + torch.zeros(size=[tile_m, tile_n])
        found = found + torch.ones([tile_m.block_size, tile_n], dtype=a.dtype, device=x.device)
        found = found + torch.full((tile_m, tile_n.block_size), 2.0, dtype=a.dtype)
        found = found + torch.full(size=[tile_m, 1], fill_value=3.0) + torch.full([], 4.0)
        found = (
            found
            + torch.zeros_like(torch.empty([tile_m, tile_n]))
            + x.new_zeros(tile_m, tile_n)
            + a.new_zeros([tile_m, tile_n])
        )
        found = found + a.new_full([tile_m, tile_n], 0.0) + x.new_full(size=(1, tile_n), fill_value=0.0)
        found = (
            found
            + torch.full_like(a, 0.0)
            + torch.zeros_like(a, device=x.device)
            + torch.zeros_like(torch.empty_like(a))
        )
        out[tile_m, tile_n] = (
            found + torch.ones_like(a) * 3 * a + x.new_ones([1]) * 0 + torch.zeros_like(a.new_empty([tile_m, 1]))
        )
    return out


def _checked(tile: Any, dtype: torch.dtype) -> Any:
    assert tile.dtype == dtype, tile.dtype
    return tile.to(torch.float32)


@case(V.half(), wanted=lambda x: torch.full([37], 30.0), tile=8)
@tileflow.kernel
def dtypes_of_factories(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), device=x.device)
    for tile in tfl.tile(x.size(0)):
        a = x[tile]
        total = _checked(torch.zeros([tile]), torch.float32) + _checked(torch.ones(tile), torch.float32)
        total = total + _checked(torch.full([tile], 7), torch.int64) + _checked(torch.full([tile], True), torch.bool)
        total = total + _checked(torch.full([tile], 0.5), torch.float32)
        total = total + _checked(torch.full([tile], 3, dtype=torch.int8), torch.int8)
        total = total + _checked(torch.full([tile], x.size(0)), torch.int64) - 37
        total = total + _checked(torch.full_like(a, 2), torch.float16) + _checked(x.new_full([tile], 2), torch.float16)
        total = total + _checked(torch.full_like(a, 2, dtype=torch.int32), torch.int32)
        total = total + _checked(a.new_ones([tile], dtype=torch.bool), torch.bool)
        total = total + _checked(torch.arange(0.0, 4.0).sum() + torch.zeros(tile), torch.float32)
        out[tile] = (
            total + _checked(torch.zeros_like(a), torch.float16) + _checked(tfl.full([tile], 4.5), torch.float32)
        )
    return out


@case(X, wanted=lambda x: x.sum(1).round() + 3, tile_m=4, tile_n=8)
@tileflow.kernel
def carried_from_a_factory(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), device=x.device)
    for tile_m in tfl.tile(x.size(0)):
        total = torch.zeros([tile_m, 1], dtype=torch.float32, device=x.device)
        turns = torch.full([], 3, dtype=torch.int32)
        for tile_n in tfl.tile(x.size(1)):
            total += x[tile_m, tile_n].sum(1, keepdim=True)
        out[tile_m] = (total.round() + turns)[:, 0]
    return out


@case(rand(3, 5), X, wanted=lambda w, x: x * 15, tile=4)
@tileflow.kernel
def like_a_captured_tensor(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = x[tile, :] * torch.ones_like(w).sum()
    return out


@case(V, torch.tensor(2.5), wanted=lambda x, s: x + 5, tile=8)
@tileflow.kernel
def filled_with_a_scalar_of_the_kernel(x: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] + torch.full([tile], s[()]) + torch.full([tile], s)
    return out


# ---- arange -------------------------------------------------------------------------------------


@case(V, wanted=lambda x: x * 4, tile=8)
@tileflow.kernel
def aranges_over_a_tile(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        block = tfl.arange(tile.begin, tile.begin + tile.block_size)
        own = torch.arange(tile.begin, tile.end)
        other = torch.arange(tile.begin, tile.begin + tile.block_size, device=x.device)
        out[own] = x[block] + x[own] + x[other] + x[tile]
    return out


@case(X, wanted=lambda x: x[:, 0:16:2] + x[:, 1:16:2].flip(1), tile=4)
@tileflow.kernel
def aranges_with_steps(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), 8, dtype=x.dtype, device=x.device)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = x[tile, tfl.arange(0, 16, 2)] + x[tile, torch.arange(15, -1, -2)]
    return out


@case(ints(64, 3, seed=4), rand(80), wanted=lambda s, x: torch.stack([x[int(b) : int(b) + 12 : 3] for b in s]))
@tileflow.kernel
def arange_from_a_loaded_start(starts: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(starts.size(0), 4, dtype=x.dtype, device=x.device)
    for i in tfl.grid(starts.size(0)):
        start = starts[i]
        out[i, :] = x[tfl.arange(start, start + 12, 3)]
    return out


@case(V, wanted=lambda x: x[:32].view(4, 8).flip(1).reshape(-1))
@tileflow.kernel
def arange_downwards_in_a_tile(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(32, dtype=x.dtype, device=x.device)
    for tile in tfl.tile(32, block_size=8):
        out[tile] = x[tfl.arange(tile.begin + 7, tile.begin - 1, -1)]
    return out


@case(X, wanted=lambda x: x[:, 8:24:4].sum(1), b=16, tile=4)
@tileflow.kernel
def arange_of_a_block_in_steps(x: torch.Tensor) -> torch.Tensor:
    b = tfl.register_block_size(16, 16)
    out = torch.empty(x.size(0), dtype=x.dtype, device=x.device)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile, torch.arange(8, 8 + b, 4)].sum(1)
    return out


@case(X, wanted=lambda x: x[:, :5] + torch.arange(1.0, 2.25, 0.25), tile=4)
@tileflow.kernel
def arange_of_floats(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), 5, device=x.device)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = x[tile, :5] + torch.arange(1.0, 2.25, 0.25) + torch.arange(5, dtype=torch.float32) * 0
    return out


# ---- loads with a fill --------------------------------------------------------------------------


@case(X, wanted=lambda x: torch.where(torch.arange(37) % 3 == 0, x, -7.0), tile_m=4, tile_n=8)
@tileflow.kernel
def filled_where_masked(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile_m, tile_n in tfl.tile([x.size(0), x.size(1)]):
        mask = (tile_n.index % 3 == 0)[None, :]
        out[tile_m, tile_n] = tfl.load(x, [tile_m, tile_n], extra_mask=mask, other=-7.0)
    return out


@case(X, wanted=lambda x: torch.where(x > -0.5, x, float("-inf")).amax(1), tile=4)
@tileflow.kernel
def filled_with_minus_infinity(x: torch.Tensor) -> torch.Tensor:
    """What fills counts in the reduction: it is what the lanes hold."""
    out = torch.empty(x.size(0), dtype=x.dtype, device=x.device)
    for tile in tfl.tile(x.size(0)):
        keep = x[tile, :] > -0.5
        out[tile] = tfl.load(x, [tile, slice(None)], extra_mask=keep, other=float("-inf")).amax(1)
    return out


@case(X, wanted=lambda x: torch.where(x > 0, x, 1.0).sum(1), tile=4)
@tileflow.kernel
def sum_of_what_is_filled(x: torch.Tensor) -> torch.Tensor:
    """Lanes past the size count for nothing, masked ones for what fills them."""
    out = torch.empty(x.size(0), dtype=x.dtype, device=x.device)
    for tile in tfl.tile(x.size(0)):
        out[tile] = tfl.load(x, [tile, slice(None)], extra_mask=x[tile, :] > 0, other=1.0).sum(1)
    return out


@case(V, wanted=lambda x: torch.cat([x[3:], torch.full([3], 9.0)]), tile=8)
@tileflow.kernel
def filled_outside_the_tensor(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = tfl.load(x, [tile + 3], other=9.0)
    return out


@case(ints(90, 37, seed=5), wanted=lambda x: torch.where(torch.arange(37) > 9, x, -torch.arange(37)), tile=8)
@tileflow.kernel
def filled_with_a_tile(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = tfl.load(x, [tile], extra_mask=tile.index > 9, other=-tile.index)
    return out


@case(ints(90, 37, seed=5).int(), wanted=lambda x: torch.where(torch.arange(37) > 9, x, -5), tile=8)
@tileflow.kernel
def ints_filled_with_a_number(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = tfl.load(x, [tile], extra_mask=tile.index > 9, other=-5)
    return out


# ---- reshapes of blocks -------------------------------------------------------------------------


@case(rand(13, 64), wanted=lambda x: x.view(13, 32, 2).sum(-1), tile_m=4, b=16)
@tileflow.kernel
def a_tile_in_pairs(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), x.size(1) // 2, dtype=x.dtype, device=x.device)
    b = tfl.register_block_size(4, 64)
    for tile_m, tile_n in tfl.tile([x.size(0), x.size(1)], block_size=[None, b]):
        pairs = x[tile_m, tile_n].reshape(tile_m, b // 2, 2)
        out[tile_m, tile_n.begin // 2 + tfl.arange(b // 2)] = pairs.sum(-1)
    return out


@case(rand(13, 64), wanted=lambda x: x.view(13, 16, 4).amax(-1), tile_m=4, tile_n=16)
@tileflow.kernel
def a_tile_in_fours_by_what_is_left(x: torch.Tensor) -> torch.Tensor:
    """The largest: lanes past a tile's end would count."""
    out = torch.empty(x.size(0), x.size(1) // 4, dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([x.size(0), x.size(1)]):
        fours = x[tile_m, tile_n].reshape(tile_m.block_size, -1, 4)
        out[tile_m, tile_n.begin // 4 + tfl.arange(tile_n.block_size // 4)] = fours.amax(-1)
    return out


@case(rand(16, 64), wanted=lambda x: x.view(4, 4, 4, 16).amax((1, 3)))
@tileflow.kernel
def two_tiles_merged(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(4, 4, dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([x.size(0), x.size(1)], block_size=[4, 16]):
        out[tile_m.id, tile_n.id] = x[tile_m, tile_n].reshape(-1).amax(-1)
    return out


@case(rand(13, 64), wanted=lambda x: x.view(13, 4, 2, 8).flip(2).flatten(1), tile_m=4)
@tileflow.kernel
def halves_of_a_tile_swapped(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile_m, tile_n in tfl.tile([x.size(0), x.size(1)], block_size=[None, 16]):
        left, right = x[tile_m, tile_n].chunk(2, dim=1)
        out[tile_m, tile_n] = torch.cat([right, left], dim=1)
    return out


@case(X, wanted=lambda x: x.repeat(1, 2), tile_m=4, tile_n=8, eager=SHORT_TILES)
@tileflow.kernel
def a_tile_twice(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), 2 * x.size(1), dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile([x.size(0), x.size(1)]):
        twice = x[tile_m, tile_n].repeat(1, 2).view(tile_m, 2, tile_n.block_size)
        out[tile_m, tile_n] = twice[:, 0]
        out[tile_m, tile_n.index + x.size(1)] = twice[:, 1]
    return out


@case(rand(13, 5, 7), wanted=lambda x: x.flatten(1).softmax(1).view(13, 7, 5).mT, tile=4)
@tileflow.kernel
def odd_sizes_merged_and_apart(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        flat = x[tile, :, :].reshape(tile, 35)
        out[tile, :, :] = flat.softmax(-1).view(tile, 7, 5).transpose(1, 2)
    return out


# ---- 0-d tensors --------------------------------------------------------------------------------


@case(V, torch.tensor(2.0), torch.tensor(True), tile=8,
      wanted=lambda x, s, f: torch.where(f, x * s + 3 * s, 0) + 2 + s.exp())  # fmt: skip
@tileflow.kernel
def numbers_of_tensors(x: torch.Tensor, s: torch.Tensor, flag: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        found = x[tile] * s + max(s, 1.0) + torch.maximum(s, torch.tensor(1.0)) + s.clamp(min=1.0)
        out[tile] = torch.where(flag, found, 0.0) + abs(-s) + torch.exp(s) + s.exp() - torch.exp(s)
    return out


@case(X, torch.tensor(30), torch.tensor(2), wanted=lambda x, n, r: x[:, :30].sum(1) * 2 + r, tile_m=4, tile_n=8)
@tileflow.kernel
def bounds_of_tensors(x: torch.Tensor, n: torch.Tensor, rounds: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), dtype=x.dtype, device=x.device)
    for tile_m in tfl.tile(x.size(0)):
        total = torch.zeros([tile_m])
        for _ in range(rounds):
            for tile_n in tfl.tile(n):
                total = total + x[tile_m, tile_n].sum(1)
        out[tile_m] = total + int(rounds)
    return out


@case(V, torch.tensor(1), wanted=lambda x, f: x * 2, tile=8)
@tileflow.kernel
def a_branch_on_a_tensor(x: torch.Tensor, flag: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        if flag > 0:
            out[tile] = x[tile] * 2
        else:
            out[tile] = x[tile] * 3
    return out


@case(X, torch.tensor(3), wanted=lambda x, i: x[3] + x[:, 3].sum(), tile=8)
@tileflow.kernel
def an_index_of_a_tensor(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(1), dtype=x.dtype, device=x.device)
    for tile in tfl.tile(x.size(1)):
        out[tile] = x[i, tile] + x[:, i].sum()
    return out


# ---- whole tensors stored -----------------------------------------------------------------------


@case(rand(5, 7), wanted=lambda w: torch.cat([w * 2, w * 0 + 3, w * 0 + w[0], w * 0 + 1.5]))
@tileflow.kernel
def whole_tensors_stored(w: torch.Tensor) -> torch.Tensor:
    a, b, c, d = torch.empty_like(w), torch.empty_like(w), torch.empty_like(w), torch.empty_like(w)
    for _ in tfl.grid(1):
        a[...] = w[...] * 2
        b[:] = 3
        c[:, :] = w[0, :]
        d[:] = torch.full([], 1.5)
    return torch.cat([a, b, c, d])


@case(X, wanted=lambda x: torch.cat([x * 0 + 2.5, x * 0 + x[:, :1], x * 0 + x[0], x * 0 + 1, x * 0 + 4]), tile=4)
@tileflow.kernel
def broadcast_stores(x: torch.Tensor) -> torch.Tensor:
    a, b, c = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
    d, e = torch.empty_like(x), torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        a[tile] = 2.5
        b[tile] = x[tile, 0][:, None]
        c[tile] = x[0, :]
        d[tile, ...] = True
        e[tile, :] = torch.full([1, 1], 4.0)
    return torch.cat([a, b, c, d, e])


@case(V, wanted=lambda x: x.sum())
@tileflow.kernel
def a_0d_tensor_stored(x: torch.Tensor) -> torch.Tensor:
    out, total = torch.empty([], dtype=x.dtype), torch.empty([], dtype=x.dtype)
    for _ in tfl.grid(1):
        out[()] = x[:].sum()
        total[...] = x[...].sum()
    return (out + total) / 2


@case(rand(13, 0), wanted=lambda x: x.sum(1), tile_m=4)
@tileflow.kernel
def rows_of_nothing_in_fours(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0), dtype=x.dtype, device=x.device)
    for tile_m in tfl.tile(x.size(0)):
        fours = x[tile_m, :].unflatten(1, (x.size(1) // 4, 4))
        out[tile_m] = fours.amax(2).sum(1)
    return out


# ---- rolls and tables of numbers ----------------------------------------------------------------


@case(X, V, wanted=lambda x, v: x + v.roll(1) + v.roll(-40) + v.roll((2,)) + v.roll(3, ()), tile=4)
@tileflow.kernel
def rolls_without_dims(x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        row = v[:]
        out[tile, :] = x[tile, :] + row.roll(1) + torch.roll(row, -40) + row.roll((2,)) + row.roll(3, ())
    return out


@case(rand(4, 6), wanted=lambda x: x.roll(7) + x.roll((1, -2), (0, 1)))
@tileflow.kernel
def a_roll_without_dims_is_of_all_elements_in_a_row(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for _ in tfl.grid(1):
        a = x[:, :]
        out[:, :] = a.roll(7) + a.roll((1, -2), (0, 1))
    return out


TAPS = (0.5, -2.0, 0.25)


@case(ints(3, 13), wanted=lambda n: torch.tensor(TAPS)[n] + torch.tensor([[1.0, 2, 3], [4, 5, 6]])[1][n] * 2, tile=4)
@tileflow.kernel
def tables_of_numbers(n: torch.Tensor) -> torch.Tensor:
    """Tables that a tile of ints indexes, and constants; one of a global tuple, whose numbers each launch reads."""
    out = torch.empty(n.size(0), device=n.device)
    for tile in tfl.tile(n.size(0)):
        where, rows = n[tile], torch.tensor([[1.0, 2, 3], [4, 5, 6]])
        out[tile] = torch.tensor(TAPS)[where] + rows[1][where] * torch.tensor([1, 2])[1]
    return out


@case(ints(3, 13), wanted=lambda n: (n == 0) * 2.0**40 + (n == 1) * 13 + n.gt(0) * 0.5, tile=4)
@tileflow.kernel
def dtypes_of_tables(n: torch.Tensor) -> torch.Tensor:
    out = torch.empty(n.size(0), device=n.device)
    for tile in tfl.tile(n.size(0)):
        where = n[tile]
        wide, flags = torch.tensor([2**40, n.size(0), 0]), torch.tensor([False, True, True])
        mixed, half = torch.tensor((0, 0.5, True)), torch.tensor([0, 0.5, 0.5], dtype=torch.float16)
        total = _checked(wide[where], torch.int64) + _checked(flags[where], torch.bool) * half[where].float()
        scalars = torch.tensor([where.max() * 0, 1])
        out[tile] = total + _checked(mixed, torch.float32)[0] + _checked(scalars[0], torch.int64)
    return out


@case(X, wanted=lambda x: x * torch.arange(1.0, 38).view(1, -1), tile=4)
@tileflow.kernel
def a_table_beside_a_row(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = x[tile, :] * torch.tensor([float(n) for n in range(1, 38)])
    return out
