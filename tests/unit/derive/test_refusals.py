"""What no backward is derived for is refused by name, with the place and what to write."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.errors import CallError, GradientError

Tensor = torch.Tensor


@tileflow.kernel
def carried_product(x: Tensor) -> Tensor:
    out = x.new_empty(x.size(0))
    for tile in tfl.tile(x.size(0)):
        total = tfl.full([tile], 1.0)
        for other in tfl.tile(x.size(1)):
            total = total * x[tile, other].sum(1)
        out[tile] = total
    return out


@tileflow.kernel
def running_peak(x: Tensor) -> Tensor:
    """The peak itself is a result: it does not cancel."""
    out = x.new_empty(x.size(0))
    for tile in tfl.tile(x.size(0)):
        peak = tfl.full([tile], float("-inf"))
        for other in tfl.tile(x.size(1)):
            peak = torch.maximum(peak, x[tile, other].amax(1))
        out[tile] = peak
    return out


@tileflow.kernel
def in_place(x: Tensor) -> Tensor:
    for tile in tfl.tile(x.size(0)):
        x[tile] = x[tile] * 2
    return x


@tileflow.kernel
def read_back(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] * 2
        out[tile] = out[tile] * x[tile]
    return out


@tileflow.kernel
def stored_twice(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] * 2
        out[tile] = x[tile] * 3
    return out


@tileflow.kernel
def stored_in_turns(x: Tensor) -> Tensor:
    """The last turn's is what stays."""
    out = x.new_empty(x.size(0))
    for tile in tfl.tile(x.size(0)):
        for other in tfl.tile(x.size(1)):
            out[tile] = x[tile, other].sum(1)
    return out


@tileflow.kernel
def stored_in_branches_of_two(x: Tensor, flag: Tensor) -> Tensor:
    """Two branches, both of which a program may take."""
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        if flag[0] > 0:
            out[tile] = x[tile] * 2
        if flag[1] > 0:
            out[tile] = x[tile] * 3
    return out


@tileflow.kernel
def halved_until_small(x: Tensor) -> Tensor:
    out = x.new_empty(x.size(0))
    for i in tfl.grid(x.size(0)):
        value = x[i]
        while value > 1:
            value = value / 2
        out[i] = value
    return out


@tileflow.kernel
def inside_a_branch(x: Tensor, flag: bool) -> Tensor:
    out = torch.zeros_like(x)
    if flag:
        for tile in tfl.tile(x.size(0)):
            out[tile] = x[tile]
    return out


@tileflow.kernel
def largest_atomic(x: Tensor) -> Tensor:
    out = x.new_zeros(1)
    for tile in tfl.tile(x.size(0)):
        tfl.atomic_max(out, [0], x[tile].amax(0))
    return out


@tileflow.kernel
def ints(x: Tensor) -> Tensor:
    out = torch.empty(x.shape, dtype=torch.int32, device=x.device)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile].int()
    return out


@tileflow.kernel
def by_a_view_of_a_result(x: Tensor) -> tuple[Tensor, Tensor]:
    """Autograd sees no store to the result by the name that it is returned by: its gradient was 0, without a word."""
    out, other = x.new_empty(x.size(1), x.size(0)), torch.empty_like(x)
    turned = out.mT
    for tile in tfl.tile(x.size(0)):
        turned[tile, :] = x[tile, :].sin()
        other[tile, :] = x[tile, :] * 2
    return out, other


@tileflow.kernel
def by_a_turned_part(x: Tensor) -> Tensor:
    out = x.new_empty(x.size(0), x.size(2), x.size(1))
    for b in tfl.grid(x.size(0)):
        turned = out[b].T
        for tile in tfl.tile(x.size(1)):
            turned[tile] = x[b, tile].sin()
    return out


def closing_over(bias: Tensor) -> Callable[[Any, Any], Any]:
    return lambda value, tile: value + bias[tile]


@tileflow.kernel
def with_a_function(x: Tensor, epilogue: Callable[[Any, Any], Any]) -> Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = epilogue(x[tile] * 2, tile)
    return out


