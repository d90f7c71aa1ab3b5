"""The journal: append-only JSON lines, the one truth of a sweep.

Study, MLflow, Parquet and tables are folds of it. The driver alone writes it, under an exclusive lock; anyone may
read it at any time. A line is whole once its newline is there, so a crash loses at most the line it was in.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tileflow.errors import SpecError, TileflowError

from .records import StudyKey, TrialRecord

SCHEMA_VERSION = 1
FSYNC_S = 1.0
# Room to journal whatever is in flight once the driver has stopped submitting.
RESERVE_BYTES = 16 << 20

Line = dict[str, Any]


class JournalError(TileflowError):
    """The journal cannot be read or continued."""


class JournalFull(JournalError):
    """The disk is full. What was appended before is safe; the last line was taken back."""

    retryable = True


class Journal:
    """The writer. ``epoch`` counts the openings of this file, this one included."""

    def __init__(self, path: Path, descriptor: int, lines: list[Line]) -> None:
        self.path = path
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size
        self._synced = time.monotonic()
        self.lines = lines
        self.epoch = 1 + sum(line.get("event") == "opened" for line in lines)

    @staticmethod
    def create(path: Path, header: Mapping[str, Any]) -> Journal:
        """Start a journal with its ``header`` line. Raises SpecError where a sweep has journalled there already."""
        journal = Journal._open(path, os.O_CREAT)
        if journal.lines:
            journal.close()
            raise SpecError("a new sweep must write to a folder of its own", got=str(path.parent),
                            hint="resume it with `tileflow sweep resume`, or name another folder")  # fmt: skip
        journal.append("header", {"schema_version": SCHEMA_VERSION} | dict(header))
        journal._opened()
        return journal

    @staticmethod
    def resume(path: Path) -> Journal:
        """Continue the journal at ``path`` after its last whole line. Raises SpecError where there is none."""
        try:
            journal = Journal._open(path, 0)
        except FileNotFoundError:
            raise SpecError("a sweep's folder must hold journal.jsonl", got=str(path.parent)) from None
        try:
            header(journal.lines)
        except JournalError:
            journal.close()
            raise
        journal._opened()
        return journal

    @staticmethod
    def _open(path: Path, flags: int) -> Journal:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | flags, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            lines, end = parse(path.read_bytes())
            os.ftruncate(descriptor, end)
            return Journal(path, descriptor, lines)
        except BlockingIOError:
            os.close(descriptor)
            raise SpecError(
                "a sweep's folder must be written by one driver",
                got=f"another one holds {path}",
                hint="wait for it, or stop it, then resume",
            ) from None
        except BaseException:
            os.close(descriptor)
            raise

    def _opened(self) -> None:
        self.append("event", {"event": "opened", "epoch": self.epoch, "at": time.time(), "pid": os.getpid()})

    def append(self, kind: str, data: Mapping[str, Any]) -> None:
        """Append one line and hand it to the system; to the disk within a second. Raises JournalFull."""
        line = {"kind": kind} | dict(data)
        content = memoryview(json.dumps(line, separators=(",", ":"), allow_nan=False).encode() + b"\n")
        written = 0
        try:
            while written < len(content):
                written += os.write(self._descriptor, content[written:])
        except OSError as error:
            os.ftruncate(self._descriptor, self._size)
            raise JournalFull("the journal must be writable", got=error.strerror, where=str(self.path),
                              hint="make room, then `tileflow sweep resume`") from error  # fmt: skip
        self._size += written
        self.lines.append(line)
        self.sync_when_due()

    def add(self, record: TrialRecord) -> None:
        """Append a trial's (or a re-measurement's) record. Raises JournalFull."""
        self.append(record.kind, record.to_json())

    def event(self, name: str, **data: Any) -> None:
        """Append an event. Raises JournalFull."""
        self.append("event", {"event": name, "at": time.time()} | data)

    def has_room(self) -> bool:
        """The disk takes what is in flight and a margin; where not, submit nothing more."""
        facts = os.statvfs(self.path)
        return facts.f_bavail * facts.f_frsize > RESERVE_BYTES

    def sync_when_due(self) -> None:
        """At most one fsync a second."""
        if time.monotonic() - self._synced >= FSYNC_S:
            os.fsync(self._descriptor)
            self._synced = time.monotonic()

    def close(self) -> None:
        """Sync and give up the lock. Idempotent."""
        if self._descriptor >= 0:
            os.fsync(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1


def read(path: Path) -> list[Line]:
    """The whole lines of a journal, also while it is being written. Raises JournalError."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise SpecError("a sweep's folder must hold journal.jsonl", got=str(path.parent)) from None
    return parse(content)[0]


