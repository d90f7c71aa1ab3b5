"""The start of ``kernel.tune``: what begins before what, so that nothing slow stands in line with the first trial."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tile_testing.fakes import experiments_fakes as fakes
from tile_testing.fakes.experiments_fakes import GPU, MODELLED, quick_tools, sweep_spec
from tileflow_benchmarks.tuning.first_trial import timeline
from tileflow_experiments import journal as journals
from tileflow_experiments import sweep
from tileflow_experiments.progress import Progress
from tileflow_experiments.schedulers import _added
from tileflow_experiments.verify import RANDOM_CONFIGS

from tileflow.measure.types import Outcome, Status

pytestmark = pytest.mark.usefixtures("no_mlflow")

WHEN_WORKERS_BEGIN = """
import json, os, sys
from tileflow_cluster import local_pool
def begin():
    print(json.dumps(sorted(sys.modules)), flush=True)
    os._exit(0)
local_pool.begin_here = begin
import tileflow
tileflow.tune([(None, ())])
"""
SLOW = {
    "optuna", "sklearn", "pyarrow", "mlflow", "ray", "sympy", "cloudpickle", "tileflow.lowered",
    "tileflow_cluster.protocol", "tileflow_cluster.shared_call", "tileflow_experiments.sweep",
    "tileflow_experiments.tune",
}  # fmt: skip


def test_workers_begin_before_what_searches_is_imported() -> None:
    done = subprocess.run([sys.executable, "-c", WHEN_WORKERS_BEGIN], capture_output=True, text=True, check=True)
    assert SLOW & set(json.loads(done.stdout)) == set()


def test_no_trial_waits_for_the_strategys_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    imported, waited = threading.Event(), list[bool]()
    monkeypatch.setattr(sweep, "warm_up", lambda name: waited.append(imported.wait(10.0)))
    try:
        sweep.run(sweep_spec(device_classes=[GPU]), tmp_path, quick_tools())
        assert fakes.trials(tmp_path) and not waited, "the import has not ended when the search has"
    finally:
        imported.set()


def lines_shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    shown: list[str] = []
    monkeypatch.setattr(Progress, "_due", lambda self: True)
    monkeypatch.setattr(Progress, "_put", lambda self, line: shown.append(line))
    return shown


def test_what_follows_the_search_shows_its_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = lines_shown(monkeypatch)
    sweep.run(sweep_spec(device_classes=[GPU, MODELLED]), tmp_path, quick_tools())
    for doing in ("racing the best configs", "checking configs in the interpreter", "building the winners"):
        assert any(f", {doing}, " in line for line in shown), doing
    events = journals.events(journals.read(tmp_path / "journal.jsonl"), "phase")
    assert [event["phase"] for event in events] == ["search", "portfolios", "race", "check", "build"]


class TestRandomChecks:
    """``random_checks_s``: of them alone; winners are checked however long that takes."""

    def roles(self, tmp_path: Path, random_s: float | None, status: Status = Status.OK) -> list[str]:
        self.limits: dict[str, float] = {}
        requests: list[Any] = []

        def check(request: Any) -> Outcome:
            requests.append(request)
            return replace(fakes.checked_ok(request), status=status)

        kernels = [{"kernel": fakes.KERNEL, "problems": [{"n": 64}]}]
        spec = sweep_spec(device_classes=[MODELLED], kernels=kernels)
        sweep.run(spec, tmp_path, replace(quick_tools(), check=check, random_checks_s=random_s))
        lines = journals.read(tmp_path / "journal.jsonl")
        self.left_out = [event["configs"] for event in journals.events(lines, "not_interpreted")]
        roles = [event["role"] for event in journals.events(lines, "interpreted")]
        self.limits = {role: request.limit_s for role, request in zip(roles, requests, strict=True)}
        return roles

    def test_all_are_made_where_there_is_no_limit(self, tmp_path: Path) -> None:
        roles = self.roles(tmp_path, None)
        assert roles.count("winner") == 1 and self.left_out == []
        assert self.limits["random"] == self.limits["winner"]

    def test_one_is_made_however_little_time_there_is(self, tmp_path: Path) -> None:
        roles = self.roles(tmp_path, 0.0)
        assert (roles.count("winner"), roles.count("random")) == (1, 1)
        assert self.left_out and 0 < self.left_out[0] <= RANDOM_CONFIGS - 1
        assert self.limits["random"] < self.limits["winner"]


def test_times_of_day_of_schedulers_are_not_added() -> None:
    at = {"compiler_ready_at": 7.0, "device_ready_at": None, "data_ready_at": None}
    one = {"elapsed_s": 1.0, "considered": 1, "device_idle": 0.0, "compile_idle": 0.0, **at}
    other = one | {"compiler_ready_at": 5.0, "device_ready_at": 6.0}
    found = _added(one, other)
    assert (found["compiler_ready_at"], found["device_ready_at"], found["data_ready_at"]) == (5.0, 6.0, None)


def test_a_timeline_has_the_first_end_of_each_step(tmp_path: Path) -> None:
    def trial(begun: float, us: float | None) -> dict[str, Any]:
        seconds = {"queue_s": 1.0, "compile_s": 0.5, "built_s": 0.25, "device_s": 2.0}
        return {"kind": "trial", "started_at": begun, "median_us": us, **seconds}

    def event(name: str, at: float, **more: Any) -> dict[str, Any]:
        return {"kind": "event", "event": name, "at": at, **more}

    lines = [
        {"kind": "header", "created_at": 102.0},
        trial(103.0, None),
        trial(104.0, 7.0),
        trial(103.5, 8.0),
        event("phase", 112.0, phase="portfolios"),
        event("counters", 113.0, compiler_ready_at=103.0, device_ready_at=99.0, data_ready_at=None),
        event("closed", 114.0),
    ]
    path = tmp_path / "journal.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert timeline(path, 100.0) == {
        "lowered": 2.0, "asked": 3.0, "compiler": 3.0, "device": None, "data": None, "built": 5.0, "measured": 7.25,
        "searched": 12.0, "raced": None, "checked": None, "closed": 14.0,
    }  # fmt: skip
