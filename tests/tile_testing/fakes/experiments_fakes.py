"""A kernel, a space and stages without compiler or GPU: what the experiments' tests sweep.

A config's time follows from ``x`` and ``y``; ``inert`` changes nothing, so that configs repeat each other's binary.
``x == BAD`` computes wrongly. Every device's ``run`` may be replaced by a test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tileflow_cluster.inline import InlineEvaluator
from tileflow_cluster.protocol import AnyRequest, KernelRef, Mode, RaceRequest, TrialRequest, source_hash, trial_id
from tileflow_cluster.trial import Build, DeviceIdentity, Facts
from tileflow_experiments import journal as journals
from tileflow_experiments.portable import BuiltRow, Order
from tileflow_experiments.records import StudyKey, TrialRecord
from tileflow_experiments.spec import SweepSpec, parse
from tileflow_experiments.tuning_task import TuningTask
from tileflow_experiments.work import Tools

from tileflow.config import Config, ConfigSpace, Knob
from tileflow.cost import Launch
from tileflow.expr import TRUE, Expr
from tileflow.ir.traffic import Traffic
from tileflow.measure.interpret import InterpretRequest
from tileflow.measure.racing import by_medians
from tileflow.measure.types import Measurement, Outcome, Status
from tileflow.runtime.abi import Binary, LaunchAbi, Resources
from tileflow.runtime.problem import Problem, TensorSpec

GPU, MODELLED = "nvidia-h200", "amd-mi300x"
BAD = 5
KERNEL = "fakes:kernel"
SPACE = ConfigSpace((
    Knob("x", "block:tile", tuple(range(8)), "block", 2),
    Knob("y", "launch:warps", tuple(range(4)), "launch", 1),
    Knob("inert", "load:a#0", (0, 1), "access", 0),
))  # fmt: skip
DISTINCT = 8 * 4

Run = Callable[[TrialRequest, Outcome], Outcome]


def spec_data(**changes: Any) -> dict[str, Any]:
    data: dict[str, Any] = {
        "name": "fake",
        "kernels": [{"kernel": KERNEL, "problems": [{"n": 64}, {"n": 100}]}],
        "device_classes": [GPU, MODELLED],
        "strategy": {"name": "random", "seed": 3},
        "budget": {"trials": 10},
    }
    return data | changes


def sweep_spec(**changes: Any) -> SweepSpec:
    return parse(spec_data(**changes))


def time_us(config: Config) -> float:
    return 10.0 + abs(int(config["x"]) - 6) * 3 + abs(int(config["y"]) - 2)


def prepare(key: StudyKey, mode: Mode) -> TuningTask:
    n = int(dict(key.problem)["n"])  # type: ignore[arg-type]
    problem = Problem(key.kernel, (("x", TensorSpec("float32", (n,), (1,))),))
    return TuningTask(key, KernelRef(key.kernel, "c0ffee"), problem, SPACE, SPACE.default, mode)


@dataclass
class FakeStages:
    """``run`` sees each request and its outcome, and may change it, count it, raise."""

    run: Run = lambda request, outcome: outcome
    compiled: list[TrialRequest] = field(default_factory=list)
    compile_limit_s: float = 10.0

    def device_limit_s(self, request: AnyRequest) -> float:
        return 10.0

    def open_compiler(self) -> FakeCompiler:
        return FakeCompiler(self)

    def open_device(self, device_class: str) -> FakeDevice:
        return FakeDevice(self, device_class, measured=True)

    def open_model(self, device_class: str) -> FakeDevice:
        return FakeDevice(self, device_class, measured=False)


@dataclass
class FakeCompiler:
    stages: FakeStages
    compiled_by: Facts = (("triton", "3.7.1"),)

    def compile(self, request: TrialRequest) -> tuple[Build, tuple[Binary, ...]]:
        self.stages.compiled.append(request)
        source = source_hash([str(request.config["x"]), str(request.config["y"])])
        binary = fake_binary(request)
        compiled = Build(
            trial_id=trial_id(request, source, "t"),
            source_hash=source,
            compiled_by=self.compiled_by,
            compile_s=0.01,
            host="here",
            launches=(Launch(binary.resources, 1),),
            traffic=Traffic(1000, 3000, "float32"),
            roofline_us=5.0,
            occupancy=0.5,
        )
        return compiled, (binary,)

    def close(self) -> None: ...


class FakeDevice:
    def __init__(self, stages: FakeStages, device_class: str, measured: bool) -> None:
        self.stages, self.measured = stages, measured
        self.identity = DeviceIdentity(device_class, "here", "GPU-1" if measured else "", (("torch", "2.13"),))

    def prepare(self, request: TrialRequest) -> None: ...

    def run(self, request: TrialRequest, compiled: Build, binaries: tuple[Binary, ...]) -> Outcome:
        time = time_us(request.config)
        if request.config["x"] == BAD:
            outcome = Outcome(Status.INCORRECT, None, "", "off by much\nand more", 7.5, measured=self.measured)
        else:
            measurement = Measurement((time, time), time, time, time, 0.1)
            outcome = Outcome(Status.OK, measurement, max_err=0.25, bench_s=0.001, measured=self.measured)
        return self.stages.run(request, outcome)

    def race(self, request: RaceRequest, candidates: Sequence[tuple[Binary, ...]]) -> Outcome:
        alone = [request.alone(config) for _, config in request.candidates]
        outcomes = [self.run(each, Build(""), code) for each, code in zip(alone, candidates, strict=True)]
        return Outcome(Status.OK, ranked=by_medians(outcomes))

    def close(self) -> None: ...


def fake_binary(request: TrialRequest) -> Binary:
    one = Expr.of(1)
    abi = LaunchAbi("fake", (), (one, one, one), 128, 0)
    code = f"{request.device_class} {request.mode} {request.config['x']} {request.config['y']}".encode()
    kind = "cubin" if request.device_class.startswith("nvidia") else "hsaco"
    return Binary(0, request.device_class, kind, code, abi, TRUE, Resources(32, 0, 0, 128), request.mode)


def fake_rows(orders: Sequence[Order], stopping: Callable[[], bool]) -> list[BuiltRow]:
    """A portable row for each order: one binary, which takes any size."""
    rows = []
    for order in orders:
        problem = prepare(StudyKey(order.kernel, order.problem, order.device_class), "dynamic").problem
        request = TrialRequest(
            "", KernelRef(order.kernel, "c0ffee"), order.problem, order.device_class, SPACE.default, mode="dynamic"
        )
        code = replace(fake_binary(request), code=f"portable {order.device_class}".encode())
        rows.append(BuiltRow(order, "c0ffee", SPACE.fingerprint, problem, SPACE.default, (), (code,), ()))
    return rows


def checked_ok(request: InterpretRequest) -> Outcome:
    status = Status.INCORRECT if request.config["x"] == BAD else Status.OK
    return Outcome(status, error_digest="" if status is Status.OK else "wrong", max_err=0.5, measured=False)


def evaluator(stages: FakeStages) -> InlineEvaluator:
    return InlineEvaluator(stages, measured=(GPU,), modelled=(MODELLED,))


def tools(run: Run = lambda request, outcome: outcome) -> Tools:
    return Tools(lambda spec: evaluator(FakeStages(run)), prepare, checked_ok, fake_rows)


def quick_tools(run: Run = lambda request, outcome: outcome) -> Tools:
    """As :func:`tools`, without MLflow, whose store takes seconds to make."""
    return replace(tools(run), to_mlflow=False)


def trials(out: Path) -> list[TrialRecord]:
    return list(journals.attempts(journals.read(out / "journal.jsonl")))


def completed(out: Path) -> Counter[tuple[str, str]]:
    """(study, trial id) of each verdict line, counted."""
    return Counter((r.study.id, r.trial_id) for r in trials(out) if r.completed)
