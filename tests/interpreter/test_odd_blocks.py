"""Block sizes and steps that are no power of two: registers hold more lanes than a tile has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tile_testing.runs.interpreted import Call

import tileflow
import tileflow.language as tfl


@tileflow.kernel
def partial_sums(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Tiles by their number, of a grid."""
    m, n = x.shape
    sums, ends = torch.zeros((m + 23) // 24, n), torch.zeros((m + 23) // 24)
    for tile in tfl.tile(m, block_size=24):
        sums[tile.id, :] = x[tile, :].sum(0)
        ends[tile.id] = tile.end
    return sums, ends


@tileflow.kernel
def rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Tiles of a loop: stored, summed, their maximum."""
    m, n = x.shape
    sums, combined, weighted = torch.zeros(m, (n + 11) // 12), torch.zeros(m), torch.zeros_like(x)
    for tile in tfl.tile(m):
        total, largest = tfl.zeros([tile]), tfl.full([tile], -9.0)
        for tile_n in tfl.tile(n, block_size=12):
            sums[tile, tile_n.id] = x[tile, tile_n].sum(1)
            total += x[tile, tile_n].sum(1)
            largest = torch.maximum(largest, x[tile, tile_n].amax(1))
            weighted[tile, tile_n] = x[tile, tile_n] * tile_n.index[None, :]
        combined[tile] = total + largest
    return sums, combined, weighted


@tileflow.kernel
def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(x.size(0), y.size(1))
    for tile_m, tile_n in tfl.tile([x.size(0), y.size(1)], block_size=[24, 48]):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(x.size(1), block_size=20):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        out[tile_m, tile_n] = acc
    return out


@tileflow.kernel
def every_third(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    outer, inner = torch.zeros_like(x), torch.zeros_like(x)
    for i in tfl.grid(0, x.size(0), 3):
        outer[i] = x[i]
    for _ in tfl.grid(1):
        for i in tfl.grid(1, x.size(0), 3):
            inner[i] = x[i]
    return outer, inner


KERNELS: dict[str, tuple[Any, ...]] = {
    "partial_sums": (torch.randn(100, 50),),
    "rows": (torch.randn(100, 50),),
    "product": (torch.randn(100, 50), torch.randn(50, 64)),
    "every_third": (torch.randn(32),),
}


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("name", KERNELS)
def test_kernel(interpreter: Callable[..., Any], name: str, mode: str) -> None:
    args = KERNELS[name]
    found = interpreter("runs.interpreted:run", Call(__file__, name, args, mode=mode))
    torch.testing.assert_close(found, globals()[name].run_eagerly(*args), rtol=1e-4, atol=1e-4)


def test_a_grid_by_steps() -> None:
    outer, inner = every_third.run_eagerly(torch.ones(8))
    assert outer.tolist() == [1, 0, 0, 1, 0, 0, 1, 0] and inner.tolist() == [0, 1, 0, 0, 1, 0, 0, 1]
