"""The workers' record of their own time, and what a node's GPUs are asked: no Ray is started."""

from __future__ import annotations

import json
import subprocess
from types import SimpleNamespace
from typing import Any

import pytest
from tileflow_cluster import devices, fleet
from tileflow_cluster.fleet import Fleet, Recycling
from tileflow_cluster.placement import Plan
from tileflow_cluster.workers import WorkerFacts
from tileflow_experiments.rehearsal import RehearsedStages


def test_idle_counts_from_the_clocks_start(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(fleet, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(fleet, "start_compiler", lambda stages: object())
    workers = Fleet(RehearsedStages(), Recycling())
    early, late = workers.follow(Plan(2, ()))
    workers.ready(early, WorkerFacts("host", 1, "node", ()))
    now[0] = 30.0
    workers.ready(late, WorkerFacts("host", 2, "node", ()))
    workers.start_clock()
    now[0] = 40.0
    workers.give_back(early, 10.0, 0.0)
    workers.give_back(late, 5.0, 0.0)
    assert workers.idle("compile") == pytest.approx(0.25)


def test_gpus_are_asked_for_once_for_each_choice_among_them(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def answer(command: list[str], env: dict[str, str], **_: Any) -> subprocess.CompletedProcess[str]:
        asked.append(env["CUDA_VISIBLE_DEVICES"])
        gpu = {"uuid": f"uuid-{asked[-1]}", "name": "NVIDIA H200", "vendor": "nvidia"}
        return subprocess.CompletedProcess(command, 0, stdout=json.dumps([gpu]))

    monkeypatch.setattr(devices.subprocess, "run", answer)
    found = []
    for chosen in ("asked-once-0", "asked-once-0", "asked-once-1"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
        found += [gpu.uuid for gpu in devices.visible_gpus()]
    assert found == ["uuid-asked-once-0", "uuid-asked-once-0", "uuid-asked-once-1"]
    assert asked == ["asked-once-0", "asked-once-1"]
