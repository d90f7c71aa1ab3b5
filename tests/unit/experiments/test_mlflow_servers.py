"""A sweep in PostgreSQL, over HTTP, and on MLflow's own pages in a browser: real servers on this machine."""

from __future__ import annotations

import json
import os
import re
import shutil
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tile_testing.browser import page_text, screenshot
from tile_testing.fakes import mlflow_servers as servers
from tileflow_experiments import mlflow_log
from tileflow_experiments.tracking import rate, replay
from tileflow_experiments.tracking.runs import ATTEMPT, SWEEP, TRIAL

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
TRIALS = 24


@pytest.fixture(scope="module")
def sweep_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal of made-up trials of a matrix product, and no store."""
    folder = tmp_path_factory.mktemp("sweep")
    rate.write_journal(folder / "journal.jsonl", "friday", TRIALS)
    return folder


@pytest.fixture
def out(sweep_folder: Path, tmp_path: Path) -> Path:
    shutil.copy(sweep_folder / "journal.jsonl", tmp_path / "journal.jsonl")
    return tmp_path


def found(uri: str) -> dict[str, Any]:
    """By the trial, or by the name of a study: what MLflow's client reads back."""
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=uri, registry_uri=uri)
    experiment = client.get_experiment_by_name("friday")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id], max_results=1000)
    said = {}
    for run in runs:
        tags = {k: v for k, v in run.data.tags.items() if v and k != "mlflow.parentRunId"}
        key = tags.get(TRIAL, run.info.run_name)
        assert key not in said, f"{key} is there twice"
        said[key] = (run.info.run_name, run.info.status, run.info.start_time, run.info.end_time, run.data.params,
                     run.data.metrics, tags)  # fmt: skip
    return said


def ids(uri: str) -> set[str]:
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=uri, registry_uri=uri)
    return {run.info.run_id for run in client.search_runs([client.get_experiment_by_name("friday").experiment_id])}


def add_line(journal: Path, **changes: object) -> None:
    """One more trial, as no driver would write it."""
    lines = journal.read_text().splitlines()
    last = next(json.loads(line) for line in reversed(lines) if '"kind":"trial"' in line)
    with journal.open("a") as file:
        file.write(json.dumps(last | changes) + "\n")


# ---- by the client --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_client_writes_what_the_database_is_given(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same runs either way; a second replay by the other way finds them all."""
    monkeypatch.setattr(replay, "_draw", lambda *arguments: None)
    bulk = f"sqlite:///{out / 'bulk.db'}"
    assert mlflow_log.replay(out / "journal.jsonl", bulk).complete
    shutil.copy(out / "bulk.db", out / "client.db")
    client = f"sqlite:///{out / 'client.db'}"
    _forget_runs(out / "client.db")
    monkeypatch.setattr(replay, "serves", lambda uri: False)
    add_line(out / "journal.jsonl", trial_id="poison", seed_source="\ud800")
    logged = mlflow_log.replay(out / "journal.jsonl", client)
    assert logged.complete and [item.what for item in logged.set_aside] == ["poison"]
    assert len(found(client)) == TRIALS + 1 and found(client) == found(bulk)
    _lose_an_answer(client)
    assert mlflow_log.replay(out / "journal.jsonl", client).complete
    assert found(client) == found(bulk)
    monkeypatch.undo()
    monkeypatch.setattr(replay, "_draw", lambda *arguments: None)
    before = ids(client)
    assert mlflow_log.replay(out / "journal.jsonl", client).complete
    assert ids(client) == before and found(client) == found(bulk)


def _forget_runs(path: Path) -> None:
    import sqlite3

    connection = sqlite3.connect(path)
    for table in ("tags", "params", "metrics", "latest_metrics", "runs"):
        connection.execute(f"DELETE FROM {table}")
    connection.commit()
    connection.close()


