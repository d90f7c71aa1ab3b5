"""What holds for each kernel of a file of ``CASES``: the same in all executions. A test module that names such a
file, ``KERNELS``, and its ``CASES``, imports these tests; ``tests/interpreter/conftest.py`` gives them the names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .compiled import compile_for_one
from .interpreted import close, run_eagerly
from .placing import place


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_construct(interpreted: dict[tuple[str, str], str], construct: str, mode: str) -> None:
    """Through Triton's interpreter."""
    assert interpreted[construct, mode] == ""


def test_construct_eagerly(cases: dict[str, Any], construct: str) -> None:
    """As plain Python over tiles."""
    case = cases[construct]
    if case.eager:
        pytest.skip(case.eager)
    assert run_eagerly(case) == ""


def test_construct_compiles(cases: dict[str, Any], construct: str) -> None:
    """By one of the targets each."""
    compile_for_one(cases[construct], list(cases).index(construct))


def test_construct_by_portable_variants(
    request: pytest.FixtureRequest, interpreter: Callable[..., Any], cases: dict[str, Any], construct: str
) -> None:
    """By the variants for any call, through Triton's interpreter."""
    case, path = cases[construct], request.module.KERNELS
    (got,) = interpreter("runs.portable_runs:run", path, construct, *(place((case.args, [case.args]), "cpu")))
    assert close(got, case.wanted(*place(case.args, "cpu"))) == ""
