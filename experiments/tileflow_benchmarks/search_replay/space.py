"""A recording as a config space: only recorded configs are valid, and repair gives the nearest of them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

from tileflow.config import Config, ConfigSpace, Constraint
from tileflow.expr import Expr

from .recording import Recording

NEIGHBOURS = 12

_UNRECORDED = Constraint("recorded", Expr.of(0), (), "the config must have been recorded")


class RecordedSpace(ConfigSpace):
    """The space of a replay (as in Kernel Tuner's simulation mode: Willemsen et al., 2021).

    ``repair`` gives the nearest recorded config, in steps of numbers and changes of the other knobs; ``snapped`` counts
    how often it had to. ``sample`` draws from the random part of the recording alone, since the other parts lie around
    the good configs. ``neighbours`` are the recorded configs one step away, filled up with the nearest ones to
    :data:`NEIGHBOURS`: where a recording is thin a step is longer than in the real space.
    """

    def __init__(self, recording: Recording) -> None:
        import numpy as np

        super().__init__(recording.header.knobs)
        self._set("configs", tuple(sorted((row.config for row in recording.rows), key=self._indices)))
        self._set("drawn", tuple(row.config for row in recording.rows if row.part in ("default", "random")))
        self._set("matrix", np.array([self._indices(config) for config in self._configs], dtype=np.int32))
        self._set("ordered", np.array([knob.ordered for knob in self.knobs]))
        self._set("recorded", frozenset(self._configs))
        self._set("snapped", 0)

    _configs: tuple[Config, ...]
    _drawn: tuple[Config, ...]
    _matrix: Any
    _ordered: Any
    _recorded: frozenset[Config]
    _snapped: int

    @property
    def snapped(self) -> int:
        """How many configs outside the recording were asked for."""
        return self._snapped

    @property
    def size(self) -> int:
        """How many configs were recorded."""
        return len(self._configs)

    def violations(self, config: Config) -> list[Constraint]:
        """Return one constraint for a config that was not recorded."""
        return [] if config in self._recorded else [_UNRECORDED]

    def is_valid(self, config: Config) -> bool:
        """Whether the config was recorded."""
        return config in self._recorded

    def normalise(self, config: Config) -> Config:
        """Return the config as it is: recorded configs are normalised."""
        return config

    def repair(self, config: Config, most: Mapping[str, int] | None = None) -> Config:
        """Return the nearest recorded config, and count it where it is another."""
        if config in self._recorded:
            return config
        self._set("snapped", self._snapped + 1)
        return self._configs[int(self._distances(config).argmin())]

    def sample(self, rng: random.Random, tries: int = 64) -> Config:
        """Draw from the random part of the recording."""
        return rng.choice(self._drawn)

    def neighbours(self, config: Config) -> Iterator[Config]:
        """Yield the recorded configs one step away, filled up with the nearest to :data:`NEIGHBOURS`."""
        distances = self._distances(config)
        nearest = distances.argsort(kind="stable")
        for taken, at in enumerate(at for at in nearest if distances[at] > 0):
            if distances[at] > 1 and taken >= NEIGHBOURS:
                return
            yield self._configs[int(at)]

    def enumerate(self) -> Iterator[Config]:
        """Return all recorded configs."""
        return iter(self._configs)

    def _distances(self, config: Config) -> Any:
        import numpy as np

        steps = np.abs(self._matrix - np.array(self._indices(config), dtype=np.int32))
        return np.where(self._ordered, steps, np.minimum(steps, 1)).sum(axis=1)

    def _indices(self, config: Config) -> list[int]:
        choices = dict(config.items)
        return [knob.choices.index(choices[knob.name]) for knob in self.knobs]

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, f"_{name}", value)  # the base is frozen
