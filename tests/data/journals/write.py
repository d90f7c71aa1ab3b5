"""Writes the fixtures beside it, with the tileflow of commit 5dd7d7b:

    git worktree add OLD 5dd7d7b
    cd OLD && PYTHONPATH=.:search:cluster:experiments:tests/unit python NEW/tests/data/journals/write.py

Run once, to hold what that commit made of a sweep with every kind of ending: its journal of schema version 1, and the
report, the table and the Parquet rows that it made of that journal. Nothing runs it again.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import experiments_fakes as fakes
import pyarrow.parquet as pq
from experiments_fakes import sweep_spec, tools
from tileflow_cluster.inline import InlineEvaluator
from tileflow_cluster.protocol import TrialRequest
from tileflow_cluster.trial_queue import Lease
from tileflow_experiments import mlflow_log, sweep

from tileflow.measure.types import DeviceFacts, Outcome, Status

HERE = Path(__file__).parent
SPEC = {"strategy": {"name": "exhaustive"}, "budget": {"trials": 14}}
seen: Counter[str] = Counter()


def ending(request: TrialRequest, outcome: Outcome) -> Outcome:
    """Losses, a failure without a time, and figures that differ from config to config."""
    seen[request.key] += 1
    x, y = int(request.config["x"]), int(request.config["y"])
    if (x, y) == (0, 0) and seen[request.key] == 1:
        return Outcome(Status.WORKER_LOST, None, "Lost", "gone")
    if (x, y) == (0, 1):
        return Outcome(Status.OUT_OF_RESOURCES, None, "OutOfResources", "needs 300 KiB")
    device = DeviceFacts("GPU-1", 1980, 45, 350.5, False)
    return replace(outcome, device=device, prepare_s=0.125, load_s=0.25 * x, verify_s=0.0625)


class Evaluator(InlineEvaluator):
    """Its compile worker dies once under one config, and always under another, which is blocklisted."""

    def _compile(self, lease: Lease[Any]) -> None:
        x, y = lease.request.config["x"], lease.request.config["y"]
        if ((x, y) == (1, 0) and lease.request.attempt == 1) or (x, y) == (1, 2):
            died = Outcome(Status.WORKER_LOST, None, "ActorDiedError", "the compile worker died")
            self._queue.lost(lease, died, blame=True)
        else:
            super()._compile(lease)


def main() -> None:
    mlflow_log.MlflowLog.start = lambda self: None  # type: ignore[method-assign]
    mlflow_log.MlflowLog.finish = lambda self, files, timeout_s: True  # type: ignore[method-assign]
    out = Path(tempfile.mkdtemp())

    def evaluator(spec: Any) -> Evaluator:
        return Evaluator(fakes.FakeStages(ending), measured=(fakes.GPU,), modelled=(fakes.MODELLED,))

    sweep.run(sweep_spec(**SPEC), out, replace(tools(), evaluator=evaluator))
    sweep.export(out, fakes.prepare)  # what it makes of the journal alone
    shutil.copy(out / "journal.jsonl", HERE / "schema_1.jsonl")
    shutil.copy(out / "report.md", HERE / "schema_1.md")
    shutil.copy(out / "tables/fakes-kernel.json", HERE / "schema_1.table.json")
    rows = pq.read_table(out / "trials.parquet").to_pylist()
    (HERE / "schema_1.rows.json").write_text(json.dumps(rows, indent=0) + "\n")


if __name__ == "__main__":
    main()
