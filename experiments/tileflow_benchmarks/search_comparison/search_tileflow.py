"""One search of ours, as ``kernel.tune`` does it: ``... search_comparison.search_tileflow FOLDER``.

A local Ray of its own, a compile worker on each core that this process may use, a worker on its one GPU, strategy
``default``. The clock starts once all of them are up; their caches are empty.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tileflow_experiments import sweep
from tileflow_experiments.outputs import Outputs
from tileflow_experiments.spec import SweepSpec, parse
from tileflow_experiments.work import Tools

from tileflow.runtime.table_files import load_table

from .notes import Notes
from .searches import TASK, Search
from .series import canonical

if TYPE_CHECKING:
    from tileflow_cluster.protocol import Evaluator, TrialRequest
    from tileflow_cluster.trial import TrialResult

START_LIMIT_S = 180.0


class Watched:
    """An evaluator that notes when each trial's result arrives; everything else is delegated to ``inner``."""

    def __init__(self, inner: Evaluator, notes: Notes) -> None:
        self._inner = inner
        self._notes = notes
        self._requests: dict[str, TrialRequest] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def submit(self, request: TrialRequest) -> None:
        """Remember the request and submit it."""
        self._requests[request.request_id] = request
        self._inner.submit(request)

    def poll(self, timeout_s: float) -> list[TrialResult]:
        """Poll, and note the time of each result that is neither retried nor remeasured."""
        results = self._inner.poll(timeout_s)
        for result in results:
            request, outcome = self._requests[result.request_id], result.outcome
            if not result.retried and not request.remeasure:
                median = outcome.measurement.median_us if outcome.measurement is not None else None
                self._notes.result(request.config.to_dict(), median if outcome.status == "ok" else None)
        return results


def run(search: Search, device: str, folder: Path, notes: Notes, tools: Tools) -> None:
    """Search, and note the pick. ``tools``: their evaluator is watched."""
    wanted = spec(search, device)

    def watched(sweep_spec: SweepSpec) -> Evaluator:
        evaluator = Watched(tools.evaluator(sweep_spec), notes)
        notes.mark("ready")
        return cast("Evaluator", evaluator)

    outputs = Outputs(folder / "sweep")
    sweep.run(wanted, outputs.folder, Tools(watched, tools.prepare, tools.check))
    found = load_table(outputs.table(search.cell.kernel)).entries
    notes.mark("picked", config=canonical(found[0].config.to_dict()) if found else None)


def spec(search: Search, device: str) -> SweepSpec:
    """Return the sweep that ``kernel.tune(..., budget_s=search.limit_s)`` runs."""
    return parse(
        {
            "name": "duel",
            "kernels": [{"kernel": search.cell.kernel, "problems": [dict(search.cell.problem)]}],
            "device_classes": [device],
            "strategy": {"name": "default", "seed": search.seed},
            "budget": {"seconds": search.limit_s},
            "modes": ["static"],
        }
    )


def ray_evaluator(wanted: SweepSpec) -> Evaluator:
    """Return the command line's evaluator, bound to this process's cores, once every worker is ready."""
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    from tileflow_cluster.pipeline import TileflowStages
    from tileflow_cluster.ray_evaluator import RayEvaluator

    cores = len(os.sched_getaffinity(0))
    evaluator = RayEvaluator(
        TileflowStages(), wanted.device_classes, compilers=cores, must_measure=True, address="local"
    )
    evaluator.wait_ready(START_LIMIT_S)
    return evaluator


def main(folder: Path) -> int:
    """Run the search that the folder describes. Returns the exit code."""
    from tileflow_cluster.devices import visible_gpus

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    search = Search.from_json(json.loads((folder / TASK).read_text(encoding="utf-8")))
    device = visible_gpus()[0].target.name
    run(search, device, folder, Notes(folder), Tools(ray_evaluator))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
