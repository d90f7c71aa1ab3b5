"""What several files of this folder ask for."""

from __future__ import annotations

import pytest
from tileflow_experiments import mlflow_log


@pytest.fixture
def no_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """MLflow takes seconds; test_mlflow.py has it."""
    monkeypatch.setattr(mlflow_log.MlflowLog, "start", lambda self: None)
    monkeypatch.setattr(mlflow_log.MlflowLog, "finish", lambda self, files, timeout_s: True)
