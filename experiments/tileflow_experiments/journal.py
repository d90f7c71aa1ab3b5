"""The journal's lines, read and folded: JSON lines, the single source of a sweep's state.

Studies, MLflow, Parquet and tables are folds of it. The driver alone writes it (:mod:`.journal_writer`); anyone may
read it at any time. A line is whole once its newline is there, so a crash loses at most the last line. A line that is
damaged afterwards does not affect the others. docs/reference/journal.md describes the lines.
"""

from __future__ import annotations

import gc
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tileflow.errors import SpecError, TileflowError
from tileflow.locks import cached_property

from . import fields
from .records import RECORD_KINDS, StudyKey, TrialRecord

log = logging.getLogger(__name__)

SCHEMA_VERSION = 1

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


class JournalError(TileflowError):
    """The journal cannot be read or continued."""


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
        raise no_sweep(path.parent) from None
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


def no_sweep(folder: Path) -> SpecError:
    """The error for a folder that is no sweep's."""
    return SpecError(
        "a sweep's folder must hold journal.jsonl",
        got=f"{folder}, which is a file" if folder.is_file() else str(folder),
        hint="name the folder that `tileflow sweep run SPEC --out FOLDER` wrote",
    )


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


@dataclass(frozen=True)
class Folded:
    """A journal read once. ``trials``: the state of each trial; ``attempts``: every line of them; both by study."""

    header: Line
    trials: dict[StudyKey, list[TrialRecord]]
    attempts: dict[StudyKey, list[TrialRecord]]
    remeasures: dict[StudyKey, list[TrialRecord]]
    events: tuple[Line, ...]

    @cached_property
    def _of_studies(self) -> dict[str, list[Line]]:
        found: dict[str, list[Line]] = {}
        for event in self.events:
            if "study" in event:
                found.setdefault(event["study"], []).append(event)
        return found

    def of(self, key: StudyKey) -> Sequence[Line]:
        """Return the events of one study, in order. Who asks for one study's does not read those of all others."""
        return self._of_studies.get(key.id, ())


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
