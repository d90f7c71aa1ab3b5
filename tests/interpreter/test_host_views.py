"""Views that host code takes, wherever in memory they start (issue 14, finding 4): ``x[:, 1:]``, ``for row in x``,
``qkv.chunk(3, -1)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tile_testing.kernels import path_of
from tile_testing.runs.interpreted import Call, close, load_module

Interpreter = Callable[..., Any]
KERNELS = path_of("view_kernels")
CASES = load_module(KERNELS).CASES


@pytest.fixture(scope="module")
def results(interpreter: Interpreter) -> dict[tuple[str, str], Any]:
    """Of the arguments themselves, not of copies, which would start elsewhere."""
    names = [(name, mode) for name in CASES for mode in ("static", "dynamic")]
    found = interpreter(
        "runs.interpreted:run_all", [Call(KERNELS, name, CASES[name].args, (), mode) for name, mode in names]
    )
    return dict(zip(names, found, strict=True))


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_view(results: dict[tuple[str, str], Any], name: str, mode: str) -> None:
    case = CASES[name]
    assert close(results[name, mode], case.wanted(*case.args)) == ""


@pytest.mark.parametrize("name", CASES)
def test_portable_variants_of_views(interpreter: Interpreter, name: str) -> None:
    """The variants that take any alignment, lowered for a call and called with it."""
    case = CASES[name]
    (got,) = interpreter("runs.portable_runs:run", KERNELS, name, case.args, [case.args])
    assert close(got, case.wanted(*case.args)) == ""
