"""A sweep's driver over a real local Ray: workers die, drivers die, and the trials are those of a quiet run."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tile_testing.fakes.cluster_fakes import GPU, KERNEL, MODELLED
from tile_testing.fakes.cluster_runs import Prepare, spec, tools
from tileflow_cluster.ray_evaluator import RayEvaluator
from tileflow_experiments import journal as journals
from tileflow_experiments import sweep
from tileflow_experiments.records import StudyKey, TrialRecord
from tileflow_experiments.tuning_task import TuningTask
from tileflow_experiments.work import Tools

from tileflow.config import ConfigSpace, Knob
from tileflow.runtime.table_files import load_table

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("no_mlflow")]

VERDICTS = ("compile_error", "incorrect", "illegal_access", "oom", "bench_timeout")
LOSSES = ("device_kill_once", "compile_kill_once", "device_worker_lost_once")
FAULTS = ("", "compile_error", *(f"device_{status}" for status in VERDICTS[1:]), *LOSSES)


def verdicts(out: Path) -> Counter[tuple[str, str, str]]:
    lines = journals.read(out / "journal.jsonl")
    completed = (r for r in journals.attempts(lines) if r.completed)
    return Counter((r.study.device_class, _source(r), r.status.value) for r in completed)


def _source(record: TrialRecord) -> str:
    assert record.result.build is not None
    return record.result.build.source_hash


@pytest.mark.slow
def test_dying_workers_change_no_verdict(start: Callable[..., RayEvaluator], tmp_path: Path) -> None:
    """Faults 3, 5, 8 and 20: what a config does is its verdict, once each, while workers die of others."""
    assert sweep.run(spec(1000), tmp_path / "out", tools(start, FAULTS)) == ""
    found = verdicts(tmp_path / "out")
    assert set(found.values()) == {1}
    statuses = Counter((device, status) for device, _, status in found)
    for device in (GPU, MODELLED):
        assert statuses[device, "ok"] == 4 * 4
        assert all(statuses[device, status] == 4 for status in VERDICTS)
    lost = [r for r in journals.attempts(journals.read(tmp_path / "out/journal.jsonl")) if r.result.retried]
    assert len(lost) >= 3 * 4


@pytest.mark.slow
def test_a_stopped_sweep_resumes_to_the_same_trials(start: Callable[..., RayEvaluator], tmp_path: Path) -> None:
    faults = ("", "device_incorrect")
    sweep.run(spec(8), tmp_path / "whole", tools(start, faults))

    class Stopping:
        """Drains after a few results, as SIGTERM does."""

        def __init__(self, evaluator: RayEvaluator) -> None:
            self._evaluator, self._heard = evaluator, 0

        def __getattr__(self, name: str) -> Any:
            return getattr(self._evaluator, name)

        def poll(self, timeout_s: float) -> Any:
            results = self._evaluator.poll(timeout_s)
            self._heard += len(results)
            if self._heard >= 5:
                self._evaluator.drain()
            return results

    quiet = tools(start, faults, stages={"device_s": 0.05})
    stopping = Tools(
        lambda spec: Stopping(start((GPU, MODELLED), stages={"device_s": 0.05})), quiet.prepare, quiet.check
    )
    assert "draining" in sweep.run(spec(8), tmp_path / "out", stopping)
    before = verdicts(tmp_path / "out")
    assert 0 < sum(before.values()) < 16
    assert sweep.resume(tmp_path / "out", quiet) == ""
    assert verdicts(tmp_path / "out") == verdicts(tmp_path / "whole")
    assert before <= verdicts(tmp_path / "out")


@pytest.mark.slow
def test_a_full_disk_loses_no_line_and_no_trial(
    start: Callable[..., RayEvaluator], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault 13: the sweep stops before a line is lost, and resumes to the trials of an undisturbed one."""
    sweep.run(spec(8), tmp_path / "whole", tools(start, ("",)))
    write, lines = os.write, 0

    def full(descriptor: int, data: Any) -> int:
        nonlocal lines
        lines += 1
        if lines == 9:
            write(descriptor, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data)

    with monkeypatch.context() as patch:
        patch.setattr("tileflow_experiments.journal_writer.os.write", full)
        assert "No space left" in sweep.run(spec(8), tmp_path / "out", tools(start, ("",)))
    before = verdicts(tmp_path / "out")
    assert (tmp_path / "out/journal.jsonl").read_bytes().endswith(b"\n") and sum(before.values()) < 8
    assert sweep.resume(tmp_path / "out", tools(start, ("",))) == ""
    assert verdicts(tmp_path / "out") == verdicts(tmp_path / "whole") and before <= verdicts(tmp_path / "out")


@pytest.mark.slow
def test_where_no_config_works_the_default_is_exported_with_reasons(
    start: Callable[..., RayEvaluator], tmp_path: Path
) -> None:
    """Fault 21: never an empty table."""
    assert sweep.run(spec(1000), tmp_path / "out", tools(start, ("compile_error",))) == ""
    (path,) = (tmp_path / "out" / "tables").glob("*.json")
    table = load_table(path)
    rows = [row for row in table.portfolio if "no config worked" in row.reason]
    assert not table.entries and len(rows) == 2 and all("compile_error" in row.reason for row in rows)


@pytest.mark.parametrize("fault", ["compile_mend", pytest.param("device_mend", marks=pytest.mark.slow)])
def test_a_kernel_to_mend_ends_its_own_study_alone(
    start: Callable[..., RayEvaluator], tmp_path: Path, fault: str
) -> None:
    def prepare(key: StudyKey, mode: Any) -> TuningTask:
        task = Prepare(("",))(key, mode)
        if (key.device_class, dict(key.problem)) != (GPU, {"m": 32}):
            return task
        space = ConfigSpace((*task.space.knobs[:2], Knob("fault", "tunable:fault", (fault,), "tunable", fault)))
        return replace(task, space=space, default=space.default)

    out = tmp_path / "out"
    said = sweep.run(spec(1000, 32, 64), out, replace(tools(start, ("",)), prepare=prepare))
    broken = f"{KERNEL.name} m=32 on {GPU}"
    assert said == f"1 of 4 tuning tasks: {broken}"
    lines = journals.read(out / "journal.jsonl")
    (event,) = journals.events(lines, "study_stopped")
    assert event["study"] == f'{KERNEL.name} {{"m":32}} {GPU}' and "cuDNN error" in event["reason"]
    found = Counter(
        (r.study.device_class, dict(r.study.problem)["m"], r.status.value) for r in journals.attempts(lines)
    )
    assert found == {(GPU, 64, "ok"): 4, (MODELLED, 32, "ok"): 4, (MODELLED, 64, "ok"): 4}
    (path,) = (out / "tables").glob("*.json")
    table = load_table(path)
    assert len(table.entries) == 3
    (row,) = (row for row in table.portfolio if "no config worked" in row.reason)
    assert row.reason.startswith(
        f"no config worked for {broken}: none was tried; its search was stopped: InternalError"
    )
    heading = (out / "report.md").read_text().partition("## Studies that were stopped\n")[2]
    assert f"{broken}:\n\n    InternalError: the reference must not raise RuntimeError, but got cuDNN error" in heading
