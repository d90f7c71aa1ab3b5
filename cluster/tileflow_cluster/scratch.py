"""Folders in the temporary directory that belong to a process.

Whoever makes one removes it. Where its process was killed first, a later process of the same user removes it: the lock
on a file inside says whether its owner lives. A lock holds wherever the folder is visible and ends with its process,
while another container's process ids mean nothing here.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

from tileflow.errors import SpecError
from tileflow.runtime.files import lock

LOCK = "in-use.lock"


class Scratch:
    """A folder of this process, which nobody else may look into (0700)."""

    def __init__(self, prefix: str) -> None:
        """Make it. Raises SpecError where the temporary directory takes none."""
        try:
            self.path = Path(tempfile.mkdtemp(prefix=prefix))
            self._lock = _locked(self.path)
        except OSError as error:
            raise SpecError(
                "the temporary directory must take files",
                got=error.strerror or error,
                where=str(error.filename or "TMPDIR"),
                hint="make room there, or name another: TMPDIR=/a/folder",
            ) from error
        self._owner = os.getpid()

    def remove(self) -> None:
        """Remove it with all that it holds. In a fork of its owner it stays."""
        if self._is_ours():
            _remove(self.path)
            self._lock.close()

    def keep(self) -> None:
        """Let it be: no later process removes it."""
        if self._is_ours():
            (self.path / LOCK).unlink(missing_ok=True)
            self._lock.close()

    def _is_ours(self) -> bool:
        return os.getpid() == self._owner and not self._lock.closed


def remove_abandoned(prefix: str, least_age_s: float = 0.0) -> None:
    """Remove this user's folders whose process was killed, those made less than ``least_age_s`` ago excepted.

    One without a lock's file is just being made, is kept, or lies where nothing can be locked: it stays.
    """
    with suppress(FileNotFoundError):  # no temporary directory at all: whoever wants a folder there says so
        for path in Path(tempfile.gettempdir()).glob(f"{prefix}*/{LOCK}"):
            with suppress(OSError):
                _remove_if_abandoned(path, least_age_s)


def _remove_if_abandoned(path: Path, least_age_s: float) -> None:
    """Raises OSError where another process holds the lock, or has removed the folder."""
    if path.parent.is_symlink() or path.parent.stat().st_uid != os.getuid():
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        if time.time() - os.fstat(descriptor).st_mtime >= least_age_s and lock(descriptor, wait=False):
            _remove(path.parent)
    finally:
        os.close(descriptor)


def _remove(folder: Path) -> None:
    """Remove the folder, the lock's file last: whoever is killed meanwhile leaves what a later process removes. What
    cannot be removed stays."""
    with suppress(OSError):  # somebody else has cleaned up
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != LOCK:
                path.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def _locked(folder: Path) -> IO[bytes]:
    """The file whose lock marks the folder as in use. It gets its name once it is locked, so that nobody takes the
    folder for abandoned before. Where nothing can be locked, it gets none."""
    unnamed = folder / f"{LOCK}.new"
    file = unnamed.open("wb")
    if lock(file.fileno()):
        unnamed.rename(folder / LOCK)
    else:
        unnamed.unlink()
    return file
