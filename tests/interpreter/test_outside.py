"""14.3: what a kernel reads besides its arguments takes effect when it changes, and ints that change are served."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tile_testing.kernels.changing_tensors import CASES


@pytest.fixture(scope="module")
def outcomes(interpreter: Callable[..., Any]) -> dict[str, str]:
    return dict(zip(CASES, interpreter("kernels.changing_tensors:run", [*CASES]), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_a_change_takes_effect_on_the_next_call(outcomes: dict[str, str], name: str) -> None:
    assert outcomes[name] == ""
