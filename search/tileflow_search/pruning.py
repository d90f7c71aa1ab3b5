"""Compile many, measure few: which of the built configs are measured, and in which order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from tileflow.config import Config
from tileflow.cost import StaticFacts

from .acquisition import NEGLIGIBLE
from .progress import Progress
from .surrogate import TimeModel

WASTEFUL = 1.0  # spilled bytes allowed for each byte that the call itself must move
_LAST = 1e6  # beyond every logarithm of a time
_UNMEASURED = 1024  # a logarithm from which no time was measured


def prune_reason(facts: StaticFacts, best: float) -> str:
    """Return why a built config is not worth measuring beside a best time of 2**``best`` us; empty where it may be.

    The bound knows which matrix instructions the binary has. A product without the target's asynchronous ones is pruned
    once anything faster than its rate was measured, as is a grid that leaves too many SMs idle. Before anything was
    measured, none is pruned that can run: where every config of a kernel spills, one of them is its best.
    """
    if not facts.fits:
        return "no block fits a multiprocessor"
    if best >= _UNMEASURED:
        return ""
    if facts.spilled > WASTEFUL:
        return f"spilled registers move {facts.spilled:.1f} times the bytes that the call must"
    if facts.least_us > 2.0**best:
        return f"no such binary can take less than {facts.least_us:.1f} us, and {2.0**best:.1f} us were measured"
    return ""


class Pruning:
    """Orders built configs and drops some. ``model``: predicts times from binaries. ``prune``: drop by static facts
    too."""

    def __init__(self, model: TimeModel | None, progress: Progress, prune: bool) -> None:
        self._model, self._progress, self._prune = model, progress, prune
        self._facts: dict[Config, StaticFacts] = {}
        self._asked_for: set[Config] = set()
        self._certain: set[Config] = set()
        self._dropped: set[Config] = set()

    def trust(self, configs: Iterable[Config]) -> None:
        """Mark configs to be measured first, whatever the model expects of them."""
        self._certain.update(configs)

    def keep(self, configs: Iterable[Config]) -> None:
        """Mark configs whose times are asked for: they are measured first, and dropped only where they cannot run. The
        default is one, beside which all others are shown."""
        self._asked_for.update(configs)
        self.trust(self._asked_for)

    def built(self, config: Config, facts: StaticFacts) -> None:
        """Record the static facts of a built config, for the model too."""
        self._facts[config] = facts
        if self._model is not None:
            self._model.built(config, facts)

    def dropped(self, config: Config) -> bool:
        """Whether the config was dropped unmeasured, so that its verdict says nothing new."""
        return config in self._dropped

    def ranks(self, configs: Sequence[Config]) -> list[float]:
        """Return the predicted mean less one deviation for each config; the lowest is measured first.

        Trusted configs come first, and those that spill much last. Infinity drops a config: one that its static facts
        prune, unless its time is asked for, or one whose expected gain is negligible. The config with the lowest
        estimate is never dropped for its gain, since a wrong model must find out.
        """
        ranks = [0.0] * len(configs)
        if self._model is not None and self._model.ready:
            predictions = self._model.predict_from_binary(configs)
            ranks = [p.mean - p.deviation for p in predictions]
            negligible = [p.gain(self._progress.goal) < NEGLIGIBLE for p in predictions]
            ranks = [math.inf if n and r > min(ranks) else r for n, r in zip(negligible, ranks, strict=True)]
        for i, config in enumerate(configs):
            if self._prune and self._facts[config].spilled > WASTEFUL:
                ranks[i] = _LAST + self._facts[config].spilled
            if config in self._certain:
                ranks[i] = -math.inf
            best = math.inf if config in self._asked_for else self._progress.best
            if self._prune and prune_reason(self._facts[config], best):
                ranks[i] = math.inf
        self._dropped |= {config for config, rank in zip(configs, ranks, strict=True) if rank == math.inf}
        return ranks
