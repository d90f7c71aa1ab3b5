"""Sweeps that end before their budget, and studies that do: stops, full disks, kernels to mend, lost clusters."""

from __future__ import annotations

import errno
import io
import json
import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tile_testing.fakes import experiments_fakes as fakes
from tile_testing.fakes.experiments_fakes import (
    GPU,
    KERNEL,
    MODELLED,
    completed,
    quick_tools,
    sweep_spec,
    tools,
    trials,
)
from tileflow_cluster.inline import InlineEvaluator
from tileflow_cluster.protocol import TrialRequest
from tileflow_cluster.trial import TrialResult
from tileflow_experiments import journal as journals
from tileflow_experiments import mlflow_log, outputs, progress, sweep, work
from tileflow_experiments.journal_writer import Journal
from tileflow_experiments.open_studies import study_keys

from tileflow.errors import ClusterError, InternalError, SpecError
from tileflow.measure.check import Verdict
from tileflow.measure.failure import checked
from tileflow.measure.types import Outcome, Status
from tileflow.runtime.table_files import load_table

pytestmark = pytest.mark.usefixtures("no_mlflow")


@pytest.mark.usefixtures("hears_hangups")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_stop_drains_and_the_partial_table_is_there(tmp_path: Path, number: signal.Signals) -> None:
    """A terminal that went away ended the driver at once, with neither tables nor a report."""
    runs = []

    def interrupt(request: TrialRequest, outcome: Outcome) -> Outcome:
        runs.append(request)
        if len(runs) == 15:
            os.kill(os.getpid(), number)
        return outcome

    assert sweep.run(sweep_spec(), tmp_path, tools(interrupt)) == number.name
    assert 15 <= len(completed(tmp_path)) < 40
    assert load_table(tmp_path / "tables/fakes-kernel.json").entries
    assert sweep.resume(tmp_path, tools()) == ""
    assert sum(completed(tmp_path).values()) == 40


class Gone(io.TextIOBase):
    """A stream whose reader has gone, or whose terminal has."""

    def __init__(self, is_terminal: bool) -> None:
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    def write(self, text: str) -> int:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_sweep_goes_on_where_nobody_reads_how_it_is_doing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_terminal: bool
) -> None:
    """`tileflow sweep run SPEC 2>&1 | head` ended in the middle of its search, without a word or a table."""
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.0)
    monkeypatch.setattr(progress, "BAR_EVERY_S", 0.0)
    streams = Gone(is_terminal), Gone(is_terminal)
    monkeypatch.setattr(sys, "stdout", streams[0])
    monkeypatch.setattr(sys, "stderr", streams[1])
    assert sweep.run(sweep_spec(), tmp_path, tools()) == ""
    assert (sys.stdout, sys.stderr) == streams
    assert sum(completed(tmp_path).values()) == 40
    assert load_table(tmp_path / "tables/fakes-kernel.json").entries
    said = [record.getMessage() for record in caplog.records if "nobody reads" in record.getMessage()]
    assert len(said) == 1 and "Broken pipe" in said[0]


def test_a_folder_in_use_is_refused_before_workers_are_started(tmp_path: Path) -> None:
    """The second driver was refused once its workers were there, half a minute of a cluster's CPUs later."""
    sweep.run(sweep_spec(), tmp_path, tools())
    opened = []
    another = replace(tools(), evaluator=opened.append)
    journal = Journal.resume(tmp_path / "journal.jsonl")
    with pytest.raises(SpecError, match="one driver"):
        sweep.resume(tmp_path, another)
    journal.close()
    assert not opened


