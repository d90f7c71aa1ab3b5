"""Configs as Optuna parameters: every knob with more than one choice becomes the index of its choice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution

from tileflow.config import Config, ConfigSpace, Knob


@dataclass(frozen=True, slots=True)
class Codec:
    """Translates between the configs of ``space`` and Optuna's parameters.

    The index of a number keeps its order, and makes one step of a regular series equal to any other: for powers of two
    the index is the logarithm, up to a constant. Strings and switches become categories.
    """

    space: ConfigSpace
    distributions: dict[str, BaseDistribution] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        open_knobs = (k for k in self.space.knobs if len(k.choices) > 1)
        object.__setattr__(self, "distributions", {k.name: _distribution(k) for k in open_knobs})

    def params(self, config: Config) -> dict[str, int]:
        """Return the index of the config's choice for every knob that has more than one."""
        return {name: self.space.knob(name).choices.index(config[name]) for name in self.distributions}

    def config(self, params: Mapping[str, int]) -> Config:
        """Return the config with these indices, neither repaired nor normalised."""
        return Config.of({k.name: k.choices[params.get(k.name, 0)] for k in self.space.knobs})


def _distribution(knob: Knob) -> BaseDistribution:
    last = len(knob.choices) - 1
    return IntDistribution(0, last) if knob.ordered else CategoricalDistribution(range(last + 1))
