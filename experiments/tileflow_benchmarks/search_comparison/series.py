"""A search as a series of times with the moments at which it learned them. Both rivals' logs are read into it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHECKPOINTS_S = (2, 3.5, 5, 7.5, 10, 15, 20, 30, 45, 60, 90, 120)


@dataclass(frozen=True, slots=True)
class Timed:
    """One config's time in a search.

    ``seconds``: since the clock started. ``time_us``: by the search's own measurement, None where the config failed or
    was rejected. ``config``: canonical JSON.
    """

    seconds: float
    config: str
    time_us: float | None


def canonical(config: Mapping[str, Any]) -> str:
    """Return one text for equal configs."""
    return json.dumps(config, sort_keys=True, separators=(",", ":"))


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the whole lines of a file of JSON lines, none without a file: its writer may have been killed."""
    if not path.exists():
        return []
    *whole, _torn = path.read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in whole]


def of_notes(notes: Iterable[Mapping[str, Any]], start: float) -> list[Timed]:
    """Return the series that :class:`.notes.Notes` wrote. ``start``: seconds since 1970."""
    return [
        Timed(note["at"] - start, canonical(note["config"]), note["time_us"]) for note in notes if "time_us" in note
    ]


def of_trace(events: Iterable[Mapping[str, Any]], start: float) -> list[Timed]:
    """Return the series of Helion's detailed log (``HELION_AUTOTUNE_LOG_DETAILS``, schema version 1).

    It has first timings, and those that Helion repeats to be sure. ``start``: seconds since 1970.
    """
    return [
        Timed(
            event["timestamp_s"] - start,
            canonical(event["config"]),
            event["perf_ms"] * 1e3 if event["perf_ms"] is not None else None,
        )
        for event in events
        if event["event"] in ("trial", "rebenchmark")
    ]


def incumbents(series: Sequence[Timed]) -> list[tuple[float, str]]:
    """Return (seconds, config) of every moment at which another config became the best known.

    The last of a config's timings counts: both searches measure their leaders again, perhaps with a worse time.
    """
    known: dict[str, float] = {}
    changes: list[tuple[float, str]] = []
    for timed in sorted(series, key=lambda t: t.seconds):
        if timed.time_us is None:
            continue
        known[timed.config] = timed.time_us
        best = min(known, key=known.__getitem__)
        if not changes or changes[-1][1] != best:
            changes.append((timed.seconds, best))
    return changes


def at_checkpoints(series: Sequence[Timed], checkpoints: Sequence[float] = CHECKPOINTS_S) -> list[str]:
    """Return the distinct incumbents at the checkpoints and at the end, the last one first."""
    changes = incumbents(series)
    wanted: dict[str, None] = {}
    for at in (float("inf"), *sorted(checkpoints, reverse=True)):
        so_far = [config for seconds, config in changes if seconds <= at]
        if so_far:
            wanted.setdefault(so_far[-1])
    return list(wanted)
