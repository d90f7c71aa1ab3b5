"""Portfolios: the few configs of a kernel that serve shapes which nobody tuned, chosen by held-out regret.

Candidates are the best configs of each problem. A candidate that was never measured on a problem would count as the
slowest there, so a sweep measures what is missing as its last round: a few trials per problem by then, since later
searches begin with the best configs of earlier ones. Only measured times enter the choice. A surrogate that filled the
gaps would be validated on its own predictions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tileflow.config import Config
from tileflow.errors import ConfigError
from tileflow.runtime.portfolio import PortfolioEntry, choose_with_regrets, held_out_nearest
from tileflow.runtime.problem import Problem
from tileflow.runtime.table import Unseen

from .records import StudyKey, TrialRecord
from .study import Study, leaders
from .tuning_task import TuningTask

FEWEST = 3  # problems: one to hold out, and a choice among the others
CANDIDATES = 12  # configs, the best of the most problems first
WORTHWHILE = 0.005  # relative differences of held-out regret below this do not count

Records = Mapping[StudyKey, Sequence[TrialRecord]]


@dataclass(frozen=True, slots=True)
class Portfolio:
    """The configs chosen for one device class and one category of problems.

    ``regrets``: held out, by the number of members. ``nearest``: held out, where the nearest problem's best config
    serves. ``default``: where each problem's default config does. All are geometric means of time over best.
    """

    device_class: str
    members: tuple[PortfolioEntry, ...]
    problems: int
    regrets: tuple[float, ...]
    nearest: float
    default: float

    @property
    def regret(self) -> float:
        """The held-out regret of the chosen members: a geometric mean of time over best."""
        return self.regrets[len(self.members) - 1]

    @property
    def beats_nearest(self) -> bool:
        """Whether it serves unseen shapes better than the row of the nearest problem does."""
        return self.nearest > self.regret * (1 + WORTHWHILE)

    @property
    def by_rows(self) -> float:
        """The regret of a table on unseen shapes: by portfolio where it beats the nearest problem, else by that."""
        return self.regret if self.beats_nearest else self.nearest

    @property
    def reason(self) -> str:
        """The text that a table's row gives as its reason: how many members, and how much slower than the best they
        are."""
        return (
            f"one of {len(self.members)} that serve {self.problems} problems left out in turn "
            f"{self.regret - 1:.1%} slower than their best"
        )


def choose(tasks: Iterable[TuningTask], trials: Records) -> list[Portfolio]:
    """Return the portfolio of every device class and category of problems with at least :data:`FEWEST` measured
    problems.

    ``tasks``: of one kernel.
    """
    found = []
    for group in _groups(tasks, trials):
        candidates = _candidates(group, trials)
        times = {s.problem: _times(s, trials[s.key], candidates) for s in group}
        members, regrets = choose_with_regrets(times, within=WORTHWHILE)
        device = group[0].key.device_class
        default = _default_regret(group, trials)
        found.append(Portfolio(device, members, len(times), regrets, held_out_nearest(times), default))
    return found


def unseen(portfolios: Iterable[Portfolio]) -> dict[str, Unseen]:
    """Return what a table says of unseen shapes, by device class, over all categories of problems."""
    by_device: dict[str, list[Portfolio]] = {}
    for portfolio in portfolios:
        by_device.setdefault(portfolio.device_class, []).append(portfolio)
    found = {}
    for device, of_it in by_device.items():
        weights = [p.problems for p in of_it]
        rows = _geometric_mean([p.by_rows for p in of_it], weights)
        found[device] = Unseen(sum(weights), rows, _geometric_mean([p.default for p in of_it], weights))
    return found


def missing(studies: Iterable[Study]) -> list[tuple[Study, Config]]:
    """Return the trials that a choice of portfolios lacks, as studies and configs."""
    kernels: dict[str, list[Study]] = {}
    for study in studies:
        kernels.setdefault(study.task.key.kernel, []).append(study)
    found = []
    for same in kernels.values():
        by_key = {study.task.key: study for study in same}
        trials = {key: list(study.completed.values()) for key, study in by_key.items()}
        for group in _groups([study.task for study in same], trials):
            candidates = _candidates(group, trials)
            for task in group:
                tried = {record.config for record in trials[task.key]}
                wanted = dict.fromkeys(fitted(task, config) for config in candidates)
                found += [(by_key[task.key], c) for c in wanted if c is not None and c not in tried]
    return found


def _groups(tasks: Iterable[TuningTask], trials: Records) -> list[list[TuningTask]]:
    """Group the measured problems that one portfolio may serve."""
    groups: dict[tuple[str, str], list[TuningTask]] = {}
    for task in tasks:
        if any(r.measured for r in leaders(trials.get(task.key, ()))):
            groups.setdefault((task.key.device_class, task.problem.categories), []).append(task)
    return [group for group in groups.values() if len({s.problem for s in group}) >= FEWEST]


def _candidates(group: Sequence[TuningTask], trials: Records) -> list[Config]:
    """Return the best config of each problem, ordered by how well each does on the problems where it was measured."""
    best = {s.key: next(r for r in leaders(trials[s.key]) if r.measured) for s in group}
    candidates = dict.fromkeys(record.config for record in best.values())
    times = {s.key: _times(s, trials[s.key], candidates) for s in group}

    def regret(config: Config) -> float:
        logs = [math.log(row[config] / min(row.values())) for row in times.values() if config in row]
        return sum(logs) / len(logs)

    return sorted(candidates, key=lambda config: (regret(config), config.key))[:CANDIDATES]


def _times(task: TuningTask, records: Iterable[TrialRecord], candidates: Iterable[Config]) -> dict[Config, float]:
    """Return the microseconds of each candidate on ``task``, each fitted to its space, and of its own best config."""
    measured = {r.config: r.time_us for r in records if r.measured and r.time_us is not None}
    own = min(measured, key=lambda config: measured[config] or math.inf)
    times = {config: measured.get(there) for config in (*candidates, own) if (there := fitted(task, config))}
    return {config: time for config, time in times.items() if time is not None}


def _default_regret(group: Sequence[TuningTask], trials: Records) -> float:
    """Return the default configs' time over the best. One that was never measured, or failed, counts as the slowest."""
    regrets = []
    for task in group:
        times = {r.config: r.time_us for r in trials[task.key] if r.measured and r.time_us is not None}
        regrets.append(times.get(task.default, max(times.values())) / min(times.values()))
    return _geometric_mean(regrets, [1] * len(regrets))


def _geometric_mean(values: Sequence[float], weights: Sequence[int]) -> float:
    return math.exp(sum(w * math.log(v) for v, w in zip(values, weights, strict=True)) / sum(weights))


def fitted(task: TuningTask, config: Config) -> Config | None:
    """Return the nearest config of ``task``'s space, None where no repair makes one."""
    try:
        return task.space.adapt(config.to_dict())
    except ConfigError:  # no repair leads from there to a valid config of this problem
        return None


def served(portfolios: Iterable[Portfolio], problem: Problem, device_class: str) -> Portfolio | None:
    """Return the portfolio that would serve such a call, None where none does."""
    same = (p for p in portfolios if p.device_class == device_class)
    return next((p for p in same if p.members[0].home.categories == problem.categories), None)
