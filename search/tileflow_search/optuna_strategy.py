"""Any Optuna sampler as a strategy: its suggestions are repaired, and it is told the repaired config's result."""

from __future__ import annotations

import math
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState

from tileflow.config import Config, ConfigSpace
from tileflow.errors import ConfigError

from .base import RandomStrategy
from .codec import Codec
from .protocol import Result

REPEATS = 8
FIRST_PENALTY = math.log2(1e6)  # a second, while no time is known


class OptunaStrategy(RandomStrategy):
    """Asks ``sampler`` for suggestions, in an in-memory study over the indices of the choices.

    The objective is log2 of the time in microseconds. A bad config is told as twice the worst time so far with a
    violated constraint: Optuna would ignore a failed trial and suggest it again. A lost one is a failed trial. A
    suggestion that is known already is told its known value at once; after ``REPEATS`` such suggestions in a row a
    random config is drawn.
    """

    def __init__(self, space: ConfigSpace, sampler: BaseSampler, seed: int) -> None:
        super().__init__(space, seed)
        self._codec = Codec(space)
        self._sampler = RepairingSampler(self._codec, sampler)
        self._study = _quiet_study(self._sampler)
        self._open: dict[Config, Trial] = {}
        self._worst = -math.inf

    def _suggest(self) -> Config | None:
        for _ in range(REPEATS):
            trial = self._study.ask(self._codec.distributions)
            config = self._codec.config(trial.params)
            if self._sampler.gave_up:
                self._study.tell(trial, state=TrialState.FAIL)
            elif config not in self._known:
                self._open[config] = trial
                return config
            else:
                self._tell(trial, self._known[config] or Result(infrastructure=True))
        return None

    def _learn(self, config: Config, result: Result) -> None:
        trial = self._open.pop(config, None) or self._sampler.ask_for(self._study, config)
        if result.time_us is not None:
            self._worst = max(self._worst, math.log2(result.time_us))
        self._tell(trial, result)

    def _tell(self, trial: Trial, result: Result) -> None:
        if result.infrastructure:
            self._study.tell(trial, state=TrialState.FAIL)
            return
        trial.set_constraint("valid", 1.0 if result.violated else -1.0)
        penalty = FIRST_PENALTY if math.isinf(self._worst) else self._worst + 1.0
        self._study.tell(trial, penalty if result.time_us is None else math.log2(result.time_us))


class RepairingSampler(BaseSampler):
    """Wraps a sampler so that its trials hold repaired, normalised configs, or a config that was asked for.

    Repairing inside the sampler keeps one trial per config: the model learns the coordinates that were measured, and
    sees them as running until then. ``gave_up``: the last suggestion could not be repaired.
    """

    def __init__(self, codec: Codec, inner: BaseSampler) -> None:
        self._codec = codec
        self._inner = inner
        self._wanted: Config | None = None
        self.gave_up = False

    def ask_for(self, study: Study, config: Config) -> Trial:
        """Return a running trial of ``study`` that holds ``config``, without asking the wrapped sampler."""
        self._wanted = config
        try:
            return study.ask(self._codec.distributions)
        finally:
            self._wanted = None

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return the distributions of all knobs: they are sampled together."""
        return self._codec.distributions

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the wanted config, else the wrapped sampler's suggestion repaired. Sets ``gave_up`` where no repair
        exists."""
        self.gave_up = False
        if self._wanted is not None:
            return self._codec.params(self._wanted)
        try:
            suggestion = self._codec.config(self._suggested(study, trial))
            return self._codec.params(self._codec.space.repair(suggestion))
        except ConfigError:
            self.gave_up = True
            return dict.fromkeys(self._codec.distributions, 0)

    def _suggested(self, study: Study, trial: FrozenTrial) -> dict[str, Any]:
        together = self._inner.infer_relative_search_space(study, trial)
        params = self._inner.sample_relative(study, trial, together)
        for name, distribution in self._codec.distributions.items():
            if name not in params:
                params[name] = self._inner.sample_independent(study, trial, name, distribution)
        return params

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Delegate to the wrapped sampler."""
        return self._inner.sample_independent(study, trial, param_name, param_distribution)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Delegate to the wrapped sampler."""
        self._inner.before_trial(study, trial)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Any) -> None:
        """Delegate to the wrapped sampler."""
        self._inner.after_trial(study, trial, state, values)

    def reseed_rng(self) -> None:
        """Delegate to the wrapped sampler."""
        self._inner.reseed_rng()


def _quiet_study(sampler: BaseSampler) -> Study:
    """Return a study in memory, without Optuna's log line about its creation."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        return optuna.create_study(sampler=sampler)
    finally:
        optuna.logging.set_verbosity(verbosity)
