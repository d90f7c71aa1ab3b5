"""Gradients of gathers along a dimension of a register tile: which are gathers too, and which are refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.derive.places import MOST_PAIRS, inverse_text
from tileflow.errors import GradientError

SIZE = 7


@pytest.mark.parametrize(
    "places",
    [
        [2, 3, 4],
        [0, 1, 2, 3, 4, 5, 6],
        [6, 5, 4, 3, 2, 1, 0],
        [5, 3, 1],
        [1, 4],
        [3],
        [4, 5, 6, 0, 1, 2, 3],
        [5, 6, 0],
    ],
)
def test_the_inverse_names_the_lane_of_each_element(places: list[int]) -> None:
    text = inverse_text(places, SIZE, "lanes")
    assert text is not None
    lanes = eval(text, {"torch": torch, "lanes": torch.arange(SIZE)})
    wanted = [places.index(n) if n in places else None for n in range(SIZE)]
    assert [lane if 0 <= lane < len(places) else None for lane in lanes.tolist()] == wanted


@pytest.mark.parametrize("places", [[0, 0], [0, 0, 1, 1], [2, 0, 1, 3], [0, 1, 2, 0, 1, 2], [0, 1, 2, 3, 4, 5, 6, 0]])
def test_others_have_none(places: list[int]) -> None:
    assert inverse_text(places, SIZE, "lanes") is None


def derived(function: Callable[..., torch.Tensor], *args: object) -> str:
    return tileflow.derive_backward(tileflow.kernel(function)).source(*args)


def test_a_long_row_that_is_moved_is_moved_back() -> None:
    def turned(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        for tile in tfl.tile(x.size(0)):
            out[tile, :] = torch.exp(x[tile, :]).roll(5, 1).flip(1)
        return out

    text = derived(turned, torch.randn(4, 3000))
    assert ".sum(" not in text and "+ 5) % 3000" in text and "2999 - tfl.arange" in text


def test_many_pairs_are_refused() -> None:
    def repeated(x: torch.Tensor) -> torch.Tensor:
        out = x.new_empty(x.size(0), 1200)
        for tile in tfl.tile(x.size(0)):
            out[tile, :] = torch.exp(x[tile, :]).repeat_interleave(3, 1)
        return out

    with pytest.raises(GradientError, match=rf"a slice, a flip or a roll.* at most {MOST_PAIRS} pairs"):
        derived(repeated, torch.randn(4, 400))
