"""Derived backward passes through Triton's interpreter: the same kernels that finite differences check as Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tile_testing.kernels.derived_kernels import EXAMPLES
from tile_testing.runs.derived_functions import NAMES
from tile_testing.tiers import every_other


@pytest.mark.parametrize("name", every_other(EXAMPLES))
def test_as_triton(interpreter: Callable[..., Any], name: str) -> None:
    assert interpreter("runs.derived_runs:run", name) == ""


@pytest.mark.parametrize("name", NAMES)
def test_functions_as_triton(interpreter: Callable[..., Any], name: str) -> None:
    """At 0, at bounds and far out, where ops of a function alone have other gradients."""
    assert interpreter("runs.derived_functions:run", name) == ""
