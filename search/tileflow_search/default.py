"""The default strategy: seeds, a diverse start, islands led by a surrogate, an exhaustive local search, restarts.

A surrogate of the knobs says what to build (:mod:`.acquisition`), one that also sees the binaries what to measure first
and what never (:mod:`.pruning`); what is known of the kernel's other problems (:mod:`.transfer`) shortens the search.
It ends once nothing promises half a percent, all around the best is known and no restart has helped (:mod:`.progress`).
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

BATCH = 8  # proposals between two looks at what was learnt
PARENTS = 16  # the best configs, of which those around an island may have children
ENOUGH = 3  # siblings that speak for a problem before its exhaustive local search trusts them


class DefaultStrategy(RandomStrategy):
    """``prune``: drop by static facts. ``model``: propose, order and drop by one. ``peers``: of the same kernel."""

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
        super().seed(configs)
        self._pruning.trust(self._seeds)

    def _suggest(self) -> Config | None:
        while True:
            self._queue = self._queue or deque(self._plan())
            if not self._queue:
                return None
            if (config := self._queue.popleft()) not in self._known:
                return config

    def _plan(self) -> list[Config]:
        """What to try next once the seeds are asked for; nothing leaves the next config to chance."""
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
        """The siblings' best, once, and a diverse start, the shorter the more siblings may speak for this problem."""
        leaders = [] if self._start.begun else self._untried(self._peers.leaders())
        self._pruning.trust(leaders)
        return leaders + self._start.take(BATCH, experience)

    def _promising(self, centres: Sequence[Config]) -> list[Config]:
        """What promises most around each centre, at the siblings' best and elsewhere, in turns."""
        parents = self._progress.leaders()[:PARENTS]
        groups = [self._candidates.around(centre, parents) for centre in centres]
        groups += [self._peers.leaders(), self._candidates.random_candidates()]
        return self._acquisition.in_turns([self._untried(group) for group in groups], BATCH)

    def _exhaustive_local_search(self, best: Config) -> list[Config]:
        """Every untried neighbour, whatever the model says; the likely ones where enough siblings speak for it."""
        beside = self._untried(self._candidates.neighbours(best))
        if self._progress.helpers >= ENOUGH:
            beside = self._acquisition.likely(beside)
        self._pruning.trust(beside)
        return beside

    def _restart(self) -> list[Config]:
        """The most promising of many random candidates."""
        if not self._progress.restart():
            return []
        gains = self._acquisition.gains(
            c for _ in range(2 * BATCH) for c in self._untried(self._candidates.random_candidates())
        )
        return sorted(gains, key=lambda c: (-gains[c], c.key))[:BATCH]

    def _untried(self, configs: Iterable[Config]) -> list[Config]:
        return [config for config in dict.fromkeys(configs) if config not in self._known]

    def built(self, config: Config, facts: StaticFacts) -> None:
        self._pruning.built(config, facts)

    def rank(self, configs: Sequence[Config]) -> list[float]:
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
        return self._progress.finished
