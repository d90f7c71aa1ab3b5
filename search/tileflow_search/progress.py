"""How far a search has come: its times, how long there was no gain, where its islands lie, whether it is over."""

from __future__ import annotations

import math

from tileflow.config import Config

from .features import Features

WORTHWHILE = math.log2(1.005)  # a gain for which another trial is worth its time
DISCOUNT_TRIALS = 32  # trials without a gain after which promises count half
ISLANDS, APART = 4, 3.0  # places that are searched around at once, and steps between their centres
RESTARTS = 3  # starts elsewhere, without a gain, before the end


class Progress:
    """``times``: log2 of the good ones. ``best``: the lowest, infinite before there is one. ``finished``: why the
    search is over; a gain, from what was still under way, takes that back. ``helpers``: how many searches of other
    problems there are, where what they know together holds here too."""

    def __init__(self, features: Features) -> None:
        self.times: dict[Config, float] = {}
        self.best = math.inf
        self.finished = ""
        self.helpers = 0
        self._features, self._restarts, self._dry = features, 0, 0

    def learn(self, config: Config, log_time: float | None) -> None:
        """``log_time``: log2 of the time; None where the config failed."""
        self._dry += 1
        if log_time is None:
            return
        self.times[config] = log_time
        if log_time < self.best - WORTHWHILE:
            self._dry, self._restarts, self.finished = 0, 0, ""
        self.best = min(self.best, log_time)

    @property
    def goal(self) -> float:
        """The time to beat; before there is one, the default's in the unit of its siblings."""
        return self.best if self.times else 0.0

    @property
    def improvement_discount(self) -> float:
        """What promises are divided by: the longer there was no gain, and the more others have looked, the more."""
        return 1 + self._dry * (1 + self.helpers) / DISCOUNT_TRIALS

    def leaders(self) -> list[Config]:
        """The good configs, best first."""
        return sorted(self.times, key=self.times.__getitem__)

    def islands(self) -> list[Config]:
        """The best configs that lie apart, best first."""
        centres: list[Config] = []
        for config in self.leaders():
            if all(self._features.distance(config, centre) >= APART for centre in centres):
                centres.append(config)
                if len(centres) == ISLANDS:
                    break
        return centres

    def restart(self) -> bool:
        """Whether the search may start elsewhere again: one time where others have for it, else three."""
        if self._restarts >= (1 if self.helpers else RESTARTS):
            return False
        self._restarts += 1
        return True

    def end(self) -> None:
        self.finished = (
            f"no candidate promises {2**WORTHWHILE - 1:.1%}, the best has no neighbour left that could, "
            f"and starting elsewhere has not helped ({self._restarts} times)"
        )
