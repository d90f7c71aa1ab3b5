"""Routed experts with ragged counts (issue 14, finding 2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tile_testing.kernels import path_of
from tile_testing.runs.interpreted import load_module

KERNELS = path_of("moe_kernels")
CASES = load_module(KERNELS).CASES


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_routed(interpreter: Callable[..., Any], name: str, mode: str) -> None:
    (wrong,) = interpreter("runs.interpreted:run_cases", KERNELS, [(name, mode)])
    assert wrong == ""
