"""The ends of tensors, sizes of 1 and of 0: nothing is read or written outside (issue 14, finding 2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tile_testing.kernels import path_of
from tile_testing.runs.interpreted import load_module, run_eagerly

Interpreter = Callable[..., Any]
KERNELS = path_of("bounds_kernels")
CASES = load_module(KERNELS).CASES


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_bounds(interpreted: dict[tuple[str, str], str], name: str, mode: str) -> None:
    assert interpreted[name, mode] == ""


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if not c.eager])
def test_bounds_eagerly(name: str) -> None:
    assert run_eagerly(CASES[name]) == ""
