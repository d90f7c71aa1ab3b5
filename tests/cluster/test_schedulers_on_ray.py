"""Several schedulers on a real Ray: one sweep that shares the cluster with itself, and a scheduler that is killed."""

from __future__ import annotations

import functools
import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tile_testing.fakes.cluster_fakes import GPU, FakeStages, numbered_space
from tileflow_cluster.protocol import KernelRef
from tileflow_experiments import journal as journals
from tileflow_experiments import sweep
from tileflow_experiments.records import StudyKey
from tileflow_experiments.spec import SweepSpec, parse
from tileflow_experiments.tuning_task import TuningTask
from tileflow_experiments.work import Tools

from tileflow.measure.types import Outcome, Status
from tileflow.runtime.problem import Problem, TensorSpec

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
TRIALS = 12


def prepare(key: StudyKey, mode: Any) -> TuningTask:
    space = numbered_space(TRIALS)
    problem = Problem(key.kernel, (("a", TensorSpec("float32", (64,), (1,))),))
    return TuningTask(key, KernelRef(key.kernel, "c0ffee"), problem, space, space.default, mode)


def unchecked(request: object) -> Outcome:
    return Outcome(Status.OK, measured=False)


def die_once(scratch: Path) -> None:
    """Once something was measured, the first time that anybody asks."""
    while not (scratch / "log").exists() or "device" not in (scratch / "log").read_text():
        time.sleep(0.02)
    (scratch / "killed").touch(exist_ok=False)
    os.kill(os.getpid(), signal.SIGKILL)


def evaluator(scratch: Path, address: str, spec: SweepSpec) -> Any:
    from tileflow_cluster.ray_evaluator import RayEvaluator, Timeouts

    if spec.name.endswith("-1") and not (scratch / "killed").exists():
        threading.Thread(target=die_once, args=(scratch,), daemon=True).start()
    return RayEvaluator(
        FakeStages(str(scratch), device_s=0.2), (GPU,), address=address, name=spec.name, part=spec.part,
        timeouts=Timeouts(replan_s=0.2),
    )  # fmt: skip


def test_a_killed_scheduler_costs_no_trial_and_each_has_its_part_of_the_gpus(ray_cluster: Any, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    spec = parse({
        "name": "several", "kernels": [{"kernel": f"fakes:{name}", "problems": [{"m": 64}]} for name in ("one", "two")],
        "device_classes": [GPU], "strategy": {"name": "exhaustive"}, "budget": {"trials": TRIALS}, "modes": ["static"],
        "schedulers": 2,
    })  # fmt: skip
    tools = Tools(functools.partial(evaluator, scratch, ray_cluster.address), prepare, unchecked, to_mlflow=False)
    assert sweep.run(spec, tmp_path / "out", tools) == ""
    lines = journals.read(tmp_path / "out" / "journal.jsonl")
    completed = Counter((r.study.kernel, r.config["x"]) for r in journals.attempts(lines) if r.completed)
    assert completed == {(f"fakes:{name}", x): 1 for name in ("one", "two") for x in range(TRIALS)}
    assert [e["scheduler"] for e in journals.events(lines, "scheduler_lost")] == [1] and (scratch / "killed").exists()
    measured_on = {name: set() for name in ("fakes:one", "fakes:two")}  # type: dict[str, set[str]]
    for record in journals.attempts(lines):
        measured_on[record.study.kernel].add(record.result.gpu_uuid)
    assert all(measured_on.values())
    assert len(list((tmp_path / "out" / "tables").glob("*.json"))) == 2
