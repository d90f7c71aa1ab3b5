"""Blocks that several launches share are chosen for all of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.target import target

H200 = target("nvidia-h200")


@tileflow.kernel
def step_of_all(params: list[torch.Tensor], grads: list[torch.Tensor]) -> None:
    for i in range(len(params)):
        for t in tfl.tile(params[i].size(0)):
            params[i][t] -= 0.1 * grads[i][t]


def default_of(*lengths: int) -> dict[str, Any]:
    tensors = [torch.empty(n, device="meta") for n in lengths]
    return dict(step_of_all.lower((tensors, tensors), H200).default.items)


@pytest.mark.parametrize("lengths", [(1 << 24, 4096, 1 << 25, 1), (1, 1 << 25, 77), (1 << 25, 1, 1, 1)])
def test_the_long_launches_decide(lengths: tuple[int, ...]) -> None:
    """The last one did: a step of 62 million numbers had blocks of 1 behind a tensor of one."""
    together, alone = default_of(*lengths), default_of(1 << 25)
    assert (together["block:t"], together["num_warps"]) == (alone["block:t"], alone["num_warps"])


def test_many_short_launches_do_too() -> None:
    assert default_of(*[8] * 64)["block:t"] == 8
    assert default_of(*[64] * 64, 100)["block:t"] <= 128


def test_the_space_has_blocks_for_the_longest() -> None:
    """It had those of the first tensor, of one number here: no search could find another."""
    tensors = [torch.empty(n, device="meta") for n in (1, 1 << 25, 77)]
    (knob,) = (k for k in step_of_all.lower((tensors, tensors), H200).space.knobs if k.name == "block:t")
    assert knob.choices[0] == 1 and knob.choices[-1] == 1 << 14
