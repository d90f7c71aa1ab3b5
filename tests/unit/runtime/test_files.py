"""A folder that this process may not look into is named as such: it is no empty one, and no missing one. What is
written in one step is there whole, or not at all."""

from __future__ import annotations

import errno
import fcntl
import itertools
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from tile_testing.fakes import runtime_examples as examples

from tileflow.errors import SpecError, TableError
from tileflow.runtime import (
    clear,
    dump_table,
    launches_of,
    load,
    load_bundle,
    read_misses,
    record_misses,
    write_bundle,
)
from tileflow.runtime.files import folder_to_start_in, import_paths, lock, locked, require_folder, write_atomically
from tileflow.runtime.snapshots import list_snapshots
from tileflow.runtime.user_tables import keep, tables_of, user_folder

Close = Callable[[Path], None]


@pytest.fixture
def close(monkeypatch: pytest.MonkeyPatch) -> Close:
    """Closes a folder to this process, who may be root: neither its names nor anything below it is to be seen."""

    def close(folder: Path) -> None:
        def closed(function: Callable[..., Any], itself: bool) -> Callable[..., Any]:
            def call(path: Any = ".", *args: Any, **kwargs: Any) -> Any:
                place = Path(os.fsdecode(path)) if isinstance(path, (str, bytes, os.PathLike)) else None
                if place is not None and (folder in place.parents or (itself and place == folder)):
                    raise PermissionError(errno.EACCES, "Permission denied", str(place))
                return function(path, *args, **kwargs)

            return call

        for name in ("listdir", "scandir"):
            monkeypatch.setattr(os, name, closed(getattr(os, name), itself=True))
        for name in ("stat", "lstat"):
            monkeypatch.setattr(os, name, closed(getattr(os, name), itself=False))

    return close


def rows() -> Any:
    code = examples.binary(b"code")
    return examples.table(examples.entry(64, 64, launches=launches_of([code]))), code


def test_a_folder_of_tables(tmp_path: Path, close: Close) -> None:
    """It was said to hold no tables."""
    (tmp_path / "tables").mkdir()
    dump_table(rows()[0], tmp_path / "tables" / "a.json")
    close(tmp_path / "tables")
    with pytest.raises(TableError, match=r"directory of tables must be readable, but got .*Permission denied"):
        load(tmp_path / "tables")


def test_a_bundle_and_its_snapshots(tmp_path: Path, close: Close) -> None:
    """A bare PermissionError ended who loaded it."""
    table, code = rows()
    write_bundle([table], [code], tmp_path / "bundle")
    close(tmp_path / "bundle" / "snapshots")
    for read in (load_bundle, list_snapshots):
        with pytest.raises(TableError, match=r"snapshots? must be readable, but got .*Permission denied"):
            read(tmp_path / "bundle")


def test_a_folder_of_misses(tmp_path: Path, close: Close) -> None:
    """It was said to hold none."""
    (tmp_path / "misses").mkdir()
    (tmp_path / "misses" / "1.jsonl").write_text("")
    close(tmp_path / "misses")
    with pytest.raises(TableError, match="folder of misses must be readable"):
        read_misses(tmp_path / "misses")


def test_a_users_folder_is_passed_over_and_said(tmp_path: Path, close: Close, caplog: pytest.LogCaptureFixture) -> None:
    table, _ = rows()
    dump_table(table, tmp_path / f"softmax-{examples.HASH[:16]}.json")
    assert [*tables_of(examples.HASH, tmp_path)] == [table]
    close(tmp_path)
    assert [*tables_of(examples.HASH, tmp_path)] == []
    assert "your folder of tables must be readable" in caplog.text


def test_a_sweeps_folder_is_told_where_its_tables_are(tmp_path: Path) -> None:
    """What lies beside its journal was read as a table: `schema_version must be 1 to 4, but got None`."""
    (tmp_path / "tables").mkdir()
    dump_table(rows()[0], tmp_path / "tables" / "a.json")
    (tmp_path / "journal.jsonl").write_text("{}\n")
    (tmp_path / "mlflow-log.json").write_text("{}\n")
    with pytest.raises(TableError, match="got a sweep's folder") as raised:
        load(tmp_path)
    assert "its folders tables and bundle" in str(raised.value.hint)
    assert load(tmp_path / "tables")
    clear()


