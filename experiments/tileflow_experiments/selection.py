"""The end of a study: which configs are raced, and which of those that tie is taken.

A search's times are single measurements, on several GPUs and over minutes in which clocks change; the lowest of
hundreds is also the luckiest. So the configs that could be the best are raced (:mod:`tileflow.measure.racing`), and
this module reads the outcome back from the journal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tileflow.config import Config
from tileflow.measure.types import RankedResult

from .journal import Folded, Line
from .records import StudyKey, TrialRecord
from .study import leaders

CANDIDATES = 12
SLACK = 1.03  # ratio of times between two GPUs of a class, or a cool and a warm one


@dataclass(frozen=True, slots=True)
class RaceEntry:
    """One candidate's result in a race, from the journal. ``ratio``: its time over the leader's; None where it
    failed."""

    config: Config
    ratio: float | None
    low: float | None
    high: float | None
    tied: bool

    def to_json(self) -> Line:
        """Return the candidate's entry of the race's event in the journal."""
        ratios = {} if self.ratio is None else {"ratio": self.ratio, "low": self.low, "high": self.high}
        return {"config": self.config.to_dict(), "tied": self.tied} | ratios

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> RaceEntry:
        """Read :meth:`to_json` back."""
        return RaceEntry(Config.of(data["config"]), data.get("ratio"), data.get("low"), data.get("high"), data["tied"])

    @staticmethod
    def of(config: Config, place: RankedResult) -> RaceEntry:
        """Return the result of ``config``, with ratios rounded to six digits as the journal keeps them."""
        if place.ratio is None or place.low is None or place.high is None:
            return RaceEntry(config, None, None, None, False)
        return RaceEntry(config, round(place.ratio, 6), round(place.low, 6), round(place.high, 6), place.tied)


def finalists(records: Iterable[TrialRecord], default: TrialRecord | None) -> list[TrialRecord]:
    """Return the default and the measured trials whose interval, within :data:`SLACK`, reaches the best one's,
    fastest first."""
    measured = [r for r in leaders(records) if r.measured]
    if not measured:
        return []
    limit = SLACK * _end(measured[0], 1)
    found = [r for r in measured if _end(r, -1) <= limit][:CANDIDATES]
    if default is not None and default.measured and default.time_us is not None and default not in found:
        found.append(default)
    return found


def _end(record: TrialRecord, side: int) -> float:
    assert record.measurement is not None
    return record.measurement.median_us + side * record.measurement.ci95_us


def race(events: Sequence[Line]) -> tuple[RaceEntry, ...]:
    """Return the last race among a study's ``events``; none where there was none."""
    last = next((event for event in reversed(events) if event["event"] == "contest"), None)
    return tuple(RaceEntry.from_json(place) for place in last["places"]) if last is not None else ()


@dataclass(frozen=True, slots=True)
class Votes:
    """How many problems of a kernel on one device class have a config among the ties of their race. It is counted once
    for all studies: each of them asks."""

    counts: Mapping[tuple[str, str], Counter[Config]]

    @staticmethod
    def of(folded: Folded) -> Votes:
        """Count the races of a journal."""
        counts: dict[tuple[str, str], Counter[Config]] = {}
        for key in folded.trials:
            tied = [entry.config for entry in race(folded.of(key)) if entry.tied]
            counts.setdefault((key.kernel, key.device_class), Counter()).update(tied)
        return Votes(counts)

    def of_others(self, key: StudyKey, entries: Iterable[RaceEntry]) -> Counter[Config]:
        """Return the votes of the other problems for the configs that tied in ``entries``, the race of ``key``."""
        every = self.counts[key.kernel, key.device_class]
        return Counter({entry.config: every[entry.config] - 1 for entry in entries if entry.tied})


def most_robust(tied: Sequence[TrialRecord], again: Mapping[Config, TrialRecord], wins: Counter[Config]) -> TrialRecord:
    """Return the config to trust elsewhere, among those that a race cannot tell apart.

    It spills least, ties for best on most of the kernel's other problems, and scattered least in the race. ``again``:
    the race's records.
    """

    def key(record: TrialRecord) -> tuple[int, int, float, str]:
        used = record.result.build.most_used if record.result.build is not None else None
        spills = used.spills if used is not None else 0
        return spills, -wins[record.config], _spread(again[record.config]), record.trial_id

    return min(tied, key=key)


def _spread(record: TrialRecord) -> float:
    assert record.measurement is not None
    return (record.measurement.p80_us - record.measurement.p20_us) / record.measurement.median_us
