"""Loops around products that are axes of the grid give what their author wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tile_testing.kernels import path_of
from tile_testing.runs.interpreted import close, load_module

KERNELS = path_of("grid_loop_kernels")
CASES = load_module(KERNELS).CASES


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_loops(interpreted: dict[tuple[str, str], str], name: str, mode: str) -> None:
    assert interpreted[name, mode] == ""


@pytest.mark.parametrize("name", CASES)
def test_portable_variants_of_loops(interpreter: Callable[..., Any], name: str) -> None:
    case = CASES[name]
    (got,) = interpreter("runs.portable_runs:run", KERNELS, name, case.args, [case.args])
    assert close(got, case.wanted(*case.args)) == ""
