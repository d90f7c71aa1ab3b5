"""A comparison's builds and parts: one build that never ends costs one row."""

from __future__ import annotations

import argparse
import time
from typing import Any

import pytest
from tileflow_benchmarks.ratios import command
from tileflow_benchmarks.ratios.command import building, share

JOBS = [(0, "fine"), (0, "endless"), (0, "also fine"), (1, "fine"), (1, "endless"), (1, "last")]


def made(number: int, name: str, device: str) -> dict[str, Any]:
    """Build nothing: a stand-in that a worker imports."""
    if name == "endless":
        time.sleep(600)
    return {"status": "built", "case": number, "device": device}


def test_a_build_that_never_ends_costs_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_START_SECONDS", 8.0)  # seconds until a worker that imports no torch is there
    began = time.monotonic()
    with building(made, iter(JOBS), "a device", seconds=1.0) as builds:
        first, second = dict(builds.take([0])), dict(builds.take([1]))
    assert time.monotonic() - began < 60
    assert list({**first, **second}) == JOBS
    for job, row in {**first, **second}.items():
        if job[1] == "endless":
            assert row["status"] == "build_timeout" and row["config"] == job[1]
        else:
            assert row == {"status": "built", "case": job[0], "device": "a device"}


def test_shares_are_all_cases_once() -> None:
    cases = list(range(10))
    assert sorted(case for n in range(3) for case in cases[share(f"{n}/3")]) == cases


@pytest.mark.parametrize("text", ["3/3", "1", "a/2", "-1/2", "0/0"])
def test_a_share_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="I/N"):
        share(text)
