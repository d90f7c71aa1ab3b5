"""MLflow is a fold of the journal: the same runs however often, and in whatever pieces, it is replayed."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import experiments_fakes as fakes
from experiments_fakes import GPU, sweep_spec, tools
from tileflow_cluster.protocol import TrialRequest
from tileflow_experiments import journal as journals
from tileflow_experiments import mlflow_log, sweep

from tileflow.measure.types import Outcome, Status

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"

SPEC: dict[str, Any] = {
    "kernels": [{"kernel": fakes.KERNEL, "problems": [{"n": 64}]}],
    "budget": {"trials": 6},
}


def runs(uri: str) -> list[Any]:
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("fake")
    assert experiment is not None
    return list(client.search_runs([experiment.experiment_id]))


def children(uri: str) -> list[Any]:
    return [run for run in runs(uri) if "tileflow.trial_id" in run.data.tags]


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
    found = children(sweep.Outputs(finished).mlflow_uri)
    rows = pq.read_table(finished / "trials.parquet").column("trial_id").to_pylist()
    assert len(wanted) == 12
    assert sorted(run.data.tags["tileflow.trial_id"] for run in found) == sorted(wanted)
    assert set(rows) == wanted


def test_a_child_run_carries_its_trial(finished: Path) -> None:
    trials = journals.trials(journals.read(finished / "journal.jsonl"))
    for run in children(sweep.Outputs(finished).mlflow_uri):
        record = trials[run.data.tags["tileflow.trial_id"]]
        assert run.data.params == {k: str(v) for k, v in (record.config.to_dict() | {"n": 64}).items()}
        assert run.data.tags["tileflow.status"] == record.status
        assert run.data.metrics.get("median_us") == record.time_us
        assert run.info.status == ("FINISHED" if record.status is Status.OK else "FAILED")


def test_a_parent_carries_curves_figures_and_artifacts(finished: Path) -> None:
    from mlflow.tracking import MlflowClient

    uri = sweep.Outputs(finished).mlflow_uri
    client = MlflowClient(tracking_uri=uri)
    parents = [run for run in runs(uri) if "tileflow.trial_id" not in run.data.tags]
    assert {p.data.tags["tileflow.device_class"] for p in parents} == {GPU, fakes.MODELLED}
    by_id = Counter(run.data.tags["mlflow.parentRunId"] for run in children(uri))
    for parent in parents:
        assert by_id[parent.info.run_id] == 6 and parent.info.status == "FINISHED"
        curve = client.get_metric_history(parent.info.run_id, "best_us")
        values = [point.value for point in sorted(curve, key=lambda point: point.step)]
        assert values == sorted(values, reverse=True) and [p.step for p in curve][-1] == 6
        assert client.get_metric_history(parent.info.run_id, "best_us_by_second")
        names = {file.path for file in client.list_artifacts(parent.info.run_id)}
        assert names >= {"convergence.png", "roofline.png", "trials.parquet", "report.md", "fakes-kernel.json"}


def test_replaying_again_changes_nothing(finished: Path) -> None:
    uri = sweep.Outputs(finished).mlflow_uri
    before = {run.info.run_id: (run.data.tags, run.data.metrics) for run in runs(uri)}
    mlflow_log.replay(finished / "journal.jsonl", uri)
    assert {run.info.run_id: (run.data.tags, run.data.metrics) for run in runs(uri)} == before


def test_mlflow_away_slows_nothing_and_is_replayed(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = "http://127.0.0.1:9"
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setattr(sweep, "MLFLOW_FINISH_S", 0.2)
    started = time.monotonic()
    assert sweep.run(sweep_spec(**SPEC), tmp_path, tools(), mlflow_uri=nowhere) == ""
    assert time.monotonic() - started < 5
    assert (tmp_path / "report.md").exists()
    uri = f"sqlite:///{tmp_path / 'later.db'}"
    half = tmp_path / "half.jsonl"
    content = (tmp_path / "journal.jsonl").read_bytes()
    half.write_bytes(content[: content.rindex(b'"kind":"trial"')])
    mlflow_log.replay(half, uri, artifacts=tmp_path / "artifacts")
    some = len(children(uri))
    mlflow_log.replay(tmp_path / "journal.jsonl", uri)
    wanted = set(journals.trials(journals.read(tmp_path / "journal.jsonl")))
    assert 0 < some < len(wanted)
    assert sorted(run.data.tags["tileflow.trial_id"] for run in children(uri)) == sorted(wanted)


def test_names_that_mlflow_refuses_are_rewritten() -> None:
    assert mlflow_log.key_name("load:x#0.eviction") == "load:x.0.eviction"
    assert mlflow_log.key_name("reduce[1]é") == "reduce.1.."
