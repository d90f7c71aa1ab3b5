"""The configs that a search considers next. All of them are valid; some may be known already."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from tileflow.config import Config, ConfigSpace
from tileflow.errors import ConfigError

MUTANTS = 12  # around each centre, besides its neighbours; half as many children
RANDOM_EACH, POOL = 4, 64  # new random configs per call, and how many are kept


class Candidates:
    """Generates candidate configs of ``space``.

    ``names``: the knobs with more than one choice. ``draw``: gives a config from anywhere in the space, None where it
    finds none.
    """

    def __init__(
        self, space: ConfigSpace, names: Sequence[str], rng: random.Random, draw: Callable[[], Config | None]
    ) -> None:
        self._space, self._names, self._rng, self._draw = space, names, rng, draw
        self._beside: dict[Config, list[Config]] = {}
        self._pool: deque[Config] = deque(maxlen=POOL)

    def around(self, centre: Config, parents: Sequence[Config]) -> list[Config]:
        """Return the neighbours and mutants of ``centre``, and its children with ``parents`` (with itself without
        parents)."""
        changed = [_mutant(self._space, self._names, centre, self._rng) for _ in range(MUTANTS)]
        changed += [_child(centre, self._rng.choice(parents or [centre]), self._rng) for _ in range(MUTANTS // 2)]
        return [*self.neighbours(centre), *(config for raw in changed for config in self._repaired(raw))]

    def neighbours(self, config: Config) -> list[Config]:
        """Return the valid configs one step away from ``config``, computed once per config."""
        if config not in self._beside:
            self._beside[config] = list(self._space.neighbours(config))
        return self._beside[config]

    def random_candidates(self) -> list[Config]:
        """Return a few new random configs and the latest of the earlier ones."""
        self._pool.extend(filter(None, (self._draw() for _ in range(RANDOM_EACH))))
        return list(self._pool)

    def _repaired(self, config: Config) -> Iterator[Config]:
        try:
            yield self._space.repair(config)
        except ConfigError:  # no valid config is near
            return


def _mutant(space: ConfigSpace, names: Sequence[str], config: Config, rng: random.Random) -> Config:
    """Change two or three of the knobs ``names``: numbers by one or two steps, others to any choice. The result is
    not repaired."""
    changes = {}
    for name in rng.sample(names, min(rng.choice((2, 3)), len(names))):
        knob = space.knob(name)
        at = knob.choices.index(config[name]) + rng.choice((-2, -1, 1, 2))
        last = len(knob.choices) - 1
        changes[name] = knob.choices[min(max(at, 0), last)] if knob.ordered else rng.choice(knob.choices)
    return config.with_(changes)


def _child(one: Config, other: Config, rng: random.Random) -> Config:
    """Take each knob from either parent (uniform crossover: Syswerda, 1989)."""
    theirs = other.to_dict()
    return one.with_({name: choice for name, choice in theirs.items() if rng.random() < 0.5})
