"""Launches that store nothing because Python chose so: right, where another way through the code would have stored."""

# Code as a user would write it.
# ruff: noqa: F841

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import tileflow
import tileflow.compat.helion.language as hl
import tileflow.language as tfl
from tileflow.errors import TraceError

X = torch.empty(64, device="meta")


def optional_output(x, out):
    for tile in tfl.tile(x.size(0)):
        if out is not None:
            out[tile] = x[tile] * 2


def optional_atomic(x, out):
    for tile in tfl.tile(x.size(0)):
        y = x[tile].sum() if out is None else tfl.atomic_add(out, [0], x[tile].sum())


def outputs_in_a_list(x, out):
    for tile in tfl.tile(x.size(0)):
        for each in out or ():
            each[tile] = x[tile]


def save(out, tile, value):
    tfl.store(out, [tile], value)


def saved_by_a_helper(x, out):
    for tile in tfl.tile(x.size(0)):
        if out is not None:
            save(out, tile, x[tile])


def saved_by_the_dialect(x, out):
    for tile in tfl.tile(x.size(0)):
        if out is not None:
            hl.store(out, [tile], x[tile])


def saved_by_an_argument(x, out, save=lambda tile, value: None):
    for tile in tfl.tile(x.size(0)):
        if out is not None:
            save(tile, x[tile])


CHOSEN = [
    optional_output, optional_atomic, outputs_in_a_list, saved_by_a_helper, saved_by_the_dialect, saved_by_an_argument
]  # fmt: skip


@pytest.mark.parametrize("function", CHOSEN, ids=lambda f: f.__name__)
def test_a_way_that_stores_nothing_is_the_callers_choice(function: Callable[..., Any]) -> None:
    assert len(tileflow.kernel(function).triton_source(X, None)) == 1


def any_of_them(x, out):
    for tile in tfl.tile(x.size(0)):
        out[0] = x[tile].sum()


def one_of_them(x, out):
    for tile in tfl.tile(x.size(0)):
        tfl.store(out, [0], x[tile].sum(), extra_mask=tile.id == 0)


def test_stores_that_overwrite_each_other_are_refused_with_the_way_around() -> None:
    with pytest.raises(TraceError, match=re.escape("tfl.store(out, index, value, extra_mask=tile.id == 0)")):
        tileflow.kernel(any_of_them).triton_source(X, X)
    assert len(tileflow.kernel(one_of_them).triton_source(X, X)) == 1
