"""Choosing a portfolio: the few configs that serve shapes which nobody tuned.

A member is a config and its *home*, the problem where it was chosen; a lookup takes the member whose home is nearest.
The number of members is chosen by *held-out* regret: each problem in turn is left out, a portfolio is chosen from the
others, and the problem is served by it. Training error would always ask for one member a problem.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field

from ..config import Config
from ..errors import TableError
from ..lazy_dataclass import dataclass
from .problem import Problem

Times = Mapping[Problem, Mapping[Config, float]]
_Member = tuple[int, int]  # a config and its home, by their numbers
_DIGITS = 9  # of a sum of logarithms: sums that differ by less are of one portfolio, added up in another order


@dataclass(frozen=True, slots=True)
class PortfolioEntry:
    """One config of a portfolio and its home, the problem where it was chosen."""

    config: Config
    home: Problem


def choose_portfolio(times: Times, *, within: float = 0.005, limit: int = 8) -> tuple[PortfolioEntry, ...]:
    """The smallest portfolio whose held-out regret is ``within`` of the best that up to ``limit`` members reach.

    So another member must gain more than that on problems that it was not chosen from.

    ``times``: microseconds by problem and config, of one device class and one category of problems. Raises TableError
    where categories differ or a problem has no time at all.
    """
    return choose_with_regrets(times, within=within, limit=limit)[0]


def choose_with_regrets(
    times: Times, *, within: float = 0.005, limit: int = 8
) -> tuple[tuple[PortfolioEntry, ...], tuple[float, ...]]:
    """The portfolio as :func:`choose_portfolio`, and the held-out regrets of 1, 2 ... members that its size is by.

    A regret is that on problems left out in turn, of portfolios chosen from the others: the geometric mean of their
    time over the best, so at least 1. Portfolios are nested.
    """
    if len({problem.categories for problem in times}) > 1:
        raise TableError(
            "a portfolio must be chosen among problems of the same categories",
            got=sorted({problem.categories for problem in times}),
        )
    if untimed := [str(problem) for problem, row in times.items() if not row]:
        raise TableError("every problem of a portfolio must have been timed", got=", ".join(untimed))
    if not times:
        return (), ()
    choice = _Choice(times)
    regrets = choice.held_out(limit)
    size = next(k for k, regret in enumerate(regrets) if regret <= min(regrets) * (1 + within)) + 1
    return choice.without(None, size), regrets


def held_out_nearest(times: Times) -> float:
    """The same where each problem is served by the best config of the nearest other one."""
    best = {problem: min(row, key=row.__getitem__) for problem, row in times.items()}
    logs = []
    for problem in times:
        nearest = min((p for p in times if p != problem), key=lambda home: home.distance(problem), default=problem)
        logs.append(_log_regret(times[problem], best[nearest]))
    return math.exp(sum(logs) / len(logs))


def _log_regret(row: Mapping[Config, float], config: Config) -> float:
    """How much slower than its best a problem runs with the config, as a logarithm: at least 0. A config that was
    never timed there counts as the slowest that was."""
    return math.log(row.get(config, max(row.values())) / min(row.values()))


class _Choice:
    """Greedy choices of portfolios for one set of problems, all of them or all but one.

    A candidate adds to the sum of logarithmic regrets only where its home is nearer than those of the members before
    it. Sums are made over all problems, once for each beginning of a portfolio, and a choice without one problem takes
    that one's part away: most choices begin alike, so that leaving out each of n problems takes about n times n steps.
    Problems, homes and configs are numbers here.
    """

    def __init__(self, times: Times) -> None:
        self._problems = tuple(times)
        self._configs = tuple(dict.fromkeys(config for row in times.values() for config in row))
        number = {config: n for n, config in enumerate(self._configs)}
        rows = times.values()
        self._log = [[_log_regret(row, config) for row in rows] for config in self._configs]  # by config, by problem
        self._overall = [sum(logs) for logs in self._log]
        self._best = [number[min(row, key=row.__getitem__)] for row in rows]
        self._timed = Counter(number[config] for row in rows for config in row)
        self._alone = [{number[c] for c in row if self._timed[number[c]] == 1} for row in rows]
        self._distance = [[home.distance(problem) for problem in self._problems] for home in self._problems]
        self._begun: dict[tuple[_Member, ...], _Begun] = {}

    def held_out(self, limit: int) -> tuple[float, ...]:
        """The regrets of 1, 2 ... up to ``limit`` members on problems left out in turn."""
        many = len(self._problems)
        limit = min(limit, max(many - 1, 1))
        logs = [0.0] * limit
        for problem in range(many):
            members = self._greedy(problem if many > 1 else None, limit)
            for k in range(limit):
                config, _ = min(members[: k + 1], key=lambda m: self._distance[m[1]][problem])
                logs[k] += self._log[config][problem] / many
        return tuple(math.exp(log) for log in logs)

    def without(self, left_out: int | None, size: int) -> tuple[PortfolioEntry, ...]:
        """Up to ``size`` members, chosen by all problems but ``left_out``, each the one that lowers the geometric mean
        of the regrets most."""
        members = self._greedy(left_out, size)
        return tuple(PortfolioEntry(self._configs[config], self._problems[home]) for config, home in members)

    def _greedy(self, left_out: int | None, size: int) -> tuple[_Member, ...]:
        homes = [n for n in range(len(self._problems)) if n != left_out]
        allround = self._allround(left_out)
        chosen: tuple[_Member, ...] = ()
        while len(chosen) < size and homes:
            begun = self._begin(chosen)
            candidates = dict.fromkeys((config, home) for home in homes for config in (self._best[home], allround))
            # among equals the one that is good at home, so that those after it can take the rest
            best = min(candidates, key=lambda m: (self._without(begun, m, left_out), self._log[m[0]][m[1]]))
            chosen = (*chosen, best)
            homes.remove(best[1])
        return chosen

    def _allround(self, left_out: int | None) -> int:
        """The config that is the best for all problems but ``left_out``, of those that were timed on them."""
        if left_out is None:
            return _first_lowest(range(len(self._configs)), lambda config: self._overall[config])
        others = (config for config in range(len(self._configs)) if config not in self._alone[left_out])
        return _first_lowest(others, lambda config: self._overall[config] - self._log[config][left_out])

    def _begin(self, chosen: tuple[_Member, ...]) -> _Begun:
        """What a portfolio that begins with ``chosen`` is for all problems. It is made once."""
        if chosen in self._begun:
            return self._begun[chosen]
        if not chosen:
            many = len(self._problems)
            begun = _Begun([math.inf] * many, [0.0] * many)
        else:
            before, (config, home) = self._begin(chosen[:-1]), chosen[-1]
            begun = _Begun(list(before.distance), list(before.log))
            for problem in self._served(before, home):
                begun.distance[problem] = self._distance[home][problem]
                begun.log[problem] = self._log[config][problem]
        self._begun[chosen] = begun
        return begun

    def _served(self, begun: _Begun, home: int) -> list[int]:
        """The problems that ``home`` is nearer to than those of the members so far."""
        if home not in begun.served:
            pairs = zip(self._distance[home], begun.distance, strict=True)
            begun.served[home] = [problem for problem, (mine, theirs) in enumerate(pairs) if mine < theirs]
        return begun.served[home]

    def _without(self, begun: _Begun, member: _Member, left_out: int | None) -> float:
        """What one more member changes of the sum of regrets over all problems but ``left_out``."""
        config, home = member
        log = self._log[config]
        if member not in begun.gains:
            begun.gains[member] = sum(log[problem] - begun.log[problem] for problem in self._served(begun, home))
        gain = begun.gains[member]
        if left_out is not None and self._distance[home][left_out] < begun.distance[left_out]:
            gain -= log[left_out] - begun.log[left_out]
        return round(gain, _DIGITS)


@dataclass(slots=True)
class _Begun:
    """The first members of a portfolio. By problem: the ``distance`` to the member that serves it, and its ``log``
    regret there. ``served``: by home, the problems that it would take over. ``gains``: by member, what it would change
    of the sum of regrets."""

    distance: list[float]
    log: list[float]
    served: dict[int, list[int]] = field(default_factory=dict)
    gains: dict[_Member, float] = field(default_factory=dict)


def _first_lowest(numbers: Iterable[int], score: Callable[[int], float]) -> int:
    return min(numbers, key=lambda n: round(score(n), _DIGITS))
