"""The page of faults names, for each fault, the tests that inject it: each of them must be there."""

from __future__ import annotations

import ast
import re

import pytest
from tile_testing import ROOT

PAGE = (ROOT / "docs" / "explanations" / "faults.md").read_text()
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)))


def test_every_fault_has_a_test() -> None:
    """Issue 17: 24 faults, and nine findings."""
    sweep, findings = PAGE.split("What was broken once")
    for text, count in ((sweep, 24), (findings, 9)):
        rows = [row for row in text.splitlines() if re.match(r"\| \d+ ", row)]
        assert {int(row.split()[1]) for row in rows} == set(range(1, count + 1))
        assert all("::test_" in row for row in rows)


@pytest.mark.parametrize("path", sorted({path for path, _ in NAMED}))
def test_a_named_test_is_there(path: str) -> None:
    """Issue 17: half of the table named files that had moved."""
    tree = ast.parse((ROOT / "tests" / path).read_text())
    there = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    assert {name for named, name in NAMED if named == path} <= there
