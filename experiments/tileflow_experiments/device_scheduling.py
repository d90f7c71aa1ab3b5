"""Device scheduling: the studies take turns on a device, and each one's strategy selects among its own requests.

A device worker keeps the inputs and references of the studies that it has measured, since making them takes longer than
measuring a config. So a worker stays with a study for some trials, and a study with the workers that have its data.
Another worker takes over only where these do not keep up.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping

from tileflow_cluster.protocol import Selection, TrialRequest, Waiting

from tileflow.cost import StaticFacts

from .study import Study

IN_A_ROW = 6  # trials of a study before a worker takes the next study
BACKLOG = 4  # requests of a study that wait for another worker's data before this worker helps
PATIENCE_S = 0.3  # seconds that a request waits for the worker with its data, which may have died


class StudySchedulingPolicy:
    """Selects the study whose turn it is, and of its requests the one with the lowest rank.

    Ranks of two studies cannot be compared. ``study_of``: gives the study that a request id belongs to. ``spent_s``:
    seconds spent in the strategies' ranking.
    """

    def __init__(self, study_of: Callable[[str], Study], clock: Callable[[], float] = time.monotonic) -> None:
        self._study_of = study_of
        self._clock = clock
        self._served: Counter[Study] = Counter()
        self._homes: dict[Study, set[str]] = {}
        self._turns: dict[str, tuple[Study, int]] = {}
        self._left_since: dict[Study, float] = {}
        self.spent_s = 0.0  # seconds of the strategies' ranking

    def built(self, request: TrialRequest, facts: StaticFacts) -> None:
        """Hand the static facts to the strategy of the request's study."""
        self._study_of(request.request_id).built(request.config, facts)

    def select(self, waiting: Waiting, worker: str) -> Selection:
        """Select the next request for ``worker``, and drop those that their strategy ranks at infinity.

        A worker stays with a study for :data:`IN_A_ROW` trials, then takes the least served one whose data it has. It
        takes one whose data it lacks only when that waits too long. ``take`` is None where no study is to run on this
        worker now.
        """
        groups = {self._study_of(next(iter(group))): group for group in waiting.values()}
        dropped: list[str] = []
        while (study := self._pick({study: len(group) for study, group in groups.items()}, worker)) is not None:
            mine = list(groups.pop(study).values())
            started = self._clock()
            ranks = study.rank([request.config for request in mine])
            self.spent_s += self._clock() - started
            dropped += (r.request_id for r, rank in zip(mine, ranks, strict=True) if rank == math.inf)
            rank, position = min(zip(ranks, range(len(mine)), strict=True))
            if rank < math.inf:
                self._serve(study, worker)
                return Selection(mine[position].request_id, tuple(dropped), study.incumbent_us)
        return Selection(None, tuple(dropped))

    def _pick(self, groups: Mapping[Study, int], worker: str) -> Study | None:
        """Return the study to serve, None where none should be. ``groups``: how many requests of each study wait."""
        current, row = self._turns.get(worker, (None, 0))
        if current in groups and row < IN_A_ROW:
            return current
        near = [study for study in groups if self._is_near(study, worker)]
        candidates = near or [study for study, count in groups.items() if self._needs_help(study, count)]
        return min(candidates, key=self._served.__getitem__, default=None)

    def _is_near(self, study: Study, worker: str) -> bool:
        return study not in self._homes or worker in self._homes[study]

    def _needs_help(self, study: Study, count: int) -> bool:
        since = self._left_since.setdefault(study, self._clock())
        return count >= BACKLOG or self._clock() - since >= PATIENCE_S

    def _serve(self, study: Study, worker: str) -> None:
        current, row = self._turns.get(worker, (None, 0))
        self._turns[worker] = study, row + 1 if current is study else 1
        self._homes.setdefault(study, set()).add(worker)
        self._left_since.pop(study, None)
        self._served[study] += 1
