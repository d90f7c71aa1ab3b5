"""Transfer: what the searches of one kernel over many problems learn from each other.

One surrogate over all of their verdicts sees the knobs by value, the problem's sizes, and how many blocks each size
takes. Times are relative to the time of the problem's default config, so that all problems describe one landscape. A
search that begins later starts from the best configs of its nearest related problems, and with that surrogate as prior.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tileflow.config import Choice, Config, ConfigSpace, Knob
from tileflow.errors import ConfigError

from .forest import Forest, Posterior
from .surrogate import FEWEST, WORST_KNOWN, capped

ROWS = 500  # verdicts of related problems in one fit, the nearest problems first; a fit takes 25 ms
GROWN = 1.25  # growth of the verdicts of related problems that causes another fit
NEAREST, BEST = 3, 2  # related problems whose best configs start a search, and how many of each


@dataclass(frozen=True, slots=True)
class ProblemFeatures:
    """A problem as numbers. ``sizes``: log2 by name; ``work``: log2 of bytes and flops; ``labels``: all else."""

    sizes: tuple[tuple[str, float], ...]
    labels: tuple[tuple[str, str], ...] = ()
    work: tuple[tuple[str, float], ...] = ()

    @staticmethod
    def of(problem: Mapping[str, object], **work: float) -> ProblemFeatures:
        """Build the features from the keyword arguments of a problem; integers are sizes. ``work``: amounts by name."""
        sizes = {name: value for name, value in problem.items() if type(value) is int}
        labels = {name: str(value) for name, value in problem.items() if name not in sizes}
        return ProblemFeatures(_logarithms(sizes), tuple(sorted(labels.items())), _logarithms(work))

    def distance(self, other: ProblemFeatures) -> float:
        """Return the doublings between the sizes, plus one for each label that differs or is missing on one side."""
        here, there = dict(self.sizes), dict(other.sizes)
        apart = sum(abs(here[name] - there[name]) if name in there else 1.0 for name in here)
        apart += len(there.keys() - here.keys())
        return apart + len(set(self.labels) ^ set(other.labels)) / 2


class TransferGroup:
    """The searches of one kernel on one device class, or on several that resemble each other."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.tasks: list[TransferTask] = []

    def join(self, problem: ProblemFeatures, space: ConfigSpace, default: Config | None = None) -> TransferTask:
        """Add a search to the group and return its task.

        ``default``: the config whose time is the unit of the problem's times; else, or while it has none, the median of
        all good times is.
        """
        task = TransferTask(self, problem, space, default)
        self.tasks.append(task)
        return task

    def columns(self) -> list[Knob]:
        """Return the knobs of every task's space by name, with all of their choices in order of appearance."""
        found: dict[str, tuple[Knob, dict[tuple[type, Choice], None]]] = {}
        for knob in (knob for task in self.tasks for knob in task.space.knobs):
            _, choices = found.setdefault(knob.name, (knob, {}))
            choices |= {(type(choice), choice): None for choice in knob.choices}
        return [Knob(k.name, k.site, tuple(c for _, c in choices), k.role, k.default) for k, choices in found.values()]


