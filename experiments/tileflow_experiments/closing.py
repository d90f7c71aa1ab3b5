"""The table that a search ends with: default, best, share of the roofline, checks, and where the rows are.

Times come from the exported rows; the roofline and the checks from the journal.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tileflow.measure.types import Status
from tileflow.runtime.bundle import load_tables
from tileflow.runtime.problem import Problem
from tileflow.runtime.table import Entry

from . import journal as journals
from .journal import Folded
from .records import StudyKey, TrialRecord
from .verify import WRONG, how_it_ended, some_config_works

HEAD = ("kernel", "call", "default", "best", "speed-up", "roofline", "checks", "")
SHOWN = 60  # characters of a call


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one search. ``row``: None where no config works, or where it was not written. ``why``: what stopped
    it, if anything did. ``ended``: without a row, how its trials ended. ``works``: whether a config of it does."""

    kernel: str
    call: str
    row: Entry | None
    why: str = ""
    ended: str = ""
    works: bool = False


@dataclass(frozen=True, slots=True)
class Ending:
    """What a sweep ends with. ``lines``: its table, and where the rows are. ``without``: the searches that have no
    row, of ``searches``."""

    lines: list[str]
    without: list[str]
    searches: int


def table(outcomes: Iterable[Outcome], folded: Folded) -> list[str]:
    """Return lines of text, columns below their headings."""
    by_id: dict[str, list[TrialRecord]] = {}
    for record in itertools.chain(*folded.trials.values()):
        by_id.setdefault(record.trial_id, []).append(record)
    lines = [HEAD, *(_cells(outcome, by_id, folded) for outcome in outcomes)]
    last = len(HEAD) - 1
    widths = [max(len(line[i]) for line in lines) for i in range(last)]
    padded = ([*(cell.ljust(w) for cell, w in zip(line, widths, strict=False)), line[last]] for line in lines)
    return ["  ".join(cells).rstrip() for cells in padded]


def of_sweep(journal: Path, tables: Path) -> Ending:
    """Return what an exported sweep ends with. Raises TableError, JournalError."""
    folded = journals.fold(journals.read(journal))
    stopped = journals.stopped(folded.events)
    loaded = load_tables(tables)[0] if any(tables.glob("*.json")) else ()
    rows = {row.trial_id: row for one in loaded for row in one.entries if row.trial_id}
    served = {(one.kernel.ref, row.device, row.problem.key): row for one in loaded for row in reversed(one.entries)}
    calls = _calls(folded)
    outcomes = []
    for key, records in {**dict.fromkeys(_untried(folded), ()), **folded.trials}.items():
        own = next((rows[r.trial_id] for r in records if r.trial_id in rows), None)
        # Another problem that makes the same call may have the row that serves both.
        row = own or served.get((key.kernel, key.device_class, calls.get(key.id, "")))
        why, ended = stopped.get(key.id, ""), "" if row else how_it_ended(folded, key)
        works = some_config_works(folded, key)
        outcomes.append(Outcome(key.kernel, f"{key.shown} on {key.device_class}", row, why, ended, works))
    lines = [*table(outcomes, folded), f"rows in {tables}"] if outcomes else []
    without = [f"{one.kernel} {one.call}" for one in outcomes if one.row is None]
    return Ending(lines, without, len(outcomes))


def _untried(folded: Folded) -> list[StudyKey]:
    """Return the searches of the sweep that have no trial."""
    told = [line for line in journals.events(folded.events, "study") if "inputs" in line]  # earlier versions had none
    keys = (StudyKey(e["kernel"], tuple(sorted(e["inputs"].items())), e["device_class"]) for e in told)
    return [key for key in keys if key not in folded.trials]


def _calls(folded: Folded) -> dict[str, str]:
    """Return the key of the call that each study's problem makes, by the study's id."""
    lines = journals.events(folded.events, "study")
    return {line["study"]: Problem.from_json(line["problem"]).key for line in lines if "problem" in line}


def _cells(outcome: Outcome, by_id: Mapping[str, list[TrialRecord]], folded: Folded) -> tuple[str, ...]:
    call = outcome.call if len(outcome.call) <= SHOWN else f"{outcome.call[: SHOWN - 3]}..."
    reason = outcome.why.splitlines()[0] if outcome.why else ""
    row = outcome.row
    if row is None:
        without = "its row is not written" if outcome.works else "no config works"
        note = f"{without}: {reason or outcome.ended}"
        return outcome.kernel, call, "", "", "", "", "", note
    trials = by_id.get(row.trial_id, []) if row.trial_id else []
    note = "" if row.origin == "measured" else f"{row.origin} for {row.device}"
    if reason:
        note = f"{note}, stopped: {reason}" if note else f"stopped: {reason}"
    times = _times(row, _of_defaults(trials, folded))
    return (outcome.kernel, call, *times, _roofline(row, trials), _checks(row, trials, folded), note)


def _of_defaults(trials: Sequence[TrialRecord], folded: Folded) -> Sequence[TrialRecord]:
    """Return the attempts of the default config in the searches that ``trials`` are of."""
    studies = dict.fromkeys(r.study for r in trials)
    return [r for key in studies for r in folded.trials[key] if r.is_of_default]


def _times(row: Entry, defaults: Sequence[TrialRecord]) -> tuple[str, str, str]:
    """Return the default's time, or how its last attempt ended, the best time, and their ratio."""
    if row.best_us is None:
        return "", "", ""
    best = f"{row.best_us:.1f} us"
    if row.default_us is None:
        return (str(defaults[-1].status) if defaults else "not tried"), best, ""
    return f"{row.default_us:.1f} us", best, f"{row.default_us / row.best_us:.2f}x"


def _roofline(row: Entry, trials: Sequence[TrialRecord]) -> str:
    """Return the share of the best time that the call's bytes or operations need at the datasheet's rates."""
    roof = next((b.roofline_us for r in trials if (b := r.result.build) is not None and b.roofline_us), None)
    return "" if roof is None or not row.best_us else f"{roof / row.best_us:.0%}"


def _checks(row: Entry, trials: Sequence[TrialRecord], folded: Folded) -> str:
    """Return how the row's config was checked, and how many others of its search were found wrong."""
    searches = list(dict.fromkeys(r.study for r in trials))
    said = _on_the_device(row, trials, folded) if row.origin == "measured" else _interpreted(row, searches, folded)
    wrong = sum(r.result.outcome.status in WRONG for key in searches for r in folded.trials[key])
    return f"{said}, {wrong} config{'s' if wrong > 1 else ''} wrong" if wrong else said


def _on_the_device(row: Entry, trials: Sequence[TrialRecord], folded: Folded) -> str:
    """Return the largest error of the search's check and of those of the final race."""
    again = [r for t in trials for r in folded.remeasures.get(t.study, ()) if r.config == row.config]
    errors = [e for r in (*trials, *again) if (e := r.result.outcome.max_err) is not None]
    return f"passed at {max(errors):.0%} of tolerance" if errors else "passed"


def _interpreted(row: Entry, searches: Sequence[StudyKey], folded: Folded) -> str:
    config = row.config.to_dict()
    events = itertools.chain(*(folded.of(key) for key in searches))
    made = (e for e in journals.events(events, "interpreted") if e["config"] == config)
    return "passed, interpreted" if any(e["status"] == Status.OK.value for e in made) else "not checked"
