"""Fake stages whose devices measure in a real process, in which some problems' references cannot be had."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tileflow_cluster.protocol import TrialRequest
from tileflow_cluster.trial import Build
from tileflow_experiments.records import StudyKey
from tileflow_experiments.tuning_task import TuningTask

from tile_testing.fakes.cluster_fakes import KERNEL, FakeDevice, FakeStages
from tileflow.config import Config, ConfigSpace, Knob
from tileflow.measure.request import Candidate, Limits, MeasureRequest
from tileflow.measure.server import MeasureProcess
from tileflow.measure.types import Outcome
from tileflow.runtime.abi import Binary
from tileflow.runtime.problem import Problem, TensorSpec

ADD = "tile_testing.kernels.measure_kernels:add"
NO_ROOM, ENDLESS = 901, 902
WHAT = {NO_ROOM: "no_room_on_this_host", ENDLESS: "slow_inputs"}
CONFIGS = 12
TRIAL_S = 0.2
LIMITS = Limits(prepare=1.0, prepare_others_waiting=0.3)


class ReferenceDevice(FakeDevice):
    """Notes when it is done with a trial of a problem that has a reference."""

    def __init__(self, stages: FakeStages, device_class: str, gpu: str) -> None:
        super().__init__(stages, device_class, measured=True, gpu=gpu)
        self.process = MeasureProcess(runs="tile_testing.kernels.measure_kernels:stand_in")

    def run(self, request: TrialRequest, compiled: Build, binaries: tuple[Binary, ...]) -> Outcome:
        size = int(dict(request.problem)["m"])  # type: ignore[arg-type]
        limits = LIMITS.while_others_wait() if request.others_wait else LIMITS
        candidate = Candidate(Config.of({"what": WHAT.get(size, "ok")}), ())
        outcome = self.process.run(MeasureRequest(ADD, request.problem, (candidate,), limits=limits))
        if size in WHAT:
            return outcome
        time.sleep(TRIAL_S)
        with open(Path(self.stages.scratch) / "trials", "a") as log:
            log.write(f"{os.getpid()} {time.time()}\n")
        return outcome

    def close(self) -> None:
        self.process.close()


@dataclass(frozen=True, slots=True)
class ReferenceStages(FakeStages):
    """Stages of :class:`ReferenceDevice`."""

    def open_device(self, device_class: str, gpu: str = "") -> FakeDevice:
        return ReferenceDevice(self, device_class, gpu)


def prepare(key: StudyKey, mode: Any) -> TuningTask:
    fault = Knob("fault", "tunable:fault", ("",), "tunable", "")
    space = ConfigSpace((Knob("x", "block:x", tuple(range(CONFIGS)), "block", 0), fault))
    problem = Problem(KERNEL.name, (("a", TensorSpec("float32", (int(dict(key.problem)["m"]),), (1,))),))  # type: ignore[arg-type]
    return TuningTask(key, KERNEL, problem, space, space.default, mode)
