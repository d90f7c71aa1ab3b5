"""Kernels written against another dialect's names, which only ``helion`` in ``sys.modules`` gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tile_testing.runs.compat_runs import cases, check

Interpreter = Callable[..., Any]

# Kernels that need a construct that the language does not have yet: strict, so that they turn on with it.
MISSING: dict[str, str] = {}
# Where the eager meaning is another.
ON_GPUS = "on a CPU torch's own function takes combine_mode='generic' only"
EAGERLY = {
    "inline_text": "text in Triton has no meaning as plain Python",
    "scan_of_torch": ON_GPUS,
    "scan_of_pairs_of_torch": ON_GPUS,
}

NAMES = tuple(cases())


def parameters(expected_failures: dict[str, str]) -> list[Any]:
    return [
        pytest.param(name, marks=pytest.mark.xfail(strict=True, reason=expected_failures[name]))
        if name in expected_failures
        else name
        for name in NAMES
    ]


@pytest.fixture(scope="module")
def interpreted(interpreter: Interpreter) -> dict[str, str]:
    """What is wrong with each case; few enough in one call of the process that interprets for its limit."""
    groups = [NAMES[n : n + 25] for n in range(0, len(NAMES), 25)]
    return {
        n: r for group in groups for n, r in zip(group, interpreter("runs.compat_runs:check_all", group), strict=True)
    }


def test_there_are_enough_kernels_that_run() -> None:
    print(f"{len(NAMES) - len(MISSING)} of {len(NAMES)} kernels of the dialect run")
    assert len(NAMES) - len(MISSING) >= 80


@pytest.mark.slow
@pytest.mark.parametrize("name", parameters(MISSING))
def test_through_the_interpreter(interpreted: dict[str, str], name: str) -> None:
    assert interpreted[name] == ""


@pytest.mark.parametrize("name", parameters(EAGERLY))
def test_as_plain_python(name: str) -> None:
    assert check(name) == ""
