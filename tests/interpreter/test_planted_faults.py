"""The table of planted faults in docs/guides/checking.md is what the check finds. That no right kernel of the gallery
is refused by the same check is test_gallery.py's."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from tile_testing import ROOT
from tile_testing.runs import planted_faults
from tile_testing.runs.planted_faults import LARGE, SUBJECTS, Row

PAGE = ROOT / "docs/guides/checking.md"
LEAST = 0.9  # of the faults, before a table


def documented(rows: list[Row]) -> None:
    page = PAGE.read_text()
    missing = [row for row in rows if planted_faults.table([row]).splitlines()[-1] not in page]
    assert not missing, (
        "run PYTHONPATH=tests python -m tile_testing.runs.planted_faults --write docs/guides/checking.md"
    )


@pytest.mark.parametrize("number", range(len(SUBJECTS)), ids=[s.kernel.rpartition(":")[2] for s in SUBJECTS])
def test_faults_in_generated_text(interpreter: Callable[..., Any], number: int) -> None:
    rows = interpreter("runs.planted_faults:planted", number)
    assert [row.fault for row in rows] == [*SUBJECTS[number].changes, *SUBJECTS[number].around]
    documented(rows)


def test_faults_at_size() -> None:
    documented(planted_faults.large())


def test_the_table_is_whole() -> None:
    counted = re.search(r"Of (\d+) planted faults .* finds (\d+), .* finds (\d+)\.", PAGE.read_text())
    assert counted is not None
    planted, searched, kept = map(int, counted.groups())
    assert planted == sum(len(s.changes) + len(s.around) for s in SUBJECTS) + len(LARGE) >= 20
    assert LEAST * planted <= kept and searched <= kept
    assert {s.kind for s in SUBJECTS} == {"memory-bound", "product", "recurrence", "atomics"}
