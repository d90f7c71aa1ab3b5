"""MLflow is a fold of the journal: the same runs however often, and in whatever pieces, it is replayed."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tile_testing.fakes import experiments_fakes as fakes
from tile_testing.fakes.experiments_fakes import GPU, sweep_spec, tools
from tileflow_cluster.protocol import TrialRequest
from tileflow_experiments import cli, mlflow_log, outputs, sweep
from tileflow_experiments import journal as journals
from tileflow_experiments.tracking import database, replay, state
from tileflow_experiments.tracking.client import find_experiment
from tileflow_experiments.tracking.store import MlflowAway, MlflowUnusable, masked

from tileflow.errors import SpecError
from tileflow.measure.types import Outcome, Status
from tileflow.runtime.table_files import load_table

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"

SPEC: dict[str, Any] = {
    "kernels": [{"kernel": fakes.KERNEL, "problems": [{"n": 64}]}],
    "budget": {"trials": 6},
}


DEVICE = "tileflow.device_class"


def runs(uri: str) -> list[Any]:
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("fake")
    assert experiment is not None
    return list(client.search_runs([experiment.experiment_id]))


def children(uri: str) -> list[Any]:
    return [run for run in runs(uri) if "tileflow.trial_id" in run.data.tags]


def call(*arguments: object, monkeypatch: pytest.MonkeyPatch) -> int:
    """The exit code of the command line."""
    monkeypatch.setattr(sys, "argv", ["tileflow", *map(str, arguments)])
    with pytest.raises(SystemExit) as ending:
        cli.main()
    return int(ending.value.code or 0)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MLflow's tables, which take seconds to make; tests write to copies."""
    path = tmp_path_factory.mktemp("store") / "empty.db"
    database._make(path, None)
    return path


