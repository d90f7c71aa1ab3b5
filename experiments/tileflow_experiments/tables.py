"""The journal reduced to tables: one per kernel, with a row for each study whose search found a working config."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from tileflow_cluster.protocol import toolchain_text

import tileflow
from tileflow.config import Config
from tileflow.measure.types import Status
from tileflow.runtime.abi import Binary
from tileflow.runtime.table import (
    CreatedBy,
    DeviceInfo,
    Entry,
    Fallback,
    KernelId,
    KeyField,
    Table,
    Validator,
    key_schema_of,
    launches_of,
    requirements_of,
)
from tileflow.target import target

from . import journal as journals
from .journal import Folded
from .portable import BuiltRow, defaults_of
from .portfolio import Portfolio, choose, fitted, served, unseen
from .records import StudyKey, TrialRecord, checked_against
from .selection import RaceEntry, Votes, most_robust, race
from .study import leaders
from .tuning_task import TuningTask
from .verify import how_it_ended

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Winner:
    """The config that a study ends with.

    ``time_us``, ``ci95_us``, ``samples``: of the race, where there was one. ``default_us``: the default config's time,
    measured likewise. ``ties``: keys of configs that the race cannot tell apart.
    """

    record: TrialRecord
    time_us: float
    ci95_us: float
    samples: int
    default_us: float | None
    ties: tuple[str, ...]


Winners = Mapping[StudyKey, Winner | None]


class Searched(Protocol):
    """What must be known of a study to determine its winner."""

    @property
    def key(self) -> StudyKey:
        """The study's identity."""

    @property
    def mode(self) -> str:
        """The shape mode that the search ran in."""

    @property
    def default(self) -> Config:
        """The default config, against which the winner is compared."""


def winner(folded: Folded, task: Searched) -> Winner | None:
    """Return the winner of ``task``'s study by its race; without one the fastest config, measured before modelled.

    It is never a config that a check or the interpreter found wrong. Returns None where no config works.
    """
    return winners(folded, [task])[task.key]


def winners(folded: Folded, tasks: Iterable[Searched]) -> dict[StudyKey, Winner | None]:
    """Return the winner of each study. Determining one reads all of its trials; whoever exports does it once."""
    votes = Votes.of(folded)
    return {task.key: _winner(folded, task, votes) for task in tasks}


def _winner(folded: Folded, task: Searched, votes: Votes) -> Winner | None:
    key = task.key
    again = {r.config: r for r in folded.remeasures.get(key, ()) if r.mode == task.mode and r.measured}
    failed = {config for config, r in again.items() if r.time_us is None}
    right = _right(folded, key)
    good = [r for r in leaders(r for r in right if r.completed) if r.config not in failed]
    entries = {s.config: s for s in race(folded.of(key))}
    # a race's time may be among the lines that a damaged journal lost
    tied = [r for r in good if r.config in again and r.config in entries and entries[r.config].tied]
    if tied:
        best = most_robust(tied, again, votes.of_others(key, entries.values()))
        return _of_race(best, tied, again[best.config], entries, task)
    return _of_search(good, task) if good else None


def _of_race(
    best: TrialRecord,
    tied: Sequence[TrialRecord],
    timed: TrialRecord,
    entries: Mapping[Config, RaceEntry],
    task: Searched,
) -> Winner:
    times = timed.measurement
    assert times is not None
    mine, default = entries[best.config], entries.get(task.default)
    default_us = None
    if default is not None and default.ratio is not None and mine.ratio is not None:
        default_us = times.median_us * default.ratio / mine.ratio
    ties = tuple(sorted(r.config.key for r in tied if r is not best))
    return Winner(best, times.median_us, times.ci95_us, len(times.samples_us), default_us, ties)


def _of_search(good: Sequence[TrialRecord], task: Searched) -> Winner:
    best = good[0]
    times = best.measurement
    assert times is not None
    default = next((r for r in good if r.config == task.default), None)
    ties = tuple(sorted(r.config.key for r in good[1:] if best.measured and r.measured and _overlap(r, best)))
    default_us = default.time_us if default is not None else None
    return Winner(best, times.median_us, times.ci95_us, len(times.samples_us), default_us, ties)