def _lose_an_answer(uri: str) -> None:
    """As a broken connection leaves it: a run that is not whole, and a second one of another trial."""
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=uri, registry_uri=uri)
    experiment = client.get_experiment_by_name("friday").experiment_id
    runs = [run for run in client.search_runs([experiment]) if TRIAL in run.data.tags]
    client.delete_tag(runs[0].info.run_id, ATTEMPT)
    tags = {SWEEP: runs[1].data.tags[SWEEP], TRIAL: runs[1].data.tags[TRIAL]}
    client.create_run(experiment, tags=tags)


# ---- PostgreSQL -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_postgresql_has_the_same_runs_and_refuses_a_line_alone(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also text that sqlite takes and PostgreSQL does not: the database itself refuses it, and holds up nothing."""
    programs = servers.postgres_folder()
    if programs is None:
        pytest.skip("needs PostgreSQL's server and psycopg")
    monkeypatch.setattr(replay, "_draw", lambda *arguments: None)
    sqlite = f"sqlite:///{out / 'mlflow.db'}"
    assert mlflow_log.replay(out / "journal.jsonl", sqlite).complete
    with servers.postgres(programs) as uri:
        add_line(out / "journal.jsonl", trial_id="poison", host="a\0b")
        for _ in range(2):
            logged = mlflow_log.replay(out / "journal.jsonl", uri, artifacts=out / "artifacts")
            assert logged.complete and [item.what for item in logged.set_aside] == ["poison"]
            assert _without_counts(found(uri)) == _without_counts(found(sqlite))


def _without_counts(runs: dict[str, Any]) -> dict[str, Any]:
    """The poison line is a trial of its study, which counts and describes it."""
    return {key: run for key, run in runs.items() if not key.startswith("matmul")}


# ---- MLflow's server, a browser -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("server")
    with servers.mlflow_server(f"sqlite:///{folder / 'mlflow.db'}", folder) as address:
        yield address


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_over_http_twice_leaves_the_same_runs_and_pages(out: Path, server: str, request: pytest.FixtureRequest) -> None:
    """Logged by its client, read back by it, then looked at: the screenshots are in build/mlflow."""
    first = mlflow_log.replay(out / "journal.jsonl", server)
    before = found(server)
    assert first.complete and first.trials == TRIALS and len(before) == TRIALS + 1
    assert mlflow_log.replay(out / "journal.jsonl", server) == first and found(server) == before
    shown = request.config.rootpath / "build" / "mlflow"
    runs_page = _seen(first.page, shown / "runs.png")
    assert "matmul 4096x4096x4096 bf16 h200" in runs_page and f"{TRIALS + 1}" in runs_page
    assert "Run Name" in runs_page and "Detect Issues in Your Traces" not in runs_page
    best = f"{before['matmul 4096x4096x4096 bf16 h200'][5]['best_us']:.2f} us"
    trials = _seen(_only_trials(first.page), shown / "trials.png")
    names = {run[0] for key, run in before.items() if not key.startswith("matmul")}
    assert sum(name in trials for name in names) >= 10 and best in trials
    study = _seen(_run_page(server), shown / "study.png")
    text = re.sub(r"<[^>]*>", " ", study)
    named = (
        "default_us",
        "best_us",
        "speedup",
        "roofline_frac",
        "trials_ok",
        "device",
        "nvidia-h200",
        "best.num_warps",
    )
    assert [said for said in named if said not in text] == []
    assert "of the roofline" in text, "the summary is the run's note"
    assert {path.name for path in shown.glob("*.png")} >= {"runs.png", "trials.png", "study.png"}


def _seen(url: str, file: Path) -> str:
    """The page's text; ``file`` shows it."""
    screenshot(url, file, 1700, 1200, budget_ms=30_000)
    return page_text(url)


def _only_trials(page: str) -> str:
    query = {"searchFilter": "metrics.median_us > 0", "orderByKey": "metrics.`median_us`", "orderByAsc": "true"}
    return f"{page}&{urllib.parse.urlencode(query)}"


def _run_page(server: str) -> str:
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=server, registry_uri=server)
    experiment = client.get_experiment_by_name("friday").experiment_id
    run = client.search_runs([experiment], "attributes.run_name LIKE 'matmul%'")[0]
    return f"{server}/#/experiments/{experiment}/runs/{run.info.run_id}?workflowType=machine_learning"
