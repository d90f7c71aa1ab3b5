"""A kernel whose inputs hang, or end their process, ends each check alike: the sweep does not wait for all of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tile_testing.fakes.experiments_fakes import MODELLED, checked_ok, quick_tools, sweep_spec
from tileflow_experiments import journal as journals
from tileflow_experiments import sweep
from tileflow_experiments.progress import Progress

from tileflow.measure.interpret import InterpretRequest
from tileflow.measure.types import Outcome, Status

SPEC: dict[str, Any] = {"device_classes": [MODELLED], "strategy": {"name": "exhaustive"}, "budget": {"trials": 20}}
HANGS = ("n", 64)


class Checks:
    """Those of one problem take all of their time, 120 s each; the fake takes none."""

    def __init__(self, ends: Status = Status.BENCH_TIMEOUT) -> None:
        self.ends, self.made = ends, Counter[Any]()

    def __call__(self, request: InterpretRequest) -> Outcome:
        self.made[request.problem] += 1
        if HANGS in request.problem:
            return Outcome(self.ends, None, error_digest="interpreting took longer than 120 s", measured=False)
        return checked_ok(request)


@pytest.mark.parametrize("ends", [Status.BENCH_TIMEOUT, Status.WORKER_LOST, Status.CANCELLED])
def test_two_checks_that_cannot_be_made_are_enough_of_a_problem(tmp_path: Path, ends: Status) -> None:
    """Three winners and five random configs waited for 120 s each: 16 minutes, of which the last line said nothing."""
    checks = Checks(ends)
    said = sweep.run(sweep_spec(**SPEC), tmp_path, replace(quick_tools(), check=checks))
    assert checks.made[(HANGS,)] == 2 < checks.made[(("n", 100),)]
    assert "1 of 2 tuning tasks have an unchecked winner" in said and "n=64" in said
    lines = journals.read(tmp_path / "journal.jsonl")
    left_out = {event["study"]: event["configs"] for event in journals.events(lines, "not_interpreted")}
    # Of five random configs two are one.
    assert ["64" in study for study in left_out] == [True] and list(left_out.values()) == [4]


def test_a_resumed_sweep_tries_such_checks_again(tmp_path: Path) -> None:
    sweep.run(sweep_spec(**SPEC), tmp_path, replace(quick_tools(), check=Checks()))
    assert sweep.resume(tmp_path, quick_tools()) == ""
    lines = journals.read(tmp_path / "journal.jsonl")
    assert sum(e["status"] == "ok" for e in journals.events(lines, "interpreted") if '"n":64' in e["study"]) >= 1


def test_the_progress_names_what_is_checked(tmp_path: Path) -> None:
    """So that whoever waits sees for which kernel."""
    shown: list[str] = []

    class Listening(Progress):
        def __call__(self, driver: Any) -> None:
            shown.append(driver.doing)

    sweep.run(sweep_spec(**SPEC), tmp_path, replace(quick_tools(), display=Listening))
    assert f"checking winner configs of fakes:kernel n=100 on {MODELLED} in the interpreter" in shown
