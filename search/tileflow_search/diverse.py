"""A diverse start: configs spread evenly over the choices, as far as the constraints let them."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator

from tileflow.config import Config, ConfigSpace
from tileflow.errors import ConfigError

TRIES = 16  # points per config: most combinations of blocks are too large, and repairs pile up at the edge
EACH, LEAST = 2, 4  # configs for each open knob, and how many there are at least


class DiverseStart:
    """As many configs as ``space``, with ``knobs`` open ones, and what is known elsewhere, call for."""

    def __init__(self, space: ConfigSpace, seed: int, knobs: int) -> None:
        self._configs, self._size, self._taken = diverse(space, seed), EACH * knobs, 0

    @property
    def begun(self) -> bool:
        return self._taken > 0

    def take(self, most: int, experience: int) -> list[Config]:
        """Up to ``most`` of those that are left. ``experience``: how many siblings know something, each of which makes
        the start shorter: a half of it after one, a third after two."""
        left = max(self._size // (1 + experience), LEAST) - self._taken
        configs = list(itertools.islice(self._configs, max(min(most, left), 0)))
        self._taken += len(configs)
        return configs


def diverse(space: ConfigSpace, seed: int) -> Iterator[Config]:
    """Valid configs without end, perhaps repeated: the next valid one of :data:`TRIES` scrambled Halton points (Halton,
    1960; digits permuted as by Braaten and Weller, 1979), else the last of them repaired. Ends where none is left."""
    points = _halton(len(space.knobs), random.Random(seed))
    while True:
        for point in itertools.islice(points, TRIES):
            chosen = {k.name: k.choices[int(u * len(k.choices))] for k, u in zip(space.knobs, point, strict=True)}
            config = space.normalise(Config.of(chosen))
            if space.is_valid(config):
                break
        try:
            yield space.repair(config)
        except ConfigError:
            return


def _halton(dimensions: int, rng: random.Random) -> Iterator[list[float]]:
    bases = list(itertools.islice(_primes(), dimensions))
    digits = [[rng.sample(range(base), base) for _ in range(math.ceil(32 / math.log2(base)))] for base in bases]
    for number in itertools.count(1):
        yield [_inverse(number, base, tables) for base, tables in zip(bases, digits, strict=True)]


def _inverse(number: int, base: int, digits: list[list[int]]) -> float:
    """``number``'s digits in ``base``, each permuted by its own table, mirrored behind the point."""
    value, scale = 0.0, 1.0
    for permuted in digits:
        number, digit = divmod(number, base)
        scale /= base
        value += permuted[digit] * scale
    return min(value, 1.0 - 2**-53)


def _primes() -> Iterator[int]:
    found: list[int] = []
    for n in itertools.count(2):
        if all(n % p for p in found):
            found.append(n)
            yield n
