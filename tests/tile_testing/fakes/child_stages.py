"""Fake stages whose devices measure in a real process, which a config's fault may hang or end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tileflow_cluster.devices import VisibleGpu
from tileflow_cluster.protocol import TrialRequest
from tileflow_cluster.trial import Build

from tile_testing.fakes.cluster_fakes import GPU, FakeDevice, FakeStages
from tileflow.config import Config
from tileflow.measure.request import Candidate, Limits, MeasureRequest
from tileflow.measure.server import MeasureProcess
from tileflow.measure.types import Outcome
from tileflow.runtime.abi import Binary

LIMITS = Limits(prepare=0.5, floor=0.3, unknown=0.5)
CARD = VisibleGpu("0", "NVIDIA H200", GPU)


class ChildDevice(FakeDevice):
    """A real measuring process, whose child does what the config's fault says (``measure_kernels.stand_in``)."""

    def __init__(self, stages: FakeStages, device_class: str, gpu: str) -> None:
        super().__init__(stages, device_class, measured=True, gpu=gpu)
        self.process = MeasureProcess(runs="tile_testing.kernels.measure_kernels:stand_in")

    def run(self, request: TrialRequest, compiled: Build, binaries: tuple[Binary, ...]) -> Outcome:
        self.stages.note("device", request)
        config = Config.of({"what": str(request.config["fault"]).removeprefix("child_") or "ok"})
        return self.process.run(
            MeasureRequest(
                "tile_testing.kernels.measure_kernels:add", request.problem, (Candidate(config, ()),), limits=LIMITS
            )
        )

    def rest(self) -> None:
        (Path(self.stages.scratch) / "rested").touch()

    def close(self) -> None:
        self.process.close()


@dataclass(frozen=True, slots=True)
class ChildStages(FakeStages):
    """Stages whose devices are real measuring processes."""

    def open_device(self, device_class: str, gpu: str = "") -> FakeDevice:
        return ChildDevice(self, device_class, gpu)
