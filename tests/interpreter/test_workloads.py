"""Kernels of whole workloads, through Triton's interpreter in both shape modes, and eagerly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from interpreted import close, load_module

KERNELS = str(Path(__file__).parent / "workload_kernels.py")
CASES = load_module(KERNELS).CASES
MODES = ("static", "dynamic")


@pytest.fixture(scope="module")
def interpreted(interpreter: Callable[..., Any]) -> dict[tuple[str, str], str]:
    names = [(name, mode) for name in CASES for mode in MODES]
    return dict(zip(names, interpreter("interpreted:run_cases", KERNELS, names), strict=True))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CASES)
def test_workload(interpreted: dict[tuple[str, str], str], name: str, mode: str) -> None:
    assert interpreted[name, mode] == ""


@pytest.mark.parametrize("name", CASES)
def test_workload_eagerly(name: str) -> None:
    case = CASES[name]
    assert close(case.kernel.run_eagerly(*case.args), case.wanted(*case.args)) == ""