def test_a_second_interrupt_says_what_is_kept_and_how_to_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It ended without a word, with neither tables nor a report."""
    runs = []

    def interrupt_twice(request: TrialRequest, outcome: Outcome) -> Outcome:
        runs.append(request)
        if len(runs) == 15:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
        return outcome

    out = tmp_path / "a sweep's é"  # what is said is to be copied into a shell
    with pytest.raises(KeyboardInterrupt):
        sweep.run(sweep_spec(), out, tools(interrupt_twice))
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    commands = [shlex.split(text) for text in said.split("`")[1::2]]
    assert commands == [["tileflow", "sweep", word, str(out)] for word in ("resume", "export")]
    sweep.export(out, fakes.prepare)
    assert load_table(out / "tables/fakes-kernel.json").entries
    assert sweep.resume(out, tools()) == ""
    assert sum(completed(out).values()) == 40


@pytest.mark.usefixtures("hears_hangups")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_before_the_search_ends_the_sweep_in_words(tmp_path: Path, number: signal.Signals) -> None:
    """It ended without a word. What a module imports may swallow an exception: the process ends by the signal."""
    (tmp_path / "stopped.py").write_text(
        "import os, time\ntry:\n"
        f"    os.kill(os.getpid(), {int(number)})\n    time.sleep(5)\nexcept BaseException:\n    pass\n"
    )
    (tmp_path / "spec.yaml").write_text(
        "name: stopped\nkernels: [{kernel: 'stopped:k', problems: [{n: 1}]}]\n"
        "device_classes: [nvidia-h200]\nstrategy: {name: random}\nbudget: {trials: 1}\n"
    )
    program = "import signal, tileflow_experiments.cli as c\nsignal.signal(2, signal.default_int_handler)\nc.main()"
    command = [sys.executable, "-c", program, "sweep", "run", "spec.yaml", "--out", "out"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == -number
    assert f"{number.name} ended the sweep before its search began: no trial was made" in done.stderr
    assert not (tmp_path / "out").exists()


def test_signals_are_the_caller_s_before_the_search_and_after_it(tmp_path: Path) -> None:
    """Workers that handle SIGTERM drained themselves before there was a search, and the sweep waited for them; a
    program that tuned on a Ray kept Ray's handler."""
    heard: list[int] = []

    def other(number: int, frame: object) -> None:
        raise AssertionError("the workers heard it")

    def takes_over(spec: Any) -> Any:
        signal.signal(signal.SIGTERM, other)
        return tools().evaluator(spec)

    def prepare(*args: Any) -> Any:
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGTERM)
        return fakes.prepare(*args)

    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        mine = signal.getsignal(signal.SIGTERM)
        assert sweep.run(sweep_spec(), tmp_path, replace(tools(), evaluator=takes_over, prepare=prepare)) == ""
        assert heard and signal.getsignal(signal.SIGTERM) is mine
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_full_disk_stops_the_sweep_and_loses_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    written = []

    def full(descriptor: int, data: Any) -> int:
        written.append(data)
        if len(written) == 20:
            write(descriptor, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data)

    monkeypatch.setattr("tileflow_experiments.journal_writer.os.write", full)
    assert "No space left" in sweep.run(sweep_spec(), tmp_path, tools())
    content = (tmp_path / "journal.jsonl").read_bytes()
    assert content.endswith(b"\n") and len(content.splitlines()) == 19
    assert sweep.resume(tmp_path, tools()) == ""
    assert sum(completed(tmp_path).values()) == 40


def test_whichever_line_a_journal_lost_it_is_exported(tmp_path: Path) -> None:
    """Without the measurement of a config that tied in a race, the export ended in a KeyError, and no table was
    written: not at the end of a resumed sweep either."""
    sweep.run(sweep_spec(), tmp_path / "whole", tools())
    header, *lines = (tmp_path / "whole/journal.jsonl").read_bytes().splitlines(keepends=True)
    kinds = Counter(json.loads(line)["kind"] for line in lines)
    assert kinds["remeasure"] >= 4
    for lost, line in enumerate(lines):
        if json.loads(line).get("event") == "study":  # resuming writes it again
            continue
        folder = tmp_path / f"without-{lost}"
        folder.mkdir()
        (folder / "journal.jsonl").write_bytes(b"".join([header, *lines[:lost], *lines[lost + 1 :]]))
        sweep.export(folder, fakes.prepare)
        (row, *_) = load_table(folder / "tables/fakes-kernel.json").entries
        assert row.best_us is not None and row.best_us < 20
        shutil.rmtree(folder)


