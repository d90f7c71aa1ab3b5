"""Lines of another sweep in a journal, as ``cat`` of two makes them, and those that somebody has changed to a config or
a search that the sweep has not, are no trials of this one."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from tile_testing.fakes.experiments_fakes import MODELLED, completed, quick_tools, sweep_spec, trials
from tileflow_experiments import journal as journals
from tileflow_experiments import sweep

from tileflow.runtime.table_files import load_table

BEST = '"config":{"inert":0,"x":6,"y":2}'


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


@pytest.mark.parametrize(
    "was, now", [('"x":6', '"x":77'), ('"inert":', '"other":'), ('"y":2', '"y":"2"'), ('"n":64', '"n":65')]
)
def test_a_trial_that_was_changed_to_another_space_is_asked_again(
    was: str, now: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A resume ended in "knob x must be one of ..." without a place, and an export made a row of the config."""
    spec: dict[str, Any] = {"strategy": {"name": "exhaustive"}, "budget": {"trials": 32}, "device_classes": [MODELLED]}
    sweep.run(sweep_spec(**spec), tmp_path, quick_tools())
    journal, before = tmp_path / "journal.jsonl", completed(tmp_path)
    lines = journal.read_text().splitlines(keepends=True)
    changed = next(i for i, line in enumerate(lines) if '"kind":"trial"' in line and BEST in line and '"n":64' in line)
    lines[changed] = lines[changed].replace(was, now)
    journal.write_text("".join(lines))
    for tool in (sweep.export, sweep.portfolios):
        caplog.clear()
        tool(tmp_path, quick_tools().prepare)
        assert "1 lines of" in caplog.text and "or are of another sweep or space" in caplog.text
    rows = load_table(tmp_path / "tables/fakes-kernel.json").entries
    assert len(rows) == 2 and len({row.best_us for row in rows}) == 2, "one search has its best trial, the other not"
    assert sweep.resume(tmp_path, quick_tools()) == ""
    assert (tmp_path / "journal.jsonl.damaged").read_text() == lines[changed]
    assert completed(tmp_path) == before
    assert len({row.best_us for row in load_table(tmp_path / "tables/fakes-kernel.json").entries}) == 1


@pytest.mark.parametrize("event", ["contest", "interpreted"])
@pytest.mark.parametrize("was, now", [('"x":', '"z":'), ('"y":2', '"y":77'), (":64}", ":65}")])
def test_a_race_or_check_that_was_changed_to_another_space_is_a_damaged_line(
    event: str, was: str, now: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An export and a resume believed what it said."""
    sweep.run(sweep_spec(strategy={"name": "exhaustive"}, budget={"trials": 32}), tmp_path, quick_tools())
    journal = tmp_path / "journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    changed = next(i for i, line in enumerate(lines) if f'"event":"{event}"' in line and was in line)
    lines[changed] = lines[changed].replace(was, now)
    journal.write_text("".join(lines))
    sweep.export(tmp_path, quick_tools().prepare)
    assert "1 lines of" in caplog.text and "or are of another sweep or space" in caplog.text
    assert sweep.resume(tmp_path, quick_tools()) == ""
    assert (tmp_path / "journal.jsonl.damaged").read_text() == lines[changed]
    made = [e["study"] for e in journals.events(journals.read(journal), event)]
    assert len({*made}) == 2, "it was made again"