def _overlap(one: TrialRecord, other: TrialRecord) -> bool:
    mine, theirs = one.measurement, other.measurement
    assert mine is not None and theirs is not None
    return abs(mine.median_us - theirs.median_us) <= mine.ci95_us + theirs.ci95_us


def build_tables(
    folded: Folded,
    tasks: Iterable[TuningTask],
    won: Winners,
    binaries: Callable[[StudyKey], Sequence[Binary]] = lambda _: (),
    portable: Sequence[BuiltRow] = (),
) -> list[Table]:
    """Return one table for each version of a kernel.

    ``won``: each study's winner. ``binaries``: its machine code, in the order to try it. ``portable``: the defaults
    that take any size.
    """
    by_version: dict[tuple[str, str], list[TuningTask]] = {}
    for task in tasks:
        by_version.setdefault((task.key.kernel, task.kernel.semantic_hash), []).append(task)
    right = right_trials(folded)
    return [
        _table(folded, right, group, won, binaries, defaults_of(portable, ref))
        for (ref, _), group in by_version.items()
    ]


def with_code_of(table: Table, earlier: Table) -> Table:
    """Return ``table`` with the machine code that the same rows of ``earlier`` name, and with its defaults that take
    any size: both are built once, at the end of a sweep, and an export builds nothing."""
    if earlier.kernel.semantic_hash != table.kernel.semantic_hash:
        return table
    rows = {(e.device, e.problem.key, e.config, e.toolchain): e.launches for e in earlier.entries}
    members = {(f.arch, f.problem, f.config): f.launches for f in earlier.portfolio}
    entries = [
        replace(e, launches=e.launches or rows.get((e.device, e.problem.key, e.config, e.toolchain), ()))
        for e in table.entries
    ]
    portfolio = [
        replace(f, launches=f.launches or members.get((f.arch, f.problem, f.config), ())) for f in table.portfolio
    ]
    defaults = {**earlier.defaults, **table.defaults}
    devices = {name: earlier.devices[name] for name in defaults if name in earlier.devices}
    return replace(
        table,
        entries=tuple(entries),
        portfolio=tuple(portfolio),
        defaults=defaults,
        devices={**devices, **table.devices},
    )


def _table(
    folded: Folded,
    right: dict[StudyKey, list[TrialRecord]],
    tasks: list[TuningTask],
    won: Winners,
    binaries: Callable[[StudyKey], Sequence[Binary]],
    defaults: dict[str, tuple[Fallback, ...]],
) -> Table:
    entries: list[Entry] = []
    rows = []
    stopped = journals.stopped(folded.events)
    for task in tasks:
        best = won[task.key]
        if best is None:
            rows.append(_without_a_winner(folded, task, stopped.get(task.key.id, "")))
        else:
            entries.append(_entry(task, best, binaries(task.key)))
    entries = _one_a_call(entries, tasks[0].key.kernel)
    portfolios = choose(tasks, right)
    rows += [row for portfolio in portfolios for row in _members(portfolio, tasks, entries)]
    first = tasks[0]
    fingerprints = "".join(sorted({s.space.fingerprint for s in tasks}))
    return Table.of(
        KernelId.of(
            first.key.kernel, first.kernel.semantic_hash, hashlib.sha256(fingerprints.encode()).hexdigest()[:16]
        ),
        entries,
        devices={name: DeviceInfo.of(target(name)) for name in {*defaults, *(e.device for e in entries)}},
        portfolio=tuple(rows),
        key_schema=_key_schema(entries, portfolios),
        unseen=unseen(portfolios),
        default=Fallback(first.default, reason=f"the zero-search default of {first.key.title}"),
        defaults=defaults,
        validators=_validators(r for s in tasks for r in folded.trials.get(s.key, ())),
        created_by=CreatedBy(tileflow.__version__, folded.header["sweep_id"]),
    )


def _one_a_call(entries: Iterable[Entry], kernel: str) -> list[Entry]:
    """Return the rows without those that a lookup cannot tell from a faster one: two problems may make one call, with
    other values in its tensors, or with a keyword of ``inputs`` that changes nothing."""
    kept: dict[tuple[str, str, Config], Entry] = {}
    for entry in entries:
        known = kept.setdefault((entry.device, entry.problem.key, entry.config), entry)
        if known is entry:
            continue
        log.warning(
            "two problems of %s make the call %s, and one config is the best of both on %s: its row has the lower time",
            kernel,
            entry.problem.key,
            entry.device,
        )
        kept[entry.device, entry.problem.key, entry.config] = min(known, entry, key=lambda e: e.order)
    return list(kept.values())


