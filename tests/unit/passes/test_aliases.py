"""Tensors that share memory: what is stored by one name and loaded by another keeps its order (issue 14, finding 2)."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.ir.access import describable
from tileflow.lowered import Lowered
from tileflow.passes.roll import rollable
from tileflow.target import target

BARRIER = "tl.debug_barrier()"
X = torch.zeros(64, 256)


def lowered(kernel: Any, *args: Any) -> Lowered:
    return kernel.lower(args, target("nvidia-h200"), mode="static")  # type: ignore[no-any-return]


def is_ordered(kernel: Any, *args: Any) -> bool:
    low = lowered(kernel, *args)
    return BARRIER in low.emit(low.default)[0].text


@tileflow.kernel
def through_a_view(x: torch.Tensor) -> torch.Tensor:
    flat = x.view(-1)
    out = torch.empty_like(x)
    half = x.size(1) // 2
    for row in tfl.grid(x.size(0)):
        for i in tfl.grid(2):
            x[row, i * half : i * half + half] = x[row, :half] + 1
            out[row, i * half : i * half + half] = flat[row * 2 * half + half : row * 2 * half + 2 * half]
    return out


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_a_store_and_a_load_through_a_view_are_ordered(mode: str) -> None:
    """Both ways: what was stored is loaded behind a barrier, and the next iteration stores behind one."""
    low = through_a_view.lower((X,), target("nvidia-h200"), mode=mode)
    source = low.emit(low.default)[0]
    words = {"tl.load(x_": "load x", "tl.store(x_": "store x", "tl.load(flat": "load flat", BARRIER: "barrier"}
    found = [word for line in source.text.splitlines() for text, word in words.items() if text in line]
    between = found[found.index("store x") : found.index("load flat")]
    assert "barrier" in between
    assert "barrier" in found[: found.index("store x")]


@tileflow.kernel
def from_one_to_the_other(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    for tile in tfl.tile(x.size(0)):
        for i in tfl.grid(1, x.size(1)):
            x[tile, i] = y[tile, i - 1] + 1
    return x


def test_arguments_that_share_memory_are_ordered() -> None:
    """Views that host code made before the call, and one tensor given twice."""
    assert not is_ordered(from_one_to_the_other, X, X.clone())
    assert is_ordered(from_one_to_the_other, X, X)
    assert is_ordered(from_one_to_the_other, X[:, 4:], X[:, :-4])


@tileflow.kernel
def copied_onto_a_view(x: torch.Tensor) -> torch.Tensor:
    flat = x.view(-1)
    for tile in tfl.tile(x.size(0)):
        x[tile, :] = x[tile, :] * 2
        flat[tile.index * 256] = x[tile, :].sum(1)
    return x


@tileflow.kernel
def normalised_into_a_view(x: torch.Tensor) -> torch.Tensor:
    same = x.view(x.shape)
    for tile in tfl.tile(x.size(0)):
        row = x[tile, :]
        same[tile, :] = row / row.sum(1)[:, None]
    return x


def test_no_loop_by_blocks_where_a_view_is_stored_into() -> None:
    """Its second phase would load what the first one had overwritten."""
    (ir,) = lowered(normalised_into_a_view, X).regions
    assert rollable(ir) == {}


def test_the_copy_engine_moves_no_box_of_memory_that_a_view_stores_into() -> None:
    (ir,) = lowered(copied_onto_a_view, X).regions
    assert not any(describable(ir, op) for op in ir.walk())


def test_views_that_are_only_read_are_left_alone() -> None:
    @tileflow.kernel
    def both(x: torch.Tensor) -> torch.Tensor:
        flat, out = x.view(-1), torch.empty_like(x)
        for row in tfl.grid(x.size(0)):
            for tile in tfl.tile(x.size(1)):
                out[row, tile] = x[row, tile] + flat[tile]
        return out

    (ir,) = lowered(both, X).regions
    assert not is_ordered(both, X)
    assert ir.sharing("x") == {"x", "flat"}
    assert ir.sharing("out") == {"out"}
