"""What configs promise before they are built."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Sequence

from tileflow.config import Config

from .progress import WORTHWHILE, Progress
from .surrogate import TimeModel

VAIN = WORTHWHILE / 4  # a gain below this is next to none
CHANCE = 0.1  # the most that chance promises where there is no model


class Promise:
    """Expected gains over the best time, in log2, by ``model``; by chance without one, or until it is ready."""

    def __init__(self, model: TimeModel | None, progress: Progress, rng: random.Random) -> None:
        self._model, self._progress, self._rng = model, progress, rng

    def gains(self, configs: Iterable[Config]) -> dict[Config, float]:
        """Of each config once, less believed the longer there was no gain."""
        ordered = sorted(set(configs), key=lambda c: c.items)
        goal, doubt = self._progress.goal, self._progress.doubt
        if self._model is None or not self._model.ready:
            return {config: self._rng.uniform(0.0, CHANCE) / doubt for config in ordered}
        return {c: p.gain(goal) / doubt for c, p in zip(ordered, self._model.before(ordered), strict=True)}

    def in_turns(self, places: Sequence[Sequence[Config]], most: int) -> list[Config]:
        """The first ``most`` that promise a worthwhile gain, those that promise most first, the places taking turns."""
        gains = self.gains(config for place in places for config in place)
        ranked = [sorted((c for c in place if gains[c] >= WORTHWHILE), key=lambda c: -gains[c]) for place in places]
        turns = (config for turn in itertools.zip_longest(*ranked) for config in turn if config is not None)
        return list(itertools.islice(dict.fromkeys(turns), most))

    def likely(self, configs: list[Config]) -> list[Config]:
        """Without those that promise nothing; all of them where there is no model."""
        if self._model is None:
            return configs
        predictions = zip(configs, self._model.before(configs), strict=True)
        return [config for config, p in predictions if p.gain(self._progress.goal) >= VAIN / 4]
