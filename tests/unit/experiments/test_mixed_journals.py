"""Lines of another sweep in a journal, as ``cat`` of two makes them, are no trials of this one."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from tile_testing.fakes.experiments_fakes import completed, quick_tools, sweep_spec, trials
from tileflow_experiments import journal as journals
from tileflow_experiments import sweep


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, bytes]:
    """A sweep's folder, and the journal of another one of the same kernel that tried other configs."""
    spec: dict[str, Any] = {"budget": {"trials": 8}}
    sweep.run(sweep_spec(**spec), tmp_path / "mine", quick_tools())
    sweep.run(sweep_spec(**spec, strategy={"name": "random", "seed": 9}), tmp_path / "other", quick_tools())
    return tmp_path / "mine", (tmp_path / "other/journal.jsonl").read_bytes()


def test_another_sweeps_trials_count_nowhere(two: tuple[Path, bytes], caplog: pytest.LogCaptureFixture) -> None:
    """They took this sweep's budget, and won its rows, whatever machine had timed them."""
    mine, other = two
    before = completed(mine)
    with (mine / "journal.jsonl").open("ab") as file:
        file.write(other)
    with caplog.at_level(logging.WARNING):
        assert completed(mine) == before
    assert "or are of another sweep" in caplog.text
    assert {record.sweep_id for record in trials(mine)} == {
        journals.header(journals.read(mine / "journal.jsonl"))["sweep_id"]
    }


def test_resuming_sets_them_aside(two: tuple[Path, bytes]) -> None:
    mine, other = two
    before = completed(mine)
    with (mine / "journal.jsonl").open("ab") as file:
        file.write(other)
    assert sweep.resume(mine, quick_tools()) == ""
    assert completed(mine) == before
    aside = (mine / "journal.jsonl.damaged").read_bytes().splitlines()
    foreign = [line for line in other.splitlines() if b'"kind":"event"' not in line]
    assert aside == foreign and b'"kind":"header"' in aside[0]
