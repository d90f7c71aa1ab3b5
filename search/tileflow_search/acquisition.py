"""The acquisition function: the gain expected of a config before it is built."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Sequence

from tileflow.config import Config

from .progress import WORTHWHILE, Progress
from .surrogate import TimeModel

NEGLIGIBLE = WORTHWHILE / 4  # log2; a gain below this is not worth a trial
CHANCE = 0.1  # the largest random gain where there is no model


class Acquisition:
    """Estimates each config's gain over the best time, in log2. The estimates come from ``model``; while it is
    absent or not ready they are random."""

    def __init__(self, model: TimeModel | None, progress: Progress, rng: random.Random) -> None:
        self._model, self._progress, self._rng = model, progress, rng

    def gains(self, configs: Iterable[Config]) -> dict[Config, float]:
        """Return the expected gain of each distinct config, divided by the discount for trials without a gain."""
        ordered = sorted(set(configs), key=lambda c: c.items)
        goal, discount = self._progress.goal, self._progress.improvement_discount
        if self._model is None or not self._model.ready:
            return {config: self._rng.uniform(0.0, CHANCE) / discount for config in ordered}
        return {
            c: p.gain(goal) / discount for c, p in zip(ordered, self._model.predict_from_config(ordered), strict=True)
        }

    def in_turns(self, groups: Sequence[Sequence[Config]], most: int) -> list[Config]:
        """Return at most ``most`` configs with a worthwhile expected gain.

        Each group is sorted by expected gain, and the groups are merged by taking one config from each in turn.
        """
        gains = self.gains(config for group in groups for config in group)
        ranked = [sorted((c for c in group if gains[c] >= WORTHWHILE), key=lambda c: -gains[c]) for group in groups]
        turns = (config for turn in itertools.zip_longest(*ranked) for config in turn if config is not None)
        return list(itertools.islice(dict.fromkeys(turns), most))

    def likely(self, configs: list[Config]) -> list[Config]:
        """Drop the configs whose expected gain is negligible. Without a model all are kept."""
        if self._model is None:
            return configs
        predictions = zip(configs, self._model.predict_from_config(configs), strict=True)
        return [config for config, p in predictions if p.gain(self._progress.goal) >= NEGLIGIBLE / 4]
