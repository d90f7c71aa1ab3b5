"""The scores of a search comparison: the re-timed time of each search's incumbent at each moment."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..suite.cells import Cell
from .retime import Retimed, RivalConfig
from .searches import RIVALS, Rival, SearchResult
from .series import incumbents

WITHIN = 1.02


@dataclass(frozen=True, slots=True)
class ScoredSearch:
    """One search, scored.

    ``curve``: (seconds, re-timed us) of each incumbent that was timed again, the last being its pick. ``near_s``: until
    an incumbent was within 2 % of the pooled best, infinite where none was; ``near_wall_s``: the same since its process
    was started. ``first_s``: until it knew any time. ``picked_us``: of the pick, re-timed; of its last incumbent where
    the search was ended before it picked. ``own_best_us``: the best of its own incumbents.
    """

    result: SearchResult
    curve: tuple[tuple[float, float], ...]
    first_s: float
    near_s: float
    near_wall_s: float
    picked_us: float
    own_best_us: float


@dataclass(frozen=True, slots=True)
class CellComparison:
    """One cell. ``default_us``: our default config's time, NaN where it failed. ``failed``: configs without a time."""

    cell: Cell
    best_us: float
    default_us: float
    runs: tuple[ScoredSearch, ...]
    failed: tuple[Retimed, ...]

    def of(self, rival: Rival) -> list[ScoredSearch]:
        """Return the rival's searches."""
        return [run for run in self.runs if run.result.search.rival == rival]

    def median(self, rival: Rival, what: str) -> float:
        """Return the median of a field over the rival's searches, infinite values included; NaN without any."""
        values = [float(getattr(run, what)) for run in self.of(rival)]
        return statistics.median(values) if values else math.nan

    @property
    def final_ratio(self) -> float:
        """Helion's picked time over ours, medians over the seeds: above 1 where ours is faster."""
        return self.median("helion", "picked_us") / self.median("tileflow", "picked_us")

    @property
    def selection_own(self) -> float:
        """Our pick's time over the best of our own incumbents of all seeds, for the median search."""
        best = min((run.own_best_us for run in self.of("tileflow")), default=math.nan)
        return self.median("tileflow", "picked_us") / best

    @property
    def selection_pooled(self) -> float:
        """Our pick's time over the best of all incumbents, for the median search."""
        return self.median("tileflow", "picked_us") / self.best_us


def score_cell(cell: Cell, results: Sequence[SearchResult], timed: Sequence[Retimed]) -> CellComparison:
    """Score the ``results`` of a cell's searches by the batch ``timed``. Without any time all times are infinite."""
    good = {t.candidate: t.time_us for t in timed if t.time_us is not None}
    best_us = min(good.values(), default=math.inf)
    runs = tuple(_score(result, good, best_us) for result in results)
    failed = tuple(t for t in timed if t.time_us is None)
    return CellComparison(cell, best_us, good.get(RivalConfig("tileflow", ""), math.nan), runs, failed)


def _score(result: SearchResult, good: Mapping[RivalConfig, float], best_us: float) -> ScoredSearch:
    def us(config: str) -> float | None:
        return good.get(RivalConfig(result.search.rival, config))

    changes = incumbents(result.series)
    if result.picked is not None and result.done_s is not None:
        changes = [*[c for c in changes if c[0] < result.done_s], (result.done_s, result.picked)]
    curve = tuple((seconds, time) for seconds, config in changes if (time := us(config)) is not None)
    near_s = next((seconds for seconds, time in curve if time <= WITHIN * best_us), math.inf)
    final = us(changes[-1][1]) if changes else None
    return ScoredSearch(
        result,
        curve,
        first_s=min((t.seconds for t in result.series if t.time_us is not None), default=math.inf),
        near_s=near_s,
        near_wall_s=near_s + (result.startup_s or 0.0),
        picked_us=math.inf if final is None else final,
        own_best_us=min((time for _, time in curve), default=math.inf),
    )


def incumbent_us(curve: Sequence[tuple[float, float]], seconds: float) -> float:
    """Return the re-timed time of a search's incumbent at ``seconds``; infinite before it had one."""
    known = [time for at, time in curve if at <= seconds]
    return known[-1] if known else math.inf


def near(comparisons: Sequence[CellComparison], rival: Rival) -> tuple[int, int]:
    """Return (searches within 2 % of the best, all searches) of a rival."""
    runs = [run for comparison in comparisons for run in comparison.of(rival)]
    return sum(math.isfinite(run.near_s) for run in runs), len(runs)


def rivals_of(comparison: CellComparison) -> list[Rival]:
    """Return the rivals that have a search of the cell."""
    return [rival for rival in RIVALS if comparison.of(rival)]
