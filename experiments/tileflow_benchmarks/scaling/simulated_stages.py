"""Simulated stages, which only take their time, without a compiler or a GPU, to measure a sweep's own machinery.

Times are those that an H200 and its host took for the suite, with their scatter. A worker pays for a problem's data
where it does not have it, as the real one does. ``python -m tileflow_benchmarks.scaling.throughput --simulated`` runs
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
    """Opens simulated compilers and devices. Both limits are generous: nothing here hangs."""

    pace: Pace = field(default_factory=Pace)
    compile_limit_s: float = 60.0

    def device_limit_s(self, request: AnyRequest) -> float:
        """Return the seconds that a trial may take."""
        return 60.0

    def open_compiler(self) -> SimulatedCompiler:
        """Return a simulated compiler."""
        return SimulatedCompiler(self.pace)

    def open_device(self, device_class: str, gpu: str = "") -> SimulatedDevice:
        """Return a simulated GPU of the class."""
        return SimulatedDevice(self.pace, device_class)

    def open_model(self, device_class: str) -> SimulatedDevice:
        """Return a simulated GPU in place of the cost model."""
        return SimulatedDevice(self.pace, device_class)


@dataclass(frozen=True, slots=True)
class SimulatedCompiler:
    """A compiler that sleeps and returns random bytes as machine code."""

    pace: Pace
    compiled_by: Facts = (("triton", "rehearsed"),)

    def compile(self, request: TrialRequest) -> tuple[Build, tuple[Binary, ...]]:
        """Sleep for the config's compile time and return a build that depends on the config alone."""
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

    def close(self) -> None:
        """Do nothing: it has no child."""


@dataclass(slots=True)
class SimulatedDevice:
    """A GPU that sleeps and returns times that depend on the config. ``kept``: the problems whose data it has."""

    pace: Pace
    device_class: str
    kept: list[object] = field(default_factory=list)

    @property
    def identity(self) -> DeviceIdentity:
        """An identity whose GPU is named after this process."""
        return DeviceIdentity(self.device_class, socket.gethostname(), f"GPU-{os.getpid()}")

    def prepare(self, request: TrialRequest) -> None:
        """Sleep for a problem's data where it is not kept."""
        self._prepared(request)

    def run(self, request: TrialRequest, compiled: Build, binaries: tuple[Binary, ...]) -> Outcome:
        """Sleep for the phases of a trial and return a time made from the config's choices, with noise."""
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
        """Run every candidate and rank them by their medians."""
        alone = [request.alone(config) for _, config in request.candidates]
        outcomes = [self.run(each, Build(""), code) for each, code in zip(alone, candidates, strict=True)]
        return Outcome(Status.OK, ranked=by_medians(outcomes))

    def close(self) -> None:
        """Do nothing: it holds no resources."""

    def _prepared(self, request: TrialRequest) -> float:
        known = request.problem in self.kept
        others = [problem for problem in self.kept if problem != request.problem]
        self.kept = [*others[1 - KEPT :], request.problem]
        if not known:
            time.sleep(self.pace.prepare_s)
        return 0.0 if known else self.pace.prepare_s


def _hash(*parts: object) -> float:
    """Return a number from 0 to 1: the cost of a choice."""
    return random.Random(repr(parts)).random()
