"""What several files of this folder ask for."""

from __future__ import annotations

import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tile_testing.fakes.experiments_fakes import sweep_spec, tools
from tile_testing.fakes.mlflow_runs import SPEC
from tileflow_cluster.protocol import TrialRequest
from tileflow_experiments import journal, mlflow_log, sweep
from tileflow_experiments.journal import Folded
from tileflow_experiments.tracking import database, replay

from tileflow.measure.types import Outcome, Status


@pytest.fixture
def no_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """MLflow takes seconds; test_mlflow.py and those beside it have it."""
    monkeypatch.setattr(mlflow_log.MlflowLog, "start", lambda self: None)
    monkeypatch.setattr(mlflow_log.MlflowLog, "finish", lambda self, files, timeout_s: True)


@pytest.fixture
def hears_hangups() -> Iterator[None]:
    """As where a terminal started the tests: under nohup they and what they start are deaf to SIGHUP, as meant."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture(scope="session")
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


@pytest.fixture(scope="session")
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


@pytest.fixture(scope="session")
def unlogged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep's folder that no MLflow has seen."""
    out = tmp_path_factory.mktemp("unlogged")
    sweep.run(sweep_spec(**SPEC), out, replace(tools(), to_mlflow=False))
    return out


@pytest.fixture(scope="session")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a sweep that has tried everything, which no test writes to."""
    folder = tmp_path_factory.mktemp("searched")
    sweep.run(
        sweep_spec(strategy={"name": "exhaustive"}, budget={"trials": 100}), folder, replace(tools(), to_mlflow=False)
    )
    return folder


@pytest.fixture(scope="session")
def folded(searched: Path) -> Folded:
    """The journal of that sweep."""
    return journal.fold(journal.read(searched / "journal.jsonl"))
