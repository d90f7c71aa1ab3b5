"""What is sorted twice is sorted once (passes/share_sorts.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import tileflow
import tileflow.language as tfl
from tileflow.ir.kinds import OpKind
from tileflow.target import target

H100 = target("nvidia-h100-sxm")
X = torch.randn(16, 40)


@tileflow.kernel
def summary(x, out, middle):
    """Three functions that sort, of rows that each statement loads anew, with stores between them."""
    for t in tfl.tile(x.size(0)):
        out[t] = torch.quantile(x[t, :], 0.25, dim=1)
        middle[t] = x[t, :].median(dim=1).values
        out[t] = out[t] + torch.sort(x[t, :], dim=1).values[:, 3]


@tileflow.kernel
def within(x, out, turns: int):
    """The second sort is in a loop inside, and the third one in the next launch."""
    for t in tfl.tile(x.size(0)):
        first = torch.sort(x[t, :], 1).values
        total = first[:, 0]
        for i in range(turns):
            total = total + i * torch.sort(x[t, :], 1).values[:, 1]
        out[t] = total
    for t in tfl.tile(x.size(0)):
        out[t] = out[t] + torch.sort(x[t, :], 1).values[:, 2]


@tileflow.kernel
def written_between(x, out):
    """The second sort is of other numbers."""
    for t in tfl.tile(x.size(0)):
        out[t] = torch.sort(x[t, :], 1).values[:, 0]
        x[t, :] = -x[t, :]
        out[t] = out[t] + torch.sort(x[t, :], 1).values[:, 0]


@tileflow.kernel
def through_another_name(x, y, out):
    for t in tfl.tile(x.size(0)):
        out[t] = torch.sort(x[t, :], 1).values[:, 0]
        y[t, :] = -x[t, :]
        out[t] = out[t] + torch.sort(x[t, :], 1).values[:, 0]


@tileflow.kernel
def centred(x, out):
    """The rows are made alike twice, by a mean each."""
    for t in tfl.tile(x.size(0)):
        out[t] = torch.sort(x[t, :] - x[t, :].mean(1, keepdim=True), 1).values[:, 1]
        out[t] = out[t] + torch.sort(x[t, :] - x[t, :].mean(1, keepdim=True), 1).values[:, 2]


@tileflow.kernel
def other_numbers(f, x, out):
    for t in tfl.tile(x.size(0)):
        out[t] = torch.sort(x[t, :], 1).values[:, 0] + torch.sort(f(x[t, :]), 1).values[:, 0]


def sorts(kernel: Any, *args: Any) -> int:
    return sum(op.kind is OpKind.SORT for ir in kernel.lower(args, H100).regions for op in ir.walk())


def test_three_functions_sort_once() -> None:
    assert sorts(summary, X, torch.empty(16), torch.empty(16)) == 1


def test_a_sort_stands_for_those_in_loops_of_its_block() -> None:
    assert sorts(within, X, torch.empty(16), 40) == 2  # one a launch


def test_rows_that_are_made_alike_are_equal() -> None:
    assert sorts(centred, X, torch.empty(16)) == 1


def test_what_is_written_between_is_sorted_anew() -> None:
    assert sorts(written_between, X.clone(), torch.empty(16)) == 2


def test_two_names_of_one_tensor_are_told_apart() -> None:
    """Of two tensors one sort; a call with one in both places runs a variant of its own."""
    assert sorts(through_another_name, X, torch.empty_like(X), torch.empty(16)) == 1
    both = X.clone()
    assert sorts(through_another_name, both, both, torch.empty(16)) == 2


@pytest.mark.parametrize(
    ("f", "count"),
    [
        (lambda x: x, 1),
        (lambda x: x + 0, 2),
        (lambda x: x * 2, 2),
        (lambda x: x.half().float(), 2),
        (lambda x: x.flip(1), 2),
    ],
)
def test_only_equal_rows_are_shared(f: Callable[..., Any], count: int) -> None:
    assert sorts(other_numbers, f, X, torch.empty(16)) == count


@tileflow.kernel
def by_zero(x, out):
    """Zeros of two signs, which are equal as numbers, and other keys of a sort."""
    for t in tfl.tile(x.size(0)):
        first = torch.sort(x[t, :] * 0.0, 1).values
        out[t, :] = first.view(torch.int32) + torch.sort(x[t, :] * -0.0, 1).values.view(torch.int32)


def test_zeros_of_two_signs_are_other_numbers() -> None:
    assert sorts(by_zero, X, torch.empty(16, 40, dtype=torch.int32)) == 2
