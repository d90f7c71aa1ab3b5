"""The most of a dimension from its start stays where it lies: registers hold as many lanes, and none is moved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import tileflow
import tileflow.language as tfl
from tileflow.target import target

H100 = target("nvidia-h100-sxm")


@tileflow.kernel
def of_rows(f, x, out):
    for t in tfl.tile(x.size(0)):
        out[t, :] = f(x[t, :])


def in_registers(f: Callable[..., Any]) -> Callable[..., Any]:
    """``f`` of rows that no load gives."""
    return lambda rows: f(rows.cumsum(1))


def moved(f: Callable[..., Any], columns: int) -> int:
    """How often lanes are moved within a row."""
    x = torch.empty(64, columns)
    lowered = of_rows.lower((f, x.to("meta"), f(x).to("meta")), H100)
    return sum(source.text.count("tl.gather(") for source in lowered.emit(lowered.default))


def all_but_the_last(row):
    return row[:, :-1]


def with_a_zero_behind(row):
    return F.pad(row, (0, 1))


def first_and_rest(row):
    first, rest = torch.split(row, [20, 10], 1)
    return first * rest.sum(1, keepdim=True)


def behind_another(row):
    return torch.cat([row, row[:, :1]], 1)


def differences(row):
    return row.diff(dim=1)


def differences_from_zero(row):
    return torch.diff(row, dim=1, prepend=torch.zeros_like(row[:, :1]))


def differences_to_zero(row):
    return torch.diff(row, dim=1, append=torch.zeros_like(row[:, :1]))


def second_differences(row):
    return row.diff(n=2, dim=1)


MOVES = {
    all_but_the_last: 0,
    with_a_zero_behind: 0,
    first_and_rest: 1,
    behind_another: 0,
    differences: 1,
    differences_from_zero: 1,
    differences_to_zero: 1,
    second_differences: 2,
}


@pytest.mark.parametrize("f", MOVES, ids=lambda f: f.__name__)
def test_lanes_are_moved_once(f: Callable[..., Any]) -> None:
    """On the code before, each moved once or twice more."""
    assert moved(in_registers(f), 30) == MOVES[f]


@pytest.mark.parametrize("f", MOVES, ids=lambda f: f.__name__)
def test_parts_of_loaded_rows_are_loaded(f: Callable[..., Any]) -> None:
    """On the code before, they were moved as those of any other rows. A zero in front moves all that follows it."""
    assert moved(f, 30) == (f is differences_from_zero)


def test_registers_of_another_length_are_gathered() -> None:
    """33 columns take 64 lanes, 17 of them 32."""
    assert moved(in_registers(lambda row: row[:, :17]), 33) == 1
