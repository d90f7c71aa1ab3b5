"""What a program hands to the package's functions by mistake is refused by name, where it was Python's own error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tile_testing.fakes import runtime_examples as examples

import tileflow
from tileflow import runtime
from tileflow.errors import SpecError
from tileflow.runtime import snapshots
from tileflow.runtime.table_files import dump_tables
from tileflow.runtime.user_tables import keep

TABLE = examples.table(examples.entry(64, 64))
ONE: dict[str, Callable[[Any, Path], Any]] = {
    "dump_table": lambda value, folder: runtime.dump_table(value, folder / "t.json"),
    "dump_tables": lambda value, folder: dump_tables({folder / "t.json": (value, None)}),
    "table_text": lambda value, folder: runtime.table_text(value),
    "merge": lambda value, folder: runtime.merge(TABLE, value),
    "merge into": lambda value, folder: runtime.merge(value, TABLE),
    "compare": lambda value, folder: list(runtime.compare(TABLE, value)),
    "keep": lambda value, folder: keep(value, folder),
}
SEVERAL: dict[str, Callable[[Any, Path], Any]] = {
    "write_bundle": lambda value, folder: runtime.write_bundle(value, [], folder),
    "binaries": lambda value, folder: runtime.write_bundle([TABLE], value, folder),
    "replace": lambda value, folder: snapshots.replace(folder, value),
    "Table.of": lambda value, folder: runtime.Table.of(TABLE.kernel, value),
}


@pytest.mark.parametrize("call", ONE.values(), ids=ONE)
@pytest.mark.parametrize("value", [None, 3, "t.json", Path("t.json"), [TABLE]], ids=repr)
def test_what_is_no_table_is_refused(call: Callable[[Any, Path], Any], value: Any, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"a Table is asked for, but got (.|\n)*load_table\(path\) reads one"):
        call(value, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("call", SEVERAL.values(), ids=SEVERAL)
@pytest.mark.parametrize(
    "value", [None, 3, "t.json", b"t", Path("t.json"), [3], [None], {"a": TABLE}, ((TABLE,), None)], ids=repr
)
def test_what_is_no_list_of_them_is_refused(call: Callable[[Any, Path], Any], value: Any, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"are asked for, in a list, but got "):
        call(value, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_table_alone_and_what_load_tables_gives_are_no_list_of_tables(tmp_path: Path) -> None:
    for given in (TABLE, ((TABLE,), None)):
        with pytest.raises(SpecError, match=r"(?s)tables \(Table\) are asked for, in a list.*the first of two"):
            runtime.write_bundle(given, [], tmp_path)  # type: ignore[arg-type]
    runtime.write_bundle(iter([TABLE]), [], tmp_path)
    with pytest.raises(SpecError, match=r"(?s)the beginning of a snapshot's digest is asked for, but got int 3"):
        snapshots.switch(tmp_path, 3)  # type: ignore[arg-type]


def test_texts_and_names_of_another_kind_are_refused() -> None:
    calls: list[Callable[[Any], Any]] = [
        runtime.parse_table,
        runtime.on_miss,
        runtime.read_misses,
        tileflow.load_kernel,
        lambda value: runtime.Table.of(value, ()),
    ]
    for call in calls:
        for value in (None, 3, [None], {}):
            with pytest.raises(SpecError, match=r"(is|are) asked for"):
                call(value)