@pytest.fixture
def uri(empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store without runs; nothing is drawn for them, which takes a second a study."""
    monkeypatch.setattr(replay, "_draw", lambda *arguments: None)
    monkeypatch.setattr(database, "_make", lambda path, artifacts: shutil.copy(empty, path))
    shutil.copy(empty, tmp_path / "mlflow.db")
    return f"sqlite:///{tmp_path / 'mlflow.db'}"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep's folder, MLflow included; some attempts were lost and tried again."""
    out = tmp_path_factory.mktemp("finished")
    seen: Counter[str] = Counter()

    def lose_one(request: TrialRequest, outcome: Outcome) -> Outcome:
        seen[request.key] += 1
        lost = request.config["y"] == 1 and seen[request.key] == 1
        return Outcome(Status.WORKER_LOST, None, "Lost", "gone") if lost else outcome

    sweep.run(sweep_spec(**SPEC), out, tools(lose_one))
    return out


def test_the_counts_agree_across_journal_mlflow_and_parquet(finished: Path) -> None:
    import pyarrow.parquet as pq

    lines = journals.read(finished / "journal.jsonl")
    assert any(r.result.retried for r in journals.attempts(lines))
    wanted = set(journals.trials(lines))
    found = children(outputs.Outputs(finished).mlflow_uri)
    rows = pq.read_table(finished / "trials.parquet").column("trial_id").to_pylist()
    assert len(wanted) == 12
    assert sorted(run.data.tags["tileflow.trial_id"] for run in found) == sorted(wanted)
    assert set(rows) == wanted


def test_a_child_run_carries_its_trial(finished: Path) -> None:
    trials = journals.trials(journals.read(finished / "journal.jsonl"))
    found = list(children(outputs.Outputs(finished).mlflow_uri))
    assert len(found) == len(trials) > 0
    for run in found:
        record = trials[run.data.tags["tileflow.trial_id"]]
        assert run.data.params == {k: str(v) for k, v in (record.config.to_dict() | {"n": 64}).items()}
        assert run.data.tags["tileflow.status"] == record.status
        assert run.data.metrics.get("median_us" if record.measured else "modelled_us") == record.time_us
        assert run.info.status == ("FINISHED" if record.status is Status.OK else "FAILED")


def test_times_of_the_model_are_no_metrics_of_measurements(finished: Path) -> None:
    """Issue 17: a modelled trial's time was its ``median_us``, a modelled study's its ``best_us``."""
    of_times = {"median_us", "p20_us", "p80_us", "ci95_us", "roofline_frac", "best_us", "default_us", "speedup"}
    of_times |= {"best_so_far_us", "best_so_far_us_by_second"}
    found = runs(outputs.Outputs(finished).mlflow_uri)
    modelled = [run for run in found if run.data.tags["tileflow.device_class"] == fakes.MODELLED]
    measured = [run for run in found if run.data.tags["tileflow.device_class"] == GPU]
    assert len(modelled) == len(measured) == 7
    for run in modelled:
        assert not of_times & set(run.data.metrics), run.info.run_name
        assert run.data.tags["tileflow.times"] == "modelled"
        assert "modelled" in run.info.run_name or run.info.status == "FAILED"
    for run in measured:
        assert not any(name.startswith("modelled") for name in run.data.metrics), run.info.run_name
        assert "modelled" not in run.info.run_name


def test_a_parent_is_named_for_people_and_carries_its_result(finished: Path) -> None:
    """Issue 17: it was named by its key, and had nothing but a curve."""
    uri = outputs.Outputs(finished).mlflow_uri
    by_name = {run.info.run_name: run for run in runs(uri) if "tileflow.trial_id" not in run.data.tags}
    assert set(by_name) == {"kernel 64 h200", "kernel 64 mi300x modelled"}
    parent = by_name["kernel 64 h200"]
    metrics, params = parent.data.metrics, parent.data.params
    table = load_table(finished / "tables" / "fakes-kernel.json")
    best = next(entry for entry in table.entries if entry.device == GPU)
    assert metrics["best_us"] == best.best_us and metrics["trials_ok"] > 0
    assert metrics["speedup"] == metrics["default_us"] / metrics["best_us"] >= 1
    assert metrics["roofline_frac"] == 5.0 / metrics["best_us"]
    assert params["device"] == GPU and params["n"] == "64"
    config = {name.removeprefix("best."): value for name, value in params.items() if name.startswith("best.")}
    assert config == {name: str(value) for name, value in best.config.to_dict().items()}
    assert "the default's speed" in parent.data.tags["mlflow.note.content"]
    assert "not measured" in by_name["kernel 64 mi300x modelled"].data.tags["mlflow.note.content"]


def test_children_are_numbered_in_the_order_of_the_journal(finished: Path) -> None:
    found = [run for run in children(outputs.Outputs(finished).mlflow_uri) if "h200" in run.data.tags[DEVICE]]
    names = sorted(run.info.run_name for run in found)
    assert [name.split()[0] for name in names] == ["#01", "#02", "#03", "#04", "#05", "#06"]
    for run in found:
        ended = f"{run.data.metrics['median_us']:.2f} us" if run.info.status == "FINISHED" else "incorrect"
        assert run.info.run_name.split(" ", 1)[1].startswith(ended)


def test_an_experiment_opens_on_its_runs(finished: Path) -> None:
    """Issue 17: MLflow showed its page for agents' traces."""
    from mlflow.tracking import MlflowClient

    experiment = MlflowClient(tracking_uri=outputs.Outputs(finished).mlflow_uri).get_experiment_by_name("fake")
    assert experiment.tags["mlflow.experimentKind"] == "custom_model_development"


def test_a_parent_carries_curves_figures_and_its_own_artifacts(finished: Path) -> None:
    """Issue 17: every parent had the files of the whole sweep."""
    import pyarrow.parquet as pq
    from mlflow.tracking import MlflowClient

    uri = outputs.Outputs(finished).mlflow_uri
    client = MlflowClient(tracking_uri=uri)
    parents = [run for run in runs(uri) if "tileflow.trial_id" not in run.data.tags]
    by_id = Counter(run.data.tags["mlflow.parentRunId"] for run in children(uri))
    assert len(parents) == len(by_id) > 0
    for parent in parents:
        assert by_id[parent.info.run_id] == 6 and parent.info.status == "FINISHED"
        modelled = "" if parent.data.tags[DEVICE] == GPU else "modelled_"
        curve = client.get_metric_history(parent.info.run_id, f"{modelled}best_so_far_us")
        values = [point.value for point in sorted(curve, key=lambda point: point.step)]
        assert values == sorted(values, reverse=True) and [p.step for p in curve][-1] == 6
        assert client.get_metric_history(parent.info.run_id, f"{modelled}best_so_far_us_by_second")
        names = {file.path for file in client.list_artifacts(parent.info.run_id)}
        assert names == {"convergence.png", "roofline.png", "trials.parquet", "fakes-kernel.json"}
        trials = pq.read_table(client.download_artifacts(parent.info.run_id, "trials.parquet"))
        assert set(trials.column("device_class").to_pylist()) == {parent.data.tags[DEVICE]}


def test_the_report_says_nothing_of_a_log_that_is_whole(finished: Path) -> None:
    """The report was written while the log was on its way, and said that MLflow lacked part of the sweep."""
    logged = state.read(finished)
    assert logged is not None and logged.complete
    assert "## MLflow" not in (finished / "report.md").read_text()


def test_replaying_again_changes_nothing(finished: Path) -> None:
    uri = outputs.Outputs(finished).mlflow_uri
    before = {run.info.run_id: (run.info.run_name, run.data.tags, run.data.metrics) for run in runs(uri)}
    mlflow_log.replay(finished / "journal.jsonl", uri, outputs.Outputs(finished).files())
    after = {run.info.run_id: (run.info.run_name, run.data.tags, run.data.metrics) for run in runs(uri)}
    assert after == before


def test_a_log_that_was_killed_in_the_middle_is_completed(finished: Path, tmp_path: Path, uri: str) -> None:
    """Cut between the transactions of a replay, as a kill does: what was written stays, nothing is there twice."""
    shutil.copy(finished / "journal.jsonl", tmp_path / "journal.jsonl")
    killed = replay.Replay(uri, tmp_path / "journal.jsonl", None, lambda state: None)
    lines = next(iter(killed._tail.chunks()))
    for part in (lines[:8], lines[8:11]):
        killed._log(part)
    some = {run.info.run_id for run in runs(uri)}
    state = mlflow_log.replay(tmp_path / "journal.jsonl", uri)
    wanted = set(journals.trials(journals.read(tmp_path / "journal.jsonl")))
    assert 1 < len(some) < len(wanted) and some <= {run.info.run_id for run in runs(uri)}
    assert sorted(run.data.tags["tileflow.trial_id"] for run in children(uri)) == sorted(wanted)
    assert state.complete and state.trials == len(wanted)


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
    journals.Journal.create(tmp_path / "journal.jsonl", {"sweep_id": "s", "spec": {}}).close()
    for complete, code in ((False, cli.UNLOGGED), (True, 0)):
        state.LogState("sqlite:///x", complete, "because").write(tmp_path)
        try:
            cli.finish("", tmp_path)
            assert not code
        except cli.typer.Exit as ending:
            assert ending.exit_code == code
        assert ("lacks part of the sweep (because)" in capsys.readouterr().err) is not complete


# ---- lines that MLflow refuses --------------------------------------------------------------------------------------


def poisoned(change: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], str]:
    def line(trial: dict[str, Any]) -> str:
        trial["trial_id"] = "poison"
        change(trial)
        return json.dumps(trial)

    return line


