"""Python's own things in device code, in all three executions: as Python, through Triton's interpreter, compiled."""

from __future__ import annotations

import pytest
from tile_testing.kernels import path_of
from tile_testing.kernels.python_kernels import CASES
from tile_testing.runs.compiled import compile_for_one
from tile_testing.runs.interpreted import run_eagerly

KERNELS = path_of("python_kernels")


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_construct(interpreted: dict[tuple[str, str], str], name: str, mode: str) -> None:
    assert interpreted[name, mode] == ""


@pytest.mark.parametrize("name", CASES)
def test_construct_eagerly(name: str) -> None:
    assert run_eagerly(CASES[name]) == ""


@pytest.mark.parametrize("number", range(len(CASES)), ids=list(CASES))
def test_construct_compiles(number: int) -> None:
    compile_for_one(list(CASES.values())[number], number)
