"""What every strategy shares: seeds first, no config twice, and an end only when the space has one.

:class:`RandomStrategy` adds nothing to that; the other strategies override which config is suggested next.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from tileflow.config import Config, ConfigSpace
from tileflow.cost import StaticFacts
from tileflow.errors import ConfigError

from .protocol import Result

SPARE_DRAWS = 64


class RandomStrategy:
    """Suggests valid configs, uniform over the choices. The order depends on the seed alone, not on results.

    A strategy that is told the results of an earlier run therefore continues where that run stopped. When draws find
    only known configs, the rest of the space is enumerated, so that small spaces are searched to the last config.
    """

    def __init__(self, space: ConfigSpace, seed: int) -> None:
        self.space = space
        self._rng = random.Random(seed)
        self._seeds: deque[Config] = deque()
        self._known: dict[Config, Result | None] = {}  # None: asked, not yet told
        self._rest: Iterator[Config] | None = None

    def seed(self, configs: Iterable[Config]) -> None:
        """Queue the configs, repaired, to be asked for first. Raises ConfigError as :meth:`Strategy.seed` says."""
        for config in configs:
            self.space.check(config)
            self._seeds.append(self.space.repair(config))

    def ask(self, n: int) -> list[Config]:
        """Return up to ``n`` unknown configs: queued seeds first, then suggestions, then random or enumerated ones."""
        asked: list[Config] = []
        while len(asked) < n:
            config = self._next_seed() or self._suggest() or self._unknown()
            if config is None:
                break
            self._known[config] = None
            asked.append(config)
        return asked

    def tell(self, config: Config, result: Result) -> None:
        """Record the result of a config unless an earlier verdict stands, and pass it on to the subclass."""
        if config not in self._known:  # what was asked is of this space, and normalised
            self.space.check(config)
            config = self.space.normalise(config)
        standing = self._known.get(config)
        if standing is None or standing.infrastructure:
            self._known[config] = result
            self._learn(config, result)

    def built(self, config: Config, facts: StaticFacts) -> None:
        """Ignore the facts: most strategies learn from times alone."""

    def rank(self, configs: Sequence[Config]) -> list[float]:
        """Rank all configs equal, so that they are measured in the order in which they were built."""
        return [0.0] * len(configs)

    @property
    def finished(self) -> str:
        """Return no reason to stop: most strategies use whatever budget they are given."""
        return ""

    # ---- overridden by the other strategies ---------------------------------------------------------

    def _suggest(self) -> Config | None:
        """Return a config that is not known yet, or None to have a random one drawn."""
        return None

    def _learn(self, config: Config, result: Result) -> None:
        """Take in a verdict, or a loss before one. The config is normalised; it may never have been asked for."""

    # ---- shared by all -------------------------------------------------------------------------------

    def _next_seed(self) -> Config | None:
        while self._seeds:
            config = self._seeds.popleft()
            if config not in self._known:
                return config
        return None

    def _unknown(self) -> Config | None:
        """Return a random unknown config; where draws find none, the next one enumerated; None at the end of the
        space."""
        if self._rest is None:
            # A resumed run draws each config of its journal once more before it meets a new one.
            for _ in range(len(self._known) + SPARE_DRAWS):
                config = self._draw()
                if config is None:
                    break
                if config not in self._known:
                    return config
            self._rest = self.space.enumerate()
        return next((config for config in self._rest if config not in self._known), None)

    def _draw(self) -> Config | None:
        try:
            return self.space.sample(self._rng)
        except ConfigError:  # valid configs are rarer than draws and repairs can find; enumeration will tell
            return None


class ExhaustiveStrategy(RandomStrategy):
    """Suggests every valid config in the order of :meth:`ConfigSpace.enumerate`. For small spaces."""

    def __init__(self, space: ConfigSpace, seed: int = 0) -> None:
        super().__init__(space, seed)
        self._rest = space.enumerate()
