"""A call under TRITON_INTERPRET=1 that says nothing of a config."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tile_testing.runs.plain_calls import CALLS

from tileflow.serve import ANY_TARGET, MOST_SHAPES
from tileflow.target import target


@pytest.mark.parametrize("name", CALLS)
def test_the_defaults_have_what_the_interpreter_lacks(name: str) -> None:
    kernel, args, _ = CALLS[name]
    lowered = kernel.lower(args, target(ANY_TARGET))
    assert lowered.interpretable(lowered.default) != lowered.default


@pytest.mark.parametrize("shapes", [1, MOST_SHAPES + 1], ids=["one shape", "any size"])
def test_such_calls_run(interpreter: Callable[..., Any], shapes: int) -> None:
    """They ended in a LaunchError about clusters or schedules that no author had chosen."""
    assert interpreter("runs.plain_calls:wrong", shapes) == {}


def test_host_code_is_told_of_a_gpu(interpreter: Callable[..., Any]) -> None:
    """``assert x.is_cuda`` ended the first call in the author's own words."""
    assert interpreter("runs.plain_calls:wrong_of_a_gpu") == {}
