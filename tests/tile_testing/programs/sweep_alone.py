"""A sweep in a process of its own, on the Ray that ``RAY_ADDRESS`` names, or one of its own with one pretended GPU:
``python -m tile_testing.programs.sweep_alone OUT [resume]``.

Its trials are slow enough to be disturbed. It ends as the command line does: by exit code and last line.
"""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"

import typer
from tileflow_cluster.labels import DEVICE_CLASS
from tileflow_cluster.local import local_ray
from tileflow_cluster.ray_connection import exit_where_the_head_has_gone
from tileflow_cluster.ray_evaluator import RayEvaluator, Timeouts
from tileflow_experiments import cli, sweep
from tileflow_experiments.records import StudyKey
from tileflow_experiments.spec import SweepSpec, parse
from tileflow_experiments.tuning_task import TuningTask
from tileflow_experiments.work import Tools

from tile_testing.fakes.cluster_fakes import GPU, KERNEL, FakeStages, numbered_space
from tileflow.measure.types import Outcome, Status
from tileflow.runtime.problem import Problem, TensorSpec

TRIALS = 40


def prepare(key: StudyKey, mode: Any) -> TuningTask:
    space = numbered_space(TRIALS)
    problem = Problem(KERNEL.name, (("a", TensorSpec("float32", (64,), (1,))),))
    return TuningTask(key, KERNEL, problem, space, space.default, mode)


def evaluator(spec: SweepSpec) -> RayEvaluator:
    stages = FakeStages(os.environ["SCRATCH"], device_s=float(os.environ.get("DEVICE_S", "0.1")))
    return RayEvaluator(stages, (GPU,), compilers=1, timeouts=Timeouts(replan_s=0.3, silent_s=2.0))


def main() -> None:
    out, *how = sys.argv[1:]
    spec = parse({
        "name": "alone", "kernels": [{"kernel": KERNEL.name, "problems": [{"m": 64}]}], "device_classes": [GPU],
        "strategy": {"name": "exhaustive"}, "budget": {"trials": TRIALS}, "modes": ["static"],
    })  # fmt: skip
    tools = Tools(evaluator, prepare, lambda request: Outcome(Status.OK, measured=False), to_mlflow=False)
    app = typer.Typer()

    @app.command()
    def run() -> None:
        folder = Path(out)
        with nullcontext() if "RAY_ADDRESS" in os.environ else local_ray(2, 1, {DEVICE_CLASS: GPU}):
            cli.finish(sweep.resume(folder, tools) if how else sweep.run(spec, folder, tools), folder)

    try:
        app([])
    except SystemExit as ending:
        exit_where_the_head_has_gone(int(ending.code or 0))
        raise


if __name__ == "__main__":
    main()
