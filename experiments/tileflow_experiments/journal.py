"""The journal: append-only JSON lines, the single source of a sweep's state.

Studies, MLflow, Parquet and tables are folds of it. The driver alone writes it, under an exclusive lock; anyone may
read it at any time. A line is whole once its newline is there, so a crash loses at most the last line. A line that is
damaged afterwards does not affect the others. docs/reference/journal.md describes the lines.
"""

from __future__ import annotations

import fcntl
import gc
import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tileflow.errors import SpecError, TileflowError

from . import fields
from .records import RECORD_KINDS, StudyKey, TrialRecord

log = logging.getLogger(__name__)

SCHEMA_VERSION = 1
FSYNC_S = 1.0
# Room to journal whatever is in flight once the driver has stopped submitting.
RESERVE_BYTES = 16 << 20

Line = dict[str, Any]
Fits = Callable[[Line], None]  # raises ConfigError for a line that a reader of its kind could not use


class Lines(list[Line]):
    """The lines of a journal as they were read. ``records``: those of trials and re-measurements as records, in order.
    ``path``: of the file, for errors.

    Parsing a record takes as long as reading a line, so each is made once.
    """

    def __init__(self) -> None:
        super().__init__()
        self.records: list[TrialRecord] = []
        self.path: str | None = None

    def add(self, line: Line, record: TrialRecord | None) -> None:
        """Append a line, and its record where it has one."""
        self.append(line)
        if record is not None:
            self.records.append(record)


_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class JournalError(TileflowError):
    """The journal cannot be read or continued."""


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
            raise _no_sweep(path.parent)
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
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise SpecError(
                    "a sweep's folder must be written by one driver",
                    got=f"another one holds {path}",
                    hint="wait for it, or stop it, then resume",
                ) from None
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        os.close(descriptor)  # another driver salvaged the journal meanwhile, which made it another file


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


def _no_sweep(folder: Path) -> SpecError:
    return SpecError(
        "a sweep's folder must hold journal.jsonl",
        got=f"{folder}, which is a file" if folder.is_file() else str(folder),
        hint="name the folder that `tileflow sweep run SPEC --out FOLDER` wrote",
    )


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
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        begin = 0
        with os.fdopen(os.dup(descriptor), "ab") as file:
            for damage, end in (*found.damaged, (found.end, found.end)):
                file.write(whole[begin:damage])
                begin = end
        os.fsync(descriptor)
        os.replace(fresh, path)
    return descriptor


# ---- reading --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Parsed:
    """A journal's content.

    ``lines``: those that can be read. ``end``: where the last whole line ends. ``damaged``: (begin, end) of each whole
    line that cannot be read.
    """

    lines: Lines
    end: int
    damaged: tuple[tuple[int, int], ...] = ()


def read(path: Path, fits: Fits | None = None) -> Lines:
    """Return the readable lines of a journal that fit. It may be written meanwhile. Raises SpecError where there is
    none."""
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise _no_sweep(path.parent) from None
    except OSError as error:
        raise SpecError(
            "a sweep's journal must be readable", got=error.strerror, where=str(path), hint="let this user read it"
        ) from None
    found = parse(content, fits)
    found.lines.path = str(path)
    if found.damaged:
        log.warning(
            "%d lines of %s cannot be read, or are of another sweep or space; `tileflow sweep resume` sets them aside",
            len(found.damaged),
            path,
        )
    return found.lines


def parse(content: bytes, fits: Fits | None = None) -> Parsed:
    """Return the whole lines in ``content`` that fit. What follows the last newline is torn, or being written."""
    lines = Lines()
    damaged: list[tuple[int, int]] = []
    begin = 0
    with uncollected():
        while (newline := content.find(b"\n", begin)) >= 0:
            end = newline + 1
            try:
                line, record = _line(content[begin:newline])
                _require_own(line, record, lines)
                if fits is not None:
                    fits(line)
                lines.add(line, record)
            except _UNREADABLE:
                damaged.append((begin, end))
            begin = end
    return Parsed(lines, begin, tuple(damaged))


