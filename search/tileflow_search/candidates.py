"""Where a search may go next; what comes out is valid, and may be known already."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from tileflow.config import Config, ConfigSpace
from tileflow.errors import ConfigError

MUTANTS = 12  # around each centre, besides its neighbours; half as many children
RANDOM_EACH, POOL = 4, 64  # of the whole space: new ones a time, and how many are kept


class Candidates:
    """``names``: the knobs with a choice. ``draw``: a config from all over the space, None where it finds none."""

    def __init__(
        self, space: ConfigSpace, names: Sequence[str], rng: random.Random, draw: Callable[[], Config | None]
    ) -> None:
        self._space, self._names, self._rng, self._draw = space, names, rng, draw
        self._beside: dict[Config, list[Config]] = {}
        self._pool: deque[Config] = deque(maxlen=POOL)

    def around(self, centre: Config, parents: Sequence[Config]) -> list[Config]:
        """Neighbours, mutants, and children with ``parents`` (with itself where there are none), of ``centre``."""
        changed = [_mutant(self._space, self._names, centre, self._rng) for _ in range(MUTANTS)]
        changed += [_child(centre, self._rng.choice(parents or [centre]), self._rng) for _ in range(MUTANTS // 2)]
        return [*self.neighbours(centre), *(config for raw in changed for config in self._repaired(raw))]

    def neighbours(self, config: Config) -> list[Config]:
        if config not in self._beside:
            self._beside[config] = list(self._space.neighbours(config))
        return self._beside[config]

    def random_candidates(self) -> list[Config]:
        """From all over the space: a few that are new, and the latest of those before."""
        self._pool.extend(filter(None, (self._draw() for _ in range(RANDOM_EACH))))
        return list(self._pool)

    def _repaired(self, config: Config) -> Iterator[Config]:
        try:
            yield self._space.repair(config)
        except ConfigError:  # no valid config is near
            return


def _mutant(space: ConfigSpace, names: Sequence[str], config: Config, rng: random.Random) -> Config:
    """``config`` with two or three of the knobs ``names`` changed: numbers by one or two steps, others to any."""
    changes = {}
    for name in rng.sample(names, min(rng.choice((2, 3)), len(names))):
        knob = space.knob(name)
        at = knob.choices.index(config[name]) + rng.choice((-2, -1, 1, 2))
        last = len(knob.choices) - 1
        changes[name] = knob.choices[min(max(at, 0), last)] if knob.ordered else rng.choice(knob.choices)
    return config.with_(changes)


def _child(one: Config, other: Config, rng: random.Random) -> Config:
    """Each knob from either parent (uniform crossover: Syswerda, 1989)."""
    theirs = other.to_dict()
    return one.with_({name: choice for name, choice in theirs.items() if rng.random() < 0.5})
