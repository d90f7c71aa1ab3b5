"""Differential evolution over the indices of the choices (Storn and Price, 1997: rand/1/bin)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from optuna.distributions import BaseDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from .codec import Codec

Params = dict[str, int]


class DifferentialEvolutionSampler(BaseSampler):
    """Lets each member of the population in turn compete with a child; the faster of the two stays.

    The child is a third member plus ``weight`` times the difference of two others; each knob is taken from it with
    probability ``crossover``. A knob whose choices are not numbers has no differences: it takes the choice of one of
    the three. The population starts with the first ``population`` good configs that are told. Until then suggestions
    are random.
    """

    def __init__(
        self, codec: Codec, seed: int, *, population: int = 16, weight: float = 0.7, crossover: float = 0.8
    ) -> None:
        self._codec = codec
        self._rng = random.Random(seed)
        self._size, self._weight, self._crossover = population, weight, crossover
        self._members: list[tuple[float, Params]] = []
        self._turn = 0
        self._child_of: dict[int, int] = {}

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return the distributions of all knobs: they are sampled together."""
        return self._codec.distributions

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return a child of the next member, or a random config while the population is incomplete."""
        if len(self._members) < self._size:
            return self._codec.params(self._codec.space.sample(self._rng))
        self._turn = (self._turn + 1) % self._size
        self._child_of[trial.number] = self._turn
        return self._child(self._members[self._turn][1])

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Return a random valid config's choice for this one knob."""
        return self._codec.params(self._codec.space.sample(self._rng))[param_name]

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """Replace the parent by its child if that is faster. A config from elsewhere competes with the slowest
        member."""
        parent = self._child_of.pop(trial.number, None)
        if values is None or any(violation > 0 for violation in trial.constraints.values()):
            return
        told = values[0], {name: trial.params[name] for name in self._codec.distributions}
        if len(self._members) < self._size:
            self._members.append(told)
        elif parent is None:  # from elsewhere: a seed, or chance
            parent = max(range(self._size), key=lambda i: self._members[i][0])
        if parent is not None and told[0] < self._members[parent][0]:
            self._members[parent] = told

    def _child(self, parent: Params) -> Params:
        a, b, c = (params for _, params in self._rng.sample(self._members, 3))
        child = dict(parent)
        for name, distribution in self._codec.distributions.items():
            if self._rng.random() >= self._crossover:
                continue
            if isinstance(distribution, IntDistribution):
                moved = round(a[name] + self._weight * (b[name] - c[name]))
                child[name] = min(max(moved, distribution.low), distribution.high)
            else:
                child[name] = self._rng.choice((a, b, c))[name]
        return child
