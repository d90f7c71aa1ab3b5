"""Stores of which several meet in one element: refused where the kernel is lowered."""

from __future__ import annotations

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.errors import CallError
from tileflow.target import target

H200 = target("nvidia-h200")


@tileflow.kernel
def doubled(x: torch.Tensor, out: torch.Tensor) -> None:
    for tile in tfl.tile(x.size(0)):
        out[tile, :] = x[tile, :] * 2


@tileflow.kernel
def into_the_first(x: torch.Tensor, out: torch.Tensor) -> None:
    for tile in tfl.tile(x.size(1)):
        out[0, tile] = x[0, tile]


@tileflow.kernel
def added(x: torch.Tensor, out: torch.Tensor) -> None:
    for tile in tfl.tile(x.size(0)):
        tfl.atomic_add(out, [tile, slice(None)], x[tile, :])


def meta(*shape: int) -> torch.Tensor:
    return torch.empty(shape, device="meta")


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("shape", [(1, 16), (8, 1)])
def test_a_store_into_what_expand_made_is_refused(shape: tuple[int, int], mode: str) -> None:
    """It left any of what was stored, without a word; plain Python had torch's error."""
    expanded = meta(*shape).expand(8, 16)
    with pytest.raises(CallError, match=f"out, whose dimension {shape.index(1)} has a stride of 0") as refused:
        doubled.lower((meta(8, 16), expanded), H200, mode)
    assert refused.value.where is not None and refused.value.where.text.strip().startswith("out[tile, :]")


def test_one_element_of_it_and_a_sum_over_it_are_not() -> None:
    expanded = meta(1, 16).expand(8, 16)
    assert into_the_first.lower((meta(8, 16), expanded), H200).regions
    assert added.lower((meta(8, 16), expanded), H200).regions
    assert doubled.lower((meta(1, 16), meta(16).expand(1, 16)), H200).regions, "one row is one row"
