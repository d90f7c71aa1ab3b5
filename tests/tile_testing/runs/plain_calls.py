"""Kernels whose default has what Triton's interpreter lacks, called as an author calls them."""

from __future__ import annotations

import torch

import tileflow
import tileflow.language as tfl
from tileflow.errors import TileflowError

from ..kernels import device_kernels


@tileflow.kernel
def step_by_step(x: torch.Tensor) -> torch.Tensor:
    """Few rows: by default blocks of a cluster share the turns."""
    out = torch.empty_like(x[:, 0])
    for tile in tfl.tile(x.size(0)):
        acc = tfl.zeros([tile])
        for i in range(x.size(1)):
            acc += x[tile, i]
        out[tile] = acc
    return out


@tileflow.kernel
def long_product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """By default warps have roles of their own."""
    out = torch.empty(x.size(0), y.size(1), dtype=x.dtype, device=x.device)
    for tile_m, tile_n in tfl.tile(out.shape):
        acc = tfl.zeros([tile_m, tile_n])
        for tile_k in tfl.tile(x.size(1)):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        out[tile_m, tile_n] = acc
    return out


ROWS = 48
CALLS = {
    "step by step": (step_by_step, (torch.ones(ROWS, 37),), 37.0),
    "long product": (long_product, (torch.ones(ROWS, 8192), torch.ones(8192, 64)), 8192.0),
}


def wrong(shapes: int) -> dict[str, str]:
    """What of calls with so many numbers of rows, one after the other, is not as it should be."""
    found = {}
    for rows in range(ROWS, ROWS - shapes, -1):
        for name, (kernel, args, value) in CALLS.items():
            out = kernel(args[0][:rows], *args[1:])
            if not bool((out == value).all()):
                found[f"{name}, {rows} rows"] = str(out)
    return found


def wrong_of_a_gpu() -> dict[str, str]:
    """What of calls whose host code asks about its device is not as it should be: each the first time, again, and with
    other sizes."""
    found = {}
    for name, meaning in device_kernels.MEANINGS.items():
        for size in (100, 100, 33):
            x = torch.randn(size)
            try:
                torch.testing.assert_close(getattr(device_kernels, name)(x), meaning(x))
            except (AssertionError, TileflowError) as error:
                found[f"{name}, {size}"] = str(error)
    return found
