"""The default strategy: seeds, a diverse start, islands led by a model, an exhaustive polish, restarts, an end.

Many configs are built and few measured: a model of the knobs alone says what to build, one that also sees the binaries
says what to measure first and what never. What the searches of the kernel's other problems know (``peers``) shortens
it. It ends by itself once no candidate promises a gain of half a percent, no neighbour of the best is untried and no
restart has helped.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from tileflow.config import Config, ConfigSpace
from tileflow.cost import StaticFacts
from tileflow.errors import ConfigError

from .base import RandomStrategy
from .diverse import diverse
from .features import Features
from .moves import child, mutant
from .protocol import Result
from .statics import hopeless
from .surrogate import TimeModel
from .transfer import Member

WORTHWHILE = math.log2(1.005)  # a gain for which another trial is worth its time
BATCH = 8  # proposals between two fits
DOUBT = 32  # trials without a gain after which the model's promises count half
APART = 3.0  # steps between the centres of two islands
MUTANTS = 12  # candidates of each island besides its neighbours
STRANGERS, POOL = 4, 64  # candidates of the whole space: new ones, and how many are kept
ENOUGH = 3  # siblings that know something before a polish trusts them
VAIN = WORTHWHILE / 4  # what promises less is not measured


class DefaultStrategy(RandomStrategy):
    """``prune``: drop by static facts. ``model``: propose, order and drop by one. ``islands``: how many places are
    searched around at once. ``restarts``: how often it starts elsewhere, without a gain, before it ends. ``peers``:
    this problem among others of its kernel: where they know enough, the diverse start and the polish shrink to what
    their knowledge leaves open."""

    def __init__(
        self, space: ConfigSpace, seed: int, *, prune: bool = True, model: bool = True, islands: int = 4,
        restarts: int = 3, peers: Member | None = None,
    ) -> None:  # fmt: skip
        super().__init__(space, seed)
        self._features = Features(space)
        self._prune, self._islands, self._restarts = prune, islands, restarts
        self._peers = peers
        self._model = TimeModel(self._features, seed, peers) if model else None
        self._start, self._started = diverse(space, seed), 0
        self._queue: deque[Config] = deque()
        self._pool: deque[Config] = deque(maxlen=POOL)
        self._beside: dict[Config, list[Config]] = {}  # neighbours
        self._times: dict[Config, float] = {}  # log2 of the good ones
        self._facts: dict[Config, StaticFacts] = {}
        self._certain: set[Config] = set()  # measured whatever the model thinks: seeds and polish
        self._dropped: set[Config] = set()
        self._best, self._dry, self._restarted = math.inf, 0, 0
        self._finished = ""

    def seed(self, configs: Iterable[Config]) -> None:
        super().seed(configs)
        self._certain |= set(self._seeds)

    # ---- what to build --------------------------------------------------------------------------

    def _suggest(self) -> Config | None:
        while self._queue or self._plan():
            config = self._queue.popleft()
            if config not in self._known:
                return config
        return None

    def _plan(self) -> bool:
        """Queue the next proposals; False leaves the next config to chance."""
        self._queue.extend(self._opening())
        centres = self._centres() or self._foreign()
        if self._queue or not centres:
            return bool(self._queue)
        self._queue.extend(self._promising(centres) or self._polish(centres[0]) or self._restart())
        if not self._queue:
            self._finished = (
                f"no candidate promises {2**WORTHWHILE - 1:.1%}, every neighbour of the best is known, "
                f"and {self._restarted} restarts have not helped"
            )
        return bool(self._queue)

    def _opening(self) -> list[Config]:
        """The siblings' best, once, and a diverse start, the shorter the more siblings know something."""
        leaders = self._unknown_of(self._foreign()) if not self._started else []
        self._certain.update(leaders)
        size = max(2 * len(self._features.names) // (1 + self._experience), BATCH // 2)
        start = list(itertools.islice(self._start, max(min(BATCH, size - self._started), 0)))
        self._started += len(start)
        return leaders + start

    def _promising(self, centres: Sequence[Config]) -> list[Config]:
        """What promises most around each centre, at the siblings' best and elsewhere, in turns."""
        candidates = [self._around(centre) for centre in centres]
        candidates += [self._unknown_of(self._foreign()), self._strangers()]
        gains = self._gains({config for group in candidates for config in group})
        ranked = [sorted((c for c in group if gains[c] >= WORTHWHILE), key=lambda c: -gains[c]) for group in candidates]
        turns = (c for row in itertools.zip_longest(*ranked) for c in row if c is not None)
        return list(itertools.islice(dict.fromkeys(turns), BATCH))

    def _polish(self, best: Config) -> list[Config]:
        """Every unknown neighbour, whatever the model says; where enough siblings were polished, the likely ones."""
        beside = self._unknown_of(self._neighbours(best))
        if self._experience >= ENOUGH and self._model is not None:
            predictions = self._model.before(beside)
            beside = [c for c, p in zip(beside, predictions, strict=True) if p.gain(self._goal) >= VAIN / 4]
        self._certain.update(beside)
        return beside

    def _centres(self) -> list[Config]:
        """The best configs that lie apart, best first."""
        centres: list[Config] = []
        for config in sorted(self._times, key=self._times.__getitem__):
            if all(self._features.distance(config, centre) >= APART for centre in centres):
                centres.append(config)
                if len(centres) == self._islands:
                    break
        return centres

    def _foreign(self) -> list[Config]:
        """The siblings' best."""
        return self._peers.leaders() if self._peers is not None else []

    def _around(self, centre: Config) -> list[Config]:
        """Unknown neighbours, mutants, and children with other good ones, of ``centre``."""
        mates = sorted(self._times, key=self._times.__getitem__)[: 2 * BATCH] or [centre]
        changed = [mutant(self.space, self._features.names, centre, self._rng) for _ in range(MUTANTS)]
        changed += [child(centre, self._rng.choice(mates), self._rng) for _ in range(MUTANTS // 2)]
        repaired = (config for raw in changed for config in self._repaired(raw))
        return self._unknown_of(itertools.chain(self._neighbours(centre), repaired))

    def _neighbours(self, config: Config) -> list[Config]:
        if config not in self._beside:
            self._beside[config] = list(self.space.neighbours(config))
        return self._beside[config]

    def _strangers(self) -> list[Config]:
        """From all over the space: a few that are new, and the latest of those before."""
        self._pool.extend(filter(None, (self._draw() for _ in range(STRANGERS))))
        return self._unknown_of(self._pool)

    def _restart(self) -> list[Config]:
        """The most promising of many strangers."""
        if self._restarted >= self._restarts:
            return []
        self._restarted += 1
        gains = self._gains({config for _ in range(2 * BATCH) for config in self._strangers()})
        return sorted(gains, key=lambda c: (-gains[c], c.key))[:BATCH]

    def _repaired(self, config: Config) -> Iterator[Config]:
        try:
            yield self.space.repair(config)
        except ConfigError:
            return

    def _unknown_of(self, configs: Iterable[Config]) -> list[Config]:
        return [config for config in dict.fromkeys(configs) if config not in self._known]

    def _gains(self, configs: set[Config]) -> dict[Config, float]:
        """Expected gain over the best, less believed the longer there was none; chance where there is no model."""
        ordered = sorted(configs, key=lambda c: c.items)
        doubt = 1 + self._dry / DOUBT
        if self._model is None or not self._model.ready:
            return {config: self._rng.uniform(0.0, 0.1) / doubt for config in ordered}
        return {c: p.gain(self._goal) / doubt for c, p in zip(ordered, self._model.before(ordered), strict=True)}

    @property
    def _experience(self) -> int:
        return self._peers.experience if self._peers is not None else 0

    @property
    def _goal(self) -> float:
        """The best log2 time; before there is one, the default's in the siblings' unit."""
        return self._best if self._times else 0.0

    # ---- what to measure ------------------------------------------------------------------------

    def built(self, config: Config, facts: StaticFacts) -> None:
        self._facts[config] = facts
        if self._model is not None:
            self._model.built(config, facts)

    def rank(self, configs: Sequence[Config]) -> list[float]:
        """By optimism; what promises next to nothing is dropped, all but one: a model that is wrong must find out."""
        ranks = [0.0] * len(configs)
        if self._model is not None and self._model.ready:
            predictions = self._model.after(configs)
            ranks = [p.mean - p.deviation for p in predictions]
            vain = [p.gain(self._goal) < VAIN for p in predictions]
            ranks = [math.inf if v and r > min(ranks) else r for v, r in zip(vain, ranks, strict=True)]
        for i, config in enumerate(configs):
            if config in self._certain:
                ranks[i] = -math.inf
            if self._prune and hopeless(self._facts[config], self._best):
                ranks[i] = math.inf
        self._dropped |= {config for config, rank in zip(configs, ranks, strict=True) if rank == math.inf}
        return ranks

    # ---- what became of it ----------------------------------------------------------------------

    def _learn(self, config: Config, result: Result) -> None:
        if result.infrastructure or config in self._dropped:
            return
        self._dry += 1
        if result.time_us is not None:
            self._times[config] = time = math.log2(result.time_us)
            if time < self._best - WORTHWHILE:
                self._dry, self._restarted, self._finished = 0, 0, ""
            self._best = min(self._best, time)
        if self._model is not None:
            self._model.learn(config, self._times.get(config))
        if self._peers is not None:
            self._peers.learn(config, self._times.get(config))

    @property
    def finished(self) -> str:
        return self._finished