@tileflow.kernel
def welford(x: Tensor) -> Tensor:
    """The mean of a row, updated block by block."""
    out = x.new_empty(x.size(0))
    for tile in tfl.tile(x.size(0)):
        mean, count = tfl.zeros([tile]), 0.0
        for other in tfl.tile(x.size(1)):
            here = other.end - other.begin
            count = count + here
            mean += (x[tile, other].sum(1) / here - mean) * (here / count)
        out[tile] = mean
    return out


ROWS = torch.randn(4, 6)
ROW = torch.randn(6)
REFUSED: dict[str, tuple[Any, tuple[Any, ...], str]] = {
    "carried product": (carried_product, (ROWS,), "what a loop carries is a sum"),
    "running peak": (running_peak, (ROWS,), "what a loop carries is a sum"),
    "a running mean": (welford, (ROWS,), "is a sum.*mean, float32.*in another way.*torch.var_mean of the row"),
    "in place": (in_place, (ROW,), "writes to tensors of its own.*x, which is an argument"),
    "read back": (read_back, (ROW,), "does not read what it writes.*out"),
    "stored twice": (stored_twice, (ROW,), "to elements of their own.*two to out"),
    "stored in turns": (stored_in_turns, (ROWS,), "to elements of their own.*one in each turn of a loop"),
    "two branches": (stored_in_branches_of_two, (ROW, ROW), "to elements of their own.*two to out"),
    "a while": (halved_until_small, (ROW,), "while is computed again"),
    "launch in a branch": (inside_a_branch, (ROW, True), "stand in the kernel's body.*inside another statement"),
    "atomic_max": (largest_atomic, (ROW,), "that add.*atomic_max"),
    "a view of a result": (by_a_view_of_a_result, (ROWS,), r"by one name.*shape \(4, 6\) of one of shape \(6, 4\)"),
    "a turned part": (by_a_turned_part, (ROWS[None],), "takes views in host code.*out.permute"),
    "no gradient": (ints, (ROW,), "has a result with a gradient"),
    "a closure": (with_a_function, (ROW, closing_over(torch.randn(6))), "what the kernel's arguments hold"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(name: str) -> None:
    kernel, args, message = REFUSED[name]
    with pytest.raises(GradientError) as caught:
        tileflow.derive_backward(kernel).source(*args)
    text = str(caught.value)
    assert re.search(message, text, re.DOTALL), text
    assert caught.value.where is not None or name == "a closure"
    assert "tileflow.differentiable" in text or name == "no gradient"


def test_the_place_is_the_users_line() -> None:
    with pytest.raises(GradientError) as caught:
        tileflow.derive_backward(largest_atomic).source(ROW)
    assert "tfl.atomic_max(out, [0], x[tile].amax(0))" in str(caught.value)


def test_gradients_of_what_nobody_differentiates_refuse_nothing() -> None:
    """A product of ints, and one whose result is not returned."""

    text = tileflow.derive_backward(beside).source(ROWS, torch.arange(4))
    assert "prod" not in text and "grad_x[" in text


@tileflow.kernel
def beside(x: Tensor, counts: Tensor) -> Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        unused = x[tile, :].prod(1)  # noqa: F841
        out[tile, :] = x[tile, :] * counts[tile][:, None]
    return out


def test_a_kernel_of_any_number_of_tensors_is_refused_by_its_parameter() -> None:
    """They came as one tuple, which the kernel's own line was blamed for; in a list they are differentiated."""

    @tileflow.kernel
    def sum_of(*tensors: Tensor) -> Tensor:
        out = torch.empty_like(tensors[0])
        for tile in tfl.tile(out.size(0)):
            out[tile] = sum(x[tile] for x in tensors)
        return out

    with pytest.raises(GradientError, match=r"\*tensors(.|\n)*take the tensors in one, tensors: list"):
        tileflow.derive_backward(sum_of)
    with pytest.raises(GradientError, match=r"\*tensors"):
        tileflow.differentiable(sum_of)


def test_calls_that_a_derived_backward_does_not_take() -> None:
    with pytest.raises(CallError, match="a @tileflow"):
        tileflow.derive_backward(len)
    with pytest.raises(CallError, match="a @tileflow"):
        tileflow.derive_backward(tileflow.derive_backward(beside))
    with pytest.raises(CallError, match="by position"):
        tileflow.derive_backward(beside)(x=ROWS)
    with pytest.raises(CallError, match="saves the arguments"):
        tileflow.differentiable(beside, save=("x",))
