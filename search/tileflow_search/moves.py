"""Steps from known configs to new ones; what comes out may break constraints, and is repaired by whoever asked."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tileflow.config import Config, ConfigSpace


def mutant(space: ConfigSpace, names: Sequence[str], config: Config, rng: random.Random) -> Config:
    """``config`` with two or three of the knobs ``names`` changed: numbers by one or two steps, others to any."""
    changes = {}
    for name in rng.sample(names, min(rng.choice((2, 3)), len(names))):
        knob = space.knob(name)
        at = knob.choices.index(config[name]) + rng.choice((-2, -1, 1, 2))
        last = len(knob.choices) - 1
        changes[name] = knob.choices[min(max(at, 0), last)] if knob.ordered else rng.choice(knob.choices)
    return config.with_(changes)


def child(one: Config, other: Config, rng: random.Random) -> Config:
    """Each knob from either parent (uniform crossover: Syswerda, 1989)."""
    theirs = other.to_dict()
    return one.with_({name: choice for name, choice in theirs.items() if rng.random() < 0.5})
