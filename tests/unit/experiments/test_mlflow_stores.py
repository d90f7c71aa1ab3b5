"""MLflow's stores: made whole or not at all, named where they are not whole, and found again."""

from __future__ import annotations

import errno
import shutil
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import requests
from mlflow.exceptions import MlflowException
from mlflow.utils import rest_utils
from tile_testing.fakes.experiments_fakes import sweep_spec, tools
from tile_testing.fakes.mlflow_runs import SPEC, call, children
from tileflow_experiments import cli, mlflow_log, outputs, sweep
from tileflow_experiments.tracking import database, state
from tileflow_experiments.tracking.client import find_experiment
from tileflow_experiments.tracking.store import MlflowAway, MlflowUnusable, masked, refusal_of

from tileflow.errors import SpecError


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
        ("sqlite:////tmp", "must be a file"),
        ("sqllite:////data/mlflow.db", "of a kind that MLflow knows"),
        ("http://", "named by its host"),
        ("https:///mlflow", "named by its host"),
        ("file:///data/mlruns", "no more runs"),
        ("/data/mlruns", "no more runs"),
    ],
)
def test_an_address_that_keeps_nothing_is_refused_before_anything_is_written(
    unlogged: Path, tmp_path: Path, wanted: str, said: str
) -> None:
    """A store in memory took all trials, said so, and was gone with the process. An address that nothing answers at
    was taken for a server that is away: the sweep ran to its end, and waited two minutes for it."""
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


def test_the_environment_names_the_store_where_the_command_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/guides/security.md said so, and the sweep was logged to a file in its folder without a word."""
    named, other = "postgresql://u:secret@host/db", "http://host:5000"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", named)
    place = outputs.Outputs(tmp_path)
    assert place.logged_to(None) == named and place.logged_to(other) == other
    state.LogState(masked(named)).write(tmp_path)
    assert place.logged_to(None) == named, "with the password, which the folder does not keep"
    state.LogState(other).write(tmp_path)
    assert place.logged_to(None) == other, "a sweep goes on in its store"
    state.LogState(place.mlflow_uri).write(tmp_path)
    assert place.logged_to(None) == place.mlflow_uri
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "mlruns")
    with pytest.raises(SpecError, match=r"(?s)must be an address.*at MLFLOW_TRACKING_URI"):
        outputs.Outputs(tmp_path / "new").logged_to(None)


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
        (_http(401, "You are not authenticated"), "MLFLOW_TRACKING_TOKEN"),
        (_http(403, "Permission denied"), "MLFLOW_TRACKING_TOKEN"),
        (_http(403, '{"error_code": "PERMISSION_DENIED", "message": "Permission denied"}'), "MLFLOW_TRACKING_TOKEN"),
        (_http(404, "nothing here"), "names its server"),
        (_http(200, "<html>log in</html>"), "names its server"),
        (_http(401, '{"error_code": "A_PROXYS", "message": "who are you?"}'), "MLFLOW_TRACKING_TOKEN"),
    ):
        monkeypatch.setattr(mlflow_log, "Replay", _raiser(error))
        with pytest.raises(MlflowAway) as raised:
            mlflow_log.replay(journal, uri)
        assert step in str(raised.value.hint) and "sweep log OUT" in str(raised.value.hint)


def _http(status: int, body: str) -> Exception:
    """What MLflow's client makes of an answer."""
    answer = requests.Response()
    answer.status_code, answer._content = status, body.encode()
    with pytest.raises(MlflowException) as raised:
        rest_utils.verify_rest_response(answer, "/api/2.0/mlflow/runs/create")
    return raised.value


@pytest.mark.parametrize(("status", "step"), [(429, "fewer"), (500, "see its own log"), (503, "see its own log")])
def test_a_server_that_fails_is_not_told_to_be_started(status: int, step: str) -> None:
    """One that limits requests, or fails, was `away`, and to be started."""
    url = "/api/2.0/mlflow/experiments/get-by-name"
    cause = f"Max retries exceeded with url: {url} (Caused by ResponseError('too many {status} error responses'))"
    constraint, hint = refusal_of(MlflowException(f"API request to {url} failed with exception {cause}"))
    assert step in hint and constraint != "MLflow must answer"


def _raiser(error: Exception) -> Callable[..., Any]:
    def refuse(*_: object) -> None:
        raise error

    return refuse
