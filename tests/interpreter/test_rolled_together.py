"""Reductions and stored rows of one tile as loops: the same values whichever of them are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.mark.parametrize("shape", [(2, 200, 300), (1, 257, 131)])
def test_a_norm_by_groups_is_right_with_both_as_loops(interpreter: Callable[..., Any], shape: tuple[int, ...]) -> None:
    found = interpreter("runs.rolled_runs:check", "norm_by_groups", shape)
    assert (128, 128) in found and set(found.values()) == {""}


def test_maxima_that_need_each_other_whole_are_never_both_loops(interpreter: Callable[..., Any]) -> None:
    found = interpreter("runs.rolled_runs:check", "less_both_maxima", (1, 200, 300))
    assert {0 in chosen for chosen in found} == {True} and len(found) > 1 and set(found.values()) == {""}


@pytest.mark.parametrize(
    ("name", "shape"),
    [("stored_rows", (3, 300)), ("stored_boxes", (2, 130, 131)), ("stored_beside_a_sum", (2, 130, 257))],
)
def test_rows_that_are_stored_are_right_as_loops(interpreter: Callable[..., Any], name: str, shape: Any) -> None:
    found = interpreter("runs.rolled_runs:check", name, shape)
    assert len(found) == 2 ** (len(shape) - 1) and set(found.values()) == {""}
