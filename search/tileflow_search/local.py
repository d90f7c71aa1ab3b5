"""A multi-start local search: steps from the best known configs, with occasional random restarts."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from tileflow.config import Config

from .codec import Codec


class LocalSampler(BaseSampler):
    """Suggests untried neighbours of the ``beam`` best configs, the best one's first.

    The first ``startup`` suggestions, and each ``restart``-th after them, are random: the starts. When no config of the
    beam has an untried neighbour, one ``kick`` random steps from a config of the beam is suggested (iterated local
    search: Lourenço, Martin and Stützle, 2003).
    """

    def __init__(
        self, codec: Codec, seed: int, *, startup: int = 8, restart: int = 8, beam: int = 4, kick: int = 3
    ) -> None:
        self._codec = codec
        self._rng = random.Random(seed)
        self._startup, self._restart, self._beam, self._kick = startup, restart, beam, kick
        self._suggested = 0
        self._tried: set[Config] = set()
        self._values: dict[Config, float] = {}

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return the distributions of all knobs: they are sampled together."""
        return self._codec.distributions

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the next start, at random, or the next step from the beam."""
        self._suggested += 1
        start = self._suggested <= self._startup or self._suggested % self._restart == 0
        config = self._codec.space.sample(self._rng) if start or not self._values else self._step()
        self._tried.add(config)
        return self._codec.params(config)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Return a random valid config's choice for this one knob."""
        return self._codec.params(self._codec.space.sample(self._rng))[param_name]

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """Record the config as tried, and its objective unless it failed or violates a constraint."""
        config = self._codec.config(trial.params)
        self._tried.add(config)
        if values is not None and all(violation <= 0 for violation in trial.constraints.values()):
            self._values[config] = values[0]

    def _step(self) -> Config:
        best = sorted(self._values, key=self._values.__getitem__)[: self._beam]
        for config in best:
            for neighbour in self._shuffled_neighbours(config):
                if neighbour not in self._tried:
                    return neighbour
        config = self._rng.choice(best)
        for _ in range(self._kick):
            config = next(self._shuffled_neighbours(config), config)
        return config

    def _shuffled_neighbours(self, config: Config) -> Iterator[Config]:
        neighbours = list(self._codec.space.neighbours(config))
        self._rng.shuffle(neighbours)
        return iter(neighbours)
