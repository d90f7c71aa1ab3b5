"""Views that device code takes of the tensors that it is given: ``x.T[b, a]``, ``out.view(-1)[t] = x.flatten()[t]``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tile_testing.kernels import path_of
from tile_testing.runs.interpreted import close, load_module

KERNELS = path_of("device_view_kernels")
CASES = load_module(KERNELS).CASES


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_view(interpreted: dict[tuple[str, str], str], name: str, mode: str) -> None:
    assert interpreted[name, mode] == ""


@pytest.mark.parametrize("name", CASES)
def test_view_as_plain_python(name: str) -> None:
    case = CASES[name]
    got = case.kernel.run_eagerly(*case.args, config=dict(case.config))
    assert close(got, case.wanted(*case.args)) == ""


@pytest.mark.parametrize("name", CASES)
def test_portable_variants_of_views(interpreter: Callable[..., Any], name: str) -> None:
    case = CASES[name]
    (got,) = interpreter("runs.portable_runs:run", KERNELS, name, case.args, [case.args])
    assert close(got, case.wanted(*case.args)) == ""
