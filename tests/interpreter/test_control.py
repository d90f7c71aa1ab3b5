"""Loops, branches, functions and knobs, in all three executions: as Python, through Triton's interpreter, compiled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from control_kernels import CASES
from interpreted import close

Interpreter = Callable[..., Any]
PATH = str(Path(__file__).parent / "control_kernels.py")


@pytest.fixture(scope="module")
def interpreted(interpreter: Interpreter) -> dict[tuple[str, str], str]:
    """What is wrong with each case in each mode, under its own config and a random one."""
    names = [(name, mode) for name in CASES for mode in ("static", "dynamic")]
    results: list[str] = interpreter("interpreted:run_cases", PATH, names)
    return dict(zip(names, results, strict=True))


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_construct(interpreted: dict[tuple[str, str], str], name: str, mode: str) -> None:
    assert interpreted[name, mode] == ""


@pytest.mark.parametrize("name", CASES)
def test_construct_eagerly(name: str) -> None:
    case = CASES[name]
    args = tuple(a.clone() if isinstance(a, torch.Tensor) else a for a in case.args)
    assert close(case.kernel.run_eagerly(*args, config=dict(case.config)), case.wanted(*case.args)) == ""
