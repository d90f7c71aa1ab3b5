"""One search against a recording, in virtual time: what it would have taken on the recorded machine.

Compiles run in parallel on the recording's cores, measurements one after the other on one GPU, both as long as they
took when they were recorded. The strategy's own computing happens between them on the driver's clock, and counts as the
processor time that it takes here, so that other load on this machine does not count.
"""

from __future__ import annotations

import heapq
import itertools
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from tileflow_search.protocol import Result, Strategy

from tileflow.config import Config, ConfigSpace
from tileflow.measure.timing import Effort
from tileflow.measure.types import Status

from .recording import Recording, Row
from .space import RecordedSpace

AHEAD = 2  # requests in flight per worker, as in the Ray evaluator
P = ParamSpec("P")
T = TypeVar("T")

MakeStrategy = Callable[[ConfigSpace, int], Strategy]


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result of one search.

    ``curve``: (seconds, measurements so far, best time in us) at each new best. ``measured``, ``built``: how many.
    ``pruned``: built and dropped. ``snapped``: asked for outside the recording. ``thinking_s``: of the strategy's
    computing. ``finished``: why it ended by itself, empty where the budget or the recording did.
    """

    seed: int
    curve: tuple[tuple[float, int, float], ...]
    seconds: float
    built: int
    measured: int
    pruned: int
    snapped: int
    thinking_s: float
    finished: str

    def best_at(self, seconds: float) -> float:
        """Return the best time in us at ``seconds``, infinite before the first measurement."""
        return next((best for at, _, best in reversed(self.curve) if at <= seconds), math.inf)

    def best_after(self, trials: int) -> float:
        """Return the best time in us after that many measurements, infinite before the first."""
        return next((best for _, count, best in reversed(self.curve) if count <= trials), math.inf)

    def first_below(self, limit_us: float) -> tuple[float, int] | None:
        """Return the seconds and measurements until a time of at most ``limit_us``; None where it was not reached."""
        return next(((at, count) for at, count, best in self.curve if best <= limit_us), None)


def simulate(
    recording: Recording,
    make: MakeStrategy,
    seed: int,
    *,
    seconds: float,
    seeded: bool = True,
    clock: Callable[[], float] = time.thread_time,
) -> Replayed:
    """Search for ``seconds`` of virtual time. ``seeded``: the recorded default goes first."""
    space = RecordedSpace(recording)
    strategy = make(space, seed)
    if seeded:
        strategy.seed([recording.header.default])
    return _Simulation(recording, space, strategy, clock).run(seed, seconds)


class _Simulation:
    def __init__(
        self, recording: Recording, space: RecordedSpace, strategy: Strategy, clock: Callable[[], float]
    ) -> None:
        self._header, self._space, self._strategy, self._clock = recording.header, space, strategy, clock
        self._rows = {row.config: row for row in recording.rows}
        self._compile_s = warm_compile_s(recording)
        self._now = self._thinking = 0.0
        self._cores = [0.0] * recording.header.cores  # when each is free again
        self._events: list[tuple[float, int, Callable[[Row], None], Row]] = []
        self._numbers = itertools.count()
        self._flying = 0
        self._waiting: list[Row] = []
        self._gpu_busy = False
        self._known: dict[int, Row] = {}
        self._best = math.inf
        self._curve: list[tuple[float, int, float]] = []
        self._built = self._measured = self._pruned = 0

    def run(self, seed: int, seconds: float) -> Replayed:
        while True:
            if self._now < seconds:
                self._ask()
                self._measure()
            if not self._events or self._events[0][0] > seconds:
                break
            at, _, happen, row = heapq.heappop(self._events)
            self._now = max(self._now, at)
            happen(row)
        return Replayed(
            seed,
            tuple(self._curve),
            min(self._now, seconds),
            self._built,
            self._measured,
            self._pruned,
            self._space.snapped,
            self._thinking,
            self._strategy.finished,
        )

    def _ask(self) -> None:
        while self._flying < AHEAD * (len(self._cores) + 1) and not self._strategy.finished:
            asked = self._think(self._strategy.ask, 1)
            if not asked:
                return
            row = self._rows[asked[0]]
            done = max(heapq.heappop(self._cores), self._now) + self._compile_s[row.config]
            heapq.heappush(self._cores, done)
            self._flying += 1
            self._at(done, self._compiled, row)

    def _compiled(self, row: Row) -> None:
        self._built += 1
        if row.facts is None:
            self._tell(row, row)
        elif row.trial in self._known:
            self._tell(row, self._known[row.trial])
        else:
            self._think(self._strategy.built, row.config, row.facts)
            self._waiting.append(row)

    def _measure(self) -> None:
        """Give a free GPU the config that the strategy ranks first."""
        while self._waiting and not self._gpu_busy:
            ranks = self._think(self._strategy.rank, [row.config for row in self._waiting])
            dropped = [row for row, rank in zip(self._waiting, ranks, strict=True) if rank == math.inf]
            kept = [(rank, row) for row, rank in zip(self._waiting, ranks, strict=True) if rank < math.inf]
            self._waiting = [row for _, row in kept]
            for row in dropped:
                self._pruned += 1
                self._flying -= 1
                self._think(self._strategy.tell, row.config, Result(violated=True))
            if not kept:
                return
            _, row = min(kept, key=lambda pair: pair[0])
            self._waiting.remove(row)
            if row.trial in self._known:
                self._tell(row, self._known[row.trial])
                continue
            self._gpu_busy = True
            once = 0.0 if self._measured else self._header.prepare_s
            self._at(self._now + once + stay_s(row, self._best), self._done, row)

    def _done(self, row: Row) -> None:
        self._gpu_busy = False
        self._measured += 1
        self._known[row.trial] = row
        if row.status is Status.OK and row.median_us < self._best:
            self._best = row.median_us
            self._curve.append((self._now, self._measured, self._best))
        self._tell(row, row)

    def _tell(self, asked: Row, known: Row) -> None:
        self._flying -= 1
        result = Result(known.median_us) if known.status is Status.OK else Result(violated=True)
        self._think(self._strategy.tell, asked.config, result)

    def _at(self, when: float, happen: Callable[[Row], None], row: Row) -> None:
        heapq.heappush(self._events, (when, next(self._numbers), happen, row))

    def _think(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the strategy's function on the driver's clock; compilers and the GPU go on meanwhile."""
        started = self._clock()
        answer = function(*args, **kwargs)
        spent = self._clock() - started
        self._thinking += spent
        self._now += spent
        return answer


def warm_compile_s(recording: Recording) -> dict[Config, float]:
    """Return the seconds of each config's compile in a process that has started.

    The first compiles of a recording also imported the compiler, once per process, which says nothing about their
    configs: those that took longer than any later one count as the median.
    """
    rows, first = recording.rows, 2 * AHEAD * recording.header.cores
    later = [row.compile_s for row in rows[first:]]
    if not later:
        return {row.config: row.compile_s for row in rows}
    usual, longest = statistics.median(later), max(later)
    return {row.config: usual if row.compile_s > longest else row.compile_s for row in rows}


def stay_s(row: Row, best_us: float, effort: Effort | None = None) -> float:
    """Return the seconds on the GPU beside a best time of ``best_us``; a clearly slower config is timed a few times
    only.

    A config that was clearly slower when it was recorded was timed so few times then. Where it would not be now, its
    stay would be a little longer than was recorded, which is ignored.
    """
    effort = effort or Effort()
    hopeless = row.status is Status.OK and row.median_us > effort.hopeless * best_us
    spared = max(row.samples - effort.first_samples, 0) if hopeless else 0
    return max(row.measure_s - spared * row.median_us * 1e-6, 0.0)
