"""A tuning on this machine with a reference that never returns: for how long the others are held up, and what they have
to make anew."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tile_testing.fakes.child_stages import CARD
from tile_testing.fakes.cluster_fakes import GPU
from tile_testing.fakes.cluster_runs import spec
from tile_testing.fakes.cpu_stages import CONFIGS, ENDLESS, LIMITS, CpuStages, prepare
from tileflow_cluster.local_evaluator import LocalEvaluator
from tileflow_cluster.local_pool import LocalPool
from tileflow_experiments import journal as journals
from tileflow_experiments import sweep
from tileflow_experiments.work import Tools

from tileflow.measure.request import LEAST_S
from tileflow.measure.types import Outcome, Status

pytestmark = pytest.mark.usefixtures("no_mlflow")

OTHERS = tuple(range(1, 10))
LATE_S = 0.8  # of a busy machine


def test_the_others_are_held_up_once_and_make_nothing_anew(tmp_path: Path) -> None:
    """Nine studies had 1.16 times their seconds a trial on an H200: the process was ended after 2 s, and with it went
    their data."""

    def evaluator(_: Any) -> LocalEvaluator:
        return LocalEvaluator(CpuStages(str(tmp_path)), (GPU,), compilers=2, pool=LocalPool(forks=False), gpus=[CARD])

    def check(_: Any) -> Outcome:
        return Outcome(Status.OK, measured=False)

    sweep.run(spec(1000, *OTHERS, ENDLESS, devices=(GPU,)), tmp_path / "sweep", Tools(evaluator, prepare, check))
    ended = [float(line) for line in (tmp_path / "trials").read_text().splitlines()[: len(OTHERS) * CONFIGS]]
    held_up = max(after - before for before, after in pairwise(ended))
    assert held_up < LEAST_S + LATE_S < LIMITS.prepare_others_waiting
    made = Counter(int(line.split()[0]) for line in (tmp_path / "made").read_text().splitlines())
    assert {n: made[n] for n in OTHERS} == dict.fromkeys(OTHERS, 1)
    lines = journals.read(tmp_path / "sweep/journal.jsonl")
    completed = Counter(dict(r.study.problem)["m"] for r in journals.attempts(lines) if r.completed)
    assert completed == dict.fromkeys(OTHERS, CONFIGS)
    (stopped,) = journals.stopped(journals.fold(lines).events).values()
    assert "planted: no witnesses" in stopped
