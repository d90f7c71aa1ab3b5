"""Which configs a recording measures: a random sample, a box around the default, and neighbours of the best."""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal

from tileflow.config import Config, ConfigSpace
from tileflow.errors import ConfigError

Part = Literal["default", "random", "box", "near"]

BOX_ROLES = ("block", "reduction", "launch")
_TURNS: tuple[Part, ...] = ("random", "box", "random", "near")
_SPARE_DRAWS = 200


def plan(
    space: ConfigSpace, default: Config, seed: int, best: Callable[[], list[Config]]
) -> Iterator[tuple[Part, Config]]:
    """Yield distinct valid configs, until the space has no more: the default, then from every part in turn.

    ``random`` is what a random search would draw. ``box`` is the whole sub-space of block sizes, warps and stages, the
    other knobs at the default's choices, nearest first: cut off anywhere, it is complete up to some number of steps.
    ``near`` are neighbours of what ``best`` gives at that moment, so that a local search finds neighbours there.
    """
    seen: set[Config] = set()
    parts = {
        "random": _random(space, random.Random(seed), seen),
        "box": _box(space, default),
        "near": _near(space, best, seen),
    }
    for config in (default, space.default):
        if config not in seen:
            seen.add(config)
            yield "default", config
    idle = 0
    for part in itertools.cycle(_TURNS):
        found = next((c for c in parts[part] if c not in seen), None)
        idle = idle + 1 if found is None else 0
        if idle > 2 * len(_TURNS):
            return
        if found is not None:
            seen.add(found)
            yield part, found
        elif part == "near":
            parts["near"] = _near(space, best, seen)  # the present best may have neighbours


def _random(space: ConfigSpace, rng: random.Random, seen: set[Config]) -> Iterator[Config]:
    misses = 0
    while misses < _SPARE_DRAWS:
        try:
            config = space.sample(rng)
        except ConfigError:
            return
        misses = misses + 1 if config in seen else 0
        yield config


def _box(space: ConfigSpace, default: Config) -> Iterator[Config]:
    """Yield configs breadth first from the default, along the knobs of :data:`BOX_ROLES`."""
    knobs = tuple(
        k if k.role in BOX_ROLES else replace(k, choices=(default[k.name],), default=default[k.name])
        for k in space.knobs
    )
    box = replace(space, knobs=knobs)
    found, waiting = {default}, deque([default])
    while waiting:
        config = waiting.popleft()
        for step in box.neighbours(config):
            if step not in found and space.normalise(step) == step:
                found.add(step)
                waiting.append(step)
                yield step


def _near(space: ConfigSpace, best: Callable[[], list[Config]], seen: set[Config]) -> Iterator[Config]:
    while True:
        fresh = next((n for config in best() for n in space.neighbours(config) if n not in seen), None)
        if fresh is None:
            return
        yield fresh
