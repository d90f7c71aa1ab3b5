"""``python -m tileflow_benchmarks.search_replay replay``: strategies against recordings, over many seeds."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from tileflow_experiments.tuning_task import Prepare, prepare
from tileflow_search.default import DefaultStrategy
from tileflow_search.registry import STRATEGIES, warm_up

from tileflow.errors import SpecError

from .recording import Recording
from .simulate import MakeStrategy, Replayed, simulate
from .staleness import stale

NEAR = 1.02  # of the best time in the recording: the benchmark's "within 2 %"


@dataclass(frozen=True, slots=True)
class StrategyVariant:
    """A strategy under a name. ``seeded``: it begins with the default config."""

    name: str
    make: MakeStrategy
    seeded: bool = True


ABLATIONS = (
    StrategyVariant("default", DefaultStrategy),
    StrategyVariant("without static pruning", partial(DefaultStrategy, prune=False)),
    StrategyVariant("without the surrogate", partial(DefaultStrategy, model=False)),
    StrategyVariant("without either", partial(DefaultStrategy, prune=False, model=False)),
    StrategyVariant("without seeds", DefaultStrategy, seeded=False),
)


@dataclass(frozen=True, slots=True)
class StrategyRuns:
    """One strategy variant on one recording: a search for each seed."""

    variant: str
    runs: tuple[Replayed, ...]

    def seconds_to(self, limit_us: float) -> list[float]:
        """Return the seconds to a time of at most ``limit_us`` for each seed, infinite where it was not reached."""
        return [found[0] if (found := run.first_below(limit_us)) else math.inf for run in self.runs]

    def trials_to(self, limit_us: float) -> list[float]:
        """Return the measurements to a time of at most ``limit_us`` for each seed, infinite where it was not
        reached."""
        return [found[1] if (found := run.first_below(limit_us)) else math.inf for run in self.runs]


@dataclass(frozen=True, slots=True)
class RecordingComparison:
    """One recording. ``stale``: what has changed since it was made, empty where nothing has."""

    recording: Recording
    stale: str
    entries: tuple[StrategyRuns, ...]


def variants(names: Iterable[str]) -> list[StrategyVariant]:
    """Return the variants of these strategies. Raises SpecError for an unknown name."""
    found = []
    for name in names:
        if name not in STRATEGIES:
            raise SpecError(
                "a search strategy must be one that is known", got=repr(name), hint=f"known: {', '.join(STRATEGIES)}"
            )
        found.append(StrategyVariant(name, STRATEGIES[name]))
    return found


def compare(
    recordings: Iterable[Recording],
    who: Sequence[StrategyVariant],
    seeds: Sequence[int],
    seconds: float,
    *,
    prepare: Prepare = prepare,
    clock: Callable[[], float] = time.thread_time,
) -> list[RecordingComparison]:
    """Run every variant on every recording with every seed. ``seconds``: of virtual time, for each search."""
    warm_up("default")  # as a sweep does before its first search begins

    return [
        RecordingComparison(
            recording,
            stale(recording.header, prepare),
            tuple(
                StrategyRuns(
                    c.name,
                    tuple(
                        simulate(recording, c.make, seed, seconds=seconds, seeded=c.seeded, clock=clock)
                        for seed in seeds
                    ),
                )
                for c in who
            ),
        )
        for recording in recordings
    ]


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the lower quartile, median and upper quartile; infinite values sort last."""
    ordered = sorted(values)
    last = len(ordered) - 1

    def rank(fraction: float) -> float:
        below, part = divmod(fraction * last, 1)
        low, high = ordered[int(below)], ordered[min(int(below) + 1, last)]
        return low if part == 0 or low == high else low + part * (high - low)

    return rank(0.25), rank(0.5), rank(0.75)


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean; infinite where any value is."""
    return math.exp(statistics.fmean(math.log(v) for v in values)) if all(map(math.isfinite, values)) else math.inf
