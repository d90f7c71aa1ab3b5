"""The one writer of a journal: it appends whole lines under an exclusive lock, and mends the file that it resumes."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tileflow.errors import SpecError
from tileflow.runtime.files import lock

from .journal import SCHEMA_VERSION, Fits, JournalError, Line, Lines, Parsed, events, header, no_sweep, parse
from .records import TrialRecord

log = logging.getLogger(__name__)

FSYNC_S = 1.0
# Room to journal whatever is in flight once the driver has stopped submitting.
RESERVE_BYTES = 16 << 20

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class JournalFull(JournalError):
    """The disk is full. What was appended before is safe; the last line was taken back."""

    retryable = True


class Writer:
    """Writes lines to one journal. ``epoch`` counts the sessions that wrote to its file, this one included."""

    epoch: int

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def lines(self) -> Lines:
        """All lines of the journal by now, read again on every access."""
        raise NotImplementedError

    def write(self, content: bytes) -> None:
        """Append whole lines. Raises JournalFull."""
        raise NotImplementedError

    def sync_when_due(self) -> None:
        """Send what was written on its way, so that it is safe within a second. Raises JournalFull."""
        raise NotImplementedError

    def append(self, kind: str, data: Mapping[str, Any]) -> None:
        """Append one line, which is on the disk within a second.

        Raises JournalFull, and JournalError for values that JSON cannot hold.
        """
        line = {"kind": kind} | dict(data)
        try:
            text = _encode(line)
        except (TypeError, ValueError) as error:
            raise JournalError(
                "a journal's line must be JSON with finite numbers",
                got=f"{error} in {str(line)[:500]}",
                hint="this is a mistake of tileflow's own: report it",
            ) from error
        self.write(text.encode() + b"\n")

    def add(self, record: TrialRecord) -> None:
        """Append a trial's (or a re-measurement's) record. Raises JournalFull."""
        self.append(record.kind, record.to_json())

    def event(self, name: str, **data: Any) -> None:
        """Append an event. Raises JournalFull."""
        self.append("event", {"event": name, "at": time.time()} | data)

    def has_room(self) -> bool:
        """Whether the disk has room for what is in flight and a margin; where not, submit nothing more."""
        facts = os.statvfs(self.path)
        return facts.f_bavail * facts.f_frsize > RESERVE_BYTES


class Journal(Writer):
    """The one writer of a file. ``damaged``: how many unreadable lines resuming set aside. ``header``: its first
    line."""

    def __init__(self, path: Path, descriptor: int, lines: Lines, damaged: int = 0) -> None:
        super().__init__(path)
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size
        self._synced = time.monotonic()
        self.damaged = damaged
        self._found: Lines | None = lines  # until they are asked for, or something is added to them
        self.header: Line = next(iter(lines), {})
        self.epoch = 1 + max((line["epoch"] for line in events(lines, "opened")), default=0)

    @property
    def lines(self) -> Lines:
        """The lines as resuming read them, at the first access and with nothing appended since; else read again."""
        found, self._found = self._found, None
        return parse(self.path.read_bytes()).lines if found is None else found

    @staticmethod
    def create(path: Path, header: Mapping[str, Any]) -> Journal:
        """Start a journal with its ``header`` line. Raises SpecError where a file exists, which stays as it is.

        A journal that never got its header is replaced.
        """
        descriptor = _locked(path, os.O_CREAT)
        with _closed_on_error(descriptor):
            if not never_begun(path):
                raise in_the_way(path)
            os.ftruncate(descriptor, 0)
            journal = Journal(path, descriptor, Lines())
            journal.header = {"kind": "header", "schema_version": SCHEMA_VERSION} | dict(header)
            journal.append("header", journal.header)
            journal._opened()
        return journal

    @staticmethod
    def resume(path: Path, fits: Fits | None = None) -> Journal:
        """Continue the journal at ``path``.

        A torn last line is cut off. Whole lines that cannot be read, or do not fit, are moved to a file beside it,
        which an event names; what they said is asked again. Raises SpecError where there is no journal, JournalError
        where the file is not one; it then stays as it is.
        """
        if not path.exists():
            raise no_sweep(path.parent)
        descriptor = _locked(path, 0)
        with _closed_on_error(descriptor):
            found = parse(path.read_bytes(), fits)
            found.lines.path = str(path)
            header(found.lines)
            if found.damaged:
                try:
                    replaced = _salvage(path, found)
                except OSError as error:
                    raise JournalError(
                        "a damaged journal must be mended before it goes on",
                        got=error.strerror,
                        where=str(path),
                        hint="make room in its folder, which must be writable",
                    ) from error
                os.close(descriptor)
                descriptor = replaced
        with _closed_on_error(descriptor):
            if not found.damaged:
                os.ftruncate(descriptor, found.end)
            journal = Journal(path, descriptor, found.lines, len(found.damaged))
            journal._opened()
            if found.damaged:
                log.warning("%s", _said(path, found))
                journal.event("salvaged", lines=len(found.damaged), kept=str(_aside(path)))
            journal._found = found.lines  # what was added since says nothing of a trial
        return journal

    def _opened(self) -> None:
        self.append("event", {"event": "opened", "epoch": self.epoch, "at": time.time(), "pid": os.getpid()})

    def write(self, content: bytes) -> None:
        """Append whole lines and give them to the system. Raises JournalFull, having taken a partial write back."""
        self._found = None
        left = memoryview(content)
        written = 0
        try:
            while written < len(left):
                written += os.write(self._descriptor, left[written:])
        except OSError as error:
            os.ftruncate(self._descriptor, self._size)
            raise self._full(error) from error
        self._size += written
        self.sync_when_due()

    def sync_when_due(self) -> None:
        """Sync to the disk at most once a second. Raises JournalFull."""
        if time.monotonic() - self._synced >= FSYNC_S:
            self._sync()
            self._synced = time.monotonic()

    def close(self) -> None:
        """Sync and release the lock. Idempotent. Raises JournalFull."""
        if self._descriptor >= 0:
            try:
                self._sync()
            finally:
                os.close(self._descriptor)
                self._descriptor = -1

    def _sync(self) -> None:
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            raise self._full(error) from error

    def _full(self, error: OSError) -> JournalFull:
        return JournalFull(
            "the journal must be writable",
            got=error.strerror,
            where=str(self.path),
            hint="make room, then `tileflow sweep resume`",
        )


# ---- opening --------------------------------------------------------------------------------------------------------


def _locked(path: Path, flags: int) -> int:
    """Open the file at ``path`` for appending and lock it. Returns its descriptor. Raises SpecError where that
    fails."""
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | flags, 0o644)
        except OSError as error:
            raise SpecError(
                "a sweep must be able to write its journal",
                got=error.strerror,
                where=str(path),
                hint="name a folder that can be written to",
            ) from None
        with _closed_on_error(descriptor):
            try:
                if not lock(descriptor, wait=False):
                    raise _no_locks(path)
            except BlockingIOError:
                raise SpecError(
                    "a sweep's folder must be written by one driver",
                    got=f"another one holds {path}",
                    hint="wait for it, or stop it, then resume",
                ) from None
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        os.close(descriptor)  # another driver salvaged the journal meanwhile, which made it another file


def _no_locks(path: Path) -> SpecError:
    return SpecError(
        "a sweep's folder must be on a file system with locks, which keep a second driver out of its journal",
        got=f"{path}, which cannot be locked",
        hint="name a folder on a local disk, or mount this one with locks (Lustre: flock; NFS: not nolock)",
    )


@contextmanager
def _closed_on_error(descriptor: int) -> Iterator[None]:
    try:
        yield
    except BaseException:
        os.close(descriptor)
        raise


def require_free(path: Path) -> None:
    """Raise SpecError where another driver writes the journal, or this one could not: before workers are started, which
    another sweep may use. Opening it says the last word."""
    os.close(_locked(path, 0))


def in_the_way(path: Path) -> SpecError:
    """Return the error for an existing file: a new sweep replaces none, whoever wrote it."""
    return SpecError(
        "a new sweep must write to a folder of its own",
        got=f"{path}, which is there already",
        hint="resume it with `tileflow sweep resume` if it is a sweep's, or name another folder",
    )


def never_begun(path: Path) -> bool:
    """Whether the file is empty, or a driver died before the header was whole."""
    if not path.is_file():
        return False
    content, begun = path.read_bytes(), b'{"kind":"header"'
    return b"\n" not in content and (begun.startswith(content) or content.startswith(begun))


def _aside(path: Path) -> Path:
    return path.with_name(f"{path.name}.damaged")


def _said(path: Path, found: Parsed) -> str:
    many = f"{len(found.damaged)} damaged line{'s' if len(found.damaged) > 1 else ''}"
    return f"{path} had {many}, now in {_aside(path)}; the trials that they held are asked again"


def _salvage(path: Path, found: Parsed) -> int:
    """Write the damaged lines to the file beside the journal, then replace the journal by one of the good lines.

    The replacement is one step and is locked. Returns its descriptor.
    """
    whole = path.read_bytes()
    with _aside(path).open("ab") as aside:
        aside.write(b"".join(whole[begin:end] for begin, end in found.damaged))
        aside.flush()
        os.fsync(aside.fileno())
    fresh = path.with_name(f"{path.name}.salvaged")
    descriptor = os.open(fresh, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_CREAT | os.O_TRUNC, 0o644)
    with _closed_on_error(descriptor):
        lock(descriptor, wait=False)
        begin = 0
        with os.fdopen(os.dup(descriptor), "ab") as file:
            for damage, end in (*found.damaged, (found.end, found.end)):
                file.write(whole[begin:damage])
                begin = end
        os.fsync(descriptor)
        os.replace(fresh, path)
    return descriptor
