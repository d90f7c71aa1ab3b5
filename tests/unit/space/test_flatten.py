"""Which loops may be one with the loop over tiles."""

from __future__ import annotations

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.target import target


@tileflow.kernel
def normalised(x, steps: int = 8):
    """Weights that each turn makes sum to 1: what a turn sums up was divided by the sum of the turn before."""
    out = torch.empty_like(x)
    for b in tfl.grid(x.size(0)):
        w = x[b, :]
        for s in range(steps):
            w = (w + x[s, :]) ** 1.5
            w = w / w.sum()
        out[b, :] = w
    return out


@tileflow.kernel
def collected(x, steps: int = 8):
    """A sum in each turn of what was loaded, which later turns only add to."""
    out = x.new_empty(x.size(0))
    for b in tfl.grid(x.size(0)):
        total = tfl.zeros([], dtype=x.dtype)
        for s in range(steps):
            total = total * 0.5 + (x[b, :] * x[s, :]).sum()
        out[b] = total
    return out


@tileflow.kernel
def online(x, y):
    """A sum of exponentials by blocks: they are of the largest so far, which no sum is in."""
    out = x.new_empty(x.size(0))
    for rows in tfl.tile(x.size(0)):
        top, total = tfl.full([rows], float("-inf")), tfl.zeros([rows])
        for keys in tfl.tile(y.size(0)):
            score = x[rows, :] @ y[keys, :].T
            new = torch.maximum(top, score.amax(1))
            total = total * torch.exp(top - new) + torch.exp(score - new[:, None]).sum(1)
            top = new
        out[rows] = top + total.log()
    return out


@tileflow.kernel
def turned_over(x, steps: int = 8):
    """As ``normalised``, by way of a second variable and a branch."""
    out = torch.empty_like(x)
    for b in tfl.grid(x.size(0)):
        w, scale = x[b, :], tfl.full([], 1.0)
        for s in range(steps):
            w = w * scale + x[s, :]
            if s % 2 == 0:
                scale = 1 / w.sum()
        out[b, :] = w
    return out


@tileflow.kernel
def largest(x, steps: int = 8):
    """Extrema of what was divided by them: no rounding parts two of them, but that of the quotient alone."""
    out = torch.empty_like(x)
    for b in tfl.grid(x.size(0)):
        w = x[b, :]
        for s in range(steps):
            w = torch.maximum(w, x[s, :]) - w.amax()
        out[b, :] = w
    return out


@tileflow.kernel
def of_loaded_length(x, starts):
    """As ``normalised``, over as many turns as memory says."""
    out = torch.empty_like(x)
    for b in tfl.grid(x.size(0)):
        w = x[b, :]
        for t in tfl.tile(starts[b], starts[b + 1]):
            w = w * x[t, 0].sum()
            w = w / w.sum()
        out[b, :] = w
    return out


def test_bounds_of_a_loop_are_nothing_that_it_carries() -> None:
    args = torch.rand(64, 32), torch.arange(65, dtype=torch.int32)
    lowered = of_loaded_length.lower(args, target("nvidia-h200"))
    assert "flatten" not in {knob.name for knob in lowered.space.knobs}


@pytest.mark.parametrize(
    ("kernel", "operands", "may_be"),
    [
        (normalised, 1, False),
        (turned_over, 1, False),
        (collected, 1, True),
        (largest, 1, True),
        (online, 2, True),
    ],
)
def test_a_sum_of_what_was_made_with_it_keeps_a_loop_apart(
    kernel: tileflow.Kernel, operands: int, may_be: bool
) -> None:
    lowered = kernel.lower(tuple(torch.rand(64, 32) for _ in range(operands)), target("nvidia-h200"))
    assert ("flatten" in {knob.name for knob in lowered.space.knobs}) == may_be
