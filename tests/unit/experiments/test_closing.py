"""The table that ``tileflow sweep`` and ``tileflow tune`` end with."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from tile_testing.fakes.experiments_fakes import GPU, MODELLED, quick_tools, sweep_spec
from tileflow_experiments import closing, sweep
from tileflow_experiments.journal import Folded
from tileflow_experiments.records import how_they_ended

from tileflow.measure.interpret import InterpretRequest
from tileflow.measure.types import Outcome, Status
from tileflow.runtime.bundle import load_tables


def test_a_line_a_search_and_where_the_rows_are(searched: Path, folded: Folded) -> None:
    heading, *lines, place = closing.of_sweep(searched / "journal.jsonl", searched / "tables").lines
    assert heading.split() == ["kernel", "call", "default", "best", "speed-up", "roofline", "checks"]
    assert len(lines) == len(folded.trials) > 1 and place == f"rows in {searched / 'tables'}"
    rows = {row.trial_id: row for one in load_tables(searched / "tables")[0] for row in one.entries}
    for key, line in zip(folded.trials, lines, strict=True):
        row = next(rows[r.trial_id] for r in folded.trials[key] if r.trial_id in rows)
        assert row.best_us is not None and row.default_us is not None
        assert f"{row.default_us:.1f} us  {row.best_us:.1f} us" in re.sub("  +", "  ", line)
        assert f"{row.default_us / row.best_us:.2f}x" in line and f"{5.0 / row.best_us:.0%}" in line
        wrong = sum(r.result.outcome.status in (Status.INCORRECT, Status.NONFINITE) for r in folded.trials[key])
        assert wrong and f"{wrong} configs wrong" in line, "the space has wrong configs, and the line counts them"
        assert ("modelled for" in line) == (row.origin == "modelled") == (key.device_class != GPU)


def test_columns_stand_below_each_other(searched: Path) -> None:
    heading, *lines, _ = closing.of_sweep(searched / "journal.jsonl", searched / "tables").lines
    for name in ("default", "best", "checks"):
        assert {line[heading.index(name) - 1] for line in lines} == {" "}, name


def test_a_row_that_nothing_checked_does_not_say_that_it_passed(searched: Path, folded: Folded) -> None:
    modelled = next(
        row for one in load_tables(searched / "tables")[0] for row in one.entries if row.origin == "modelled"
    )
    untold = replace(folded, events=tuple(e for e in folded.events if e["event"] != "interpreted"))
    outcome = closing.Outcome("kernel", "call", modelled)
    assert "passed, interpreted" in closing.table([outcome], folded)[1]
    assert "not checked" in closing.table([outcome], untold)[1]


def test_without_a_row_the_line_says_why(folded: Folded) -> None:
    wrong = [r for some in folded.trials.values() for r in some if r.status is Status.INCORRECT]
    outcomes = [
        closing.Outcome("kernel", "x" * 80, None, "the node left\nat noon"),
        closing.Outcome("other", "y", None, ended=how_they_ended(wrong)),
    ]
    _, stopped, failed = closing.table(outcomes, folded)
    assert stopped.endswith("no config works: the node left") and "x" * 57 + "..." in stopped
    assert failed.endswith(f"no config works: {len(wrong)} incorrect; most often: off by much")


def test_what_the_interpreter_found_wrong_is_why_no_config_works(tmp_path: Path) -> None:
    """A kernel whose reference gives another shape was said to have no config that works, of 3 that are ok."""

    def wrong(request: InterpretRequest) -> Outcome:
        return Outcome(Status.INCORRECT, error_digest="result has shape (64, 8), the reference's (8, 64)\nand so on")

    spec = sweep_spec(device_classes=[MODELLED], budget={"trials": 2})
    sweep.run(spec, tmp_path, replace(quick_tools(), check=wrong))
    _, *lines, _ = closing.of_sweep(tmp_path / "journal.jsonl", tmp_path / "tables").lines
    said = "; 2 found wrong in the interpreter, most often: result has shape (64, 8), the reference's (8, 64)"
    assert len(lines) == 2 and all("no config works: 2 ok" in line and line.endswith(said) for line in lines)
    (table,) = load_tables(tmp_path / "tables")[0]
    assert not table.entries and any(row.reason.endswith(said) for row in table.portfolio)


def test_a_config_that_works_is_not_denied_where_its_row_is_not_written(tmp_path: Path) -> None:
    """Where the disk had no room for tables, the line said that no config works, of ten that are ok."""
    sweep.run(sweep_spec(device_classes=[GPU], budget={"trials": 10}), tmp_path, quick_tools())
    _, *lines = closing.of_sweep(tmp_path / "journal.jsonl", tmp_path / "no tables").lines[:-1]
    assert len(lines) == 2 and all("its row is not written: " in line for line in lines)


def test_a_search_that_tried_nothing_has_a_line(tmp_path: Path) -> None:
    """A search whose sweep had used its GPU-seconds before it began was missing from the table, and from the count."""
    spec = sweep_spec(device_classes=[GPU], budget={"trials": 2})
    sweep.run(spec, tmp_path, quick_tools())
    path = tmp_path / "journal.jsonl"
    lines = path.read_text().splitlines()
    kept = [line for line in lines if '"n":100' not in line or '"kind":"trial"' not in line]
    path.write_text("\n".join(kept) + "\n")
    sweep.export(tmp_path, quick_tools().prepare)
    ending = closing.of_sweep(path, tmp_path / "tables")
    assert ending.without == ["fakes:kernel n=100 on nvidia-h200"] and ending.searches == 2
    assert any(line.endswith("no config works: none was tried") for line in ending.lines)


def test_a_default_without_a_time_says_how_it_ended(searched: Path, folded: Folded) -> None:
    """It said "fails", whatever had happened."""
    key = next(key for key in folded.trials if key.device_class == GPU)
    ids = {r.trial_id for r in folded.trials[key]}
    row = next(r for one in load_tables(searched / "tables")[0] for r in one.entries if r.trial_id in ids)
    (default,) = (r for r in folded.trials[key] if r.seed_source == "default")
    late = replace(default, result=replace(default.result, outcome=Outcome(Status.BENCH_TIMEOUT)))
    records = tuple(late if r is default else r for r in folded.trials[key])
    outcome = closing.Outcome("kernel", "call", replace(row, default_us=None))
    assert " bench_timeout " in closing.table([outcome], replace(folded, trials={**folded.trials, key: records}))[1]
    assert " not tried " in closing.table([outcome], replace(folded, trials={**folded.trials, key: records[:0]}))[1]
