"""The user's own folder of tables: rows are found by what a kernel means, and get in nobody's way."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tileflow.config import Config
from tileflow.errors import SpecError, TableError
from tileflow.runtime import (
    Entry,
    Fallback,
    KernelId,
    Table,
    Validator,
    clear,
    digest,
    dump_table,
    load,
    load_table,
    lookup,
)
from tileflow.runtime.problem import Problem, TensorSpec
from tileflow.runtime.user_tables import keep, user_folder

GPU = "nvidia-h200"
HASH = "c0ffee" + "0" * 58
OTHER = "beef" + "0" * 60
NAME = "__main__:softmax"


def problem(m: int, kernel: str = NAME) -> Problem:
    return Problem(kernel, (("x", TensorSpec("float32", (m, 64), (64, 1))),))


def table(*sizes: int, kernel: str = NAME, version: str = HASH, block: int = 1, us: float = 10.0) -> Table:
    rows = [
        Entry(GPU, problem(m, kernel), Config.of({"block": block}), "measured", best_us=us, default_us=20.0, ci95=0.1,
              n=5, measured_on=GPU, toolchain="t") for m in sizes
    ]  # fmt: skip
    return Table.of(KernelId.of(kernel, version), rows, default=Fallback(Config.of({"block": 9})))


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    monkeypatch.setenv("TILEFLOW_TABLES", str(tmp_path / "mine"))
    clear()
    yield tmp_path / "mine"
    clear()


def block(m: int, kernel: str = NAME, version: str = HASH, device: str | None = GPU) -> object:
    hit = lookup(kernel, version, problem(m, kernel), device)
    return None if hit is None else hit.config["block"]


def test_the_folder_is_the_environments(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    assert user_folder() == folder
    monkeypatch.setenv("TILEFLOW_TABLES", "")
    assert user_folder() is None and block(8) is None
    monkeypatch.delenv("TILEFLOW_TABLES")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert user_folder() == Path("/data/tileflow/tables")
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", "/home/u")
    assert user_folder() == Path("/home/u/.local/share/tileflow/tables")
    monkeypatch.delenv("HOME")
    assert user_folder() is None


def test_rows_are_found_by_what_the_kernel_means_under_any_name(folder: Path) -> None:
    path = keep(table(8), folder)
    assert path == folder / f"softmax-{HASH[:16]}.json"
    assert block(8) == 1
    assert block(8, "a.module:rows") == 1, "the script became a module"
    assert block(8, version=OTHER) is None and block(16) is None
    assert block(8, device=None) is None, "a CPU is no device that was tuned"


def test_a_loaded_table_goes_first_in_all_of_its_steps(folder: Path, tmp_path: Path) -> None:
    keep(table(8, 16, block=1, us=1.0), folder)
    dump_table(table(8, block=2), tmp_path / "loaded.json")
    load(tmp_path / "loaded.json")
    assert block(8) == 2
    assert block(16) == 9, "even by its default for any shape"


def test_a_strict_table_is_not_completed(folder: Path, tmp_path: Path) -> None:
    keep(table(16), folder)
    dump_table(table(8), tmp_path / "loaded.json")
    load(tmp_path / "loaded.json", strict=True)
    with pytest.raises(TableError, match="strict"):
        block(16)


def test_damaged_files_are_said_once_and_passed_over(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    keep(table(8), folder)
    (folder / f"a-{HASH[:16]}.json").write_text("{")
    (folder / f"b-{HASH[:16]}.json").write_text(
        (folder / f"softmax-{HASH[:16]}.json").read_text().replace("20.0", "2.0")
    )
    with caplog.at_level(logging.WARNING, "tileflow.runtime"):
        assert block(8) == 1
        clear()
        assert block(8) == 1
    said = [r.getMessage() for r in caplog.records]
    assert len(said) == 2 and "truncated, edited or damaged" in said[0] and "table_id" in said[1]
    assert keep(table(16), folder).name == f"softmax-{HASH[:16]}.json"


def test_a_damaged_file_is_not_written_over(folder: Path) -> None:
    folder.mkdir()
    damaged = folder / f"softmax-{HASH[:16]}.json"
    damaged.write_text("{")
    other = keep(table(8), folder)
    assert damaged.read_text() == "{" and other != damaged and block(8) == 1


def test_a_row_that_requires_another_version_is_passed_over(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    keep(replace(table(8), validators=(Validator("semantic_hash_of_nothing", "9", "require"),)), folder)
    assert block(8) is None and "requires" in caplog.text


def test_keeping_merges_under_the_names_that_are_there(folder: Path) -> None:
    keep(table(8, block=1, us=10.0), folder)
    keep(table(16, kernel="a.module:rows"), folder)
    keep(table(8, block=2, us=5.0), folder)  # the better one
    keep(table(8, version=OTHER), folder)
    assert len([*folder.glob("*.json")]) == 2
    assert (block(8), block(16)) == (2, 1)


def test_the_digest_tells_what_serves(folder: Path) -> None:
    keep(table(8), folder)
    before = digest()
    assert block(8) == 1 and digest() != before


def test_the_home_of_nobody_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEFLOW_TABLES", "~nobody-of-that-name/tables")
    with pytest.raises(SpecError, match=r"~nobody-of-that-name/tables\n  at TILEFLOW_TABLES"):
        user_folder()


def test_a_place_that_is_no_folder_of_ones_own_is_said_once(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable named a sweep's tables, or one of them: no row was used, without a word."""
    folder.mkdir()
    dump_table(table(8), folder / "softmax.json")
    for place, said in ((folder, "are named by the version"), (folder / "softmax.json", "must be a folder")):
        monkeypatch.setenv("TILEFLOW_TABLES", str(place))
        caplog.clear()
        assert block(8) is None and block(8, version=OTHER) is None
        (message,) = [record.getMessage() for record in caplog.records]
        assert said in message and "softmax.json" in message and "runtime.load" in message


def test_many_who_keep_rows_at_once_keep_all_of_them(folder: Path) -> None:
    """As ranks do that tune one kernel: rows were refused after eight tries, or lay in a second file."""
    together = threading.Barrier(16)

    def tuned(rank: int) -> None:
        together.wait()
        for step in range(3):
            keep(table(100 * rank + step), folder)

    with ThreadPoolExecutor(16) as ranks:
        [*ranks.map(tuned, range(1, 17))]
    (file,) = folder.glob("*.json")
    assert len(load_table(file).entries) == 16 * 3
