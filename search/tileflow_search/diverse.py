"""A diverse start: configs spread evenly over the choices, as far as the constraints let them."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator

from tileflow.config import Config, ConfigSpace
from tileflow.errors import ConfigError

TRIES = 16  # points per config: most combinations of blocks are too large, and repaired ones collect at the edge
EACH, LEAST = 2, 4  # configs for each open knob, and how many there are at least


class DiverseStart:
    """The configs that a search begins with, spread over ``space``, which has ``knobs`` open knobs."""

    def __init__(self, space: ConfigSpace, seed: int, knobs: int) -> None:
        self._configs, self._size, self._taken = diverse(space, seed), EACH * knobs, 0

    @property
    def begun(self) -> bool:
        """Whether any config was taken yet."""
        return self._taken > 0

    def take(self, most: int, experience: int) -> list[Config]:
        """Return up to ``most`` of the configs that are left.

        ``experience``: how many related problems have results. The start is half as long with one of them, a third with
        two.
        """
        left = max(self._size // (1 + experience), LEAST) - self._taken
        configs = list(itertools.islice(self._configs, max(min(most, left), 0)))
        self._taken += len(configs)
        return configs


def diverse(space: ConfigSpace, seed: int) -> Iterator[Config]:
    """Yield valid configs without end; some may repeat. Ends where the space has no valid config within repair.

    Each is the first valid one of :data:`TRIES` scrambled Halton points (Halton, 1960; digits permuted as by Braaten
    and Weller, 1979), or the last of those points repaired.
    """
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
    """Return the radical inverse of ``number`` in ``base``, each digit permuted by its own table."""
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