def right_trials(folded: Folded) -> dict[StudyKey, list[TrialRecord]]:
    """Return every study's trials, without those that the interpreter found wrong under any of their configs."""
    found: dict[StudyKey, list[TrialRecord]] = {}
    for key in folded.trials:
        found[key] = right = _right(folded, key)
        others = [(e["trial_id"], Config.of(e["config"])) for e in journals.events(folded.of(key), "known")]
        if others:
            by_id = {r.trial_id: r for r in right}
            found[key] = right + [replace(by_id[id_], config=config) for id_, config in others if id_ in by_id]
    return found


def _right(folded: Folded, key: StudyKey) -> list[TrialRecord]:
    """A study's trials but for those whose configs gave wrong results in the interpreter."""
    bad = (Status.INCORRECT, Status.NONFINITE)
    made = journals.events(folded.of(key), "interpreted")
    wrong = {Config.of(e["config"]) for e in made if e["status"] in bad}
    return [r for r in folded.trials.get(key, ()) if r.config not in wrong]


def _members(portfolio: Portfolio, tasks: Sequence[TuningTask], entries: Sequence[Entry]) -> Iterator[Fallback]:
    """Yield the rows of a portfolio, with the machine code of those that won their own problem."""
    device = target(portfolio.device_class)
    for member in portfolio.members:
        home = next(s for s in tasks if s.problem == member.home and s.key.device_class == device.name)
        config = fitted(home, member.config)
        assert config is not None  # it was timed there
        won = (e for e in entries if (e.device, e.problem, e.config) == (device.name, home.problem, config))
        launches = next((e.launches for e in won), ())
        yield Fallback(
            config,
            device.vendor,
            device.arch,
            home.problem,
            launches,
            requirements_of(home.space, config, home.problem),
            portfolio.reason,
        )


def _key_schema(entries: Sequence[Entry], portfolios: Sequence[Portfolio]) -> tuple[KeyField, ...]:
    """Return the key's fields. Rows serve near shapes, unless portfolios serve all of them better: then only their
    own sizes."""
    fields = key_schema_of(entries)
    serving = [served(portfolios, entry.problem, entry.device) for entry in entries]
    if not entries or not all(p is not None and p.beats_nearest for p in serving):
        return fields
    return tuple(KeyField(field.name, "exact") for field in fields)


def _entry(task: TuningTask, won: Winner, code: Sequence[Binary]) -> Entry:
    record = won.record
    return Entry(
        device=task.key.device_class,
        problem=task.problem,
        config=record.config,
        origin="measured" if record.measured else "modelled",
        best_us=won.time_us,
        default_us=won.default_us,
        ci95=won.ci95_us if record.measured else None,
        n=won.samples if record.measured else 0,
        tie_set=won.ties,
        launches=launches_of(code),
        requirements=requirements_of(task.space, record.config, task.problem),
        measured_on=task.key.device_class if record.measured else "",
        toolchain=toolchain_text(record.result.build.compiled_by if record.result.build is not None else ()),
        trial_id=record.trial_id,
        checked_against=checked_against(record.result.outcome),
    )


def _without_a_winner(folded: Folded, task: TuningTask, stopped: str) -> Fallback:
    """Return the default row of a problem for which no config works, with the reasons. ``stopped``: why its study
    was."""
    device = target(task.key.device_class)
    reason = f"no config worked for {task.key.title}: {how_it_ended(folded, task.key)}"
    if stopped:
        reason += f"; its search was stopped: {stopped.splitlines()[0]}"
    return Fallback(
        task.default,
        device.vendor,
        device.arch,
        task.problem,
        requirements=requirements_of(task.space, task.default, task.problem),
        reason=reason,
    )


def _validators(records: Iterable[TrialRecord]) -> tuple[Validator, ...]:
    builds = [record.result.build for record in records]
    versions = {version for build in builds if build is not None for version in build.compiled_by}
    return tuple(Validator(name, value, "warn") for name, value in sorted(versions))
