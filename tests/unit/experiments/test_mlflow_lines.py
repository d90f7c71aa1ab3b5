"""Lines of a journal that MLflow refuses are set aside, and hold up nothing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tile_testing.fakes import experiments_fakes as fakes
from tile_testing.fakes.mlflow_runs import call, children
from tileflow_experiments import journal as journals
from tileflow_experiments import mlflow_log, sweep
from tileflow_experiments.tracking import replay, state


def poisoned(change: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], str]:
    def line(trial: dict[str, Any]) -> str:
        trial["trial_id"] = "poison"
        change(trial)
        return json.dumps(trial)

    return line


def other_config(trial: dict[str, Any]) -> str:
    return json.dumps(trial | {"config": trial["config"] | {"x": 7, "y": 3}})


POISON: dict[str, Callable[[dict[str, Any]], str]] = {
    "another config": other_config,
    "a lone surrogate": poisoned(lambda t: t.update(error_digest="\ud800", seed_source="\udfff")),
    "2^63 milliseconds": poisoned(lambda t: t.update(started_at=2**63 // 1000 + 1)),
    "2^63 seconds": poisoned(lambda t: t.update(started_at=2**63)),
    "400 digits": poisoned(lambda t: t.update(max_err=10**400)),
    "an infinite metric": lambda t: poisoned(lambda t: t.update(temp_c="HOT"))(t).replace('"HOT"', "1e999"),
    "an infinite time": lambda t: poisoned(lambda t: t.update(started_at="LATE"))(t).replace('"LATE"', "1e999"),
    "Infinity": lambda t: poisoned(lambda t: t.update(max_err=float("inf")))(t),
    "NaN": lambda t: poisoned(lambda t: t.update(max_err=float("nan")))(t),
    "text for a number": poisoned(lambda t: t.update(registers="many")),
    "no JSON": lambda t: '{"kind": "trial", ',
}


def test_lines_that_mlflow_refuses_are_set_aside_and_hold_up_nothing(
    unlogged: Path, tmp_path: Path, uri: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue 17, finding 3: one of them blocked all that follow, for ever."""
    lines = (unlogged / "journal.jsonl").read_text().splitlines()
    first = next(n for n, line in enumerate(lines) if '"kind":"trial"' in line)
    bad = [line(json.loads(lines[first])) for line in POISON.values()]
    (tmp_path / "journal.jsonl").write_text("\n".join([*lines[: first + 1], *bad, *lines[first + 1 :]]) + "\n")
    assert call("sweep", "log", tmp_path, "--mlflow", uri, monkeypatch=monkeypatch) == 0
    assert f"{len(POISON)} lines of the journal could not be logged" in capsys.readouterr().err
    wanted = set(journals.trials(journals.read(unlogged / "journal.jsonl")))
    assert {run.data.tags["tileflow.trial_id"] for run in children(uri)} == wanted
    found = state.read(tmp_path)
    assert found is not None and found.complete
    assert [item.line for item in found.set_aside] == [first + 2 + n for n in range(len(POISON))]
    by_poison = dict(zip(POISON, found.set_aside, strict=True))
    assert "known with another config" in by_poison["another config"].why
    assert "Unicode" in by_poison["a lone surrogate"].why and by_poison["a lone surrogate"].what == "poison"
    assert all(item.why for item in found.set_aside)


def test_the_report_and_the_files_say_what_was_set_aside(unlogged: Path, tmp_path: Path, empty: Path) -> None:
    """Neither they nor the study's own files are lost to text that is no Unicode."""
    lines = (unlogged / "journal.jsonl").read_text().splitlines()
    first = next(n for n, line in enumerate(lines) if '"kind":"trial"' in line)
    bad = POISON["a lone surrogate"](json.loads(lines[first]))
    (tmp_path / "journal.jsonl").write_text("\n".join([*lines, bad]) + "\n")
    shutil.copy(empty, tmp_path / "mlflow.db")
    assert mlflow_log.replay(tmp_path / "journal.jsonl", f"sqlite:///{tmp_path / 'mlflow.db'}").complete
    assert not any(item.line == 0 for item in state.read(tmp_path).set_aside)  # type: ignore[union-attr]
    sweep.export(tmp_path, fakes.prepare)
    report = (tmp_path / "report.md").read_text()
    assert "1 line of the journal could not be logged to MLflow" in report
    assert f"line {len(lines) + 1} poison: text must be Unicode" in report


def test_what_the_database_refuses_is_found_in_halves(unlogged: Path, tmp_path: Path, uri: str) -> None:
    """A run that passes every check here may still be refused there: it alone is set aside."""
    shutil.copy(unlogged / "journal.jsonl", tmp_path / "journal.jsonl")
    found = replay.Replay(uri, tmp_path / "journal.jsonl", None, lambda state: None)
    write = found._store.write_trials

    def spoil(entries: Any) -> Any:
        bad = replace(entries[3], run=replace(entries[3].run, status="NO STATUS OF MLFLOW"))
        return write([*entries[:3], bad, *entries[4:]])

    found._store.write_trials = spoil  # type: ignore[method-assign]
    found.catch_up()
    assert len(children(uri)) == 11 and len(found.state().set_aside) == 1
    assert "CHECK constraint" in found.state().set_aside[0].why
