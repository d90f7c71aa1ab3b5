"""What views name of a tile, and which have no element in common."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from tileflow.expr import Expr
from tileflow.language.cuts import are_apart, cut_of

N = Expr.sym("n")
RUNS = [slice(a, b, c) for a in (None, 0, 2, -3) for b in (None, 3, -1, 9) for c in (None, 2)]


@pytest.mark.parametrize(("one", "other"), list(product([*RUNS, 0, 4, -1], repeat=2)))
def test_numbers_are_compared_one_by_one(one: Any, other: Any) -> None:
    def named(item: Any) -> set[int]:
        places = range(6)[item]
        return {*places} if isinstance(places, range) else {places}

    cuts = (cut_of([slice(None), item], [8, 6]) for item in (one, other))
    assert are_apart(*cuts) == named(one).isdisjoint(named(other))


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        ([slice(None, N)], [slice(N, None)], True),
        ([slice(None, N + 1)], [slice(N, None)], False),
        ([slice(None, -2)], [slice(-2, None)], True),
        ([N], [N + 1], True),
        ([N], [slice(N + 1, N + 4)], True),
        ([N], [3], False),
        ([Ellipsis, 0], [Ellipsis, 1], True),
        ([None, 0], [1], True),
        ([0], [slice(None), 0], False),
        ([], [0], False),
    ],
)
def test_sizes_are_compared_as_far_as_they_are_known(one: list[Any], other: list[Any], apart: bool) -> None:
    sizes = [N * 2, N * 2]
    assert are_apart(cut_of(one, sizes), cut_of(other, sizes)) is apart
