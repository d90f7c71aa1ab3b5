"""Simulated stages, which only take their time, without a compiler or a GPU: what a sweep's machinery itself can move.

Times are those that an H200 and its host took for the suite, scattered as they were; a worker pays for a problem's data
where it has not got them, as the real one does. ``python -m tileflow_benchmarks.scaling.throughput --rehearse`` runs
them.
"""

from __future__ import annotations

import math
import os
import random
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from tileflow_cluster.protocol import AnyRequest, RaceRequest, TrialRequest, source_hash, trial_id
from tileflow_cluster.trial import Build, DeviceIdentity, Facts

from tileflow import cost
from tileflow.cost import Launch
from tileflow.expr import TRUE, Expr
from tileflow.ir.traffic import Traffic
from tileflow.measure.racing import by_medians
from tileflow.measure.timing import Effort, summarise
from tileflow.measure.types import Outcome, Status
from tileflow.runtime.abi import Binary, LaunchAbi, Resources
from tileflow.target import target

TRAFFIC = Traffic(1 << 28, 0, "float32")
CODE_BYTES = 60_000
KEPT = 12


@dataclass(frozen=True, slots=True)
class Pace:
    """Median seconds of each phase; a config's own differ from them by up to the factor e."""

    compile_s: float = 0.5
    prepare_s: float = 0.15
    load_s: float = 0.003
    verify_s: float = 0.012
    bench_s: float = 0.015


@dataclass(frozen=True, slots=True)
class SimulatedStages:
    """Both limits are generous: nothing here hangs."""

    pace: Pace = field(default_factory=Pace)
    compile_limit_s: float = 60.0

    def device_limit_s(self, request: AnyRequest) -> float:
        return 60.0

    def open_compiler(self) -> SimulatedCompiler:
        return SimulatedCompiler(self.pace)

    def open_device(self, device_class: str, gpu: str = "") -> SimulatedDevice:
        return SimulatedDevice(self.pace, device_class)

    def open_model(self, device_class: str) -> SimulatedDevice:
        return SimulatedDevice(self.pace, device_class)


@dataclass(frozen=True, slots=True)
class SimulatedCompiler:
    pace: Pace
    compiled_by: Facts = (("triton", "rehearsed"),)

    def compile(self, request: TrialRequest) -> tuple[Build, tuple[Binary, ...]]:
        chance = random.Random(request.config.key)
        spent = self.pace.compile_s * math.exp(chance.uniform(-1, 1))
        time.sleep(spent)
        source = source_hash([request.config.key])
        identity = trial_id(request, source, "rehearsed")
        resources = Resources(chance.randrange(32, 255), 0, chance.randrange(0, 200_000), 32 * chance.randrange(1, 9))
        one = Expr.of(1)
        abi = LaunchAbi("rehearsed", (), (one, one, one), resources.threads, resources.shared)
        code = chance.randbytes(CODE_BYTES)
        binary = Binary(0, request.device_class, "cubin", code, abi, TRUE, resources, request.mode)
        roofline = cost.roofline_us(TRAFFIC, target(request.device_class))
        compiled = Build(
            identity,
            source,
            self.compiled_by,
            spent,
            socket.gethostname(),
            None,
            (Launch(resources, 1000),),
            TRAFFIC,
            roofline,
            roofline,
            0.5,
        )
        return compiled, (binary,)

    def close(self) -> None: ...


@dataclass(slots=True)
class SimulatedDevice:
    pace: Pace
    device_class: str
    kept: list[object] = field(default_factory=list)

    @property
    def identity(self) -> DeviceIdentity:
        return DeviceIdentity(self.device_class, socket.gethostname(), f"GPU-{os.getpid()}")

    def prepare(self, request: TrialRequest) -> None:
        self._prepared(request)

    def run(self, request: TrialRequest, compiled: Build, binaries: tuple[Binary, ...]) -> Outcome:
        prepare_s = self._prepared(request)
        chance = random.Random(request.config.key)
        time_us = 100.0 * (1 + sum(_hash(name, value) for name, value in request.config.items) / 4)
        hopeless = request.incumbent_us is not None and time_us > Effort().hopeless * request.incumbent_us
        bench_s = self.pace.bench_s * (0.3 if hopeless else math.exp(chance.uniform(-1, 1)))
        time.sleep(self.pace.load_s + self.pace.verify_s + bench_s)
        samples = [time_us * (1 + random.gauss(0, 0.005)) for _ in range(3 if hopeless else 20)]
        return Outcome(
            Status.OK,
            summarise(samples),
            prepare_s=prepare_s,
            load_s=self.pace.load_s,
            verify_s=self.pace.verify_s,
            bench_s=bench_s,
        )

    def race(self, request: RaceRequest, candidates: Sequence[tuple[Binary, ...]]) -> Outcome:
        alone = [request.alone(config) for _, config in request.candidates]
        outcomes = [self.run(each, Build(""), code) for each, code in zip(alone, candidates, strict=True)]
        return Outcome(Status.OK, ranked=by_medians(outcomes))

    def close(self) -> None: ...

    def _prepared(self, request: TrialRequest) -> float:
        known = request.problem in self.kept
        others = [problem for problem in self.kept if problem != request.problem]
        self.kept = [*others[1 - KEPT :], request.problem]
        if not known:
            time.sleep(self.pace.prepare_s)
        return 0.0 if known else self.pace.prepare_s


def _hash(*parts: object) -> float:
    """A number from 0 to 1: how much a choice costs."""
    return random.Random(repr(parts)).random()