def test_a_disk_that_is_full_from_the_start_stops_a_sweep_that_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended as bad input does, with nothing written, and left a folder that a new sweep refuses."""
    write = os.write

    def full(descriptor: int, data: Any) -> int:
        if b'"event":"study"' in bytes(data):
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data)

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        assert "No space left on device" in sweep.run(sweep_spec(), tmp_path, tools())
    assert sweep.resume(tmp_path, tools()) == ""
    assert sum(completed(tmp_path).values()) == 40


def test_a_disk_that_takes_no_note_of_mlflow_stops_a_sweep_that_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was an OSError and exit code 2, after the journal was begun."""

    def full(self: mlflow_log.MlflowLog) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "mlflow-log.json"))

    with monkeypatch.context() as patched:
        patched.setattr(mlflow_log.MlflowLog, "start", full)
        said = sweep.run(sweep_spec(), tmp_path, tools())
    assert "No space left on device" in said and "mlflow-log.json" in said
    assert sweep.resume(tmp_path, tools()) == ""
    assert sum(completed(tmp_path).values()) == 40


def test_little_room_stops_before_a_line_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Journal, "has_room", lambda self: len(self.lines) < 25)
    assert "nearly full" in sweep.run(sweep_spec(), tmp_path, tools())
    monkeypatch.undo()
    monkeypatch.setattr(mlflow_log.MlflowLog, "start", lambda self: None)
    monkeypatch.setattr(mlflow_log.MlflowLog, "finish", lambda self, files, timeout_s: True)
    assert sweep.resume(tmp_path, tools()) == ""
    assert sum(completed(tmp_path).values()) == 40


def broken_reference(request: TrialRequest, outcome: Outcome) -> Outcome:
    if request.problem == (("n", 64),) and request.device_class == GPU:
        raise InternalError("the reference must not raise RuntimeError", got="cuDNN error")
    return outcome


def test_a_kernel_to_mend_ends_its_own_study_alone(tmp_path: Path) -> None:
    spec = sweep_spec(strategy={"name": "exhaustive"}, budget={"trials": 100})
    broken = f"{KERNEL} n=64 on {GPU}"
    assert sweep.run(spec, tmp_path, tools(broken_reference)) == f"1 of 4 tuning tasks: {broken}"
    assert Counter(study for study, _ in completed(tmp_path)) == {
        key.id: fakes.DISTINCT for key in study_keys(spec) if key.title != broken
    }
    assert sum(1 for _ in journals.events(journals.read(tmp_path / "journal.jsonl"), "study_stopped")) == 1
    table = load_table(tmp_path / "tables/fakes-kernel.json")
    assert len(table.entries) == 3
    (row,) = table.portfolio
    assert row.config == fakes.SPACE.default and "stopped: InternalError: the reference must not raise" in row.reason
    report = (tmp_path / "report.md").read_text()
    assert f"{broken}:\n\n    InternalError: the reference must not raise RuntimeError, but got cuDNN error" in report
    # Mended, and resumed.
    assert sweep.resume(tmp_path, tools()) == ""
    assert set(Counter(study for study, _ in completed(tmp_path)).values()) == {fakes.DISTINCT}
    assert "were stopped" not in (tmp_path / "report.md").read_text()


def test_what_was_found_before_the_kernel_failed_is_kept(tmp_path: Path) -> None:
    def later(request: TrialRequest, outcome: Outcome) -> Outcome:
        return broken_reference(request, outcome) if request.remeasure else outcome

    spec = sweep_spec(strategy={"name": "exhaustive"}, budget={"trials": 100})
    assert sweep.run(spec, tmp_path, tools(later)) == f"1 of 4 tuning tasks: {KERNEL} n=64 on {GPU}"
    table = load_table(tmp_path / "tables/fakes-kernel.json")
    assert [entry.best_us for entry in table.entries] == [10.0] * 4
    assert sorted(bool(entry.launches) for entry in table.entries) == [False, True, True, True]


