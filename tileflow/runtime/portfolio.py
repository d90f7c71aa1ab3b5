"""Choosing a portfolio: the few configs that serve shapes which nobody tuned.

A member is a config and its *home*, the problem where it was chosen; a lookup takes the member whose home is nearest.
The number of members is chosen by *held-out* regret: each problem in turn is left out, a portfolio is chosen from the
others, and the problem is served by it. Training error would always ask for one member a problem.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

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
    return choice.of_all(size), regrets


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
        timed = Counter(number[config] for row in rows for config in row)
        self._alone = [{number[config] for config in row if timed[number[config]] == 1} for row in rows]
        self._distance = [[home.distance(problem) for problem in self._problems] for home in self._problems]

    def of_all(self, size: int) -> tuple[PortfolioEntry, ...]:
        """Up to ``size`` members, each the one that lowers the geometric mean of the regrets most."""
        ((_, members),) = self._chosen([None], size, self._begin())
        return tuple(PortfolioEntry(self._configs[config], self._problems[home]) for config, home in members)

    def held_out(self, limit: int) -> tuple[float, ...]:
        """The regrets of 1, 2 ... up to ``limit`` members on problems left out in turn. One that is alone stays."""
        many = len(self._problems)
        limit = min(limit, max(many - 1, 1))
        logs = [0.0] * limit
        for left_out, members in self._chosen(range(many) if many > 1 else [None], limit, self._begin()):
            problem = left_out or 0
            for k in range(limit):
                config, _ = min(members[: k + 1], key=lambda m: self._distance[m[1]][problem])
                logs[k] += self._log[config][problem] / many
        return tuple(math.exp(log) for log in logs)

    def _begin(self) -> _Begun:
        many = len(self._problems)
        return _Begun((), [math.inf] * many, [0.0] * many)

    def _chosen(
        self, left_out: Iterable[int | None], size: int, begun: _Begun
    ) -> Iterator[tuple[int | None, tuple[_Member, ...]]]:
        """Yield the members chosen without each problem of ``left_out``; all of them have ``begun`` alike."""
        gains: dict[_Member, float] = {}
        alike: dict[_Member, list[int | None]] = {}
        for problem in left_out:
            best = self._next(begun, problem, gains) if len(begun.members) < size else None
            if best is None:
                yield problem, begun.members
            else:
                alike.setdefault(best, []).append(problem)
        for member, problems in alike.items():
            yield from self._chosen(problems, size, self._with(begun, member))

    def _next(self, begun: _Begun, left_out: int | None, gains: dict[_Member, float]) -> _Member | None:
        """The member to add; None where each home has one. ``gains``: what is known of this beginning."""
        taken = {home for _, home in begun.members}
        homes = [n for n in range(len(self._problems)) if n != left_out and n not in taken]
        allround = self._allround(left_out)
        candidates = dict.fromkeys((config, home) for home in homes for config in (self._best[home], allround))

        def key(member: _Member) -> tuple[float, float]:
            # among equals the one that is good at home, so that those after it can take the rest
            config, home = member
            if member not in gains:
                gains[member] = self._gain(begun, member)
            gain = gains[member]
            if left_out is not None and self._distance[home][left_out] < begun.distance[left_out]:
                gain -= self._log[config][left_out] - begun.log[left_out]
            return round(gain, _DIGITS), self._log[config][home]

        return min(candidates, key=key, default=None)

    def _allround(self, left_out: int | None) -> int:
        """The config that is the best for all problems but ``left_out``, of those that were timed on them."""
        everywhere = range(len(self._configs))
        if left_out is None:
            return min(everywhere, key=lambda config: round(self._overall[config], _DIGITS))
        return min(
            (config for config in everywhere if config not in self._alone[left_out]),
            key=lambda config: round(self._overall[config] - self._log[config][left_out], _DIGITS),
        )

    def _gain(self, begun: _Begun, member: _Member) -> float:
        """What one more member changes of the sum of regrets over all problems."""
        config, home = member
        each = zip(self._distance[home], begun.distance, self._log[config], begun.log, strict=True)
        return sum(log - before for distance, nearest, log, before in each if distance < nearest)

    def _with(self, begun: _Begun, member: _Member) -> _Begun:
        config, home = member
        mine, logs = self._distance[home], self._log[config]
        nearer = [distance < nearest for distance, nearest in zip(mine, begun.distance, strict=True)]
        return _Begun(
            (*begun.members, member),
            [mine[n] if is_nearer else begun.distance[n] for n, is_nearer in enumerate(nearer)],
            [logs[n] if is_nearer else begun.log[n] for n, is_nearer in enumerate(nearer)],
        )


@dataclass(frozen=True, slots=True)
class _Begun:
    """The first members of a portfolio. By problem: the ``distance`` to the member that serves it, and its ``log``
    regret there."""

    members: tuple[_Member, ...]
    distance: list[float]
    log: list[float]
