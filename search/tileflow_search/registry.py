"""The strategies by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from optuna.samplers import CmaEsSampler, TPESampler

from tileflow.config import Config, ConfigSpace
from tileflow.errors import SpecError

from .base import ExhaustiveStrategy, RandomStrategy
from .codec import Codec
from .default import DefaultStrategy
from .evolution import DifferentialEvolutionSampler
from .forest import Forest
from .local import LocalSampler
from .optuna_strategy import OptunaStrategy
from .pattern import PatternSampler
from .protocol import Strategy
from .transfer import TransferTask


def _tpe(space: ConfigSpace, seed: int) -> Strategy:
    # constant_liar: what is in flight counts as bad, so that parallel workers are not all given the same region
    return OptunaStrategy(space, TPESampler(seed=seed, constant_liar=True), seed)


def _cma_es(space: ConfigSpace, seed: int) -> Strategy:
    # It samples numbers only; categories stay random.
    return OptunaStrategy(space, CmaEsSampler(seed=seed, warn_independent_sampling=False), seed)


def _evolution(space: ConfigSpace, seed: int) -> Strategy:
    return OptunaStrategy(space, DifferentialEvolutionSampler(Codec(space), seed), seed)


def _pattern(space: ConfigSpace, seed: int) -> Strategy:
    return OptunaStrategy(space, PatternSampler(Codec(space), seed), seed)


def _local(space: ConfigSpace, seed: int) -> Strategy:
    return OptunaStrategy(space, LocalSampler(Codec(space), seed), seed)


STRATEGIES: Mapping[str, Callable[[ConfigSpace, int], Strategy]] = {
    "default": DefaultStrategy,
    "random": RandomStrategy,
    "exhaustive": ExhaustiveStrategy,
    "tpe": _tpe,
    "cma-es": _cma_es,
    "evolution": _evolution,
    "pattern": _pattern,
    "local": _local,
}


def shares(name: str) -> bool:
    """Whether searches by this strategy share their results, which shortens later ones."""
    return STRATEGIES.get(name) is DefaultStrategy


def warm_up(name: str) -> None:
    """Import what the strategy ``name`` would import during its first search, which takes a second or more."""
    if shares(name):
        Forest([[0.0], [1.0], [2.0], [3.0]], [0.0, 1.0, 2.0, 3.0], seed=0).predict([[0.5]])


def make(
    name: str, space: ConfigSpace, seed: int, seeds: Iterable[Config] = (), peers: TransferTask | None = None
) -> Strategy:
    """Return the strategy ``name`` over ``space``, deterministic under ``seed``, that asks for ``seeds`` first.

    ``peers``: this search's task in the group of the kernel's other problems, for a strategy that :func:`shares`.

    Raises SpecError for an unknown name, ConfigError for a seed that is not of the space.
    """
    try:
        factory = STRATEGIES[name]
    except KeyError:
        raise SpecError(
            "a search strategy must be one that is known", got=repr(name), hint=f"known: {', '.join(STRATEGIES)}"
        ) from None
    strategy = DefaultStrategy(space, seed, peers=peers) if shares(name) else factory(space, seed)
    strategy.seed(seeds)
    return strategy