def test_a_check_that_cannot_be_made_costs_no_study(tmp_path: Path) -> None:
    """Issue 15: what the author's code raised at made-up sizes threw the study away, its winners included."""

    def check(request: Any) -> Outcome:
        if request.problem == (("n", 64),):
            raise InternalError("check_here must not raise AssertionError", got="n must be a multiple of 128")
        return fakes.checked_ok(request)

    spec = sweep_spec(device_classes=[MODELLED])
    unchecked = f"1 of 2 tuning tasks have an unchecked winner: {KERNEL} n=64 on {MODELLED}"
    assert sweep.run(spec, tmp_path, replace(tools(), check=check)) == unchecked
    assert len(load_table(tmp_path / "tables/fakes-kernel.json").entries) == 2
    report = (tmp_path / "report.md").read_text()
    assert "- winner configs: 2 not checked (cancelled)" in report and "- winner configs: 1 ok" in report
    assert f'not checked (cancelled): {KERNEL} {{"n":64}} {MODELLED}' in report and "a multiple of 128" in report
    # Mended, and resumed: what was not checked is.
    assert sweep.resume(tmp_path, tools()) == ""
    assert "- winner configs: 2 ok" in (tmp_path / "report.md").read_text()


def test_a_winner_whose_check_ends_its_process_is_named(tmp_path: Path) -> None:
    """Finding 6 of issue 17: a reference that exits its process ended with exit code 0 and an unchecked winner."""

    def exits(request: Any) -> Outcome:
        return replace(fakes.checked_ok(request), status=Status.WORKER_LOST, error_digest="exit code 0")

    spec = sweep_spec(device_classes=[MODELLED], kernels=[{"kernel": KERNEL, "problems": [{"n": 64}]}])
    said = sweep.run(spec, tmp_path, replace(tools(), check=exits))
    assert said == f"1 of 1 tuning tasks have an unchecked winner: {KERNEL} n=64 on {MODELLED}"
    assert sweep.resume(tmp_path, tools()) == ""


