"""Tables as files: one writer at a time, in one step."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from tile_testing.fakes import runtime_examples as examples

from tileflow.errors import TableError
from tileflow.runtime import dump_table, load_table, merge
from tileflow.runtime.table_files import dump_tables

entry, table = examples.entry, examples.table


def test_a_table_replaces_only_the_one_that_was_read(tmp_path: Path) -> None:
    path = tmp_path / "softmax.json"
    first, ours, theirs = table(entry(64, 64)), table(entry(64, 64, best_us=9.0)), table(entry(64, 64, best_us=8.0))
    dump_table(first, path)
    dump_table(first, path)  # writing the same again changes nothing
    dump_table(theirs, path, replaces=first.table_id)
    with pytest.raises(TableError, match=r"still hold the table that was read(.|\n)*merge"):
        dump_table(ours, path, replaces=first.table_id)
    with pytest.raises(TableError, match="expected no table"):
        dump_table(ours, path)
    assert load_table(path) == theirs
    assert [p.name for p in tmp_path.iterdir() if not p.name.endswith(".lock")] == ["softmax.json"]


def test_of_two_sweeps_that_write_at_once_none_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "softmax.json"
    dump_table(table(), path)

    def sweep(m: int) -> None:
        while True:
            current = load_table(path)
            try:
                return dump_table(merge(current, table(entry(m, 64))), path, replaces=current.table_id)
            except TableError:
                continue

    threads = [threading.Thread(target=sweep, args=(m,)) for m in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [e.problem.sizes["x.shape.0"] for e in load_table(path).entries] == list(range(1, 7))


def test_a_link_to_a_table_stays_and_its_file_is_written(tmp_path: Path) -> None:
    file, link = tmp_path / "shared" / "t.json", tmp_path / "t.json"
    file.parent.mkdir()
    first, second = table(entry(64, 64)), table(entry(128, 64))
    dump_table(first, file)
    link.symlink_to(file)
    dump_table(second, link, replaces=first.table_id)
    assert link.is_symlink() and load_table(file) == second
    with pytest.raises(TableError, match="a file of its own"):
        dump_tables({file: (second, second.table_id), link: (first, second.table_id)})
    assert load_table(file) == second


def test_a_name_that_no_file_can_have_is_the_systems_error_of_a_file(tmp_path: Path) -> None:
    """It was a ValueError, which who keeps rows did not expect: a tuning lost them."""
    with pytest.raises(OSError, match="null byte"):
        dump_table(table(entry(64, 64)), tmp_path / "a\0.json")


def test_another_users_lock_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder that several write into, only who had made a lock could write the table beside it."""
    dump_table(table(entry(64, 64)), tmp_path / "t.json")
    opened, real = [], os.open

    def of_another(path: Any, flags: int, mode: int = 0o777) -> int:
        if str(path).endswith(".lock"):
            opened.append(flags)
            if flags & os.O_ACCMODE != os.O_RDONLY:
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path, flags, mode)

    monkeypatch.setattr("tileflow.runtime.files.os.open", of_another)
    second = table(entry(128, 64))
    dump_table(second, tmp_path / "t.json", replaces=table(entry(64, 64)).table_id)
    assert load_table(tmp_path / "t.json") == second and len(opened) == 2


def test_a_disk_that_is_full_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``tileflow table merge`` ended in "[Errno 28] No space left on device", of whichever disk."""

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tileflow.runtime.files.os.fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*t\.json'"):
        dump_table(table(entry(64, 64)), tmp_path / "t.json")
    assert [path.name for path in tmp_path.iterdir() if not path.name.endswith(".lock")] == []
