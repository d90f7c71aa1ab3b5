"""Kernels over tensors of more than 2**31 elements, most of which nobody touches: memory is taken page by page."""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl
from tileflow.api import Kernel
from tileflow.config import Config
from tileflow.lowered import Lowered
from tileflow.target import target

LONG = 2**31 + 100
TALL = (70000, 40000)


@tileflow.kernel
def end_of_a_vector(x: torch.Tensor) -> torch.Tensor:
    n = x.size(0)
    out = torch.zeros(100, dtype=torch.int64, device=x.device)
    for tile in tfl.tile(n - 100, n):
        out[tile - (n - 100)] = tile.index + x[tile]
    return out


@tileflow.kernel
def last_rows(x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(rows.size(0), 10, dtype=x.dtype, device=x.device)
    m = x.size(0)
    for tile_m, tile_n in tfl.tile([rows.size(0), 10]):
        one = x[rows[tile_m], tile_n] + x[m - 1, tile_n] + x[-2:, tile_n].sum(0)
        window = x[tile_m.begin + m - 2 : tile_m.begin + m - 2 + tile_m.block_size, tile_n]
        out[tile_m, tile_n] = one + window
    return out


@tileflow.kernel
def ragged_end(x: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(offsets.size(0) - 1, dtype=torch.int64, device=x.device)
    for i in tfl.grid(offsets.size(0) - 1):
        total = tfl.full([], 0, torch.int64)
        for tile in tfl.tile(offsets[i], offsets[i + 1]):
            total += x[tile].sum() + tile.index.sum()
        out[i] = total
    return out


@tileflow.kernel
def flattened(x: torch.Tensor) -> torch.Tensor:
    """Sizes whose product does not fit 32 bits."""
    out = torch.zeros(1, dtype=torch.int64, device=x.device)
    for _ in tfl.grid(1):
        total = tfl.full([], 0, torch.int64)
        for tile in tfl.tile(x.numel() - 5, x.size(0) * x.size(1)):
            total += tile.index.sum()
        out[0] = total
    return out


def _persistent(lowered: Lowered) -> Config:
    """Programs that each walk over tiles, in a loop of the kernel."""
    wanted = {"persistent": 1, "block:tile": 4, "block:tile_m": 1, "block:tile_n": 4}
    names = {k.name for k in lowered.space.knobs}
    return lowered.space.repair(lowered.default.with_({n: c for n, c in wanted.items() if n in names}))


def far(mode: str) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """What each kernel gives, and what it must."""
    vector = torch.empty(LONG, dtype=torch.int8)
    vector[-100:] = torch.arange(100)
    tall = torch.empty(TALL, dtype=torch.int8)
    tall[-2:, :10] = last = torch.arange(20, dtype=torch.int8).reshape(2, 10)
    rows = torch.tensor([TALL[0] - 1, TALL[0] - 2], dtype=torch.int32)
    offsets = torch.tensor([LONG - 100, LONG - 90, LONG - 90, LONG])
    wide = torch.zeros(1).expand(TALL)
    index = torch.arange(LONG - 100, LONG)
    number = TALL[0] * TALL[1]
    both = index + torch.arange(100)
    return {
        "end_of_a_vector": (_run(end_of_a_vector, mode, vector), both),
        "last_rows": (_run(last_rows, mode, tall, rows), last.flip(0) + last[1] + last.sum(0, dtype=torch.int8) + last),
        "ragged_end": (
            _run(ragged_end, mode, vector, offsets), torch.stack([both[:10].sum(), torch.tensor(0), both[10:].sum()])
        ),
        "flattened": (_run(flattened, mode, wide), torch.arange(number - 5, number).sum()[None]),
    }  # fmt: skip


def _run(kernel: Kernel, mode: str, *args: torch.Tensor) -> torch.Tensor:
    lowered = kernel.lower(args, target("nvidia-h200"), mode=mode)
    first, second = (kernel.compile(lowered, c, "cpu")(*args) for c in (lowered.default, _persistent(lowered)))
    assert torch.equal(first, second)
    result: torch.Tensor = first
    return result
