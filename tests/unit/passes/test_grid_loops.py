"""Loops inside a launch that are axes of its grid: which are, and what schedules the regions have."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tile_testing.kernels.grid_loop_kernels import by_batches, by_loops, by_tiles_of_one, by_whole_rows, products

import tileflow
import tileflow.language as tfl
from tileflow.api import Kernel
from tileflow.ir.verify import verify
from tileflow.passes.grid_loops import lift_loops
from tileflow.target import target

H200 = target("nvidia-h200")
X = torch.empty(4, 1024, 1024, dtype=torch.bfloat16, device="meta")
HEADS = torch.empty(4, 32, 4096, 128, dtype=torch.bfloat16, device="meta")
OFFSETS = torch.empty(5, dtype=torch.int32, device="meta")


def grid_of(kernel: Kernel, *args: Any, mode: str = "static") -> tuple[str, ...]:
    (region,) = kernel.lower(args, H200, mode).regions
    lifted = lift_loops(region)
    verify(lifted, "lift_loops")
    return lifted.grid


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_loops_around_products_are_axes(mode: str) -> None:
    assert grid_of(products, X, X, mode=mode) == ("b", "m", "n")


@tileflow.kernel
def beside_a_vector(x, w):
    out = torch.empty_like(x)
    for b in tfl.grid(x.size(0)):
        scale = x[b, 0, :].float().exp()
        for m in tfl.tile(x.size(1)):
            out[b, m, :] = (x[b, m, :] @ w[b, :, :]) * scale
    return out


def test_a_vector_is_there_in_each_program() -> None:
    assert grid_of(beside_a_vector, X, X)[:2] == ("b", "m")


@tileflow.kernel
def without_products(x):
    out = torch.empty_like(x)
    for b in tfl.grid(x.size(0)):
        for m in tfl.tile(x.size(1)):
            out[b, m, :] = x[b, m, :] * 2
    return out


@tileflow.kernel
def beside_a_tile(x, w):
    out = torch.empty_like(x)
    for b in tfl.grid(x.size(0)):
        weights = w[b, :, :].float().exp().to(x.dtype)
        for m in tfl.tile(x.size(1)):
            out[b, m, :] = x[b, m, :] @ weights
    return out


@tileflow.kernel
def of_columns(x, w):
    out = torch.empty_like(x)
    for rows in tfl.tile(x.size(1)):
        for m in tfl.tile(w.size(2)):
            out[0, rows, m] = x[0, rows, :] @ w[0, :, m]
    return out


@tileflow.kernel
def handed_on(x, w):
    out = torch.empty_like(x)
    for b in tfl.grid(x.size(0)):
        before = torch.zeros(x.size(2))
        for m in tfl.tile(x.size(1)):
            rows = (x[b, m, :] @ w[b, :, :]) + before
            out[b, m, :] = rows
            before = rows.sum(0)
    return out


@tileflow.kernel
def read_by_the_next_turn(x, w):
    for b in tfl.grid(x.size(0)):
        for m in tfl.tile(x.size(1)):
            x[b, m, :] = x[b, m - 1, :] @ w[b, :, :]
    return x


@tileflow.kernel
def of_loaded_length(x, offsets, w):
    out = torch.empty_like(x)
    for b in tfl.grid(x.size(0)):
        for m in tfl.tile(offsets[b]):
            out[b, m, :] = x[b, m, :] @ w[b, :, :]
    return out


@tileflow.kernel
def stored_beside(x, w):
    out, seen = torch.empty_like(x), x.new_empty(x.size(0))
    for b in tfl.grid(x.size(0)):
        seen[b] = 1.0
        for m in tfl.tile(x.size(1)):
            out[b, m, :] = x[b, m, :] @ w[b, :, :]
    return out


@pytest.mark.parametrize(
    ("kernel", "args"),
    [
        (without_products, (X,)),
        (beside_a_tile, (X, X)),
        (of_columns, (X, X)),
        (handed_on, (X, X)),
        (read_by_the_next_turn, (X, X)),
        (of_loaded_length, (X, OFFSETS, X)),
        (stored_beside, (X, X)),
    ],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_other_loops_stay(kernel: Kernel, args: tuple[Any, ...]) -> None:
    assert "m" not in grid_of(kernel, *args)


def default_of(kernel: Kernel) -> dict[str, Any]:
    chosen = kernel.lower((HEADS, HEADS, HEADS), H200).default.to_dict()
    asked = ("schedule", "ping_pong", "num_stages", "num_warps", "persistent", "block:rows")
    return {name: chosen.get(name) for name in asked}


@pytest.mark.parametrize("kernel", [by_tiles_of_one, by_loops, by_whole_rows], ids=lambda k: k.__name__)
def test_attention_has_one_default_however_it_is_written(kernel: Kernel) -> None:
    """By batches alone it was warp-specialised."""
    assert default_of(kernel) == default_of(by_batches)
    assert default_of(kernel)["schedule"] == "warp_specialised"
