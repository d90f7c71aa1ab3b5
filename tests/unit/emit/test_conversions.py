"""Conversions: one that is written in a branch or in a loop's body is no name behind it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.build.compile import build
from tileflow.target import target


@tileflow.kernel
def branched(x: torch.Tensor, scale: float) -> torch.Tensor:
    """Both sides hand on the loaded tile itself, in float32."""
    out = torch.empty(x.size(0))
    for tile in tfl.tile(x.size(0)):
        value = x[tile]
        chosen = value
        if scale > 1:
            chosen = value
        out[tile] = chosen * scale
    return out


@tileflow.kernel
def looped(x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    """The loop hands on what was loaded before it, which is read in float32 behind it too."""
    out = torch.empty(x.size(0))
    for tile in tfl.tile(x.size(0)):
        value = x[tile]
        last = tfl.zeros([tile], dtype=x.dtype)
        for _ in tfl.tile(turns[0]):
            last = value
        out[tile] = last + value
    return out


@tileflow.kernel
def counted_down(x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.size(0))
    for tile in tfl.tile(x.size(0)):
        value, left = x[tile], turns[0]
        last = tfl.zeros([tile], dtype=x.dtype)
        while left > 0:
            last, left = value, left - 1
        out[tile] = last + value
    return out


HALF = torch.empty(40, dtype=torch.float16, device="meta")
TURNS = torch.empty(1, dtype=torch.int32, device="meta")


@pytest.mark.parametrize(
    ("kernel", "args"), [(branched, (HALF, 2.0)), (looped, (HALF, TURNS)), (counted_down, (HALF, TURNS))]
)
def test_what_a_branch_or_a_loop_hands_on_is_converted_inside_it(kernel: Any, args: tuple[Any, ...]) -> None:
    lowered = kernel.lower(args, target("nvidia-h200"))
    (source,) = lowered.emit(lowered.default)
    assert build(source, lowered.target).code
