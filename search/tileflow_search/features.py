"""Configs and binaries as numbers for a model, and how far apart two configs are."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from tileflow.config import Choice, Config, ConfigSpace, Knob
from tileflow.cost import StaticFacts

# The same columns for every binary; what a binary lacks is 0.
FACTS = (
    "registers", "spills", "shared", "threads", "programs", "occupancy", "modelled_us", "mix.total", "mix.wgmma",
    "mix.tcgen05", "mix.mma", "mix.async_copy", "mix.load_global", "mix.store_global", "mix.load_shared",
    "mix.store_shared", "mix.barrier", "mix.shuffle", "mix.sfu", "mix.fma", "mix.atomic",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Features:
    """Encodes configs as the indices of their open knobs' choices, with combined features of blocks and warps.

    The index of a power of two is its logarithm. A sum over blocks is then the logarithm of a tile's size, and its
    difference to that of the warps is the logarithm of the elements a thread holds. A tree would need many splits for
    these.
    """

    space: ConfigSpace
    _positions: dict[str, dict[tuple[type, Choice], int]] = field(init=False, compare=False, repr=False)
    _open: tuple[Knob, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        knobs = tuple(k for k in self.space.knobs if len(k.choices) > 1)
        positions = {k.name: {(type(c), c): i for i, c in enumerate(k.choices)} for k in knobs}
        object.__setattr__(self, "_open", knobs)
        object.__setattr__(self, "_positions", positions)

    @property
    def names(self) -> list[str]:
        """The names of the knobs with more than one choice."""
        return list(self._positions)

    def position(self, config: Config) -> list[int]:
        """Return the indices of the config's choices, in the order of :attr:`names`."""
        choices = dict(config.items)
        return [at[type(choices[name]), choices[name]] for name, at in self._positions.items()]

    def knobs(self, config: Config) -> list[float]:
        """Return the features of a config that are known before it is built."""
        blocks = sum(_log2(config[k.name]) for k in self._open if k.role in ("block", "reduction"))
        warps = sum(_log2(config[k.name]) for k in self._open if k.name.startswith("num_warps"))
        return [*map(float, self.position(config)), blocks, blocks - warps]

    def facts(self, facts: StaticFacts) -> list[float]:
        """Return the features that building adds: logarithms of :data:`FACTS` and of the bounds."""
        found = dict(facts.values)
        return [math.log2(1.0 + found.get(n, 0.0)) for n in FACTS] + [math.log2(1.0 + facts.spilled), facts.least_us]

    def distance(self, a: Config, b: Config) -> float:
        """Return how many steps apart the numbers are, plus one for every other knob that differs."""
        pairs = zip(self._open, self.position(a), self.position(b), strict=True)
        return float(sum(abs(x - y) if knob.ordered else x != y for knob, x, y in pairs))


def _log2(choice: Choice) -> float:
    return math.log2(choice) if isinstance(choice, int) and choice > 0 else 0.0