def test_a_winner_whose_machine_code_was_lost_is_named_and_built_by_a_resume(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Compile workers that did not start again left a bundle without the winner's code, and exit code 0."""

    def lost(request: Any, outcome: Outcome) -> Outcome:
        # Sizes that vary are built once the search is over.
        return Outcome(Status.DEVICE_LOST, None, "ClusterError", "no worker") if request.mode == "dynamic" else outcome

    spec = sweep_spec(
        device_classes=[GPU], kernels=[{"kernel": KERNEL, "problems": [{"n": 64}]}], modes=["static", "dynamic"]
    )
    said = sweep.run(spec, tmp_path, quick_tools(lost))
    assert said == f"1 of 1 tuning tasks have a winner without machine code: {KERNEL} n=64 on {GPU}"
    assert "dynamic sizes: device_lost: no worker" in caplog.text
    assert sweep.resume(tmp_path, quick_tools()) == ""
    (row,) = load_table(tmp_path / "tables/fakes-kernel.json").entries
    assert {variant.mode for launch in row.launches for variant in launch.variants} == {"static", "dynamic"}


def test_a_stop_waits_for_no_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finding 6 of issue 17: what ends the check is asked while it runs, and it is no verdict."""
    asked: list[Any] = []

    class Process:
        def __init__(self, unwanted: Any) -> None:
            asked.append(unwanted)

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: Any) -> None: ...

        def check(self, request: Any) -> Outcome:
            os.kill(os.getpid(), signal.SIGTERM)
            assert asked[0](), "the call under way is told"
            return replace(fakes.checked_ok(request), status=Status.BENCH_TIMEOUT)

    monkeypatch.setattr(work, "InterpreterProcess", Process)
    said = sweep.run(sweep_spec(device_classes=[MODELLED]), tmp_path, replace(tools(), check=None))
    assert said.startswith("SIGTERM")
    assert not list(journals.events(journals.read(tmp_path / "journal.jsonl"), "interpreted"))


def test_the_only_study_raises_what_its_author_must_mend(tmp_path: Path) -> None:
    spec = sweep_spec(kernels=[{"kernel": KERNEL, "problems": [{"n": 64}]}], device_classes=[GPU])
    with pytest.raises(InternalError, match="cuDNN error"):
        sweep.run(spec, tmp_path, tools(broken_reference))
    (event,) = journals.events(journals.read(tmp_path / "journal.jsonl"), "study_stopped")
    assert "cuDNN error" in event["reason"]
    sweep.export(tmp_path, fakes.prepare)
    assert "cuDNN error" in (tmp_path / "report.md").read_text()


@pytest.mark.parametrize("number", [float("inf"), float("nan")])
def test_an_infinity_in_a_device_worker_ends_nothing(tmp_path: Path, number: float) -> None:
    """Issue 15: the infinite error of a NaN or a wrong shape ended the sweep, and each resume."""

    def wrong_shape(request: TrialRequest, outcome: Outcome) -> Outcome:
        if request.config["x"] != 1:
            return outcome
        return replace(checked(Verdict(Status.INCORRECT, number, "wrong shape")), measured=outcome.measured)

    spec = sweep_spec(strategy={"name": "exhaustive"}, budget={"trials": 100})
    assert sweep.run(spec, tmp_path, tools(wrong_shape)) == ""
    wrong = [r for r in trials(tmp_path) if r.config["x"] == 1]
    assert {(r.status, r.result.outcome.max_err) for r in wrong} == {(Status.INCORRECT, None)}
    assert sweep.resume(tmp_path, tools(wrong_shape)) == ""


@contextmanager
def small_files(limit: int) -> Iterator[None]:
    """No file of this process grows beyond ``limit`` bytes: what a full disk says, to all libraries alike."""
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_at_export_is_one_error(tmp_path: Path) -> None:
    """Finding 8 of issue 17: a traceback."""
    sweep.run(sweep_spec(), tmp_path, tools())
    (tmp_path / "report.md").unlink()
    with small_files(100), pytest.raises(outputs.OutputError, match=r"File too large(.|\n)*sweep export"):
        sweep.export(tmp_path, fakes.prepare)
    sweep.export(tmp_path, fakes.prepare)
    assert (tmp_path / "report.md").exists()


def test_a_sweep_whose_exports_find_no_room_ends_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export = outputs._write_tables

    def full(*arguments: Any) -> None:
        with small_files(100):
            export(*arguments)

    monkeypatch.setattr(outputs, "_write_tables", full)
    assert "File too large" in sweep.run(sweep_spec(), tmp_path, tools())
    monkeypatch.setattr(outputs, "_write_tables", export)
    assert sweep.resume(tmp_path, tools()) == ""
    assert (tmp_path / "report.md").exists()


def test_a_folder_that_cannot_be_written_is_refused_before_any_worker_starts(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    never = replace(tools(), evaluator=lambda spec: pytest.fail("started"))
    with pytest.raises(outputs.OutputError, match="must take its files"):
        sweep.run(sweep_spec(), Path("/proc/out"), never)
    for out in (tmp_path / "file", tmp_path / "file/out"):
        with pytest.raises(SpecError, match="file, which is none"):
            sweep.run(sweep_spec(), out, never)


class Vanishing(InlineEvaluator):
    """Its cluster is gone after some results."""

    polls = 0

    def poll(self, timeout_s: float) -> list[TrialResult]:
        self.polls += 1
        if self.polls > 20:
            raise ClusterError("the Ray cluster must answer", got="LocalRayletDiedError: gone")
        return super().poll(timeout_s)


def test_a_cluster_that_is_gone_ends_the_sweep_with_its_tables(tmp_path: Path) -> None:
    gone = replace(tools(), evaluator=lambda spec: Vanishing(fakes.FakeStages(), measured=(GPU,)))
    assert "LocalRayletDiedError" in sweep.run(sweep_spec(device_classes=[GPU]), tmp_path, gone)
    assert "LocalRayletDiedError" in (tmp_path / "report.md").read_text()
    assert load_table(tmp_path / "tables/fakes-kernel.json").entries
    assert sweep.resume(tmp_path, tools()) == ""
    assert sum(completed(tmp_path).values()) == 20
