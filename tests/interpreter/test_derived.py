"""Derived backward passes through Triton's interpreter: the same kernels that finite differences check as Python."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
from derived_kernels import EXAMPLES


@pytest.mark.parametrize("name", EXAMPLES)
def test_as_triton(interpreter: Callable[..., Any], name: str) -> None:
    assert interpreter("derived_runs:run", name) == ""