def _interrupted(path: Path, content: bytes, at: int) -> bool:
    """Write, and interrupt before the line number ``at`` that runs of it; False where it has fewer."""
    lines = itertools.count()

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code is not write_atomically.__code__:
            return None
        if event == "line" and next(lines) == at:
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        write_atomically(path, content)
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def test_an_interrupt_at_any_line_leaves_the_old_file_or_the_new_one_and_no_other(tmp_path: Path) -> None:
    """Ctrl-C as a sweep began left `.mlflow-log.json.jsinbgbh` in its folder: the file was there before its name was
    known."""
    path = tmp_path / "state.json"
    path.write_bytes(b"old")
    for at in itertools.count():
        if not _interrupted(path, b"new", at):
            break
        assert [file.name for file in tmp_path.iterdir()] == ["state.json"] and path.read_bytes() in (b"old", b"new")
    assert at > 5 and path.read_bytes() == b"new"


def test_a_file_that_cannot_be_made_is_named_and_not_the_temporary_one(tmp_path: Path) -> None:
    """A sweep's folder that takes no files was said to lack `.trials.parquet.43e68b4a`."""
    with pytest.raises(FileNotFoundError, match=r"/none/t\.json'$"):
        write_atomically(tmp_path / "none" / "t.json", b"")


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The program is in a folder that is gone, as a job's scratch folder may be."""
    (tmp_path / "scratch").mkdir()
    monkeypatch.chdir(tmp_path / "scratch")
    (tmp_path / "scratch").rmdir()
    return tmp_path


def test_whole_paths_need_no_folder_that_the_program_is_in(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Misses of a server whose folder had gone could not be recorded, under any path."""
    record_misses(nowhere / "misses.jsonl")
    record_misses(None)
    monkeypatch.setenv("TILEFLOW_TABLES", str(nowhere))
    assert user_folder() == nowhere
    monkeypatch.setattr(sys, "path", ["", "/a"])
    assert (import_paths(), folder_to_start_in()) == (("/a",), "/"), "what another process is given"


def test_relative_paths_are_refused_in_words_where_their_folder_is_gone(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was a FileNotFoundError that named no file."""
    monkeypatch.setenv("TILEFLOW_TABLES", "mine")
    calls: list[Callable[[], Any]] = [
        lambda: record_misses("misses.jsonl"),
        lambda: load("t.json"),
        lambda: load_bundle("bundle"),
        lambda: require_folder("out", "out"),
        user_folder,
    ]
    for call in calls:
        with pytest.raises(SpecError, match=r"(?s)in a folder that is gone.*whole path"):
            call()


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_where_nothing_can_be_locked_rows_and_bundles_are_written_and_that_is_said(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As on a home folder of NFS or Lustre: a tuning lost its rows to an error of the system's."""

    def flock(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    table = examples.table(examples.entry(64, 64))
    with caplog.at_level(logging.WARNING, "tileflow"):
        keep(table, tmp_path / "mine")
        keep(table, tmp_path / "mine")
        write_bundle([table], [], tmp_path / "bundle")
    assert [*tables_of(table.kernel.semantic_hash, tmp_path / "mine")] and len(list_snapshots(tmp_path / "bundle")) == 1
    said = [record.getMessage() for record in caplog.records if "has no locks" in record.getMessage()]
    assert len(said) == 2 and str(tmp_path / "mine") in said[0] and str(tmp_path / "bundle") in said[1]


def test_what_else_keeps_a_lock_from_being_taken_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "a").open("w") as first, (tmp_path / "a").open("w") as second:
        assert lock(first.fileno())
        with pytest.raises(BlockingIOError):
            lock(second.fileno(), wait=False)

    def flock(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(OSError, match="Input/output"), locked(tmp_path / "b"):
        pytest.fail("it is not held")
