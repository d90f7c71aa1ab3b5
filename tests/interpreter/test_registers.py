"""What people make in registers, through the interpreter and eagerly, at sizes that leave tails."""

from __future__ import annotations

from pathlib import Path

import pytest
from interpreted import load_module, run_eagerly

KERNELS = str(Path(__file__).parent / "register_kernels.py")
CASES = load_module(KERNELS).CASES


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_kernel(interpreted: dict[tuple[str, str], str], name: str, mode: str) -> None:
    assert interpreted[name, mode] == ""


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if not c.eager])
def test_kernel_eagerly(name: str) -> None:
    assert run_eagerly(CASES[name]) == ""
