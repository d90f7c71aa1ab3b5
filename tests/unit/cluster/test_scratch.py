"""Folders in the temporary directory: whose they are, and who removes those of processes that were killed."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

import pytest
from tileflow_cluster.scratch import LOCK, Scratch, remove_abandoned

from tileflow.errors import SpecError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def killed(prefix: str) -> Path:
    """What a killed process leaves: the system lets go of its lock."""
    dead = Scratch(prefix)
    dead._lock.close()
    return dead.path


def test_what_a_killed_process_left_is_removed_and_nothing_else(folder: Path) -> None:
    dead, others, ours = killed("t-"), killed("u-"), Scratch("t-")
    (making := folder / "t-making").mkdir()
    (kept := Scratch("t-")).keep()
    (folder / "theirs").mkdir()
    (folder / "theirs" / LOCK).touch()
    (folder / "t-link").symlink_to(folder / "theirs")
    remove_abandoned("t-")
    assert not dead.exists() and (folder / "theirs" / LOCK).exists()
    assert others.exists() and ours.path.exists() and making.exists() and kept.path.exists()
    assert ours.path.stat().st_mode & 0o777 == 0o700
    ours.remove()
    assert not ours.path.exists()


def test_a_folder_that_may_be_looked_at_stays_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    dead, now = killed("t-"), time.time()
    for moved in (0.0, 3599.0, -86400.0):  # a clock that was set back makes nothing old
        monkeypatch.setattr(time, "time", lambda moved=moved: now + moved)
        remove_abandoned("t-", 3600.0)
        assert dead.exists()
    monkeypatch.setattr(time, "time", lambda: now + 3602.0)
    remove_abandoned("t-", 3600.0)
    assert not dead.exists()


def test_another_users_folder_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The administrator may remove it, and lock it."""
    dead = killed("t-")
    monkeypatch.setattr(os, "getuid", lambda: 4242)
    remove_abandoned("t-")
    assert dead.exists()


def test_a_fork_removes_nothing_of_its_parents() -> None:
    ours = Scratch("t-")
    child = os.fork()
    if not child:
        ours.remove()
        ours.keep()
        os._exit(0)
    os.waitpid(child, 0)
    assert (ours.path / LOCK).exists()


def test_where_nothing_can_be_locked_folders_are_made_and_none_is_taken_for_abandoned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each compile worker, and so each tuning, failed in Python's words."""

    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    dead = killed("t-")
    monkeypatch.setattr(fcntl, "flock", flock)
    ours = Scratch("t-")
    remove_abandoned("t-")
    assert dead.exists() and ours.path.exists() and not list(ours.path.iterdir())
    ours.remove()
    assert not ours.path.exists()


def test_no_temporary_directory_is_said(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(folder / "none")])
    remove_abandoned("t-")
    with pytest.raises(SpecError, match=r"temporary directory must take files(.|\n)*TMPDIR"):
        Scratch("t-")


def test_a_removal_that_is_cut_short_is_gone_on_with_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock's file went first, as the system lists names: what was left belonged to nobody, and stayed."""
    ours = Scratch("t-")
    for name in "abc":
        (ours.path / name).mkdir()
        (ours.path / f"{name}.txt").touch()
    (ours.path / "link").symlink_to(ours.path.parent)
    remove, removed = shutil.rmtree, list[Path]()

    def killed(path: Path, **options: bool) -> None:
        if removed:
            raise KeyboardInterrupt
        removed.append(path)
        remove(path, **options)

    monkeypatch.setattr(shutil, "rmtree", killed)
    with pytest.raises(KeyboardInterrupt):
        ours.remove()
    monkeypatch.undo()
    assert (ours.path / LOCK).exists()
    ours.remove()
    assert not ours.path.exists() and ours.path.parent.exists()
