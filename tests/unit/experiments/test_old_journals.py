"""A journal of schema 1, as commit 5dd7d7b wrote it, gives what that commit made of it: report, table, Parquet rows."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tile_testing import DATA
from tile_testing.fakes import experiments_fakes as fakes
from tileflow_experiments import journal as journals
from tileflow_experiments import mlflow_log, sweep

from tileflow.runtime.table_files import load_table

OLD = DATA / "journals"
NEW_COLUMNS = {
    "roofline_us",
    "reference",
    "mem_clock_mhz",
    "throttle_reasons",
    "foreign_processes",
    "canary_ratio",
    "noise_retries",
}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A sweep's folder of that commit, of which only the journal is left."""
    shutil.copy(OLD / "schema_1.jsonl", tmp_path / "journal.jsonl")
    return tmp_path


def is_phantom(row: dict[str, Any]) -> bool:
    """An attempt that was lost before it was built, with the id that this commit gave it."""
    return bool(row["kind"] == "trial" and row.get("retried") and not row.get("source_hash"))


def rows_of(path: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    found: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return found


def test_its_exports_are_those_of_the_code_that_wrote_it(out: Path) -> None:
    sweep.export(out, fakes.prepare)
    table = load_table(out / "tables/fakes-kernel.json")
    assert {row.checked_against for row in table.entries} == {"", "eager"}  # what schema 3 did not have
    rows = tuple(replace(row, checked_against="") for row in table.entries)
    assert replace(table, entries=rows, schema_version=3) == load_table(OLD / "schema_1.table.json")
    # It also counted two trials a study that never were: the attempts that were lost before they were built.
    report = (OLD / "schema_1.md").read_text().replace("| 11 | 1 | 4 |", "| 11 | 1 | 2 |")
    assert (out / "report.md").read_text() == report
    rows, before = rows_of(out / "trials.parquet"), json.loads((OLD / "schema_1.rows.json").read_text())
    assert sum(is_phantom(row) for row in before) == 16
    expected = [row | {"trial_id": ""} if is_phantom(row) else row for row in before]
    assert [{n: v for n, v in row.items() if n not in NEW_COLUMNS} for row in rows] == expected


def test_its_lines_are_written_as_they_were_read(out: Path) -> None:
    lines = [line for line in journals.read(out / "journal.jsonl") if line["kind"] in ("trial", "remeasure")]
    assert {line["kind"] for line in lines} >= {"trial"} and len(lines) > 20
    for line in lines:
        (record,) = journals.attempts([line], line["kind"])
        again = json.loads(json.dumps(record.to_json()))
        expected = {n: v for n, v in line.items() if n != "trial_id" or not is_phantom(line)}
        assert {n: v for n, v in again.items() if n not in NEW_COLUMNS} == expected


def test_it_is_resumed(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlflow_log.MlflowLog, "start", lambda self: None)
    monkeypatch.setattr(mlflow_log.MlflowLog, "finish", lambda self, files, timeout_s: True)
    before = {r.trial_id for r in journals.attempts(journals.read(out / "journal.jsonl")) if r.completed}
    assert sweep.resume(out, fakes.tools()) == ""
    lines = journals.read(out / "journal.jsonl")
    assert {r.trial_id for r in journals.attempts(lines) if r.completed} == before
    assert [e["epoch"] for e in journals.events(lines, "opened")] == [1, 2]
