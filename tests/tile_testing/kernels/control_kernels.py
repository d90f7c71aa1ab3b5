"""Kernels of branches, host code and knobs, one construct each, with what they must give: ``CASES``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

import tileflow
import tileflow.language as tfl
from tile_testing.kernels.cases import Cases, rand

CASES = Cases()
case = CASES.case

X = rand(13, 37)
V = rand(37, seed=1)
N = torch.arange(-9, 12)


# ---- branches on block sizes --------------------------------------------------------------------


def _blocks(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([x * 2, x + 1, x * 3, -x, x + 8, x])


@case(V, wanted=_blocks, tile=8)
@tileflow.kernel
def if_of_a_block_size(x: torch.Tensor) -> torch.Tensor:
    """What each way gives is the same, so that every config gives it; the ways themselves differ."""
    out = torch.empty(6, x.size(0))
    for tile in tfl.tile(x.size(0)):
        y = x[tile]
        if tile.block_size > 4:
            a = y + y
        else:
            a = y * 2
        b = y + 1 if tile.block_size % 4 == 0 and tile.block_size < 32 else 1 + y
        c = y * 2
        if not (tile.block_size == 1 or 2 <= tile.block_size <= 4):
            c = c + y
        elif tile.block_size == 1:
            c = y + c
        else:
            c = 3 * y
        turns = 4 if tile.block_size > 8 else 2
        d = -y * turns
        for _ in range(turns - 1):
            d = d + y
        part = tfl.zeros([tile])
        if tile.block_size >= 16:
            for _ in tfl.grid(4):
                part += 2
        else:
            for _ in tfl.grid(8):
                part += 1
        out[0, tile] = a
        out[1, tile] = b
        out[2, tile] = c
        out[3, tile] = d
        out[4, tile] = y + part
        out[5, tile] = y if tile.block_size > 4 else x[tile]
    return out


@case(V, wanted=lambda x: torch.stack([x * 2, x, x + 1]), block=8)
@tileflow.kernel
def if_of_a_registered_block_size(x: torch.Tensor) -> torch.Tensor:
    block = tfl.register_block_size(2, 16)
    assert block % 2 == 0, f"an even block, not {block}"
    parts = torch.zeros((x.size(0) + block - 1) // block * block)
    out = torch.empty(3, x.size(0))
    for tile in tfl.tile(x.size(0), block_size=block):
        lanes = tfl.arange(block) + tile.begin
        parts[lanes] = torch.where(lanes < x.size(0), 1.0, 0.0)
        if block % 8 == 0:
            out[0, tile] = x[tile] * 2
        else:
            out[0, tile] = x[tile] + x[tile]
        out[1, tile] = x[tile]
        total = tfl.zeros([tile])
        for i in tfl.static_range(block):
            total += i
        out[2, tile] = x[tile] + total * 2 / (block * (block - 1))
    return out


# ---- branches on scalars ------------------------------------------------------------------------


def _classified(n: torch.Tensor) -> torch.Tensor:
    def one(v: int) -> int:
        if v < 0:
            return -v if v % 2 else v + 100
        return 7 if v == 0 else v * 2 if v < 5 else v * v

    return torch.tensor([one(v) for v in n.tolist()], dtype=n.dtype)


@case(N, wanted=_classified)
@tileflow.kernel
def nested_branches(n: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(n)
    for i in tfl.grid(n.size(0)):
        value = n[i]
        if value >= 0:
            if value == 0:
                value = value + 7
            elif value < 5:
                value = value * 2
            else:
                value = value * value
        elif value % 2 == 1:
            value = -value
        else:
            value = value + 100
        out[i] = value
    return out


@case(X, wanted=lambda x: torch.stack([r[: k + 1].sum() if k % 3 else r.max() for k, r in enumerate(x)]), tile_n=8)
@tileflow.kernel
def loops_in_branches_in_loops(x: torch.Tensor) -> torch.Tensor:
    m, n = x.shape
    out = torch.empty(m)
    for i in tfl.grid(m):
        result = x[i, 0]
        if i % 3 != 0:
            for tile_n in tfl.tile(1, i + 1):
                result = result + x[i, tile_n].sum()
        else:
            for tile_n in tfl.tile(n):
                best = x[i, tile_n].amax()
                if best > result:
                    result = best
        out[i] = result
    return out


@case(V, wanted=lambda x: torch.cat([x[:8] * 2, x[8:16] + 1, x[16:32], -x[32:]]))
@tileflow.kernel
def branches_on_tiles(x: torch.Tensor) -> torch.Tensor:
    """Stores inside branches, on ``id``, ``begin`` and ``end``."""
    n = x.size(0)
    out = torch.empty_like(x)
    for tile in tfl.tile(n, block_size=8):
        if tile.id == 0:
            out[tile] = x[tile] * 2
        elif tile.begin < 16:
            out[tile] = x[tile] + 1
        elif tile.end < n and not tile.begin > 999:
            out[tile] = x[tile]
        else:
            out[tile] = -x[tile]
    return out


@case(N, wanted=lambda n: torch.where((n > -5) & (n <= 3) & (n != 0), torch.where(n < 0, n.clamp(-2, 8), n + 1), 0))
@tileflow.kernel
def scalars_choose_values(n: torch.Tensor) -> torch.Tensor:
    """Chains, ``and``, ``or``, ``not``, ternaries, min and max of scalars."""
    out = torch.empty_like(n)
    for i in tfl.grid(n.size(0)):
        v = n[i]
        inside = -5 < v <= 3 and not (v > -1 and v < 1)
        low = max(v, -2) if v < 0 or v == 100 else v + 1
        out[i] = min(low, 8) if inside else 0
    return out


@case(X, wanted=lambda x: torch.where(x.sum(1) > 0, x.sum(1), x.amin(1)), tile_n=8)
@tileflow.kernel
def flags_that_change(x: torch.Tensor) -> torch.Tensor:
    """A Python bool that a device loop changes becomes a flag of the kernel."""
    m, n = x.shape
    out = torch.empty(m)
    for i in tfl.grid(m):
        first = True
        total, least = 0.0, x[i, 0]
        for tile_n in tfl.tile(n):
            total = x[i, tile_n].sum() if first else total + x[i, tile_n].sum()
            least = min(least, x[i, tile_n].amin())
            first = False
        out[i] = total if total > 0 else least
    return out


# ---- host code and knobs ------------------------------------------------------------------------


@case(X, 3, wanted=lambda x, k: x * 8 * 2, tile_m=4, tile_n=8)
@tileflow.kernel
def launches_in_host_loops(x: torch.Tensor, k: int) -> torch.Tensor:
    """Launches inside host for, if and while, host code between, barriers."""
    m, n = x.shape
    out = x.clone()
    for step in range(k):
        source = out.clone()
        if step >= 0:
            for tile_m, tile_n in tfl.tile([m, n]):
                out[tile_m, tile_n] = source[tile_m, tile_n] * 2
    tfl.barrier()
    left = 1
    while left:
        for tile_m in tfl.tile(m):
            out[tile_m, :] = out[tile_m, :] * 2
        left -= 1
    return out


KNOBS = {"tunable:lanes": 4, "tunable:order": "after", "tunable:twice": True, "tunable:split": 3}


@case(V, wanted=lambda x: (x + 1) * 2, tile=8, knobs=KNOBS)
@tileflow.kernel
def tunables(x: torch.Tensor) -> torch.Tensor:
    """Ints in shapes, ranges and arithmetic; strings and bools select code. All choices give the same."""
    lanes = tfl.register_tunable("lanes", [1, 2, 4, 8])
    order = tfl.register_tunable("order", ["before", "after"])
    twice = tfl.register_tunable("twice", [False, True])
    split = tfl.register_tunable("split", range(1, 9))
    parts = torch.zeros(split)
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        wide = tfl.full([tile, lanes], 1.0)
        value = x[tile] + wide.sum(1) / lanes if order == "after" else wide.sum(1) / lanes + x[tile]
        odd = tfl.full([tile, split], 1.0).sum(1)
        for _ in tfl.static_range(split):
            value = value + 1
        for _ in range(split):
            value = value - 1
        out[tile] = (value * 2 if twice else value + value) + odd - split
    assert parts.numel() == split
    return out


@case(X, wanted=lambda x: x.sum(1), knobs={"tunable:way": "tiles", "tunable:parts": 2}, tile_m=4, tile_n=8)
@tileflow.kernel
def tunables_that_select_loops(x: torch.Tensor) -> torch.Tensor:
    """The space has the knobs of the loops that other choices select."""
    m, n = x.shape
    way = tfl.register_tunable("way", ["row", "tiles"])
    parts = tfl.register_tunable("parts", [1, 2, 4])
    out = torch.empty(m)
    for tile_m in tfl.tile(m):
        if way == "row":
            total = x[tile_m, :].sum(1)
        else:
            sums = [tfl.zeros([tile_m]) for _ in tfl.static_range(parts)]
            for tile_n in tfl.tile(n):
                sums = [s + x[tile_m, tile_n].sum(1) / parts for s in sums]
            total = sum(sums)
        out[tile_m] = total
    return out


def shifted(bias: torch.Tensor, value: Any, tile: Any, *, by: int, scale: float = 1.0) -> Any:
    return (value + bias[tile]) * scale + by


@case(V, functools.partial(shifted, rand(37, seed=5), by=3, scale=2.0), tile=8,
      wanted=lambda x, f: f(x, slice(None)) + 1)  # fmt: skip
@tileflow.kernel
def partials_as_arguments(x: torch.Tensor, f: Callable[..., Any]) -> torch.Tensor:
    """What the partial holds is read anew at each launch."""
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = f(x[tile], tile) + 1
    return out


WIDE_TABLE, PLACES = rand(50, 600, seed=2), torch.arange(24) * 7 % 50


def _mixed_rows(x: torch.Tensor, table: torch.Tensor, places: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    sums = x @ table[places]
    columns = torch.arange(1, table.size(1) + 1)
    return torch.stack([torch.where(columns % 3 == 0, sums, sums + bias), torch.relu(sums)])


@case(rand(13, 24), WIDE_TABLE, PLACES, rand(600, seed=3), wanted=_mixed_rows, knobs={"cut:out#0:1": 128}, j=16)
@tileflow.kernel
def wide_sums_of_gathered_rows(
    x: torch.Tensor, table: torch.Tensor, places: torch.Tensor, bias: torch.Tensor
) -> torch.Tensor:
    """A loop carries sums of more columns than registers take beside a product's 16 rows: programs have some each."""
    out = torch.empty(2, x.size(0), table.size(1))
    columns = table.size(1)
    for tile in tfl.tile(x.size(0)):
        total = tfl.zeros([tile, columns])
        for j in tfl.tile(x.size(1)):
            total = torch.addmm(total, x[tile, j], table[places[j], :])
        is_third = tfl.arange(1, columns + 1) % 3 == 0
        out[0, tile, :] = torch.where(is_third, total, total + bias[:])
        out[1, tile, :] = total if tile.begin < 0 else torch.relu(total)
    return out
