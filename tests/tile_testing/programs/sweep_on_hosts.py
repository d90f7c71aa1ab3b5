"""A sweep's driver on one of several hosts: ``sweep_on_hosts.py OUT [resume]``, on the cluster that RAY_ADDRESS names.

Two device classes, one of each vendor; trials are slow enough to be disturbed. It ends as the command line does.
"""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import typer
from tileflow_cluster.protocol import TrialRequest
from tileflow_cluster.ray_evaluator import RayEvaluator, Timeouts
from tileflow_cluster.trial import Build
from tileflow_experiments import cli, sweep
from tileflow_experiments.spec import SweepSpec, parse
from tileflow_experiments.work import Tools

from tile_testing.fakes.cluster_fakes import GPU, KERNEL, MODELLED, FakeCompiler, FakeDevice, FakeStages
from tile_testing.programs.sweep_alone import TRIALS, prepare
from tileflow.measure.types import Outcome, Status
from tileflow.runtime.abi import Binary


class HostCompiler(FakeCompiler):
    """Leaves a file that names its host."""

    def compile(self, request: TrialRequest) -> tuple[Build, tuple[Binary, ...]]:
        (Path(self.stages.scratch) / f"compiled-on-{socket.gethostname()}").touch()
        return super().compile(request)


@dataclass(frozen=True, slots=True)
class HostStages(FakeStages):
    """Workers say on which host they are, and have a card that is known by the Ray node that they belong to."""

    def open_compiler(self) -> FakeCompiler:
        return HostCompiler(self)

    def open_device(self, device_class: str, gpu: str = "") -> FakeDevice:
        device = FakeDevice(self, device_class, measured=True, gpu=gpu)
        card = f"GPU:{os.environ['TILEFLOW_TEST_NODE']}:{os.environ.get('CUDA_VISIBLE_DEVICES', '')}"
        device.identity = replace(device.identity, host=socket.gethostname(), gpu_uuid=card)
        return device


def evaluator(spec: SweepSpec) -> RayEvaluator:
    stages = HostStages(os.environ["SCRATCH"], device_s=float(os.environ["DEVICE_S"]))
    timeouts = Timeouts(replan_s=0.5, silent_s=3.0, start_s=60.0)
    return RayEvaluator(
        stages, (GPU, MODELLED), must_measure=True, address=os.environ["RAY_ADDRESS"], timeouts=timeouts
    )


def main() -> None:
    out, *how = sys.argv[1:]
    spec = parse(
        {
            "name": "hosts",
            "kernels": [{"kernel": KERNEL.name, "problems": [{"m": 64}]}],
            "device_classes": [GPU, MODELLED],
            "strategy": {"name": "exhaustive"},
            "budget": {"trials": TRIALS},
            "modes": ["static"],
        }
    )
    tools = Tools(evaluator, prepare, lambda request: Outcome(Status.OK, measured=False), to_mlflow=False)
    app = typer.Typer()

    @app.command()
    def run() -> None:
        folder = Path(out)
        cli.finish(sweep.resume(folder, tools) if how else sweep.run(spec, folder, tools), folder)

    app([])


if __name__ == "__main__":
    main()
