"""The process that logs to MLflow: it is killed, MLflow is away, another one logs."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from tile_testing.fakes.experiments_fakes import sweep_spec, tools
from tile_testing.fakes.mlflow_runs import SPEC, call, children
from tileflow_experiments import cli, mlflow_log, sweep
from tileflow_experiments import journal as journals
from tileflow_experiments.journal_writer import Journal
from tileflow_experiments.tracking import state
from tileflow_experiments.tracking.store import MlflowAway


def _loggers(journal: Path) -> list[int]:
    """The processes that log a sweep."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = (process / "cmdline").read_bytes()
            if b"tileflow_experiments.mlflow_log" in command and str(journal).encode() in command:
                found.append(int(process.name))
    return found


def _await(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_log_whose_process_is_killed_goes_on_in_another(
    finished: Path, tmp_path: Path, uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    """MLflow showed nothing more of a sweep from then on, and nobody said so before its end."""
    journal = tmp_path / "journal.jsonl"
    shutil.copy(finished / "journal.jsonl", journal)
    log = mlflow_log.MlflowLog(journal, uri, tmp_path / "artifacts")
    log.start()
    (first,) = _loggers(journal)
    os.kill(first, signal.SIGKILL)
    _await(lambda: [pid for pid in _loggers(journal) if pid != first])
    assert "was killed by signal 9; another one goes on" in caplog.text
    (second,) = _loggers(journal)
    killer = threading.Timer(0.5, os.kill, (second, signal.SIGKILL))  # while the rest is logged
    killer.start()
    assert log.finish((), 60.0)
    wanted = set(journals.trials(journals.read(journal)))
    assert sorted(run.data.tags["tileflow.trial_id"] for run in children(uri)) == sorted(wanted)
    logged = state.read(tmp_path)
    assert logged is not None and logged.complete


def test_a_log_whose_processes_are_all_killed_says_so(
    finished: Path, tmp_path: Path, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mlflow_log, "MOST_RESTARTS", 0)
    journal = tmp_path / "journal.jsonl"
    shutil.copy(finished / "journal.jsonl", journal)
    log = mlflow_log.MlflowLog(journal, uri, tmp_path / "artifacts")
    log.start()
    os.kill(_loggers(journal)[0], signal.SIGKILL)
    assert not log.finish((), 60.0)
    logged = state.read(tmp_path)
    assert logged is not None and "was killed by signal 9" in logged.why and not logged.complete
    assert mlflow_log.replay(journal, uri).complete


def test_mlflow_away_slows_nothing_and_is_replayed(
    tmp_path: Path, uri: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = "http://somebody:secret@127.0.0.1:9"
    out = tmp_path / "out"
    monkeypatch.setattr(sweep, "MLFLOW_FINISH_S", 0.2)
    started = time.monotonic()
    assert sweep.run(sweep_spec(**SPEC), out, tools(), mlflow_uri=nowhere) == ""
    assert time.monotonic() - started < 30  # 120 s are what a log is given
    assert "`tileflow sweep log` completes it" in (out / "report.md").read_text()
    assert call("sweep", "log", out, "--mlflow", nowhere, monkeypatch=monkeypatch) == cli.UNLOGGED == 4
    assert "secret" not in capsys.readouterr().err + (out / "mlflow-log.json").read_text()
    with pytest.raises(MlflowAway):
        mlflow_log.replay(out / "journal.jsonl", nowhere)
    half = out / "half.jsonl"
    content = (out / "journal.jsonl").read_bytes()
    half.write_bytes(content[: content.rindex(b'"kind":"trial"')])
    mlflow_log.replay(half, uri, artifacts=tmp_path / "artifacts")
    some = len(children(uri))
    assert call("sweep", "log", out, "--mlflow", uri, monkeypatch=monkeypatch) == 0
    wanted = set(journals.trials(journals.read(out / "journal.jsonl")))
    assert 0 < some < len(wanted)
    assert sorted(run.data.tags["tileflow.trial_id"] for run in children(uri)) == sorted(wanted)


def test_a_sweep_that_is_done_but_not_logged_ends_with_a_code_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 17, finding 3: it was given up with exit code 0."""
    Journal.create(tmp_path / "journal.jsonl", {"sweep_id": "s", "spec": {}}).close()
    for complete, code in ((False, cli.UNLOGGED), (True, 0)):
        state.LogState("sqlite:///x", complete, "because").write(tmp_path)
        try:
            cli.finish("", tmp_path)
            assert not code
        except cli.typer.Exit as ending:
            assert ending.exit_code == code
        assert ("lacks part of the sweep (because)" in capsys.readouterr().err) is not complete


def test_one_process_logs_a_sweep(unlogged: Path, tmp_path: Path, uri: str) -> None:
    shutil.copy(unlogged / "journal.jsonl", tmp_path / "journal.jsonl")
    with mlflow_log.alone(tmp_path), pytest.raises(MlflowAway, match="another one"):
        mlflow_log.replay(tmp_path / "journal.jsonl", uri)


def test_a_log_outlives_a_folder_that_takes_no_note_of_it(
    unlogged: Path, tmp_path: Path, uri: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """On a full disk the note of why the log waits could not be written, and that ended the log for good."""
    shutil.copy(unlogged / "journal.jsonl", tmp_path / "journal.jsonl")
    write, refused = state.LogState.write, []

    def full(self: state.LogState, folder: Path) -> None:
        if len(refused) < 3:
            refused.append(self)
            raise OSError(errno.ENOSPC, "No space left on device")
        write(self, folder)

    monkeypatch.setattr(state.LogState, "write", full)
    monkeypatch.setattr(mlflow_log, "RETRY_S", (0.01,))
    follower = mlflow_log.Follower(tmp_path / "journal.jsonl", uri, tmp_path / "artifacts")
    follower.start()
    assert follower.finish(())
    logged = state.read(tmp_path)
    assert logged is not None and logged.complete and len(children(uri)) == logged.trials
    assert "does not say why MLflow lacks part of the sweep" in caplog.text


def test_a_server_that_is_away_is_said_once(unlogged: Path, tmp_path: Path) -> None:
    """Each try's connections had warnings of their own, on the terminal of a sweep of hours."""
    shutil.copy(unlogged / "journal.jsonl", tmp_path / "journal.jsonl")
    command = [sys.executable, "-m", "tileflow_experiments.mlflow_log", str(tmp_path / "journal.jsonl"), str(tmp_path)]
    paths = os.pathsep.join(sys.path)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": paths}
    ) as process:
        assert process.stdin is not None and process.stderr is not None
        process.stdin.write('"http://127.0.0.1:9"\n')
        process.stdin.flush()
        first = process.stderr.readline()
        time.sleep(3 * sum(mlflow_log.RETRY_S[:1]))  # it tries again meanwhile
        process.kill()
        rest = process.stderr.read()
    assert "MLflow at http://127.0.0.1:9 is away" in first and not rest
    logged = [sys.executable, "-m", "tileflow_experiments.cli", "sweep", "log", str(tmp_path), "--mlflow"]
    told = subprocess.run([*logged, "http://127.0.0.1:9"], env=os.environ | {"PYTHONPATH": paths}, capture_output=True)
    assert told.returncode == 4 and told.stderr.startswith(b"MlflowAway: MLflow must answer")
