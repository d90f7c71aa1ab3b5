"""Several schedulers of one sweep: who searches what, what they say together, and one that dies."""

from __future__ import annotations

import functools
import multiprocessing
import os
import signal
import socket
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tile_testing.fakes import experiments_fakes as fakes
from tile_testing.fakes.experiments_fakes import GPU, MODELLED, sweep_spec
from tileflow_cluster.inline import InlineEvaluator
from tileflow_cluster.protocol import TrialRequest
from tileflow_experiments import cli, schedulers, sweep
from tileflow_experiments import journal as journals
from tileflow_experiments.journal_writer import Journal
from tileflow_experiments.open_studies import study_keys
from tileflow_experiments.spec import SweepSpec
from tileflow_experiments.status import merged
from tileflow_experiments.work import Tools

from tileflow.errors import ClusterError, SpecError
from tileflow.measure.types import Outcome

KERNELS = [
    {"kernel": f"fakes:{name}", "problems": [{"n": 64 + i} for i in range(count)]}
    for name, count in (("one", 3), ("two", 1), ("three", 2))
]


def spec_of(count: int) -> SweepSpec:
    return sweep_spec(kernels=KERNELS, device_classes=[GPU], schedulers=count, modes=["static"])


def test_kernels_are_dealt_evenly_and_each_to_one() -> None:
    spec = spec_of(2)
    keys = study_keys(spec)
    found = schedulers.parts(spec, keys, 2)
    assert [{key.kernel for key in part.keys} for part in found] == [{"fakes:one"}, {"fakes:two", "fakes:three"}]
    assert [part.share for part in found] == [0.5, 0.5]
    assert Counter(key for part in found for key in part.keys) == Counter(keys)
    assert [part.spec(spec).name for part in found] == ["fake-0", "fake-1"]
    assert len(schedulers.parts(spec, keys, 99)) == 3, "no scheduler without a kernel"


def test_their_statuses_add_up_and_the_last_to_end_says_when() -> None:
    one: dict[str, Any] = {
        "trials": 10, "in_flight": 2, "studies": 2, "done": 1, "stopped": 0, "considered_per_s": 1.5, "retried": 1,
        "measured_per_s": 1.0, "at": 5.0, "elapsed_s": 7.0, "eta_s": 3.0,
        "classes": {GPU: {"measured": True, "workers": 2}},
        "waiting": {}, "unused": ["a"], "failures": {"incorrect": 2}, "best": [], "stopping": "",
    }  # fmt: skip
    both = merged([one, one | {"eta_s": 9.0, "trials": 5, "failures": {"incorrect": 1, "oom": 1}}])
    assert both["trials"] == 15 and both["eta_s"] == 9.0 and both["elapsed_s"] == 7.0
    assert both["classes"][GPU]["workers"] == 4 and both["failures"] == {"incorrect": 3, "oom": 1}
    assert merged([one, one | {"eta_s": None}])["eta_s"] is None


def test_without_a_cluster_several_schedulers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would start a Ray of its own that counts all GPUs."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(SpecError, match="must share a Ray cluster"):
        cli.tools().evaluator(spec_of(2))


def test_a_cluster_that_does_not_answer_is_refused_before_schedulers_are_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each scheduler failed by itself, and the sweep ended with a journal of searches that were stopped."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{nobody.getsockname()[1]}")
    with pytest.raises(ClusterError, match="must answer at its address"):
        cli._require_cluster(spec_of(2))
    cli._require_cluster(spec_of(1))


def deadly(marker: Path | None, request: TrialRequest, outcome: Outcome) -> Outcome:
    if marker is not None and request.kernel.name == "fakes:two" and request.config["x"] == 3:
        try:
            marker.touch(exist_ok=False)
        except FileExistsError:
            return outcome
        os.kill(os.getpid(), signal.SIGKILL)
    return outcome


def evaluator(marker: Path | None, spec: SweepSpec) -> InlineEvaluator:
    stages = fakes.FakeStages(functools.partial(deadly, marker))
    return InlineEvaluator(stages, measured=[GPU], modelled=[MODELLED])


def run(out: Path, count: int, marker: Path | None = None) -> list[tuple[str, str]]:
    """The trials that were completed."""
    tools = Tools(
        functools.partial(evaluator, marker), fakes.prepare, fakes.checked_ok, fakes.fake_rows, to_mlflow=False
    )
    assert sweep.run(spec_of(count), out, tools) == ""
    lines = journals.read(out / "journal.jsonl")
    return sorted((r.study.id, r.trial_id) for r in journals.attempts(lines) if r.completed)


@pytest.mark.slow
def test_a_scheduler_that_is_killed_costs_no_trial(tmp_path: Path) -> None:
    """Its successor goes on from the journal: the undisturbed sweep's trials, each once.

    Kernels of one text had trials of one id, and a successor was not told of those that another kernel's had hidden.
    """
    alone = run(tmp_path / "alone", 1)
    disturbed = run(tmp_path / "several", 3, tmp_path / "marker")
    assert disturbed == alone and len(set(alone)) == len(alone) == 60
    lines = journals.read(tmp_path / "several" / "journal.jsonl")
    events = Counter(line["event"] for line in lines if "event" in line)
    assert events["scheduler_lost"] == 1 and events["opened"] == events["closed"] == 1
    tables = list((tmp_path / "several" / "tables").glob("*.json"))
    assert len(tables) == 3 and (tmp_path / "several" / "bundle").is_dir()


def test_a_scheduler_that_dies_while_it_waits_for_its_mark_is_only_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer's BrokenPipeError ended the driver, and with it every other scheduler."""
    ended = SimpleNamespace(exitcode=-9, join=lambda s: None, is_alive=lambda: False)

    def start(self: schedulers.Schedulers, part: schedulers.SweepPart, starts: int) -> None:
        lines, theirs = multiprocessing.Pipe()
        if starts == 1:
            theirs.send(("mark", None))
        else:
            theirs.send(("found", schedulers.SchedulerResult()))
        theirs.close()
        orders, told = multiprocessing.Pipe()
        told.close()
        self._by_lines[lines] = schedulers._Scheduler(part, ended, lines, orders, starts)  # type: ignore[arg-type]

    monkeypatch.setattr(schedulers.Schedulers, "_start", start)
    spec, tools = spec_of(2), Tools(functools.partial(evaluator, None), fakes.prepare, to_mlflow=False)
    journal = Journal.create(tmp_path / "journal.jsonl", {"sweep_id": "s"})
    assert schedulers.Schedulers(spec, schedulers.dealt(spec), journal, tools).run().stopping == ""
    journal.close()
    lost = list(journals.events(journals.read(tmp_path / "journal.jsonl"), "scheduler_lost"))
    assert [line["scheduler"] for line in lost] == [0, 1]


@pytest.mark.slow
def test_a_stop_reaches_every_scheduler(tmp_path: Path) -> None:
    tools = Tools(functools.partial(evaluator, None), fakes.prepare, fakes.checked_ok, fakes.fake_rows, to_mlflow=False)
    spec = sweep_spec(kernels=KERNELS, device_classes=[GPU], schedulers=2, modes=["static"], budget={"seconds": 600.0})
    journal = Journal.create(tmp_path / "journal.jsonl", {"sweep_id": "s"})
    runner = schedulers.Schedulers(spec, schedulers.dealt(spec), journal, tools, lambda status: runner.stop("enough"))
    found = runner.run()
    assert found.stopping == "enough" and set(found.rates) == {"search", "all"}
    assert not runner._by_lines
