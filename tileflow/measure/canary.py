"""Is the card as fast as it was? A fixed piece of work, timed after every measurement.

A noisy neighbour, a clock that heat holds down, a copy that somebody else runs: they make the canary slow as they make
the config slow that was just timed, and the canary's time is known. What was measured since the last good canary, which
is one config's times or one race, is measured again.

The canary reads memory: that is not slowed by a kernel that has used up its power budget just before, which is the
kernel's own doing and no noise.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from .monitor import Monitor
from .timing import percentile
from .types import DeviceFacts

log = logging.getLogger(__name__)

T = TypeVar("T")

SAMPLES = 3  # of one canary: some 0.2 ms on a large card
TOLERANCE = 0.1  # a canary that is slower by more condemns; its own noise is 1 to 2 %
LEARN = 3  # canaries that are good whatever they say: nothing is known yet
KEPT = 32  # good canaries that say what is usual
AGAIN = 2  # further measurements of what was condemned
REST_S = 0.05  # before the first of them, twice as long before each further one
PATIENCE = 4  # windows in a row that stayed suspect, after which the card is taken to be so from now on


@dataclass(slots=True)
class Canary:
    """``sample``: so many times of the fixed work, in microseconds."""

    sample: Callable[[int], list[float]]
    _good: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))

    def slowdown(self) -> float:
        """How much slower than usual the card is now: 1.0 as ever, 1.3 slower by 30 %."""
        now = percentile(sorted(self.sample(SAMPLES)), 0.5)
        usual = percentile(sorted(self._good), 0.2) if len(self._good) >= LEARN else now
        ratio = now / usual
        if ratio <= 1 + TOLERANCE:
            self._good.append(now)
        return ratio

    def forget(self) -> None:
        """Learn anew what is usual."""
        self._good.clear()


@dataclass(slots=True)
class NoiseGuard:
    """A card that is watched while it measures."""

    canary: Canary
    monitor: Monitor
    rest: Callable[[float], None] = time.sleep
    _suspect: int = 0  # windows in a row

    def measure_stable(self, measure: Callable[[], T]) -> tuple[T, DeviceFacts]:
        """What ``measure`` gives, and the card's state with it: again, after a rest, where the canary after it is slow
        or the card says that it is held down, at most :data:`AGAIN` times. A card that stays so is no noise: after
        :data:`PATIENCE` such windows nothing is measured again until there was a good one."""
        tries = AGAIN if self._suspect < PATIENCE else 0
        for again in range(tries + 1):
            found = measure()
            ratio = self.canary.slowdown()
            facts = self.monitor.facts()
            condemned = ratio > 1 + TOLERANCE or bool(facts.throttled)
            if not condemned or again == tries:
                break
            log.info("measured again: the canary took %.2f of its usual time %s", ratio, facts.throttle_reasons)
            self.rest(REST_S * 2**again)
        self._suspect = self._suspect + 1 if condemned else 0
        if self._suspect == PATIENCE:
            log.warning("the card stays slow (canary %.2f, %s): taken as usual from now on", ratio, facts)
            self.canary.forget()
        return found, replace(facts, canary_ratio=ratio, noise_retries=again or None)
