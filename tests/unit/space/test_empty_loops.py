"""Loops without a turn in the traced example, as over a dimension of size 0."""

from __future__ import annotations

import pytest
import torch
from tile_testing.kernels.bounds_kernels import CASES

from tileflow.target import target


@pytest.mark.parametrize(("columns", "may_be_one"), [(0, False), (8, True)])
def test_a_loop_without_a_turn_is_not_one_with_the_loop_over_tiles(columns: int, may_be_one: bool) -> None:
    """The text guards that there is a turn, and so refused the call that it was lowered for."""
    kernel = CASES["a_loop_over_nothing"].kernel
    lowered = kernel.lower((torch.empty(5, columns, device="meta"),), target("nvidia-h200"), mode="dynamic")
    assert ("flatten" in {knob.name for knob in lowered.space.knobs}) == may_be_one
