"""Loops whose turns several programs share give what one program gives, by value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tile_testing.tiers import every_other

CASES = [
    ("routed", {"experts": 3, "m": 100, "n": 70, "k": 33}),
    ("routed", {"experts": 2, "m": 5, "n": 64, "k": 16}),
    ("sums_of_rows", {"b": 2, "m": 131, "n": 40}),
    ("examples.grouped_matmul:grouped_matmul", {"groups": 3, "m": 100, "n": 40, "k": 33, "dtype": "float16"}),
    ("examples.grouped_matmul:grouped_matmul_flat", {"groups": 3, "m": 100, "n": 40, "k": 33, "dtype": "float16"}),
]


@pytest.mark.parametrize("mode", every_other(["static", "dynamic"]))
@pytest.mark.parametrize(("name", "problem"), CASES, ids=[f"{n.rpartition(':')[2]}-{p['m']}" for n, p in CASES])
def test_random_configs(interpreter: Callable[..., Any], name: str, problem: dict[str, Any], mode: str) -> None:
    assert not interpreter("runs.spread_runs:wrong", name, problem, mode, problem["m"], 2)