def parse(content: bytes) -> tuple[list[Line], int]:
    """The lines in ``content`` and where the last whole one ends. Raises JournalError for damage before that."""
    lines: list[Line] = []
    end = 0
    while (newline := content.find(b"\n", end)) >= 0:
        try:
            line = json.loads(content[end:newline])
            lines.append({"kind": line["kind"]} | line)
        except (ValueError, TypeError, KeyError):
            if content.find(b"\n", newline + 1) < 0:
                break  # a torn last line, whatever the file system put behind it
            raise JournalError("every line before the last must be a JSON object with a kind",
                               got=content[end:newline][:80], where=f"line {len(lines) + 1}",
                               hint="the file was damaged after it was written") from None  # fmt: skip
        end = newline + 1
    return lines, end


# ---- folds ----------------------------------------------------------------------------------------------------------


def header(lines: Iterable[Line]) -> Line:
    """The header line. Raises JournalError where it is missing or of a newer schema."""
    first = next(iter(lines), None)
    if first is None or first["kind"] != "header":
        raise JournalError("a journal must begin with its header", got=first and first["kind"])
    if first["schema_version"] > SCHEMA_VERSION:
        raise JournalError(f"the journal's schema must be at most {SCHEMA_VERSION}", got=first["schema_version"],
                           hint="upgrade tileflow")  # fmt: skip
    return first


def attempts(lines: Iterable[Line], kind: str = "trial") -> Iterator[TrialRecord]:
    """Every record of ``kind`` in order."""
    return (TrialRecord.from_json(line) for line in lines if line["kind"] == kind)


def events(lines: Iterable[Line], name: str) -> Iterator[Line]:
    """Every event called ``name`` in order."""
    return (line for line in lines if line["kind"] == "event" and line["event"] == name)


def stopped(lines: Iterable[Line]) -> dict[str, str]:
    """Why studies were stopped, by their id; of the last opening alone, each of which tries all of them again."""
    reasons: dict[str, str] = {}
    for line in lines:
        if line.get("event") == "opened":
            reasons.clear()
        elif line.get("event") == "study_stopped":
            reasons[line["study"]] = line["reason"]
    return reasons


def trials(lines: Iterable[Line]) -> dict[str, TrialRecord]:
    """The state of each trial by its id: its first verdict, or its latest attempt where there is none yet."""
    state: dict[str, TrialRecord] = {}
    for attempt in attempts(lines):
        known = state.get(attempt.trial_id)
        if known is None or not known.settled:
            state[attempt.trial_id] = attempt
    return state


def by_study(records: Iterable[TrialRecord]) -> dict[StudyKey, list[TrialRecord]]:
    """Records grouped by what they search, in order of first appearance."""
    groups: dict[StudyKey, list[TrialRecord]] = {}
    for entry in records:
        groups.setdefault(entry.study, []).append(entry)
    return groups


@dataclass(frozen=True, slots=True)
class Folded:
    """A journal read once. ``trials``: the state of each trial; ``attempts``: every line of them; both by study."""

    header: Line
    trials: dict[StudyKey, list[TrialRecord]]
    attempts: dict[StudyKey, list[TrialRecord]]
    remeasures: dict[StudyKey, list[TrialRecord]]
    events: tuple[Line, ...]


def fold(lines: Sequence[Line]) -> Folded:
    """Everything that reports and tables are made of. Raises JournalError where the header is missing."""
    return Folded(
        header(lines),
        by_study(trials(lines).values()),
        by_study(attempts(lines)),
        by_study(attempts(lines, "remeasure")),
        tuple(line for line in lines if line["kind"] == "event"),
    )
