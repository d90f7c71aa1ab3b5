"""Slices with a step and kernels of whole workloads, through Triton's interpreter in both shape modes, and eagerly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tile_testing.kernels import path_of
from tile_testing.runs.interpreted import close, load_module

KERNELS = {file: path_of(file) for file in ("stepped_kernels", "workload_kernels")}
CASES = {(file, name): case for file, path in KERNELS.items() for name, case in load_module(path).CASES.items()}
MODES = ("static", "dynamic")


@pytest.fixture(scope="module")
def interpreted(interpreter: Callable[..., Any]) -> dict[tuple[str, str, str], str]:
    found = {}
    for file, path in KERNELS.items():
        names = [(name, mode) for of, name in CASES if of == file for mode in MODES]
        reasons = interpreter("runs.interpreted:run_cases", path, names)
        found |= {(file, *name): reason for name, reason in zip(names, reasons, strict=True)}
    return found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("file", "name"), CASES)
def test_interpreted(interpreted: dict[tuple[str, str, str], str], file: str, name: str, mode: str) -> None:
    assert interpreted[file, name, mode] == ""


@pytest.mark.parametrize(("file", "name"), CASES)
def test_eagerly(file: str, name: str) -> None:
    case = CASES[file, name]
    assert close(case.kernel.run_eagerly(*case.args), case.wanted(*case.args)) == ""
