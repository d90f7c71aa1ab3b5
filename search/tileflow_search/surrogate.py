"""A model of the measured times, which predicts a config's time before it is built and once it is."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tileflow.config import Config
from tileflow.cost import StaticFacts

from .features import Features
from .forest import Forest, Posterior

FEWEST = 12  # verdicts before the first fit
GROWTH = 1.25  # growth of the verdicts that causes another fit
LEAST_EXPLAINED = 1 / 3  # of the variance of the times here, for a prior to be used
NOISE = 0.01  # of log2 time: two measurements of one config
# Log2 above the best time: what is slower, or fails, counts as that slow. Wide while the landscape is unknown, so
# that a search finds its way; narrow where related searches have been, and trees need only tell good from bad.
WORST, WORST_KNOWN = 3.0, 1.0


def capped(times: Sequence[float | None], worst: float) -> list[float]:
    """Return log2 times in which a failure, or a time more than ``worst`` above the best, counts as that much above it.

    At least one must be a time.
    """
    cap = min(time for time in times if time is not None) + worst
    return [cap if time is None else min(time, cap) for time in times]


@dataclass(frozen=True, slots=True)
class Prediction:
    """The mean and the standard deviation of a log2 time."""

    mean: float
    deviation: float

    def gain(self, best: float) -> float:
        """Return the expected improvement on ``best`` (Jones, Schonlau and Welch, 1998), in log2."""
        z = (best - self.mean) / self.deviation
        density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        return (best - self.mean) * (1 + math.erf(z / math.sqrt(2))) / 2 + self.deviation * density


class Prior(Protocol):
    """What the searches of related problems predict."""

    fits: int  # how often it was fitted

    def prior(self, configs: Sequence[Config]) -> Posterior | None:
        """Return predictions for the configs, up to a shared constant; None while too little is known."""


class TimeModel:
    """Two ensembles over one set of verdicts: one sees a config's knobs, the other its binaries' static facts too.

    Where related searches have results (``peers``) the trees learn the residual of their prior (stacked residuals, as
    in Vizier: Golovin et al., 2017). Where the prior explains too little of the times here, they learn the times alone.
    An ensemble is fitted again, at its next use, once the verdicts have grown by a quarter or the prior has changed.
    """

    def __init__(self, features: Features, seed: int, peers: Prior | None = None) -> None:
        self._features, self._seed, self._peers = features, seed, peers
        self._facts: dict[Config, list[float]] = {}
        self._verdicts: dict[Config, float | None] = {}
        self._rows: dict[Config, list[float]] = {}
        self._fits: dict[str, _Fit] = {}
        self._explained: float | None = None

    @property
    def prior_is_useful(self) -> bool | None:
        """Whether the related searches' prior explains the times here; None while there are too few verdicts.

        A failure counts as twice the best time.
        """
        return None if self._explained is None else self._explained >= LEAST_EXPLAINED

    @property
    def ready(self) -> bool:
        """Whether the model can predict: it has a prior, or enough verdicts of which one is a time."""
        if self._prior(()) is not None:
            return True
        return len(self._verdicts) >= FEWEST and any(time is not None for time in self._verdicts.values())

    def built(self, config: Config, facts: StaticFacts) -> None:
        """Record the static facts of a built config as features."""
        self._facts[config] = self._features.facts(facts)

    def learn(self, config: Config, log_time: float | None) -> None:
        """Record one verdict. ``log_time``: log2 of the time; None where the config failed."""
        self._verdicts[config] = log_time

    def predict_from_config(self, configs: Sequence[Config]) -> list[Prediction]:
        """Predict the log2 times of configs from their knobs alone."""
        return self._predict("config", self._knobs, configs, list(self._verdicts))

    def predict_from_binary(self, configs: Sequence[Config]) -> list[Prediction]:
        """Predict the log2 times of built configs from their knobs and static facts."""
        known = [config for config in self._verdicts if config in self._facts]
        return self._predict("binary", lambda config: self._knobs(config) + self._facts[config], configs, known)

    def _knobs(self, config: Config) -> list[float]:
        if config not in self._rows:
            self._rows[config] = self._features.knobs(config)
        return self._rows[config]

    def _predict(
        self, name: str, row: Callable[[Config], list[float]], configs: Sequence[Config], known: Sequence[Config]
    ) -> list[Prediction]:
        import numpy as np

        if not configs:
            return []
        prior = self._prior(configs)
        if len(known) < FEWEST or all(self._verdicts[config] is None for config in known):
            posterior = self._shifted(prior, known)
        else:
            fit = self._fitted(name, row, known)
            posterior = fit.forest.predict([row(config) for config in configs])
            if prior is not None and fit.on_prior:
                posterior = Posterior(posterior.means + prior.means, np.hypot(posterior.deviations, prior.deviations))
        if posterior is None:
            return [Prediction(0.0, 1e3)] * len(configs)
        deviations = np.hypot(posterior.deviations, NOISE)
        return [Prediction(float(m), float(d)) for m, d in zip(posterior.means, deviations, strict=True)]

    def _fitted(self, name: str, row: Callable[[Config], list[float]], known: Sequence[Config]) -> _Fit:
        """Return the ensemble ``name``, fitted again where that is due."""
        fits = self._peers.fits if self._peers is not None else 0
        fit = self._fits.get(name)
        if fit is None or len(known) > GROWTH * fit.count or fit.prior_fits != fits:
            times, prior = [self._verdicts[config] for config in known], self._prior(known)
            targets, on_prior = capped(times, WORST), False
            if prior is not None:
                missed = _missed(times, prior)
                self._explained = _share_explained(capped(times, WORST_KNOWN), missed)
                if self.prior_is_useful:
                    targets, on_prior = missed, True
            fit = _Fit(Forest([row(config) for config in known], targets, self._seed), len(known), fits, on_prior)
            self._fits[name] = fit
        return fit

    def _prior(self, configs: Sequence[Config]) -> Posterior | None:
        return None if self._peers is None else self._peers.prior(configs)

    def _shifted(self, prior: Posterior | None, known: Sequence[Config]) -> Posterior | None:
        """Return the prior alone, shifted to fit the few verdicts there are."""
        if prior is None:
            return None
        good = [config for config in known if self._verdicts[config] is not None]
        expected = self._prior(good)
        if not good or expected is None:
            return prior
        shift = statistics.median(_missed([self._verdicts[config] for config in good], expected))
        return Posterior(prior.means + shift, prior.deviations)


@dataclass(frozen=True, slots=True)
class _Fit:
    """A fitted ensemble.

    ``count``: how many verdicts it was fitted to. ``prior_fits``: how often the prior had been fitted by then.
    ``on_prior``: the ensemble predicts the prior's residual, not the time.
    """

    forest: Forest
    count: int
    prior_fits: int
    on_prior: bool


def _missed(times: Sequence[float | None], prior: Posterior) -> list[float]:
    """Return the residuals of ``prior`` on log2 times, of which at least one must be a time."""
    return [time - float(mean) for time, mean in zip(capped(times, WORST_KNOWN), prior.means, strict=True)]


def _share_explained(times: Sequence[float], missed: Sequence[float]) -> float:
    """Return the share of the variance of ``times`` that a prediction with residuals ``missed`` explains.

    It is negative where the prediction is worse than the mean. Variance within the noise counts as explained.
    """
    noise = 4 * NOISE**2
    return 1.0 - max(statistics.pvariance(missed) - noise, 0.0) / max(statistics.pvariance(times) - noise, noise)
