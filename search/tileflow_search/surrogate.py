"""A model of the times measured so far: an ensemble of trees, whose disagreement says how little it knows.

Extremely randomised trees (Geurts, Ernst and Wehenkel, 2006): cheap to fit, at home with steps and categories.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tileflow.config import Config
from tileflow.cost import StaticFacts

from .features import Features

TREES = 30
FEWEST = 12  # verdicts before the first fit
NOISE = 0.01  # of log2 time: two measurements of one config
WORST = 3.0  # of log2 time behind the best: what is slower, or fails, counts as that slow


@dataclass(frozen=True, slots=True)
class Prediction:
    """Of the log2 of a time."""

    mean: float
    deviation: float

    def gain(self, best: float) -> float:
        """Expected improvement on ``best`` (Jones, Schonlau and Welch, 1998), in the same unit."""
        z = (best - self.mean) / self.deviation
        density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        return (best - self.mean) * (1 + math.erf(z / math.sqrt(2))) / 2 + self.deviation * density


class TimeModel:
    """Two ensembles over one set of verdicts: ``before`` building sees the knobs, ``after`` it the binaries too.

    Each is fitted again, when it is next asked, once the verdicts have grown by a tenth.
    """

    def __init__(self, features: Features, seed: int) -> None:
        self._features, self._seed = features, seed
        self._facts: dict[Config, StaticFacts] = {}
        self._verdicts: dict[Config, float | None] = {}
        self._fits: dict[str, tuple[int, list[Any]]] = {}

    @property
    def ready(self) -> bool:
        return len(self._verdicts) >= FEWEST and any(time is not None for time in self._verdicts.values())

    def built(self, config: Config, facts: StaticFacts) -> None:
        self._facts[config] = facts

    def learn(self, config: Config, log_time: float | None) -> None:
        """``log_time``: log2 of the time; None where the config failed."""
        self._verdicts[config] = log_time

    def before(self, configs: Sequence[Config]) -> list[Prediction]:
        return self._predict("before", self._features.knobs, configs, list(self._verdicts))

    def after(self, configs: Sequence[Config]) -> list[Prediction]:
        """Of configs that are built."""
        known = [config for config in self._verdicts if config in self._facts]
        return self._predict("after", self._with_facts, configs, known)

    def _with_facts(self, config: Config) -> list[float]:
        return self._features.knobs(config) + self._features.facts(self._facts[config])

    def _predict(
        self, name: str, row: Callable[[Config], list[float]], configs: Sequence[Config], known: Sequence[Config]
    ) -> list[Prediction]:
        import numpy as np

        if not configs:
            return []
        if len(known) < 2:
            return [Prediction(0.0, 1e3)] * len(configs)
        if len(known) > 1.1 * self._fits.get(name, (0, []))[0]:
            self._fits[name] = len(known), self._fit([row(config) for config in known], known)
        features = np.asarray([row(config) for config in configs], dtype=np.float32)
        every = np.stack([tree.predict(features)[:, 0] for tree in self._fits[name][1]])
        deviations = np.hypot(every.std(axis=0), NOISE)
        return [Prediction(float(m), float(d)) for m, d in zip(every.mean(axis=0), deviations, strict=True)]

    def _fit(self, rows: Sequence[Sequence[float]], known: Sequence[Config]) -> list[Any]:
        import numpy as np
        from sklearn.ensemble import ExtraTreesRegressor

        cap = min(time for time in self._verdicts.values() if time is not None) + WORST
        values = [cap if time is None else min(time, cap) for time in (self._verdicts[config] for config in known)]
        forest = ExtraTreesRegressor(TREES, min_samples_leaf=2, bootstrap=True, random_state=self._seed)
        forest.fit(np.asarray(rows, dtype=np.float32), np.asarray(values))
        return [tree.tree_ for tree in forest.estimators_]
