"""The default strategy: seeds, a diverse start, islands guided by a surrogate, an exhaustive local search, restarts.

A surrogate over the knobs selects what to build (:mod:`.acquisition`). One that also sees the binaries' static facts
selects what to measure first and what to prune (:mod:`.pruning`). Results of the kernel's other problems shorten the
search (:mod:`.transfer`). The search ends once no candidate has an expected gain of half a percent, every neighbour of
the best is known and no restart has helped (:mod:`.progress`).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence

from tileflow.config import Config, ConfigSpace
from tileflow.cost import StaticFacts

from .acquisition import Acquisition
from .base import RandomStrategy
from .candidates import Candidates
from .diverse import DiverseStart
from .features import Features
from .progress import Progress
from .protocol import Result
from .pruning import Pruning
from .surrogate import TimeModel
from .transfer import TransferTask, alone

BATCH = 8  # proposals between two updates of the model
PARENTS = 16  # the best configs, which are crossed with those around an island
ENOUGH = 3  # related problems with results, from which on the exhaustive local search trusts the model


class DefaultStrategy(RandomStrategy):
    """Searches with a surrogate model, pruning by static facts and warm starts from related problems.

    ``prune``: drop configs by their static facts. ``model``: use the surrogate to propose, order and drop configs.
    ``peers``: this search's task in the group of the kernel's other problems.
    """

    def __init__(
        self,
        space: ConfigSpace,
        seed: int,
        *,
        prune: bool = True,
        model: bool = True,
        peers: TransferTask | None = None,
    ) -> None:
        super().__init__(space, seed)
        features = Features(space)
        self._peers = peers or alone(space)
        self._model = TimeModel(features, seed, self._peers) if model else None
        self._progress = Progress(features)
        self._acquisition = Acquisition(self._model, self._progress, self._rng)
        self._pruning = Pruning(self._model, self._progress, prune)
        self._start = DiverseStart(space, seed, len(features.names))
        self._candidates = Candidates(space, features.names, self._rng, self._draw)
        self._queue: deque[Config] = deque()

    def seed(self, configs: Iterable[Config]) -> None:
        """Queue the configs to be asked for and measured first, whatever the model and their binaries say of them."""
        super().seed(configs)
        self._pruning.keep(self._seeds)

    def _suggest(self) -> Config | None:
        while True:
            self._queue = self._queue or deque(self._plan())
            if not self._queue:
                return None
            if (config := self._queue.popleft()) not in self._known:
                return config

    def _plan(self) -> list[Config]:
        """Return what to try next once the seeds are asked for; an empty list means a random config."""
        is_useful = None if self._model is None else self._model.prior_is_useful
        self._progress.helpers = self._peers.experience if is_useful else 0
        if opening := self._opening(0 if is_useful is False else self._peers.experience):
            return opening
        centres = self._progress.islands() or self._peers.leaders()
        if not centres:
            return []
        found = self._promising(centres) or self._exhaustive_local_search(centres[0]) or self._restart()
        if not found:
            self._progress.end()
        return found

    def _opening(self, experience: int) -> list[Config]:
        """Return the related problems' best configs, once, and part of a diverse start.

        The start is the shorter the more related problems have results.
        """
        leaders = [] if self._start.begun else self._untried(self._peers.leaders())
        self._pruning.trust(leaders)
        return leaders + self._start.take(BATCH, experience)

    def _promising(self, centres: Sequence[Config]) -> list[Config]:
        """Return the candidates with the highest expected gain, taking turns over the groups.

        The groups are those around each centre, the related problems' best, and random ones.
        """
        parents = self._progress.leaders()[:PARENTS]
        groups = [self._candidates.around(centre, parents) for centre in centres]
        groups += [self._peers.leaders(), self._candidates.random_candidates()]
        return self._acquisition.in_turns([self._untried(group) for group in groups], BATCH)

    def _exhaustive_local_search(self, best: Config) -> list[Config]:
        """Return every untried neighbour of ``best``; only the likely ones where enough related problems have
        results."""
        beside = self._untried(self._candidates.neighbours(best))
        if self._progress.helpers >= ENOUGH:
            beside = self._acquisition.likely(beside)
        self._pruning.trust(beside)
        return beside

    def _restart(self) -> list[Config]:
        """Return the candidates with the highest expected gain out of many random ones."""
        if not self._progress.restart():
            return []
        gains = self._acquisition.gains(
            c for _ in range(2 * BATCH) for c in self._untried(self._candidates.random_candidates())
        )
        return sorted(gains, key=lambda c: (-gains[c], c.key))[:BATCH]

    def _untried(self, configs: Iterable[Config]) -> list[Config]:
        return [config for config in dict.fromkeys(configs) if config not in self._known]

    def built(self, config: Config, facts: StaticFacts) -> None:
        """Hand the static facts of a built config to the pruning and the model."""
        self._pruning.built(config, facts)

    def rank(self, configs: Sequence[Config]) -> list[float]:
        """Rank built configs by the pruning's optimistic estimate; infinity drops one."""
        return self._pruning.ranks(configs)

    def _learn(self, config: Config, result: Result) -> None:
        if result.infrastructure or self._pruning.dropped(config):
            return
        log_time = None if result.time_us is None else math.log2(result.time_us)
        self._progress.learn(config, log_time)
        self._peers.learn(config, log_time)
        if self._model is not None:
            self._model.learn(config, log_time)

    @property
    def finished(self) -> str:
        """Return why the search is over, empty while it is not."""
        return self._progress.finished
