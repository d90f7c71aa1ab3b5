"""Routed experts with ragged counts (issue 14, finding 2)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from interpreted import load_module

KERNELS = str(Path(__file__).parent / "moe_kernels.py")
CASES = load_module(KERNELS).CASES


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_routed(interpreter: Callable[..., Any], name: str, mode: str) -> None:
    (wrong,) = interpreter("interpreted:run_cases", KERNELS, [(name, mode)])
    assert wrong == ""
