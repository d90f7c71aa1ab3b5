"""Compile many, measure few: which of the built configs are measured, and in which order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from tileflow.config import Config
from tileflow.cost import StaticFacts

from .progress import Progress
from .promise import VAIN
from .statics import hopeless
from .surrogate import TimeModel


class Screening:
    """``model``: orders and drops by what it expects of a binary. ``prune``: drop by static facts."""

    def __init__(self, model: TimeModel | None, progress: Progress, prune: bool) -> None:
        self._model, self._progress, self._prune = model, progress, prune
        self._facts: dict[Config, StaticFacts] = {}
        self._certain: set[Config] = set()
        self._dropped: set[Config] = set()

    def trust(self, configs: Iterable[Config]) -> None:
        """Measure these first, whatever the model expects of them."""
        self._certain.update(configs)

    def built(self, config: Config, facts: StaticFacts) -> None:
        self._facts[config] = facts
        if self._model is not None:
            self._model.built(config, facts)

    def dropped(self, config: Config) -> bool:
        """Whether it was never measured, so that its verdict is the screening's own."""
        return config in self._dropped

    def ranks(self, configs: Sequence[Config]) -> list[float]:
        """By optimism; what promises next to nothing is dropped, all but one: a model that is wrong must find out."""
        ranks = [0.0] * len(configs)
        if self._model is not None and self._model.ready:
            predictions = self._model.after(configs)
            ranks = [p.mean - p.deviation for p in predictions]
            vain = [p.gain(self._progress.goal) < VAIN for p in predictions]
            ranks = [math.inf if v and r > min(ranks) else r for v, r in zip(vain, ranks, strict=True)]
        for i, config in enumerate(configs):
            if config in self._certain:
                ranks[i] = -math.inf
            if self._prune and hopeless(self._facts[config], self._progress.best):
                ranks[i] = math.inf
        self._dropped |= {config for config, rank in zip(configs, ranks, strict=True) if rank == math.inf}
        return ranks
