"""Kernels of random numbers, and calls of them (``CASES``), which give what they give eagerly."""

from __future__ import annotations

from typing import Any

import torch

import tileflow
import tileflow.language as tfl
from tile_testing.kernels.cases import Case, rand


@tileflow.kernel
def uniform(x: torch.Tensor, seed: int) -> torch.Tensor:
    """Two streams over a matrix."""
    m, n = x.shape
    out = torch.empty(2, m, n)
    for tile_m, tile_n in tfl.tile([m, n]):
        out[0, tile_m, tile_n] = tfl.rand([tile_m, tile_n], seed)
        out[1, tile_m, tile_n] = tfl.rand([tile_m, tile_n], seed)
    return out


@tileflow.kernel
def flat(x: torch.Tensor, seed: int) -> torch.Tensor:
    """The same positions as those of ``uniform``'s first stream, in one dimension."""
    out = torch.empty(x.numel())
    for tile in tfl.tile(x.numel()):
        out[tile] = tfl.rand([tile], seed)
    return out


@tileflow.kernel
def whole_rows(x: torch.Tensor, seed: int) -> torch.Tensor:
    """A bare dimension, which a knob reduces in one piece or in a loop."""
    out = torch.empty(x.size(0))
    for tile in tfl.tile(x.size(0)):
        out[tile] = (tfl.rand([tile, x.size(1)], seed) + x[tile, :]).sum(1)
    return out


@tileflow.kernel
def triangle(x: torch.Tensor, seed: torch.Tensor) -> torch.Tensor:
    """A loop that ends where the kernel says, a seed that is loaded."""
    m, n = x.shape
    out = torch.zeros(m, n)
    for tile_m in tfl.tile(m):
        for tile_n in tfl.tile(tile_m.end):
            noise = tfl.rand([tile_m, tile_n], seed[0], whole=[m, n])
            out[tile_m, tile_n] = torch.where(tile_n.index[None, :] <= tile_m.index[:, None], noise, 0.0)
    return out


@tileflow.kernel
def ints(x: torch.Tensor, low: int, high: int, seed: int) -> torch.Tensor:
    out = torch.empty(2, x.size(0), dtype=torch.int32)
    for tile in tfl.tile(x.size(0)):
        out[0, tile] = tfl.randint([tile], low, high, seed)
        out[1, tile] = tfl.randint([tile], -5, 7, seed)
    return out


@tileflow.kernel
def shifted(x: torch.Tensor, seed: int) -> torch.Tensor:
    """Offset tiles, scalars, and new numbers in each turn of a loop."""
    n = x.size(0)
    out = torch.empty(4, n)
    for tile in tfl.tile(n):
        out[0, tile] = tfl.rand([tile + 4], seed)
        out[1, tile] = tfl.rand([tile + 1], seed)
        out[2, tile] = x[tile] + tfl.rand([], seed)
        total = tfl.zeros([tile])
        for turn in tfl.grid(3):
            total += tfl.rand([tile], seed + turn)
        out[3, tile] = total
    return out


def keep(shape: Any, p: float, seed: int) -> Any:
    return tfl.rand(shape, seed) >= p


@tileflow.kernel
def dropout_forward(x: torch.Tensor, p: float, seed: int) -> torch.Tensor:
    m, n = x.shape
    out = torch.empty_like(x)
    for tile_m, tile_n in tfl.tile([m, n]):
        mask = keep([tile_m, tile_n], p, seed)
        out[tile_m, tile_n] = torch.where(mask, x[tile_m, tile_n] / (1 - p), 0.0)
    return out


@tileflow.kernel
def dropout_backward(grad: torch.Tensor, p: float, seed: int) -> torch.Tensor:
    """The columns outside, the rows in a loop."""
    m, n = grad.shape
    out = torch.empty_like(grad)
    for tile_n in tfl.tile(n):
        for tile_m in tfl.tile(m):
            mask = keep([tile_m, tile_n], p, seed)
            out[tile_m, tile_n] = torch.where(mask, grad[tile_m, tile_n] / (1 - p), 0.0)
    return out


X, EVEN, LONG_ROWS = rand(13, 37), rand(12, 64, seed=1), rand(5, 300, seed=2)
_CALLS: list[tuple[Any, tuple[Any, ...], dict[str, int]]] = [
    (uniform, (X, 1), {"block:tile_m": 4, "block:tile_n": 8}),
    (uniform, (X, -3), {"block:tile_m": 1, "block:tile_n": 2}),
    (uniform, (X, 5), {"block:tile_n": 16}),
    (uniform, (EVEN, 5), {"block:tile_n": 16}),
    (uniform, (EVEN, 7), {"block:tile_m": 8, "block:tile_n": 16}),
    (uniform, (EVEN, 2**40 + 9), {"block:tile_m": 2}),
    (uniform, (EVEN[:, :62], 0), {"block:tile_n": 32}),
    (flat, (X, 1), {"block:tile": 64}),
    (flat, (X, 1), {"block:tile": 2}),
    (whole_rows, (LONG_ROWS, 3), {"block:tile": 4, "reduce:sum#0": 128}),
    (whole_rows, (LONG_ROWS, 3), {"block:tile": 2, "reduce:sum#0": 0}),
    (triangle, (EVEN[:, :12], torch.tensor([11])), {"block:tile_m": 4, "block:tile_n": 8}),
    (ints, (X[0], -100, 2**30, 4), {"block:tile": 8}),
    (shifted, (X[0], 4), {"block:tile": 8}),
]
CASES = {
    f"{kernel.__name__}-{n}": Case(kernel, args, kernel.run_eagerly, tuple(config.items()))
    for n, (kernel, args, config) in enumerate(_CALLS)
}
