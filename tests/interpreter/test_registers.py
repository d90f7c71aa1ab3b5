"""What people make in registers, through the interpreter and eagerly, at sizes that leave tails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from interpreted import close, load_module

KERNELS = str(Path(__file__).parent / "register_kernels.py")
CASES = load_module(KERNELS).CASES


@pytest.fixture(scope="module")
def interpreted(interpreter: Callable[..., Any]) -> dict[tuple[str, str], str]:
    """What is wrong with each case in each mode, all in one call of the other process."""
    names = [(name, mode) for name in CASES for mode in ("static", "dynamic")]
    results: list[str] = interpreter("interpreted:run_cases", KERNELS, names)
    return dict(zip(names, results, strict=True))


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_kernel(interpreted: dict[tuple[str, str], str], name: str, mode: str) -> None:
    assert interpreted[name, mode] == ""


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if not c.eager])
def test_kernel_eagerly(name: str) -> None:
    case = CASES[name]
    args = tuple(a.clone() if isinstance(a, torch.Tensor) else a for a in case.args)
    assert close(case.kernel.run_eagerly(*args, config=dict(case.config)), case.wanted(*case.args)) == ""
