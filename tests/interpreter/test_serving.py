"""The serving kernels against their references: through Triton's interpreter, and as plain Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from serving_gallery import SERVING, discovered

from tileflow.api import load_kernel
from tileflow.measure.check import check_call, reference_of
from tileflow.target import target


def test_every_serving_kernel_is_here() -> None:
    assert set(SERVING) == discovered()


@pytest.mark.parametrize("name", SERVING)
def test_interpreted(interpreter: Callable[..., Any], name: str) -> None:
    assert interpreter("interpreted:check_problems", name, SERVING[name]) == []


@pytest.mark.parametrize("name", SERVING)
def test_eager_meaning(name: str) -> None:
    """Blocks of about four: several tiles, and a tail."""
    subject = load_kernel(name)
    args = subject.inputs(**SERVING[name][0])
    knobs = subject.lower(args, target("nvidia-h200")).space.knobs
    blocks = {k.name: min(k.choices, key=lambda c: abs(c - 4)) for k in knobs if k.role == "block"}
    verdict = check_call(lambda *a: subject.run_eagerly(*a, config=blocks), args, reference_of(subject, args))
    assert verdict.ok, verdict.reason
