"""The regret of picks: each study's winner against the best of its whole search, in a new race on one GPU.

``python -m tileflow_benchmarks.search_replay.regret OUT --seconds 120`` reads the journal of the sweep in ``OUT``. It
builds each winner and the :data:`POOL` fastest configs of its search anew, and runs a race with other inputs than those
that the winner was picked with. A row for each study is printed as soon as it is known; ``OUT/regret.json`` has all.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tileflow_cluster.pipeline import TileflowStages
from tileflow_cluster.protocol import RaceRequest, TrialRequest
from tileflow_cluster.stages import Device
from tileflow_experiments import journal, spec
from tileflow_experiments.journal import Folded
from tileflow_experiments.open_studies import study_keys
from tileflow_experiments.study import leaders
from tileflow_experiments.tables import winner
from tileflow_experiments.tuning_task import TuningTask, prepare

from .record import Compilers

POOL = 24
SEED = 1000  # of the inputs


@dataclass(frozen=True, slots=True)
class Regret:
    """One study's pick in the new race.

    ``ratio``: the pick's time over the best candidate's, 1 where it is the best, with its interval. ``rounds``: how
    many times the pick was timed. ``best``: the key of the fastest config, out of ``candidates``.
    """

    study: str
    ratio: float
    low: float
    high: float
    rounds: int
    best: str
    candidates: int

    def to_json(self) -> dict[str, Any]:
        """Return the row of regret.json, which calls the number of candidates ``entrants``."""
        data = asdict(self)
        return {**{name: value for name, value in data.items() if name != "candidates"}, "entrants": self.candidates}


def regret(task: TuningTask, folded: Folded, compilers: Compilers, device: Device) -> Regret | None:
    """Race a study's pick against its pool. None where it has no measured winner, or its device failed in the race."""
    won = winner(folded, task)
    if won is None or not won.record.measured:
        return None
    good = [r.config for r in leaders(folded.trials[task.key]) if r.measured and r.config != won.record.config]
    key, first = task.key, won.record.config
    requests = [
        TrialRequest(
            config.key,
            task.kernel,
            key.problem,
            key.device_class,
            config,
            incumbent_us=won.time_us,
            seed=SEED,
            remeasure=True,
        )
        for config in [first, *good[: POOL - 1]]
    ]
    built = [future.result() for future in [compilers.submit(request) for request in requests]]
    able = [(r, compiled, code) for r, (compiled, code) in zip(requests, built, strict=True) if not compiled.rejected]
    if not able or able[0][0].config != first:
        return None
    candidates = tuple((compiled.trial_id, r.config) for r, compiled, _ in able)
    race = RaceRequest(
        "regret", task.kernel, key.problem, key.device_class, candidates, incumbent_us=won.time_us, seed=SEED
    )
    ranked = device.race(race, [code for _, _, code in able]).ranked
    if not ranked:
        return None
    best = min(range(len(ranked)), key=lambda i: _or_inf(ranked[i].ratio))
    mine, timed = ranked[0], ranked[0].outcome.measurement
    return Regret(
        key.id,
        _or_inf(mine.ratio),
        _or_inf(mine.low),
        _or_inf(mine.high),
        len(timed.samples_us) if timed else 0,
        able[best][0].config.key,
        len(ranked),
    )


def _or_inf(ratio: float | None) -> float:
    """Return infinity for a candidate that failed."""
    return math.inf if ratio is None else ratio


def main() -> int:
    """Race the studies of the sweep's folder until the time is over, and print a row each. Returns the exit code."""
    parser = argparse.ArgumentParser(description="The regret of a sweep's picks.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=120.0, help="no further study is begun after them")
    asked = parser.parse_args()
    sys.path.insert(0, os.getcwd())
    started = time.monotonic()
    folded = journal.fold(journal.read(asked.out / "journal.jsonl"))
    wanted = spec.parse(folded.header["spec"])
    stages, found = TileflowStages(), []
    with Compilers(stages, len(os.sched_getaffinity(0))) as compilers:
        device = stages.open_device(wanted.device_classes[0])
        try:
            for key in study_keys(wanted):
                if time.monotonic() - started > asked.seconds:
                    break
                result = regret(prepare(key, wanted.modes[0]), folded, compilers, device)
                print(
                    key.title,
                    "no race"
                    if result is None
                    else f"{result.ratio:.4f} ({result.low:.4f} to {result.high:.4f}, {result.rounds} rounds, "
                    f"{result.candidates} candidates)",
                    flush=True,
                )
                if result is not None:
                    found.append(result)
                    (asked.out / "regret.json").write_text(json.dumps([r.to_json() for r in found], indent=1))
        finally:
            device.close()
    finite = [r.ratio for r in found if r.ratio < math.inf]
    if finite:
        mean = math.exp(sum(map(math.log, finite)) / len(finite))
        print(f"{len(found)} tuning tasks: geomean {mean:.4f}, worst {max(r.ratio for r in found):.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