def other_config(trial: dict[str, Any]) -> str:
    return json.dumps(trial | {"config": trial["config"] | {"x": 7, "y": 3}})


POISON: dict[str, Callable[[dict[str, Any]], str]] = {
    "another config": other_config,
    "a lone surrogate": poisoned(lambda t: t.update(error_digest="\ud800", seed_source="\udfff")),
    "2^63 milliseconds": poisoned(lambda t: t.update(started_at=2**63 // 1000 + 1)),
    "2^63 seconds": poisoned(lambda t: t.update(started_at=2**63)),
    "400 digits": poisoned(lambda t: t.update(max_err=10**400)),
    "an infinite metric": lambda t: poisoned(lambda t: t.update(temp_c="HOT"))(t).replace('"HOT"', "1e999"),
    "an infinite time": lambda t: poisoned(lambda t: t.update(started_at="LATE"))(t).replace('"LATE"', "1e999"),
    "Infinity": lambda t: poisoned(lambda t: t.update(max_err=float("inf")))(t),
    "NaN": lambda t: poisoned(lambda t: t.update(max_err=float("nan")))(t),
    "text for a number": poisoned(lambda t: t.update(registers="many")),
    "no JSON": lambda t: '{"kind": "trial", ',
}


@pytest.fixture(scope="module")
def unlogged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep's folder that no MLflow has seen."""
    out = tmp_path_factory.mktemp("unlogged")
    sweep.run(sweep_spec(**SPEC), out, replace(tools(), to_mlflow=False))
    return out


def test_lines_that_mlflow_refuses_are_set_aside_and_hold_up_nothing(
    unlogged: Path, tmp_path: Path, uri: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 17, finding 3: one of them blocked all that follow, for ever."""
    lines = (unlogged / "journal.jsonl").read_text().splitlines()
    first = next(n for n, line in enumerate(lines) if '"kind":"trial"' in line)
    bad = [line(json.loads(lines[first])) for line in POISON.values()]
    (tmp_path / "journal.jsonl").write_text("\n".join([*lines[: first + 1], *bad, *lines[first + 1 :]]) + "\n")
    assert call("sweep", "log", tmp_path, "--mlflow", uri, monkeypatch=monkeypatch) == 0
    assert f"{len(POISON)} lines of the journal could not be logged" in capsys.readouterr().err
    wanted = set(journals.trials(journals.read(unlogged / "journal.jsonl")))
    assert {run.data.tags["tileflow.trial_id"] for run in children(uri)} == wanted
    found = state.read(tmp_path)
    assert found is not None and found.complete
    assert [item.line for item in found.set_aside] == [first + 2 + n for n in range(len(POISON))]
    by_poison = dict(zip(POISON, found.set_aside, strict=True))
    assert "known with another config" in by_poison["another config"].why
    assert "Unicode" in by_poison["a lone surrogate"].why and by_poison["a lone surrogate"].what == "poison"
    assert all(item.why for item in found.set_aside)


def test_the_report_and_the_files_say_what_was_set_aside(unlogged: Path, tmp_path: Path, empty: Path) -> None:
    """Neither they nor the study's own files are lost to text that is no Unicode."""
    lines = (unlogged / "journal.jsonl").read_text().splitlines()
    first = next(n for n, line in enumerate(lines) if '"kind":"trial"' in line)
    bad = POISON["a lone surrogate"](json.loads(lines[first]))
    (tmp_path / "journal.jsonl").write_text("\n".join([*lines, bad]) + "\n")
    shutil.copy(empty, tmp_path / "mlflow.db")
    assert mlflow_log.replay(tmp_path / "journal.jsonl", f"sqlite:///{tmp_path / 'mlflow.db'}").complete
    assert not any(item.line == 0 for item in state.read(tmp_path).set_aside)  # type: ignore[union-attr]
    sweep.export(tmp_path, fakes.prepare)
    report = (tmp_path / "report.md").read_text()
    assert "1 line of the journal could not be logged to MLflow" in report
    assert f"line {len(lines) + 1} poison: text must be Unicode" in report


def test_what_the_database_refuses_is_found_in_halves(unlogged: Path, tmp_path: Path, uri: str) -> None:
    """A run that passes every check here may still be refused there: it alone is set aside."""
    shutil.copy(unlogged / "journal.jsonl", tmp_path / "journal.jsonl")
    found = replay.Replay(uri, tmp_path / "journal.jsonl", None, lambda state: None)
    write = found._store.write_trials

    def spoil(entries: Any) -> Any:
        bad = replace(entries[3], run=replace(entries[3].run, status="NO STATUS OF MLFLOW"))
        return write([*entries[:3], bad, *entries[4:]])

    found._store.write_trials = spoil  # type: ignore[method-assign]
    found.catch_up()
    assert len(children(uri)) == 11 and len(found.state().set_aside) == 1
    assert "CHECK constraint" in found.state().set_aside[0].why


# ---- stores that are not whole --------------------------------------------------------------------------------------


def half_made(path: Path) -> None:
    """As a kill leaves it: sqlite keeps each table that was made, and forgets which step of the migration made it."""
    import sqlite3

    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM alembic_version")
    connection.execute("DROP TABLE latest_metrics")
    connection.commit()
    connection.close()


def test_a_store_whose_migration_was_killed_is_made_anew(unlogged: Path, tmp_path: Path, uri: str) -> None:
    """Issue 17, finding 3: no resume mended it, and the exit code was 0."""
    shutil.copy(unlogged / "journal.jsonl", tmp_path / "journal.jsonl")
    half_made(tmp_path / "mlflow.db")
    assert mlflow_log.replay(tmp_path / "journal.jsonl", uri, artifacts=tmp_path / "mlartifacts").complete
    assert len(children(uri)) == 12 and (tmp_path / "mlflow.db.half-made").exists()


def test_a_store_of_somebodys_runs_that_is_not_whole_is_named(
    unlogged: Path, tmp_path: Path, uri: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(unlogged / "journal.jsonl", tmp_path / "journal.jsonl")
    mlflow_log.replay(tmp_path / "journal.jsonl", uri)
    database._store(uri, None).engine.dispose()
    half_made(tmp_path / "mlflow.db")
    before = (tmp_path / "mlflow.db").read_bytes()
    assert call("sweep", "log", tmp_path, "--mlflow", uri, monkeypatch=monkeypatch) == cli.UNLOGGED
    said = capsys.readouterr().err
    assert "must have the schema" in said and "mlflow db upgrade" in said
    assert (tmp_path / "mlflow.db").read_bytes() == before
    found = state.read(tmp_path)
    assert found is not None and not found.complete and "schema" in found.why


def test_a_file_that_is_no_database_is_named_at_once(unlogged: Path, tmp_path: Path) -> None:
    shutil.copy(unlogged / "journal.jsonl", tmp_path / "journal.jsonl")
    (tmp_path / "notes.db").write_text("not a database")
    with pytest.raises(MlflowUnusable, match="no sqlite database"):
        mlflow_log.replay(tmp_path / "journal.jsonl", f"sqlite:///{tmp_path / 'notes.db'}")
    assert (tmp_path / "notes.db").read_text() == "not a database"


def table_of(path: Path, name: str) -> None:
    import sqlite3

    connection = sqlite3.connect(path)
    connection.execute(f"CREATE TABLE IF NOT EXISTS {name} (name TEXT)")
    connection.execute(f"INSERT INTO {name} (name) VALUES ('mine')")
    connection.commit()
    connection.close()


@pytest.mark.parametrize("of_mlflow", [False, True])
def test_a_database_with_anybodys_content_stays_where_it_is(
    unlogged: Path, tmp_path: Path, uri: str, of_mlflow: bool
) -> None:
    """One without runs was taken for half a store: another program's database was moved away, and a store of an
    earlier MLflow whose models were registered."""
    shutil.copy(unlogged / "journal.jsonl", tmp_path / "journal.jsonl")
    path = tmp_path / "mlflow.db"
    if of_mlflow:
        half_made(path)
        table_of(path, "registered_models")
    else:
        path.unlink()
        table_of(path, "customers")
    before = path.read_bytes()
    with pytest.raises(
        MlflowUnusable, match=r"(content in registered_models|another program's database, with customers)"
    ):
        mlflow_log.replay(tmp_path / "journal.jsonl", uri)
    assert path.read_bytes() == before and not (tmp_path / "mlflow.db.half-made").exists()


def test_two_sweeps_that_make_one_store_wait_for_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each removed what the other made: one ended with `duplicate column name`."""
    path, made = tmp_path / "shared.db", list[str]()

    def store(uri: str, artifacts: Path | None) -> Any:
        fresh = Path(uri.removeprefix("sqlite:///"))
        if not fresh.exists():
            made.append(uri)
            shutil.copy(tmp_path / "whole.db", fresh)
            time.sleep(0.3)  # for as long as migrations take, the other one would find no store
        return SimpleNamespace(engine=SimpleNamespace(dispose=lambda: None))

    database._make(tmp_path / "whole.db", None)
    monkeypatch.setattr(database, "_store", store)
    with ThreadPoolExecutor() as pool:
        assert len(list(pool.map(lambda _: database._open(f"sqlite:///{path}", None), range(4)))) == 4
    assert made == [f"sqlite:///{path}.new"] and path.exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["shared.db", "whole.db"]


def test_two_sweeps_of_one_name_share_the_experiment_that_either_made(uri: str) -> None:
    from mlflow.tracking import MlflowClient

    class Late(MlflowClient):
        """Looks before the other sweep has made it, and makes it after."""

        asked = 0

        def get_experiment_by_name(self, name: str) -> Any:
            self.asked += 1
            return None if self.asked == 1 else super().get_experiment_by_name(name)

    first = find_experiment(MlflowClient(tracking_uri=uri), uri, "fake", None)
    assert find_experiment(Late(tracking_uri=uri), uri, "fake", None) == first


@pytest.mark.parametrize(
    "wanted, said",
    [
        ("mlruns", "must be an address"),
        ("sqlite://", "in memory"),
        ("sqlite:///", "in memory"),
        ("sqlite:///:memory:", "in memory"),
        ("sqlite+pysqlite:///:memory:", "in memory"),
    ],
)
def test_an_address_that_keeps_nothing_is_refused_before_anything_is_written(
    unlogged: Path, tmp_path: Path, wanted: str, said: str
) -> None:
    """A store in memory took all trials, said so, and was gone with the process."""
    out = tmp_path / "out"
    with pytest.raises(SpecError, match=said):
        sweep.run(sweep_spec(**SPEC), out, tools(), mlflow_uri=wanted)
    assert not out.exists()
    with pytest.raises(SpecError, match=said):
        sweep.to_mlflow(unlogged, wanted)


def test_a_sweep_goes_on_in_the_store_that_it_was_logged_to(
    unlogged: Path, tmp_path: Path, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last line says that `tileflow sweep log` completes it: that made another store, in the folder, and ended
    with 0."""
    out = tmp_path / "out"
    out.mkdir()
    shutil.copy(unlogged / "journal.jsonl", out / "journal.jsonl")
    state.LogState(uri).write(out)
    assert call("sweep", "log", out, monkeypatch=monkeypatch) == 0
    assert len(children(uri)) == 12 and not (out / "mlflow.db").exists()
    found = state.read(out)
    assert found is not None and found.complete and found.uri == uri
    state.LogState("postgresql://u:***@host/db").write(out)
    with pytest.raises(SpecError, match="password is kept nowhere"):
        sweep.resume(out, tools())


def test_a_folder_that_was_moved_keeps_its_own_store(unlogged: Path, tmp_path: Path, uri: str) -> None:
    (tmp_path / "gone").mkdir()
    (tmp_path / "copied").mkdir()
    for folder, made in (("moved", tmp_path / "gone"), ("copy", tmp_path / "copied")):
        out = tmp_path / folder
        out.mkdir()
        state.LogState(outputs.Outputs(made).mlflow_uri).write(out)
        if folder == "moved":
            (out / "mlflow.db").touch()
        else:
            (made / "journal.jsonl").touch()
        assert outputs.Outputs(out).logged_to(None) == f"sqlite:///{out / 'mlflow.db'}"
        assert outputs.Outputs(out).logged_to(uri) == uri


def test_a_store_is_kept_by_its_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert outputs.Outputs(tmp_path).logged_to("sqlite:///all.db?timeout=9") == f"sqlite:///{tmp_path}/all.db?timeout=9"


@pytest.mark.parametrize("name", ["what?", "100%25"])
def test_a_folder_whose_address_reads_as_another_is_refused(tmp_path: Path, name: str) -> None:
    """The store of ``what?`` was the file ``what`` beside the folder."""
    with pytest.raises(SpecError, match=r"neither \? nor %"):
        sweep.run(sweep_spec(**SPEC), tmp_path / name, tools())
    assert not list(tmp_path.iterdir())


def test_a_job_names_its_store_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
    with pytest.raises(SpecError, match="four slashes"):
        sweep.run(sweep_spec(**SPEC), tmp_path / "out", tools(), mlflow_uri="sqlite:///mlflow.db")


def test_a_new_store_comes_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill while the tables are made leaves no file of the store's name."""

    class Killed(BaseException):
        pass

    def killed(uri: str, artifacts: Path | None) -> Any:
        Path(uri.removeprefix("sqlite:///")).write_bytes(b"half")
        raise Killed

    monkeypatch.setattr(database, "_store", killed)
    with pytest.raises(Killed):
        database._open(f"sqlite:///{tmp_path / 'mlflow.db'}", None)
    assert not (tmp_path / "mlflow.db").exists() and (tmp_path / "mlflow.db.new").exists()


@pytest.mark.parametrize(
    "uri, shown",
    [
        ("postgresql://u:se/cr@et@host:5432/db", "postgresql://u:***@host:5432/db"),
        (
            "postgresql+psycopg://host/db?user=u&password=secret&x=1",
            "postgresql+psycopg://host/db?user=u&password=***&x=1",
        ),
        ("http://u:secret@host:5000/a@b", "http://u:***@host:5000/a@b"),
        ("OperationalError: mysql://u:a/b@host/db and more", "OperationalError: mysql://u:***@host/db and more"),
        ("postgresql://u@host:5432/db", "postgresql://u@host:5432/db"),
        ("http://host:5000/a@b", "http://host:5000/a@b"),
        ("sqlite:////data/a:b@c/mlflow.db", "sqlite:////data/a:b@c/mlflow.db"),
    ],
)
def test_a_password_is_in_no_message_whatever_it_consists_of(uri: str, shown: str) -> None:
    """One with a slash was written to ``mlflow-log.json``, and one in the query."""
    assert masked(uri) == shown


def test_a_deleted_experiment_is_named(unlogged: Path, tmp_path: Path, uri: str) -> None:
    from mlflow.tracking import MlflowClient

    shutil.copy(unlogged / "journal.jsonl", tmp_path / "journal.jsonl")
    client = MlflowClient(tracking_uri=uri)
    client.delete_experiment(client.create_experiment("fake"))
    with pytest.raises(MlflowUnusable, match="experiments restore"):
        mlflow_log.replay(tmp_path / "journal.jsonl", uri)


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


def test_passwords_are_in_no_text() -> None:
    from tileflow_experiments.tracking.store import masked

    assert masked("postgresql+psycopg://me:geheim@host:5432/m") == "postgresql+psycopg://me:***@host:5432/m"
    assert masked("sqlite:////data/a:b@c/mlflow.db") == "sqlite:////data/a:b@c/mlflow.db"


def test_a_store_that_refuses_says_what_to_do(
    unlogged: Path, tmp_path: Path, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A locked database and a full disk were told to be away, and to be waited for."""
    journal = tmp_path / "journal.jsonl"
    shutil.copy(unlogged / "journal.jsonl", journal)
    monkeypatch.setattr(database, "BUSY_MS", 10)
    held = sqlite3.connect(uri.removeprefix("sqlite:///"), isolation_level=None)
    held.execute("BEGIN EXCLUSIVE")
    with pytest.raises(MlflowAway, match=r"must be free, but got .*database is locked") as raised:
        mlflow_log.replay(journal, uri)
    assert "another program holds it" in str(raised.value.hint)
    held.close()
    for error, step in (
        (PermissionError(errno.EACCES, "Permission denied", "/data/mlartifacts/1"), "let this user write"),
        (OSError(errno.EROFS, "Read-only file system", "/data/mlartifacts/1"), "let this user write"),
        (sqlite3.OperationalError("attempt to write a readonly database"), "let this user write"),
        (OSError(errno.ENOSPC, "No space left on device"), "make room"),
        (ConnectionError("refused"), "until it is back"),
    ):
        monkeypatch.setattr(mlflow_log, "Replay", _raiser(error))
        with pytest.raises(MlflowAway) as raised:
            mlflow_log.replay(journal, uri)
        assert step in str(raised.value.hint) and "sweep log OUT" in str(raised.value.hint)


def _raiser(error: Exception) -> Callable[..., Any]:
    def refuse(*_: object) -> None:
        raise error

    return refuse


def test_a_server_that_is_away_is_said_once(unlogged: Path, tmp_path: Path) -> None:
    """Each try's connections had warnings of their own, on the terminal of a sweep of hours."""
    shutil.copy(unlogged / "journal.jsonl", tmp_path / "journal.jsonl")
    command = [sys.executable, "-m", "tileflow_experiments.mlflow_log", str(tmp_path / "journal.jsonl"), str(tmp_path)]
    paths = os.pathsep.join(sys.path)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": paths}
    ) as process:
        assert process.stdin is not None and process.stderr is not None
        process.stdin.write("http://127.0.0.1:9\n")
        process.stdin.flush()
        first = process.stderr.readline()
        time.sleep(3 * sum(mlflow_log.RETRY_S[:1]))  # it tries again meanwhile
        process.kill()
        rest = process.stderr.read()
    assert "MLflow at http://127.0.0.1:9 is away" in first and not rest
    logged = [sys.executable, "-m", "tileflow_experiments.cli", "sweep", "log", str(tmp_path), "--mlflow"]
    told = subprocess.run([*logged, "http://127.0.0.1:9"], env=os.environ | {"PYTHONPATH": paths}, capture_output=True)
    assert told.returncode == 4 and told.stderr.startswith(b"MlflowAway: MLflow must answer")