class TransferTask:
    """One problem of a :class:`TransferGroup`, with the verdicts of its own search and access to the others'."""

    def __init__(
        self, group: TransferGroup, problem: ProblemFeatures, space: ConfigSpace, default: Config | None
    ) -> None:
        self.problem, self.space = problem, space
        self.verdicts: dict[Config, float | None] = {}
        self.fits = 0
        self._group, self._default = group, default
        self._fit: tuple[int, _Encoding, Forest] | None = None

    def learn(self, config: Config, log_time: float | None) -> None:
        """Record one verdict. ``log_time``: log2 of the time; None where the config failed."""
        self.verdicts[config] = log_time

    @property
    def experience(self) -> int:
        """How many of the other tasks have enough results to be used."""
        return sum(len(other.verdicts) >= FEWEST for other in self._siblings())

    def leaders(self) -> list[Config]:
        """Return the best configs of the nearest tasks that have any, each repaired to this space, without repeats."""
        found = [sibling.best() for sibling in self._siblings()]
        adapted = (_adapted(self.space, config) for best in found[:NEAREST] for config in best)
        return list(dict.fromkeys(config for config in adapted if config is not None))

    def best(self) -> list[Config]:
        """Return this task's fastest configs, at most :data:`BEST`."""
        good = {config: time for config, time in self.verdicts.items() if time is not None}
        return sorted(good, key=good.__getitem__)[:BEST]

    def prior(self, configs: Sequence[Config]) -> Posterior | None:
        """Predict log2 of the time over the default's from the other tasks' verdicts; None while they are too few."""
        siblings = self._siblings()
        known = sum(len(sibling.verdicts) for sibling in siblings)
        if known < FEWEST:
            return None
        if self._fit is None or known > GROWN * self._fit[0]:
            encoding = _Encoding.of(self._group.columns(), [task.problem for task in self._group.tasks])
            rows: list[list[float]] = []
            values: list[float] = []
            for sibling in siblings:
                if len(rows) < ROWS:
                    rows += [encoding.row(sibling.problem, config) for config in sibling.verdicts]
                    values += sibling.relative()
            self._fit = known, encoding, Forest(rows, values, self._group.seed)
            self.fits += 1
        _, encoding, forest = self._fit
        return (
            forest.predict([encoding.row(self.problem, config) for config in configs]) if configs else Posterior((), ())
        )

    def relative(self) -> list[float]:
        """Return the verdicts' log2 times less the default's, or less the median where the default has no time."""
        unit = None if self._default is None else self.verdicts.get(self._default)
        if unit is None:
            good = sorted(time for time in self.verdicts.values() if time is not None)
            unit = good[len(good) // 2]
        return [time - unit for time in capped(list(self.verdicts.values()), WORST_KNOWN)]

    def _siblings(self) -> list[TransferTask]:
        """Return the other tasks that have a config that works, nearest first."""
        others = [o for o in self._group.tasks if o is not self and any(t is not None for t in o.verdicts.values())]
        return sorted(others, key=lambda other: other.problem.distance(self.problem))


def alone(space: ConfigSpace) -> TransferTask:
    """Return the task of a search without related ones."""
    return TransferGroup().join(ProblemFeatures(()), space)


class _Encoding:
    """Encodes configs of all of a group's spaces, with their problems, as rows of one matrix.

    Numbers become logarithms, since the spaces of two problems may index their choices differently. Other choices
    become their index among all of them. Sizes that are the same for every problem carry no information and are left
    out.
    """

    def __init__(self, knobs: Sequence[Knob], varied: Sequence[str]) -> None:
        self._codes = {k.name: {(type(c), c): _code(c, i) for i, c in enumerate(k.choices)} for k in knobs}
        self._defaults = {k.name: self._codes[k.name][type(k.default), k.default] for k in knobs}
        self._blocks = [k.name for k in knobs if k.role in ("block", "reduction")]
        self._warps = [k.name for k in knobs if k.name.startswith("num_warps")]
        self._varied = varied

    @staticmethod
    def of(knobs: Sequence[Knob], problems: Sequence[ProblemFeatures]) -> _Encoding:
        names = dict.fromkeys(name for problem in problems for name, _ in problem.sizes)
        return _Encoding(knobs, [n for n in names if len({dict(p.sizes).get(n) for p in problems}) > 1])

    def row(self, problem: ProblemFeatures, config: Config) -> list[float]:
        chosen = {name: self._codes[name][type(choice), choice] for name, choice in config.items}
        values = self._defaults | chosen
        blocks, warps = [values[n] for n in self._blocks], sum(values[n] for n in self._warps)
        sizes = dict(problem.sizes)
        varied = [sizes.get(name, 0.0) for name in self._varied]
        ratios = [size - block for size in varied for block in blocks]
        total = sum(blocks)
        shape = [*varied, *(amount for _, amount in problem.work), sum(sizes.values()) - total]
        return [*values.values(), total, total - warps, *ratios, *shape]


def _code(choice: Choice, index: int) -> float:
    if isinstance(choice, bool) or not isinstance(choice, int):
        return float(index)
    return math.log2(choice) if choice > 0 else choice - 1.0


def _logarithms(amounts: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    return tuple((name, math.log2(max(amount, 1))) for name, amount in sorted(amounts.items()))


def _adapted(space: ConfigSpace, config: Config) -> Config | None:
    try:
        return space.adapt(config.to_dict())
    except ConfigError:  # no repair leads from there to a valid config
        return None
