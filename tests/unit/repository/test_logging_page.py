"""docs/reference/logging.md against the code: every logger has a row, which names the levels that it is used at."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tile_testing import ROOT

LEVELS = ("debug", "info", "warning", "error", "exception")
TREES = {"tileflow": ROOT, "tileflow_search": ROOT / "search", "tileflow_cluster": ROOT / "cluster",
         "tileflow_experiments": ROOT / "experiments"}  # fmt: skip


def named(path: Path, tree: Path) -> str:
    return path.relative_to(tree).with_suffix("").as_posix().replace("/", ".")


def loggers_of(text: str, module: str) -> Iterator[tuple[str, str]]:
    """(variable, name) of each logger that a module makes."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Assign(
                targets=[ast.Name(id=variable)], value=ast.Call(func=ast.Attribute(attr="getLogger"), args=[arg])
            ):
                yield variable, arg.value if isinstance(arg, ast.Constant) else module


def used() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for package, tree in TREES.items():
        for path in sorted((tree / package).rglob("*.py")):
            if "getLogger" not in (text := path.read_text()):
                continue
            for variable, name in loggers_of(text, named(path, tree)):
                said = re.findall(rf"\b{variable}\.({'|'.join(LEVELS)})\(", text)
                found.setdefault(name, set()).update(level.upper() for level in said)
    return found


def shown() -> dict[str, set[str]]:
    text = (ROOT / "docs/reference/logging.md").read_text()
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| `")]
    return {names.strip(" `"): {*re.findall(r"`([A-Z]+)`", levels)} for _, names, _, levels, _ in rows}


def row_of(name: str, rows: Iterable[str]) -> str | None:
    """The nearest logger with a row: the logger's own, or that of one above it."""
    above = [row for row in rows if f"{name}.".startswith(f"{row}.")]
    return max(above, key=len, default=None)


def test_loggers_have_rows_with_their_levels() -> None:
    rows, missing = shown(), {}
    for name, levels in used().items():
        row = row_of(name, rows)
        if row is None or not levels <= rows[row]:
            missing[name] = levels
    assert missing == {}
    assert len(used()) > 10


def test_rows_are_of_loggers_that_there_are() -> None:
    rows = shown()
    assert {*rows} == {row_of(name, rows) for name in used()}
