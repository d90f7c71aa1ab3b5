"""The cells that became slower between two runs: ``python -m tileflow_benchmarks.suite.regression OLD NEW``.

A cell's time is divided by that of a yardstick in the same run (torch's eager mode), since two runs may be on two hosts
or at two clocks. A cell is slower where the quotient grew by more than both intervals and the tolerance.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from .results import EAGER, OURS, CellResult, SuiteRun, run_from

TOLERANCE = 0.02  # usual difference of a cell between two runs (docs/measurements/benchmarks.md)


class Verdict(Enum):
    """How a cell changed. ``GONE`` and ``FAILED``: it had a time before and has none now."""

    SLOWER = "slower"
    FAILED = "failed"
    GONE = "gone"
    FASTER = "faster"
    EQUAL = "equal"
    NEW = "new"


WORSE = (Verdict.SLOWER, Verdict.FAILED, Verdict.GONE)


@dataclass(frozen=True, slots=True)
class Change:
    """A cell in both runs. ``ratio``: how many times as fast it is now. ``interval``: half its width, in logarithms."""

    title: str
    verdict: Verdict
    ratio: float | None = None
    interval: float | None = None
    why: str = ""

    @property
    def line(self) -> str:
        """The change as a line of text, with the ratio where there is one and the reason where not."""
        if self.ratio is None or self.interval is None:
            return f"{self.verdict.value:7} {self.title}{f': {self.why}' if self.why else ''}"
        return f"{self.verdict.value:7} {self.title}: {self.ratio:.3f}x ± {self.interval:.1%}"


def compare(old: SuiteRun, new: SuiteRun, beside: str = EAGER, tolerance: float = TOLERANCE) -> list[Change]:
    """Return every cell of either run, the worst first. ``beside``: the yardstick; empty: compare microseconds."""
    before, after = ({result.cell.title: result for result in run.results} for run in (old, new))
    changes = [_change(title, before.get(title), after.get(title), beside, tolerance) for title in before | after]
    return sorted(changes, key=lambda change: ([*Verdict].index(change.verdict), change.ratio or 0.0, change.title))


def _change(title: str, old: CellResult | None, new: CellResult | None, beside: str, tolerance: float) -> Change:
    one, other = (None if result is None else _measured(result, beside) for result in (old, new))
    if one is None:
        return Change(title, Verdict.NEW if other is not None else Verdict.EQUAL, why="" if other else "no time before")
    if new is None:
        return Change(title, Verdict.GONE, why="it was not measured")
    if other is None:
        return Change(title, Verdict.FAILED, why=_reason(new, beside))
    ratio, interval = one[0] / other[0], one[1] + other[1]
    verdict = Verdict.EQUAL
    if abs(math.log(ratio)) > interval + tolerance:
        verdict = Verdict.FASTER if ratio > 1 else Verdict.SLOWER
    return Change(title, verdict, ratio, interval)


def _measured(result: CellResult, beside: str) -> tuple[float, float] | None:
    """Return the time over the yardstick's, and the relative half-width of its interval; None where one has no time."""
    parts = [_timed(result, name) for name in ((OURS, beside) if beside else (OURS,))]
    if any(part is None for part in parts):
        return None
    known = [part for part in parts if part is not None]
    value = known[0][0] / known[1][0] if beside else known[0][0]
    return value, math.hypot(*(interval for _, interval in known))


def _timed(result: CellResult, name: str) -> tuple[float, float] | None:
    median_us = result.us(name)
    if not median_us:
        return None
    return median_us, (result.timings[name].ci95_us or 0.0) / median_us


def _reason(result: CellResult, beside: str) -> str:
    errors = (f"{name}: {t.error}" for name in (OURS, beside) if (t := result.timings.get(name)) and t.error)
    return next(errors, "no time")


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare two runs and print the changes. Exit code 1 where a cell is worse, 2 where nothing could be compared."""
    parser = argparse.ArgumentParser(prog="scripts/regression", description="What became slower between two runs.")
    parser.add_argument("old", type=Path, help="bench.json of before")
    parser.add_argument("new", type=Path, help="bench.json of now")
    parser.add_argument("--beside", default=EAGER, help="the yardstick in each run (eager); '': none")
    parser.add_argument("--tolerance", type=float, default=TOLERANCE, help="beyond the intervals (0.02)")
    parser.add_argument("--equal", action="store_true", help="print the cells that did not change, too")
    options = parser.parse_args(arguments)
    old, new = (run_from(json.loads(path.read_text())) for path in (options.old, options.new))
    changes = compare(old, new, beside=options.beside, tolerance=options.tolerance)
    for change in changes:
        if options.equal or change.verdict is not Verdict.EQUAL:
            print(change.line)
    counts = {verdict: sum(change.verdict is verdict for change in changes) for verdict in Verdict}
    compared = [change for change in changes if change.ratio is not None]
    print(", ".join(f"{count} {verdict.value}" for verdict, count in counts.items() if count) or "no cells")
    if not compared:
        print("scripts/regression: the runs share no cell that both have a time for", file=sys.stderr)
        return 2
    return 1 if any(change.verdict in WORSE for change in changes) else 0


if __name__ == "__main__":
    sys.exit(main())
