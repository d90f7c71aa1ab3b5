"""Which brackets a text stores through a name, where it runs as plain Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from tileflow.language.stored_names import changed_places, stored_through


def spans(text: str, folder: Path) -> set[str]:
    """The texts of the brackets that are stored through."""
    path = folder / "stored.py"
    path.write_text("def f(x, out, b, t, v):\n" + "".join(f"    {line}\n" for line in text.split("; ")))
    lines = path.read_text().splitlines()
    stored_through.cache_clear()
    return {lines[line - 1][begin:end] for line, begin, last, end in stored_through(str(path)) if line == last}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("ob = out[b]; ob[t] = v", {"out[b]"}),
        ("ob = out[b]; ob[t] += v", {"out[b]"}),
        ("ob = out[b]; v = ob[t]", set()),
        ("ob, xb = out[b], x[b]; ob[t] = xb[t]", {"out[b]"}),
        ("ob = out[b]; row = ob[1]; row[t] = v", {"out[b]", "ob[1]"}),
        ("left = x[b].T; turned = left.mT; turned[t] = v", {"x[b]"}),
        ("tfl.atomic_add(out[b], [t], v); w = x[b]", {"out[b]"}),
        ("rows = [out[b], x[b]]; rows[0] = v", set()),
        ("rows = [out[b], x[b]]; rows[0][t] = v", {"out[b]", "x[b]", "rows[0]"}),
        ("rows: list = {'a': out[b]}; rows['a'][t] = v", {"out[b]", "rows['a']"}),
        ("(row := out[b])[t] = v", {"out[b]"}),
        ("ob = out[b]; ob.zero_()", {"out[b]"}),
        ("ob = out[b]; ob[t].mul_(2).add_(v)", {"out[b]"}),
        ("ob = out[b]; v = ob.exp()", set()),
    ],
)
def test_names(text: str, wanted: set[str], tmp_path: Path) -> None:
    assert {span for span in spans(text, tmp_path) if "(" not in span} == wanted


def test_places_that_statements_change(tmp_path: Path) -> None:
    text = "def f(out, x):\n    out[0] += x[1]\n    out[2].add_(x[3]).neg_()\n    y = x[4].exp()\n    out[5] = y\n"
    path = tmp_path / "changed.py"
    path.write_text(text)
    lines = text.splitlines()
    found = {lines[line - 1][begin:end] for line, begin, _, end in changed_places(str(path))}
    assert found == {"out[0]", "out[2]"}


def test_a_file_without_text_has_none() -> None:
    assert stored_through("<nowhere>") == frozenset()
