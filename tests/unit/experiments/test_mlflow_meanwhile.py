"""What somebody does to MLflow, or its server to the log, while a sweep is logged."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from mlflow.exceptions import MlflowException
from tile_testing.fakes.mlflow_runs import children, runs
from tileflow_experiments import journal as journals
from tileflow_experiments import mlflow_log
from tileflow_experiments.tracking import client as clients
from tileflow_experiments.tracking import replay
from tileflow_experiments.tracking.state import LogState
from tileflow_experiments.tracking.store import MlflowAway, MlflowUnusable, Refused

EARLY = 6  # lines that are logged before it happens: a study, some trials


@pytest.fixture(params=["database", "client"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Rows of the database, or MLflow's own client, which a server is reached by."""
    if request.param == "client":
        monkeypatch.setattr(replay, "serves", lambda uri: False)
    return str(request.param)


@pytest.fixture
def begun(unlogged: Path, tmp_path: Path, uri: str, way: str) -> Callable[[], LogState]:
    """A log that has the first lines of a journal. To call it logs the others, and closes."""
    journal, lines = tmp_path / "journal.jsonl", (unlogged / "journal.jsonl").read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:EARLY]))
    log = replay.Replay(uri, journal, tmp_path / "artifacts", lambda state: None)
    log.catch_up()
    assert children(uri)

    def rest() -> LogState:
        with journal.open("ab") as file:
            file.write(b"".join(lines[EARLY:]))
        log.catch_up()
        return log.close()

    return rest


def _trials(folder: Path) -> list[str]:
    return sorted(journals.trials(journals.read(folder / "journal.jsonl")))


def _client(uri: str) -> Any:
    from mlflow.tracking import MlflowClient

    return MlflowClient(tracking_uri=uri)


def _require_whole(uri: str, folder: Path) -> None:
    """Each trial has one run, which is below a study's that is there."""
    there = {run.info.run_id for run in runs(uri)}
    found = children(uri)
    assert sorted(run.data.tags["tileflow.trial_id"] for run in found) == _trials(folder)
    assert {run.data.tags["mlflow.parentRunId"] for run in found} <= there


def test_an_experiment_that_is_deleted_meanwhile_is_named_and_completed_once_it_is_back(
    begun: Callable[[], LogState], unlogged: Path, tmp_path: Path, uri: str
) -> None:
    """The database took all the rest, which nobody saw; over HTTP each line was set aside as one that MLflow refuses.
    Both logs called themselves complete."""
    client = _client(uri)
    experiment = client.get_experiment_by_name("fake").experiment_id
    client.delete_experiment(experiment)
    with pytest.raises(MlflowUnusable, match=r"must not be deleted, but got 'fake'[\s\S]*experiments restore"):
        begun()
    client.restore_experiment(experiment)
    assert mlflow_log.replay(tmp_path / "journal.jsonl", uri).complete
    _require_whole(uri, unlogged)


def test_a_study_that_is_deleted_meanwhile_is_made_again_with_its_trials(
    begun: Callable[[], LogState], unlogged: Path, tmp_path: Path, uri: str, way: str
) -> None:
    """Its trials stayed below the run that was gone, where no page shows them."""
    for study in {run.data.tags["mlflow.parentRunId"] for run in children(uri)}:
        _client(uri).delete_run(study)
    with pytest.raises(MlflowAway, match="was deleted meanwhile") if way == "client" else nullcontext():
        begun()
    assert mlflow_log.replay(tmp_path / "journal.jsonl", uri).complete
    _require_whole(uri, unlogged)


def test_a_trial_that_is_deleted_meanwhile_is_made_again(
    begun: Callable[[], LogState], unlogged: Path, tmp_path: Path, uri: str
) -> None:
    """The database's way counted it as logged, and its run stayed in the bin."""
    _client(uri).delete_run(children(uri)[0].info.run_id)
    begun()
    state = mlflow_log.replay(tmp_path / "journal.jsonl", uri)
    assert state.complete and state.trials == len(_trials(unlogged))
    _require_whole(uri, unlogged)


@pytest.mark.parametrize("code", [408, 429, 502, 503, 504])
@pytest.mark.parametrize("fails", [2, 3, 99])
def test_what_a_server_does_not_answer_for_now_is_no_line_that_it_refuses(
    tmp_path: Path, uri: str, monkeypatch: pytest.MonkeyPatch, code: int, fails: int
) -> None:
    """A limit of requests that met one run twice had it set aside, and the log called itself complete."""
    monkeypatch.setattr(clients, "_PAUSES", (0.0, 0.0, 0.0))
    store = clients.ClientStore(uri, "fake", tmp_path)
    left = fails

    def write() -> str:
        nonlocal left
        left -= 1
        if left >= 0:
            raise MlflowException(f"Max retries exceeded (Caused by ResponseError('too many {code} error responses'))")
        return "run"

    if fails > len(clients._PAUSES):
        with pytest.raises(MlflowException, match=f"too many {code}"):
            store._tried(write, "")
    else:
        assert store._tried(write, "") == "run"


def test_what_a_server_fails_with_twice_is_set_aside(tmp_path: Path, uri: str) -> None:
    store = clients.ClientStore(uri, "fake", tmp_path)

    def write() -> str:
        raise MlflowException("API request failed with error code 500 != 200")

    assert isinstance(store._tried(write, ""), Refused)


def test_a_store_that_is_slow_shows_its_progress(
    unlogged: Path, tmp_path: Path, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log's progress was noted once for some megabytes of journal, which over HTTP takes minutes where a request
    takes a second: a sweep's end gave up a server that took runs all the time."""
    monkeypatch.setattr(replay, "serves", lambda uri: False)
    monkeypatch.setattr(clients.ClientStore, "at_once", 4)
    shutil.copy(unlogged / "journal.jsonl", tmp_path / "journal.jsonl")
    seen: list[LogState] = []
    replay.Replay(uri, tmp_path / "journal.jsonl", tmp_path, seen.append).catch_up()
    assert [state.trials for state in seen] == [0, 0, 4, 8, 12, 12] and len(_trials(unlogged)) == 12
    size = (tmp_path / "journal.jsonl").stat().st_size
    assert [state.logged_bytes for state in seen] == [0, 0, 0, 0, 0, size]


def test_a_folder_whose_name_has_a_newline_is_logged(unlogged: Path, empty: Path, tmp_path: Path) -> None:
    """The process was told two addresses, of which neither was one, and ended in a traceback."""
    folder = tmp_path / "two\nlines"
    folder.mkdir()
    shutil.copy(unlogged / "journal.jsonl", folder / "journal.jsonl")
    shutil.copy(empty, folder / "mlflow.db")
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    log = mlflow_log.MlflowLog(folder / "journal.jsonl", uri, folder / "mlartifacts")
    log.start()
    assert log.finish((), 60.0)
    assert len(children(uri)) == len(_trials(unlogged))
