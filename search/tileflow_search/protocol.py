"""Ask and tell: all that a search strategy and the rest of the project know of each other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tileflow.config import Config
from tileflow.cost import StaticFacts
from tileflow.errors import InternalError


@dataclass(frozen=True, slots=True)
class Result:
    """How a trial ended, as far as a strategy cares: exactly one of the three.

    ``time_us``: the time of the call in microseconds, positive and finite.
    ``violated``: the config is bad (does not build, does not fit, computes wrongly, takes too long).
    ``infrastructure``: the trial was lost; nothing is known about the config.
    """

    time_us: float | None = None
    violated: bool = False
    infrastructure: bool = False

    def __post_init__(self) -> None:
        if (self.time_us is not None) + self.violated + self.infrastructure != 1:
            raise InternalError("a result must be exactly one of a time, a violation and a loss", got=self)
        if self.time_us is not None and not (math.isfinite(self.time_us) and self.time_us > 0):
            raise InternalError("a time must be positive and finite", got=self.time_us)


class Strategy(Protocol):
    """A search over one :class:`~tileflow.config.ConfigSpace`. Knows no clock, no GPU, no journal.

    Configs are identified after :meth:`ConfigSpace.normalise`: two that build the same binary are one.
    """

    def seed(self, configs: Iterable[Config]) -> None:
        """Queue configs to ask for first, in this order, each repaired. Those that are asked or told already are
        skipped.

        Raises ConfigError for a config that is not of this space or that no repair makes valid.
        """

    def ask(self, n: int) -> list[Config]:
        """Return up to ``n`` valid, normalised configs, none asked or told before; fewer only when no more exist."""

    def tell(self, config: Config, result: Result) -> None:
        """Take in the result of ``config``. Configs may come in any order, asked for or not (a resumed sweep tells its
        journal's).

        The first verdict on a config stands: a loss may be followed by one, anything after a verdict is ignored. Raises
        ConfigError for a config that is not of this space.
        """

    def built(self, config: Config, facts: StaticFacts) -> None:
        """Take in that ``config`` was compiled and waits to be measured; ``facts`` are its binaries'."""

    def rank(self, configs: Sequence[Config]) -> list[float]:
        """Return one number for each config that waits to be measured, all of them built.

        The lowest is measured first, equal ones in their order, and those at infinity never. A dropped config is told
        as violated.
        """

    @property
    def finished(self) -> str:
        """Why nothing more is worth asking for; empty while something is. Trials in flight may change it."""
