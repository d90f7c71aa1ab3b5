"""MLflow is a fold of the journal: the same runs however often, and in whatever pieces, it is replayed."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

from tile_testing.fakes import experiments_fakes as fakes
from tile_testing.fakes.experiments_fakes import GPU
from tile_testing.fakes.mlflow_runs import children, runs
from tileflow_experiments import journal as journals
from tileflow_experiments import mlflow_log, outputs
from tileflow_experiments.tracking import replay, state

from tileflow.measure.types import Status
from tileflow.runtime.table_files import load_table

DEVICE = "tileflow.device_class"


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
