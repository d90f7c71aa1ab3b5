"""Pattern search over the indices of the choices (Hooke and Jeeves, 1961; Torczon, 1997)."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Sequence
from typing import Any

from optuna.distributions import BaseDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from .codec import Codec

Params = dict[str, int]


class PatternSampler(BaseSampler):
    """Polls one step to either side along every knob and moves to the first config that is better.

    The step is halved when no config is better. A knob whose choices are not numbers tries every other choice. Below
    one step the search restarts at random. ``step``: the first step, in choices.
    """

    def __init__(self, codec: Codec, seed: int, *, step: int = 2) -> None:
        self._codec = codec
        self._rng = random.Random(seed)
        self._first_step = step
        self._step = step
        self._centre: Params | None = None
        self._value = math.inf
        self._polls: deque[Params] = deque()

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return the distributions of all knobs: they are sampled together."""
        return self._codec.distributions

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the next config to poll, or a random one where there is no centre."""
        if self._centre is not None and not self._polls:
            self._narrow()
        if not self._polls:
            return self._codec.params(self._codec.space.sample(self._rng))
        return self._polls.popleft()

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Return a random valid config's choice for this one knob."""
        return self._codec.params(self._codec.space.sample(self._rng))[param_name]

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """Move the centre to the trial's config if its objective is the lowest so far."""
        if values is None or any(violation > 0 for violation in trial.constraints.values()):
            return
        if values[0] < self._value:
            self._value = values[0]
            self._centre = {name: trial.params[name] for name in self._codec.distributions}
            self._poll(self._centre)

    def _narrow(self) -> None:
        """Halve the step, since no config around the centre was better."""
        self._step //= 2
        if self._step and self._centre is not None:
            self._poll(self._centre)
        else:
            self._step, self._centre, self._value = self._first_step, None, math.inf

    def _poll(self, centre: Params) -> None:
        around = []
        for name, distribution in self._codec.distributions.items():
            if isinstance(distribution, IntDistribution):
                beside = (centre[name] - self._step, centre[name] + self._step)
                inside = [at for at in beside if distribution.low <= at <= distribution.high]
            else:
                inside = [at for at in range(len(self._codec.space.knob(name).choices)) if at != centre[name]]
            around += [{**centre, name: at} for at in inside]
        self._rng.shuffle(around)
        self._polls = deque(around)
