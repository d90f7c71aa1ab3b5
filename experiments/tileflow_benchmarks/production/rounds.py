"""Times of calls that are compared: batches of each contender in turn, in a new order each round."""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

Batch = Callable[[int], None]  # makes that many calls


@dataclass(frozen=True, slots=True)
class Interval:
    """A median, and the order statistics that hold it with 95 % confidence."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f} to {self.high:.2f})"


def interval(values: Sequence[float]) -> Interval:
    """Return the median of at least one value, and its interval by order statistics.

    The binomial is approximated by a normal distribution; of few values the extremes are taken.
    """
    ordered = sorted(values)
    reach = 0.98 * sqrt(len(ordered))  # 1.96 standard deviations of a binomial with p = 0.5
    low, high = int(len(ordered) / 2 - reach), int(len(ordered) / 2 + reach)
    return Interval(statistics.median(ordered), ordered[max(low, 0)], ordered[min(high, len(ordered) - 1)])


def interleaved(
    contenders: Mapping[str, Batch], synchronize: Callable[[], None], *, calls: int, rounds: int, seed: int = 0
) -> dict[str, list[float]]:
    """Return the microseconds per call, one figure for each contender and round.

    Garbage is collected between the rounds only.
    """
    order, rng = list(contenders), random.Random(seed)
    found: dict[str, list[float]] = {name: [] for name in order}
    for batch in contenders.values():
        batch(calls)
    for _ in range(rounds):
        rng.shuffle(order)
        gc.collect()
        gc.disable()
        try:
            for name in order:
                synchronize()
                started = time.perf_counter_ns()
                contenders[name](calls)
                found[name].append((time.perf_counter_ns() - started) / calls / 1e3)
        finally:
            gc.enable()
    synchronize()
    return found


def above(times: Sequence[float], floor: Sequence[float]) -> Interval:
    """Return the interval of the difference between two contenders of the same rounds."""
    return interval([mine - other for mine, other in zip(times, floor, strict=True)])


def ratio(times: Sequence[float], other: Sequence[float]) -> Interval:
    """Return the interval of the ratio of two contenders' times in the same rounds."""
    return interval([mine / theirs for mine, theirs in zip(times, other, strict=True)])
