"""The benchmark without a GPU: hand-written Triton kernels are right, and a cell judges its contenders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tile_testing.runs.bench_runs import WRITTEN


@pytest.mark.parametrize(("name", "problem"), [(n, p) for n, problems in WRITTEN.items() for p in problems])
def test_hand_written_kernels(interpreter: Callable[..., Any], name: str, problem: dict[str, Any]) -> None:
    assert interpreter("runs.bench_runs:check_written", name, problem) == ""


def test_a_cell_judges_its_contenders(interpreter: Callable[..., Any]) -> None:
    timings = interpreter("runs.bench_runs:rehearse", "vector_add").timings
    for name in ("tileflow", "default", "eager", "right"):
        assert timings[name].error == "" and timings[name].median_us > 0 and timings[name].host_us > 0, name
    assert timings["right"].note == "planted"
    assert timings["raises"].error == "RuntimeError: planted"
    assert timings["skipped"].error == "it died"
    assert "absent" not in timings
    far = timings["far"]
    assert far.median_us is None and far.error.startswith("differs by") and far.max_err > 8


def test_a_peers_own_rounding_is_told_and_counts(interpreter: Callable[..., Any]) -> None:
    near = interpreter("runs.bench_runs:rehearse", "softmax").timings["near"]
    assert near.error == "" and near.median_us > 0
    assert near.note.startswith("planted; differs by") and 1 < near.max_err < 8


def test_contenders_of_a_kernel_in_place_start_from_the_same_arguments(interpreter: Callable[..., Any]) -> None:
    timings = interpreter("runs.bench_runs:changes_its_arguments").timings
    assert {name: t.error for name, t in timings.items()} == {"tileflow": "", "default": "", "eager": ""}
    assert timings["eager"].note == "draws its own random numbers"
