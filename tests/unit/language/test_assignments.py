"""Assignments into tiles in registers: what the refusal says to write does the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tile_testing.traced import traced

import tileflow
import tileflow.language as tfl
from tileflow.errors import TraceError
from tileflow.language.assignments import GENERAL, instead_of_assignment
from tileflow.target import target

TILES = {rank: torch.arange(float(2 * 3 * 4)).view(shape) for rank, shape in ((1, (24,)), (2, (6, 4)), (3, (2, 3, 4)))}
ALL = slice(None)


@pytest.mark.parametrize(
    ("index", "rank"),
    [
        (3, 1), (-1, 1), (slice(2, 5), 1), ((ALL, 0), 2), (1, 2), ((1, ALL), 2), ((ALL, -2), 2), ((..., 3), 2),
        ((ALL, slice(None, 2)), 2), ((slice(1, None),), 2), ((ALL, slice(-3, -1)), 2), ((ALL, 2), 3),
        ((ALL, ALL, 1), 3), ((..., -1), 3), (0, 3), ((ALL, slice(1, 3), ALL), 3),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_number", [True, False])
def test_the_hint_is_the_same(index: Any, rank: int, is_number: bool) -> None:
    x = TILES[rank].clone()
    value: Any = -7.0 if is_number else -x[index].clone()
    if not is_number and (value.ndim == rank or not value.ndim):
        return
    hint = instead_of_assignment(index, rank, 0 if is_number else value.ndim)
    text = hint.removeprefix(f"{GENERAL}; here x = ")
    assert text != hint
    wanted = x.clone()
    wanted[index] = value
    assert torch.equal(eval(text, {"torch": torch, "tfl": torch, "x": x, "value": value}), wanted)
    assert traced(text.replace("tfl.", "torch."), {"x": x, "value": value}).ndim == rank


@pytest.mark.parametrize(
    "index", [(ALL, ALL), (0, 1), (None, 0), (ALL, slice(0, 4, 2)), (torch.tensor([True]),), (torch.tensor([[1]]),)]
)
def test_others_are_general(index: Any) -> None:
    assert instead_of_assignment(index, 2, 0) == GENERAL


def test_the_refusal_says_it() -> None:
    @tileflow.kernel
    def cleared(x: torch.Tensor) -> torch.Tensor:
        for tile in tfl.tile(x.size(0)):
            r = x[tile, :]
            r[:, -1] = 0.0
            x[tile, :] = r
        return x

    with pytest.raises(
        TraceError, match=r"here x = torch\.where\(tfl\.arange\(x\.size\(1\)\) == x\.size\(1\) - 1, value"
    ):
        cleared.lower((torch.empty(5, 8),), target("nvidia-h200"))


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_an_index_of_the_kernel_is_compared_with_the_places(mode: str) -> None:
    """A size in dynamic mode, and an element that is loaded: both answer comparisons by ops of the kernel."""

    @tileflow.kernel
    def by_size(x: torch.Tensor) -> torch.Tensor:
        for tile in tfl.tile(x.size(0)):
            r = x[tile, :]
            r[:, x.size(1) - tile.block_size] = 0.0
            x[tile, :] = r
        return x

    @tileflow.kernel
    def by_element(x: torch.Tensor) -> torch.Tensor:
        for tile in tfl.tile(x.size(0)):
            r = x[tile, :]
            r[..., x[0, 0].int()] = 0.0
            x[tile, :] = r
        return x

    of_element = f"{GENERAL}; here x = torch.where(tfl.arange(x.size(1)) == index, value, x)"
    for kernel, hint in ((by_size, GENERAL), (by_element, of_element)):
        with pytest.raises(TraceError, match="a tile in registers cannot be assigned to by index") as caught:
            kernel.lower((torch.empty(5, 8),), target("nvidia-h200"), mode=mode)
        assert caught.value.hint == hint
