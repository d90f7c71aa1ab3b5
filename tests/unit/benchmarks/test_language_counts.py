"""The counts by cause: a table of outcomes, and cases whose outcome is known, in a process that interprets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tile_testing import ROOT
from tileflow_benchmarks.language import __main__ as language

PROGRAM = """
import os, runpy, sys
names = runpy.run_path(sys.argv[1], run_name="cases")
apart, case, cases = names["apart"], names["case"], names["CASES"]
import torch
known = len(cases)


def twice(v):
    return v * 2


def to_text(v):
    return v.to("float16")


case("5", "right")(lambda: names["each"](twice, torch.ones(3)))
case("5", "wrong")(lambda: (names["each"](twice, torch.ones(3))[0], torch.ones(3)))
case("5", "raised")(lambda: 1 / 0)
case("5", "crashed")(lambda: os._exit(3))
case("5", "accepted", mistake=True)(lambda: names["each"](twice, torch.ones(3)))
case("5", "refused", mistake=True)(lambda: (names["rows"](to_text, torch.ones(3, 3)), None))
for _, cause, mistake, function in cases[known:]:
    print("outcome", cause, *apart(mistake, function, "interpreter"))
print("findings", *{finding for finding, *_ in cases})
"""


def outcome(finding: str, **meanings: str) -> dict[str, Any]:
    return {"finding": finding, "cause": "c", "outcomes": {name: (kind, "") for name, kind in meanings.items()}}


def test_a_case_is_right_where_each_meaning_is() -> None:
    assert language.verdict(outcome("1", eager="right", interpreter="right")) == "right"
    assert language.verdict(outcome("1", eager="right", interpreter="refused")) == "refused"
    assert language.verdict(outcome("1", eager="crashed", interpreter="wrong")) == "crashed"


def test_the_table_counts_by_finding() -> None:
    old = [outcome("1", eager="wrong"), outcome("1", eager="right"), outcome("2", eager="refused")]
    new = [outcome("1", eager="right"), outcome("1", eager="right"), outcome("2", eager="raised")]
    lines = language.table(old, new, "0ld")
    assert "| 1 | sums and softmax without `dim` | 2 | 1 (1 wrong) | 2 | - |" in lines
    assert "| 2 | views that alias, sizes of 1 and of 0 | 1 | 0 (1 refused) | 0 | c: raised |" in lines


@pytest.mark.slow
def test_outcomes_are_what_they_say(tmp_path: Path) -> None:
    """Right, wrong, an error of Python's, a process that ends, a mistake that is accepted, one that is refused."""
    program = tmp_path / "program.py"  # a kernel's text is read from a file
    program.write_text(PROGRAM)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    said = subprocess.run(
        [sys.executable, str(program), str(language.CASES)],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    ).stdout.splitlines()
    found = dict(line.split()[1:3] for line in said if line.startswith("outcome"))
    assert found == {"right": "right", "wrong": "wrong", "raised": "raised", "crashed": "crashed", "accepted": "wrong",
                     "refused": "right"}, said  # fmt: skip
    (findings,) = (set(line.split()[1:]) for line in said if line.startswith("findings"))
    assert findings == set(language.FINDINGS)


def test_the_page_has_the_commands_table() -> None:
    """docs/measurements/language.md shows what docs/data/language-counts.json holds."""
    rows = json.loads((ROOT / "docs" / "data" / "language-counts.json").read_text())
    old = [{"finding": r["finding"], "cause": r["cause"], "outcomes": r["was"]} for r in rows]
    page = (ROOT / "docs" / "measurements" / "language.md").read_text()
    assert "\n".join(language.table(old, rows, "1d0fe62")) in page
