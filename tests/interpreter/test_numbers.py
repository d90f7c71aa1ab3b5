"""Arithmetic of numbers that are no tiles, through the interpreter and eagerly."""

from __future__ import annotations

import pytest
from tile_testing.kernels import path_of
from tile_testing.runs.interpreted import load_module, run_eagerly

KERNELS = path_of("number_kernels")
CASES = load_module(KERNELS).CASES


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_kernel(interpreted: dict[tuple[str, str], str], name: str, mode: str) -> None:
    assert interpreted[name, mode] == ""


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if not c.eager])
def test_kernel_eagerly(name: str) -> None:
    assert run_eagerly(CASES[name]) == ""
