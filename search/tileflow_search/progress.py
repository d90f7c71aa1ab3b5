"""How far a search has come: its times, the trials since the last gain, its islands, whether it is over."""

from __future__ import annotations

import math

from tileflow.config import Config

from .features import Features

WORTHWHILE = math.log2(1.005)  # the least gain for which another trial is worth its time
DISCOUNT_TRIALS = 32  # trials without a gain after which expected gains count half
ISLANDS, APART = 4, 3.0  # configs that are searched around at once, and steps between them
RESTARTS = 3  # restarts without a gain before the search ends


class Progress:
    """Tracks one search.

    ``times``: log2 of the good configs' times. ``best``: the lowest of them, infinite before there is one.
    ``finished``: why the search is over; a later gain, of a trial that was still in flight, resets it. ``helpers``: how
    many searches of related problems there are whose combined prior holds here too.
    """

    def __init__(self, features: Features) -> None:
        self.times: dict[Config, float] = {}
        self.best = math.inf
        self.finished = ""
        self.helpers = 0
        self._features, self._restarts, self._dry = features, 0, 0

    def learn(self, config: Config, log_time: float | None) -> None:
        """Record one trial. ``log_time``: log2 of its time; None where the config failed."""
        self._dry += 1
        if log_time is None:
            return
        self.times[config] = log_time
        if log_time < self.best - WORTHWHILE:
            self._dry, self._restarts, self.finished = 0, 0, ""
        self.best = min(self.best, log_time)

    @property
    def goal(self) -> float:
        """The log2 time to improve on. Before any is known it is 0, the default's in units relative to the default."""
        return self.best if self.times else 0.0

    @property
    def improvement_discount(self) -> float:
        """The divisor of expected gains. It grows with the trials since the last gain, faster with more helpers."""
        return 1 + self._dry * (1 + self.helpers) / DISCOUNT_TRIALS

    def leaders(self) -> list[Config]:
        """Return the good configs, best first."""
        return sorted(self.times, key=self.times.__getitem__)

    def islands(self) -> list[Config]:
        """Return the best configs that lie apart from each other, best first."""
        centres: list[Config] = []
        for config in self.leaders():
            if all(self._features.distance(config, centre) >= APART for centre in centres):
                centres.append(config)
                if len(centres) == ISLANDS:
                    break
        return centres

    def restart(self) -> bool:
        """Count a restart and say whether it is allowed: one where related searches help, else three, since the last
        gain."""
        if self._restarts >= (1 if self.helpers else RESTARTS):
            return False
        self._restarts += 1
        return True

    def end(self) -> None:
        """Set ``finished`` to the reason why nothing is worth trying any more."""
        self.finished = (
            f"no candidate promises {2**WORTHWHILE - 1:.1%}, the best has no neighbour left that could, "
            f"and starting elsewhere has not helped ({self._restarts} times)"
        )
