"""Masks that full blocks jump over: the values stay, at sizes that blocks divide and at others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

# by rows, and whether causal: branches of each launch. The loop of keys' and values' gradients takes 128 queries from
# where a program's 64 keys begin; that of queries' gradient 128 keys up to where its 64 queries end.
GRADIENTS = [
    ("static", 256, False, [0, 0, 0]),
    ("static", 256, True, [0, 2, 1]),
    ("static", 200, False, [0, 2, 1]),
    ("static", 200, True, [0, 2, 1]),
    ("dynamic", 200, True, [0, 2, 1]),
    ("dynamic", 256, False, [0, 2, 1]),
]


@pytest.mark.parametrize(("mode", "m", "causal", "branches"), GRADIENTS)
def test_gradients_of_attention(
    interpreter: Callable[..., Any], mode: str, m: int, causal: bool, branches: list[int]
) -> None:
    assert interpreter("runs.full_block_runs:check", "gradients", m, causal, mode) == (branches, [])


@pytest.mark.parametrize(("m", "causal", "branches"), [(256, False, 0), (200, False, 3), (256, True, 0)])
def test_attention(interpreter: Callable[..., Any], m: int, causal: bool, branches: int) -> None:
    assert interpreter("runs.full_block_runs:check", "attention", m, causal, "static") == ([branches], [])
