"""A sweep whose runs are looked at in MLflow, and the command line that logs it."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest
from tileflow_experiments import cli

from tile_testing.fakes import experiments_fakes as fakes

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


def call(*arguments: object, monkeypatch: pytest.MonkeyPatch) -> int:
    """The exit code of the command line."""
    monkeypatch.setattr(sys, "argv", ["tileflow", *map(str, arguments)])
    with pytest.raises(SystemExit) as ending:
        cli.main()
    return int(ending.value.code or 0)
