"""Fake stages whose devices run the measuring child's own code on a CPU. One problem's reference never returns."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tileflow_cluster.protocol import TrialRequest
from tileflow_cluster.trial import Build
from tileflow_experiments.records import StudyKey
from tileflow_experiments.tuning_task import TuningTask

from tile_testing.fakes.cluster_fakes import KERNEL, FakeDevice, FakeStages, numbered_space
from tile_testing.fakes.cpu_measuring import ask, measuring
from tileflow.measure.request import Limits
from tileflow.measure.types import Outcome
from tileflow.runtime.abi import Binary
from tileflow.runtime.problem import Problem, TensorSpec

ENDLESS = 902
CONFIGS = 12
LIMITS = Limits(prepare=3.0)


class CpuDevice(FakeDevice):
    """Notes in ``trials`` when it is done with a trial of a problem that has a reference, in ``made`` what it makes."""

    def __init__(self, stages: FakeStages, device_class: str, gpu: str) -> None:
        super().__init__(stages, device_class, measured=True, gpu=gpu)
        self.process = measuring(Path(self.stages.scratch) / "made")

    def run(self, request: TrialRequest, compiled: Build, binaries: tuple[Binary, ...]) -> Outcome:
        size = int(dict(request.problem)["m"])  # type: ignore[arg-type]
        limits = LIMITS.while_others_wait() if request.others_wait else LIMITS
        outcome = ask(self.process, "Sleeps" if size == ENDLESS else "Twice", size, limits)
        with open(Path(self.stages.scratch) / "trials", "a") as log:
            log.write(f"{time.time()}\n")
        return outcome

    def close(self) -> None:
        self.process.close()


@dataclass(frozen=True, slots=True)
class CpuStages(FakeStages):
    """Stages of :class:`CpuDevice`."""

    def open_device(self, device_class: str, gpu: str = "") -> FakeDevice:
        return CpuDevice(self, device_class, gpu)


def prepare(key: StudyKey, mode: Any) -> TuningTask:
    space = numbered_space(CONFIGS)
    problem = Problem(KERNEL.name, (("a", TensorSpec("float32", (int(dict(key.problem)["m"]),), (1,))),))  # type: ignore[arg-type]
    return TuningTask(key, KERNEL, problem, space, space.default, mode)
