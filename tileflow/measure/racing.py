"""Which of a few configs is the fastest? Paired rounds, intervals of ratios, elimination of what is surely slower.

In each round every candidate that is left is timed once, in a new order, back to back: what drifts slowly (clocks,
heat, power) hits all of a round alike and cancels in the ratio of two times of one round. After some rounds the
candidates that are surely slower than the leader leave, as in a race of Maron and Moore, 1997. Pure: no torch, no GPU.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .timing import median_interval, percentile
from .types import Outcome, RankedResult

Play = Callable[[Sequence[int]], Sequence[float]]  # the candidates of one round in order; a time in us of each


@dataclass(frozen=True, slots=True)
class Rules:
    """``budget_us``: of the timed calls, after which no round begins that is not among the first ``least_rounds``.

    ``level``: a candidate is left in while 0 lies within that many standard deviations of its median log-ratio; more
    than the customary 2, because it is looked at many times. ``worthwhile``: ratios to the leader within this of 1 are
    ties, however sure, and not worth another round. ``every``: rounds between two looks.
    """

    least_rounds: int = 12
    most_rounds: int = 200
    every: int = 4
    budget_us: float = 1_000_000.0
    level: float = 2.6
    worthwhile: float = 0.005


@dataclass(frozen=True, slots=True)
class Ranking:
    """``leader``: the candidate with the lowest median. For each candidate: ``times_us`` of the rounds that it played,
    its ``ratio`` to the leader (median of the rounds that both played), the ``low`` and ``high`` end of that ratio's
    interval, and whether it is ``tied``: never eliminated, and its ratio not more than worthwhile above 1."""

    leader: int
    times_us: tuple[tuple[float, ...], ...]
    ratio: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    tied: tuple[bool, ...]


def race(play: Play, candidates: int, rules: Rules, rng: random.Random) -> Ranking:
    """Play until one candidate is surely the fastest, or all that are left are surely within ``rules.worthwhile`` of
    it, or the budget or the rounds are used up. ``candidates``: at least one."""
    state = _State(candidates)
    spent = 0.0
    for played in range(1, rules.most_rounds + 1):
        order = rng.sample(state.left, len(state.left))
        times = play(order)
        spent += sum(times)
        for candidate, time_us in zip(order, times, strict=True):
            state.logs[candidate].append(math.log(time_us))
        if played < rules.least_rounds or played % rules.every:
            continue
        if state.eliminate(rules) or spent >= rules.budget_us:
            break
    return state.ranking(rules)


def by_medians(outcomes: Sequence[Outcome], worthwhile: float = Rules().worthwhile) -> tuple[RankedResult, ...]:
    """The ranked results of candidates whose times are known, where no round can be played: a replay's."""
    best = min((outcome.measurement.median_us for outcome in outcomes if outcome.measurement), default=0.0)
    return tuple(_beside(outcome, best, worthwhile) for outcome in outcomes)


def _beside(outcome: Outcome, best_us: float, worthwhile: float) -> RankedResult:
    if outcome.measurement is None:
        return RankedResult(outcome)
    ratio = outcome.measurement.median_us / best_us
    return RankedResult(outcome, ratio, ratio, ratio, ratio <= 1 + worthwhile)


@dataclass(slots=True)
class _State:
    """``logs``: logarithms of the times of each candidate. Who is left has played every round."""

    candidates: int
    left: list[int] = field(init=False)
    logs: list[list[float]] = field(init=False)

    def __post_init__(self) -> None:
        self.left = list(range(self.candidates))
        self.logs = [[] for _ in self.left]

    def leader(self) -> int:
        """The index of the candidate with the lowest median time, each round's mean subtracted from the logarithms."""
        means = [sum(column) / len(self.left) for column in zip(*(self.logs[i] for i in self.left), strict=True)]
        return min(
            self.left, key=lambda i: _median([log - mean for log, mean in zip(self.logs[i], means, strict=True)])
        )

    def against(self, candidate: int, leader: int, level: float) -> tuple[float, float, float]:
        """(median, low, high) of the log-ratio of ``candidate``'s times to the leader's of the same rounds."""
        pairs = zip(self.logs[candidate], self.logs[leader], strict=False)  # who was eliminated played fewer
        ordered = sorted(mine - best for mine, best in pairs)
        return percentile(ordered, 0.5), *median_interval(ordered, level)

    def eliminate(self, rules: Rules) -> bool:
        """Take out those surely slower than the leader, unless by less than is worthwhile; whether nothing is left to
        decide."""
        leader, worthwhile = self.leader(), math.log1p(rules.worthwhile)
        found = {i: self.against(i, leader, rules.level) for i in self.left}
        self.left = [i for i in self.left if i == leader or found[i][1] <= 0 or found[i][0] <= worthwhile]
        return all(found[i][2] <= worthwhile for i in self.left)

    def ranking(self, rules: Rules) -> Ranking:
        leader = self.leader()
        found = [self.against(i, leader, rules.level) for i in range(self.candidates)]
        return Ranking(
            leader,
            tuple(tuple(math.exp(log) for log in logs) for logs in self.logs),
            tuple(math.exp(middle) for middle, _, _ in found),
            tuple(math.exp(low) for _, low, _ in found),
            tuple(math.exp(high) for _, _, high in found),
            tuple(i in self.left and found[i][0] <= math.log1p(rules.worthwhile) for i in range(self.candidates)),
        )


def _median(values: Sequence[float]) -> float:
    return percentile(sorted(values), 0.5)
