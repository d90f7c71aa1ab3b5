"""What runs next on a device: the studies take turns, and each one's strategy chooses among its own requests."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

from tileflow_cluster.protocol import Choice, TrialRequest

from tileflow.cost import StaticFacts

from .study import Study


class StudyJudge:
    """``study_of``: the study that a request id belongs to. Ranks of two studies say nothing about each other."""

    def __init__(self, study_of: Callable[[str], Study]) -> None:
        self._study_of = study_of
        self._served: Counter[int] = Counter()

    def built(self, request: TrialRequest, facts: StaticFacts) -> None:
        self._study_of(request.request_id).built(request.config, facts)

    def choose(self, waiting: Sequence[TrialRequest]) -> Choice:
        studies = {id(study): study for study in (self._study_of(r.request_id) for r in waiting)}
        study = studies[min(studies, key=self._served.__getitem__)]
        self._served[id(study)] += 1
        mine = [request for request in waiting if self._study_of(request.request_id) is study]
        ranks = study.rank([request.config for request in mine])
        dropped = tuple(r.request_id for r, rank in zip(mine, ranks, strict=True) if rank == math.inf)
        rank, position = min(zip(ranks, range(len(mine)), strict=True))
        return Choice(None if rank == math.inf else mine[position].request_id, dropped)
