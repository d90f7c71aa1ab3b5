"""Stages that need no compiler and no GPU: a config's ``fault`` knob says what goes wrong, and where.

A fault that ends in ``_once`` leaves a marker file, so that the next attempt goes well on whichever worker.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tileflow_cluster.protocol import (
    AnyRequest,
    KernelRef,
    RaceRequest,
    TrialRequest,
    problem_items,
    source_hash,
    trial_id,
)
from tileflow_cluster.trial import Build, DeviceIdentity, Facts

from tileflow.config import Config, ConfigSpace, Knob
from tileflow.cost import Launch
from tileflow.errors import InternalError
from tileflow.expr import TRUE, Expr
from tileflow.ir.traffic import Traffic
from tileflow.measure.racing import by_medians
from tileflow.measure.types import Measurement, Outcome, Status
from tileflow.runtime.abi import Binary, LaunchAbi, Resources

# of a local Ray for tests
OBJECT_STORE = 100 * 2**20
NODE = {"object_store_memory": OBJECT_STORE, "include_dashboard": False}
KERNEL = KernelRef("tile_testing.fakes.cluster_fakes:kernel", "c0ffee")
GPU, MODELLED = "nvidia-h200", "amd-mi300x"
FOREVER_S = 3600.0
LINGER_S = 0.5  # before a fault, so that other calls are in flight by then
LATE = 2  # runs of a config that go well before a late fault
FILL_BYTES, FILL_STEP = 4 << 30, 64 << 20


def request(
    name: str, x: int, fault: str = "", *, inert: int = 0, device_class: str = GPU, remeasure: bool = False
) -> TrialRequest:
    """``x`` decides the source and the time; ``inert`` is a knob that changes nothing."""
    config = Config.of({"x": x, "fault": fault, "inert": inert})
    return TrialRequest(name, KERNEL, problem_items({"m": 64}), device_class, config, remeasure=remeasure)


def numbered_space(count: int) -> ConfigSpace:
    """So many configs without a fault, each with an ``x`` of its own."""
    return ConfigSpace((
        Knob("x", "block:x", tuple(range(count)), "block", 0),
        Knob("inert", "load:a", (0,), "access", 0),
        Knob("fault", "tunable:fault", ("",), "tunable", ""),
    ))  # fmt: skip


def median_us(x: int) -> float:
    return 100.0 + x


@dataclass(frozen=True, slots=True)
class FakeStages:
    """``scratch``: a directory that all workers share, for markers and the list of what was measured."""

    scratch: str
    compile_s: float = 0.0
    device_s: float = 0.0
    compile_limit_s: float = 20.0
    device_limit: float = 20.0

    def device_limit_s(self, request: AnyRequest) -> float:
        return self.device_limit

    def open_compiler(self) -> FakeCompiler:
        return FakeCompiler(self)

    def open_device(self, device_class: str, gpu: str = "") -> FakeDevice:
        return FakeDevice(self, device_class, measured=True, gpu=gpu)

    def open_model(self, device_class: str) -> FakeDevice:
        return FakeDevice(self, device_class, measured=False)

    def suffer(self, phase: str, request: TrialRequest) -> str:
        """Die or hang here if the request says so; else its fault, for the caller to report, or nothing."""
        fault = str(request.config["fault"])
        if not fault.startswith(phase):
            return ""
        if "late" in fault and self.runs_before(request) < LATE:
            return ""
        if fault.endswith("_once") and not self.first_time(request):
            return ""
        if fault.endswith("_twice") and self.runs_before(request) >= 2:
            return ""
        if "linger" in fault:
            time.sleep(LINGER_S)
        if "kill" in fault:
            os.kill(os.getpid(), signal.SIGKILL)
        if "stop" in fault:
            os.kill(os.getpid(), signal.SIGSTOP)
        if "hang" in fault:
            time.sleep(FOREVER_S)
        if "fill" in fault:
            fill_memory()
        if "raise" in fault:
            raise ValueError("a stage with a mistake")
        if "mend" in fault:
            raise InternalError("the reference must not raise RuntimeError", got="cuDNN error", hint="mend it")
        return fault

    def first_time(self, request: TrialRequest) -> bool:
        try:
            (Path(self.scratch) / f"once-{request.config.key}").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def runs_before(self, request: TrialRequest) -> int:
        """How often this was asked of this config already."""
        count = len(list(Path(self.scratch).glob(f"ran-{request.config.key}-*")))
        (Path(self.scratch) / f"ran-{request.config.key}-{count}").touch()
        return count

    def note(self, phase: str, request: TrialRequest) -> None:
        """Append one line to what all workers did: phase, x, start time, process."""
        line = f"{phase} {request.config['x']} {time.time():.3f} {os.getpid()}\n"
        with open(Path(self.scratch) / "log", "a") as log:
            log.write(line)


def fill_memory() -> None:
    """Take memory little by little, until whoever watches it ends this process."""
    held = []
    for _ in range(FILL_BYTES // FILL_STEP):
        held.append(b"\x01" * FILL_STEP)
        time.sleep(0.1)


class FakeCompiler:
    compiled_by: Facts = (("triton", "0"),)

    def __init__(self, stages: FakeStages) -> None:
        self.stages = stages

    def compile(self, request: TrialRequest) -> tuple[Build, tuple[Binary, ...]]:
        self.stages.note("compile", request)
        fault = self.stages.suffer("compile", request)
        time.sleep(self.stages.compile_s)
        source = source_hash([str(request.config["x"]), str(request.config["fault"])])
        identity = trial_id(request, source, "triton=0")
        rejected = Outcome(Status.COMPILE_ERROR, None, "BuildError", "as told") if fault == "compile_error" else None
        binary = fake_binary(request)
        compiled = Build(
            identity, source, self.compiled_by, self.stages.compile_s, "here", rejected,
            (Launch(binary.resources, 1),), Traffic(1000, 10, "float32"), roofline_us=50.0, occupancy=0.5,
        )  # fmt: skip
        return compiled, () if rejected else (binary,)

    def close(self) -> None: ...


class FakeDevice:
    def __init__(self, stages: FakeStages, device_class: str, measured: bool, gpu: str = "") -> None:
        self.stages, self.measured = stages, measured
        uuid = f"GPU-{gpu or os.environ.get('CUDA_VISIBLE_DEVICES', '0')}" if measured else ""
        self.identity = DeviceIdentity(device_class, "here", uuid, (("torch", "0"),) if measured else ())

    def prepare(self, request: TrialRequest) -> None:
        self.stages.note("prepare", request)

    def run(self, request: TrialRequest, compiled: Build, binaries: tuple[Binary, ...]) -> Outcome:
        assert [binary.sha256 for binary in binaries] == [fake_binary(request).sha256]
        self.stages.note("device", request)
        fault = self.stages.suffer("device", request)
        if fault:
            status = Status(fault.removeprefix("device_").removesuffix("_once"))
            return Outcome(status, None, "Fault", "as told")
        time.sleep(self.stages.device_s)
        time_us = median_us(int(request.config["x"]))
        measurement = Measurement((time_us,), time_us, time_us, time_us, 0.0)
        return Outcome(Status.OK, measurement, bench_s=0.01, measured=self.measured)

    def race(self, request: RaceRequest, candidates: Sequence[tuple[Binary, ...]]) -> Outcome:
        alone = [request.alone(config) for _, config in request.candidates]
        outcomes = [self.run(each, Build(""), code) for each, code in zip(alone, candidates, strict=True)]
        return Outcome(Status.OK, ranked=by_medians(outcomes))

    def close(self) -> None: ...


def fake_binary(request: TrialRequest) -> Binary:
    one = Expr.of(1)
    abi = LaunchAbi("fake", (), (one, one, one), 128, 0)
    code = f"code of {request.config['x']}".encode()
    return Binary(0, request.device_class, "cubin", code, abi, TRUE, Resources(32, 0, 0, 128))