@contextmanager
def uncollected() -> Iterator[None]:
    """Nothing that folding a journal makes is garbage; looking for some among ever more of it takes a quarter of the
    time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def read_line(content: bytes) -> tuple[Line, TrialRecord | None]:
    """Return one line and its record, None where it has none.

    Raises JournalError for what is not a journal line, or lacks a field that readers of its kind require.
    """
    try:
        return _line(content)
    except _UNREADABLE as error:
        raise JournalError("a journal's line must be readable", got=f"{type(error).__name__}: {error}"[:300]) from error


_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, RecursionError, TileflowError)


def _line(content: bytes) -> tuple[Line, TrialRecord | None]:
    line: Line = _decode(content.decode())
    kind, record = line["kind"], None
    if kind in RECORD_KINDS:
        _require(line, fields.wrong_in_trial(line))
        record = TrialRecord.from_json(line)
    elif kind == "event":
        _require(line, fields.wrong_in_event(line))
    return {"kind": kind} | line, record


def _require_own(line: Line, record: TrialRecord | None, before: Lines) -> None:
    """Raise ValueError for a line that another sweep wrote, as in a file of two journals: its trials were made for
    another spec, and count for no budget of this one."""
    if not before:
        return
    if line["kind"] == "header":
        raise ValueError("a journal has one header")
    if record is not None and record.sweep_id != before[0].get("sweep_id", record.sweep_id):
        raise ValueError(f"it is a trial of {record.sweep_id}")


def _require(line: Line, wrong: str) -> None:
    """Raise ValueError for the field ``wrong`` of a line; nothing for an empty one."""
    if wrong:
        raise ValueError(f"{wrong} cannot be {line.get(wrong, 'missing')!r}")


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no number of a journal")


_decode = json.JSONDecoder(parse_constant=_refuse).decode


# ---- folds ----------------------------------------------------------------------------------------------------------


def header(lines: Iterable[Line]) -> Line:
    """Return the header line. Raises JournalError where it is missing or of a newer schema."""
    where = lines.path if isinstance(lines, Lines) else None
    first = next(iter(lines), None)
    if first is None or first["kind"] != "header":
        got = f"a line of kind {first['kind']!r} as the first that can be read" if first is not None else "none"
        hint = "is this a sweep's folder? Nothing was written to it"
        raise JournalError("a journal must begin with its header", got=got, where=where, hint=hint)
    version = first.get("schema_version")
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        raise JournalError(
            f"the journal's schema must be at most {SCHEMA_VERSION}", got=version, where=where, hint="upgrade tileflow"
        )
    for name, holds in fields.HEADER.items():
        if name in first and not holds(first[name]):
            raise _unsaid(f"{name}={first[name]!r}"[:200], where)
    return first


def whole_header(lines: Iterable[Line]) -> Line:
    """Return the header line, which says all that reports do. Raises JournalError as :func:`header`, and where it lacks
    some."""
    found = header(lines)
    if lacking := [name for name in fields.HEADER if name not in found]:
        raise _unsaid(f"none of {', '.join(lacking)}", lines.path if isinstance(lines, Lines) else None)
    return found


def _unsaid(got: str, where: str | None) -> JournalError:
    return JournalError(
        "a journal's header must say which sweep it is of, and when it began",
        got=got,
        where=where,
        hint="it was changed since it was written",
    )


def attempts(lines: Iterable[Line], kind: str = "trial") -> Iterator[TrialRecord]:
    """Yield every record of ``kind`` in order."""
    if isinstance(lines, Lines):
        return (record for record in lines.records if record.kind == kind)
    return (TrialRecord.from_json(line) for line in lines if line["kind"] == kind)


def events(lines: Iterable[Line], name: str) -> Iterator[Line]:
    """Yield every event called ``name`` in order."""
    return (line for line in lines if line["kind"] == "event" and line["event"] == name)


def stopped(lines: Iterable[Line]) -> dict[str, str]:
    """Return why studies were stopped, by their id.

    Only the last session counts, since each session tries all of them again.
    """
    reasons: dict[str, str] = {}
    for line in lines:
        if line.get("event") == "opened":
            reasons.clear()
        elif line.get("event") == "study_stopped":
            reasons[line["study"]] = line["reason"]
    return reasons


def trials(lines: Iterable[Line]) -> dict[str, TrialRecord]:
    """Return the state of each trial by its id: its first verdict, or its latest attempt where there is none yet.

    A measured verdict replaces a modelled one, since a GPU may have joined later.
    """
    return _states(attempts(lines))


def _states(tried: Iterable[TrialRecord]) -> dict[str, TrialRecord]:
    state: dict[str, TrialRecord] = {}
    for attempt in tried:
        if not attempt.trial_id:
            continue
        known = state.get(attempt.trial_id)
        if known is None or not known.completed or (known.result.modelled and attempt.completed and attempt.measured):
            state[attempt.trial_id] = attempt
    return state


def by_study(records: Iterable[TrialRecord]) -> dict[StudyKey, list[TrialRecord]]:
    """Group records by study, in order of first appearance."""
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
    """Return everything that reports and tables are made of. Raises JournalError where the header is missing."""
    tried = list(attempts(lines))
    return Folded(
        header(lines),
        by_study(_states(tried).values()),
        by_study(tried),
        by_study(attempts(lines, "remeasure")),
        tuple(line for line in lines if line["kind"] == "event"),
    )
