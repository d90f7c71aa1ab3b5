"""Choosing a portfolio: the few configs that serve shapes which nobody tuned.

A member is a config and its *home*, the problem where it was chosen; a lookup takes the member whose home is nearest.
The number of members is chosen by *held-out* regret: each problem in turn is left out, a portfolio is chosen from the
others, and the problem is served by it. Training error would always ask for one member a problem.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ..config import Config
from ..errors import TableError
from ..lazy_dataclass import dataclass
from .problem import Problem

Times = Mapping[Problem, Mapping[Config, float]]


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
    if len({problem.categories for problem in times}) > 1:
        raise TableError(
            "a portfolio must be chosen among problems of the same categories",
            got=sorted({problem.categories for problem in times}),
        )
    if untimed := [str(problem) for problem, row in times.items() if not row]:
        raise TableError("every problem of a portfolio must have been timed", got=", ".join(untimed))
    if not times:
        return ()
    regrets = held_out(times, limit)
    size = next(k for k, regret in enumerate(regrets) if regret <= min(regrets) * (1 + within)) + 1
    return _greedy(times, size)


def held_out(times: Times, limit: int = 8) -> tuple[float, ...]:
    """The regret on problems left out in turn, of portfolios of 1, 2 ... members chosen from the others: the geometric
    mean of their time over the best, so at least 1. Portfolios are nested."""
    limit = min(limit, max(len(times) - 1, 1))
    logs = [0.0] * limit
    for problem in times:
        members = _greedy(_others(times, problem), limit)
        for k in range(limit):
            logs[k] += math.log(_regret(times, problem, members[: k + 1])) / len(times)
    return tuple(math.exp(log) for log in logs)


def held_out_nearest(times: Times) -> float:
    """The same where each problem is served by the best config of the nearest other one."""
    logs = []
    for problem in times:
        rows = _others(times, problem)
        winners = [PortfolioEntry(min(row, key=row.__getitem__), home) for home, row in rows.items()]
        logs.append(math.log(_regret(times, problem, winners)))
    return math.exp(sum(logs) / len(logs))


def _others(times: Times, problem: Problem) -> Times:
    """All but ``problem``, which stays where it is alone."""
    return {p: row for p, row in times.items() if p != problem} or times


def _greedy(times: Times, size: int) -> tuple[PortfolioEntry, ...]:
    """Up to ``size`` members, each the one that lowers the geometric mean of the regrets most."""
    best_of = {problem: min(row, key=row.__getitem__) for problem, row in times.items()}
    configs = dict.fromkeys(config for row in times.values() for config in row)
    allround = min(configs, key=lambda c: _mean_regret(times, [PortfolioEntry(c, next(iter(times)))]))
    candidates = dict.fromkeys(PortfolioEntry(c, home) for home in times for c in (best_of[home], allround))
    chosen: list[PortfolioEntry] = []
    while len(chosen) < size and candidates:
        # among equals the one that is good at home, so that those after it can take the rest
        best = min(candidates, key=lambda m: (_mean_regret(times, [*chosen, m]), _regret(times, m.home, [m])))
        chosen.append(best)
        candidates = dict.fromkeys(m for m in candidates if m.home != best.home)
    return tuple(chosen)


def _mean_regret(times: Times, members: Sequence[PortfolioEntry]) -> float:
    return sum(math.log(_regret(times, problem, members)) for problem in times)


def _regret(times: Times, problem: Problem, members: Sequence[PortfolioEntry]) -> float:
    """How much slower than its best the problem runs with the member it is served by: at least 1.

    A config that was never timed there counts as the slowest that was.
    """
    row = times[problem]
    nearest = min(members, key=lambda m: m.home.distance(problem))
    return row.get(nearest.config, max(row.values())) / min(row.values())
