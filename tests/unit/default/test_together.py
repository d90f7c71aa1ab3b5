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


@tileflow.kernel
def halved_and_summed(x: torch.Tensor, steps: int) -> torch.Tensor:
    """Launches that share blocks, among others that have their own."""
    start = torch.empty_like(x)
    for t in tfl.tile(x.size(0)):
        start[t] = x[t] + 1
    for _ in range(steps):
        half = start.new_empty(start.size(0) // 2)
        pairs = start.view(-1, 2)
        for p in tfl.tile(half.size(0)):
            half[p] = pairs[p, :].sum(1)
        start = half
    out = torch.empty_like(x)
    for u in tfl.tile(x.size(0)):
        out[u] = x[u] - start[0]
    return out


@tileflow.kernel
def halved_beside_a_product(x: torch.Tensor, w: torch.Tensor, steps: int) -> tuple[torch.Tensor, torch.Tensor]:
    square = torch.empty_like(w)
    for a, b in tfl.tile(w.shape):
        square[a, b] = w[a, :] @ w[:, b]
    for _ in range(steps):
        half = x.new_empty(x.size(0) // 2)
        pairs = x.view(-1, 2)
        for p in tfl.tile(half.size(0)):
            half[p] = pairs[p, :].sum(1)
        x = half
    return x, square


@pytest.mark.parametrize("steps", [16, 20, 24])
def test_launches_with_blocks_of_their_own_have_no_say(steps: int) -> None:
    """A last launch without the block seemed to have all of them at their best, and the one before it decided: the
    shortest of halves had blocks of 1, and so 16 million numbers a program for each. Beside a product that one did."""
    x, w = torch.empty(1 << 24, device="meta"), torch.empty(256, 256, device="meta")
    alone = dict(halved_and_summed.lower((x, 1), H200).default.items)["block:p@1"]
    for lowered in (halved_and_summed.lower((x, steps), H200), halved_beside_a_product.lower((x, w, steps), H200)):
        assert dict(lowered.default.items)["block:p@1"] == alone == 1024


def test_many_short_launches_do_too() -> None:
    assert default_of(*[8] * 64)["block:t"] == 8
    assert default_of(*[64] * 64, 100)["block:t"] <= 128


def test_the_space_has_blocks_for_the_longest() -> None:
    """It had those of the first tensor, of one number here: no search could find another."""
    tensors = [torch.empty(n, device="meta") for n in (1, 1 << 25, 77)]
    (knob,) = (k for k in step_of_all.lower((tensors, tensors), H200).space.knobs if k.name == "block:t")
    assert knob.choices[0] == 1 and knob.choices[-1] == 1 << 14
