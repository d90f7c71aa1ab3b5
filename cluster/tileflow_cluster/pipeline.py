"""The real stages: tileflow's own lowering, building, modelling and measuring, each where it may fail safely.

Compiling runs in a child of the compile worker that is killed at its limit, measuring in a child of the device worker.
A config's failure is an outcome. An exception is a fault of the kernel, whatever the config.
"""

from __future__ import annotations

import functools
import math
import os
import socket
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import FunctionType
from typing import TYPE_CHECKING, Any, cast

import tileflow
from tileflow import cost
from tileflow.build.process import START_LIMIT_S
from tileflow.build.resources import occupancy
from tileflow.build.worker import BuildProcess
from tileflow.config import Config
from tileflow.errors import BuildError, ClusterError, InternalError
from tileflow.language.host_device import host_code_on
from tileflow.measure.device import DeviceInfo
from tileflow.measure.failure import build_failure
from tileflow.measure.racing import Rules
from tileflow.measure.request import Candidate, Limits, MeasureRequest
from tileflow.measure.server import MeasureProcess
from tileflow.measure.types import Outcome
from tileflow.runtime.abi import Binary
from tileflow.target import Target, target

from .devices import VISIBLE, driver_version
from .protocol import (
    AnyRequest,
    KernelRef,
    Mode,
    ProblemItems,
    RaceRequest,
    TrialRequest,
    config_trial_id,
    source_hash,
    toolchain_text,
    trial_id,
)
from .scratch import Scratch, remove_abandoned
from .trial import Build, DeviceIdentity, Facts

if TYPE_CHECKING:
    from tileflow.api import Kernel
    from tileflow.lowered import Lowered

NICE = 10  # niceness: there is a compiler per core, and processes that feed a GPU come first
SEEDS, REPEATS = 2, 2  # of a race's check, as for a table: any candidate may become a row
TRIES = 4  # in a fresh child, its reference made on the CPU, its reference made by witnesses
_BETWEEN_PHASES_S = 60.0
WARM_TARGET = "nvidia-h200"  # any will do: the target-independent parts of the compilers take long to import
CACHE_PREFIX = "tileflow-triton-"


@dataclass(frozen=True, slots=True)
class TileflowStages:
    """Opens the real compilers, devices and models.

    ``compile_s``: seconds that one config's lowering, emission and build may take. ``limits``: of measuring.
    """

    compile_s: float = 60.0
    limits: Limits = field(default_factory=Limits)

    @property
    def compile_limit_s(self) -> float:
        """Seconds of a compile: its own limit plus the start of a fresh child."""
        return self.compile_s + START_LIMIT_S

    def device_limit_s(self, request: AnyRequest) -> float:
        """Seconds of a trial on the device: all phases at their limits, as often as a lack of memory leads to another
        try in a fresh child."""
        phases = self.limits.phases(request.incumbent_us)
        further = (len(request.candidates) - 1) * phases["check"] if isinstance(request, RaceRequest) else 0.0
        return TRIES * (sum(phases.values()) + further + _BETWEEN_PHASES_S + START_LIMIT_S)

    def open_compiler(self) -> TileflowCompiler:
        """Start a compiler. Raises BuildError where its child cannot start."""
        return TileflowCompiler(self.compile_s)

    def open_device(self, device_class: str, gpu: str = "") -> GpuDevice:
        """Open the GPU that ``gpu`` names, the only visible one where it is empty. Raises ClusterError where it is
        of another class."""
        return GpuDevice(device_class, self.limits, gpu)

    def open_model(self, device_class: str) -> ModelDevice:
        """Return the cost model of the class in place of a GPU."""
        return ModelDevice(device_class)


# Compiling


class TileflowCompiler:
    """A child that lowers, emits and builds, with a Triton cache of its own.

    Raises BuildError where the child cannot start, SpecError where the temporary directory takes no cache.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        remove_abandoned(CACHE_PREFIX)
        self._cache = Scratch(CACHE_PREFIX)
        weakref.finalize(self, self._cache.remove)  # a process may end while its workers still open
        self._process = BuildProcess(environment={"TRITON_CACHE_DIR": str(self._cache.path)}, nice=NICE)
        try:
            self.compiled_by: Facts = self._process.call("tileflow_cluster.pipeline:warm_up", (), limit_s)
        except BaseException:
            self.close()
            raise

    def compile(self, request: TrialRequest) -> tuple[Build, tuple[Binary, ...]]:
        """Compile one request in the child. A timeout or a crash of the compiler is returned as ``rejected``."""
        started = time.monotonic()
        try:
            compiled, binaries = self._process.call(
                "tileflow_cluster.pipeline:compile_stage", (request,), self._limit_s
            )
        except BuildError as error:
            # Too slow, or the compiler itself crashed: no source came back that could name the trial.
            compiled, binaries = Build(config_trial_id(request), rejected=build_failure(error)), ()
            compiled = replace(compiled, compiled_by=self.compiled_by, host=socket.gethostname())
        return replace(compiled, compile_s=time.monotonic() - started), binaries

    def close(self) -> None:
        """End the child and remove its Triton cache."""
        self._process.close()
        self._cache.remove()


@functools.cache
def warm_up() -> Facts:
    """Lower and build one kernel, then return :func:`toolchain_facts`.

    What the first kernel of a process loads takes longer than building it.
    """
    from tileflow.build.compile import build

    from .warmup import problem, scaled_product

    device = target(WARM_TARGET)
    lowered = scaled_product.lower(problem(), device)
    for source in lowered.emit(lowered.default):
        build(source, device)
    return toolchain_facts()


def toolchain_facts() -> Facts:
    """Return (name, version) of torch, Triton and the assembler here."""
    from tileflow.build.compile import toolchain

    return tuple(sorted(asdict(toolchain()).items()))


def compile_stage(request: TrialRequest) -> tuple[Build, tuple[Binary, ...]]:
    """Lower, emit and build one config, and count its launches. Needs no GPU.

    Raises SpecError for a kernel that is not there or is another version, KernelError for one that cannot be lowered.
    """
    from tileflow.build.compile import build

    kernel, lowered = _lowered(request.kernel, request.problem, request.device_class, request.mode)
    facts = toolchain_facts()
    compiled = Build(
        config_trial_id(request),
        compiled_by=facts,
        host=socket.gethostname(),
        traffic=lowered.traffic,
        roofline_us=cost.roofline_us(lowered.traffic, lowered.target),
    )
    try:
        sources = lowered.emit(request.config)
        source = source_hash([s.hash for s in sources])
        identity = trial_id(request, source, toolchain_text(facts))
        compiled = replace(compiled, trial_id=identity, source_hash=source)
        binaries = tuple(build(s, lowered.target) for s in sources)
        launches = count_launches(kernel, request.config, binaries, lowered)
    except Exception as error:  # whatever a config makes the compiler do is that config's outcome
        return replace(compiled, rejected=build_failure(error)), ()
    lowest = min((occupancy(b.resources, lowered.target) for b in binaries), default=None)
    modelled = cost.estimate(lowered.traffic, launches, lowered.target).total_us if lowest else None
    return replace(compiled, launches=launches, modelled_us=modelled, occupancy=lowest), binaries


@functools.lru_cache(maxsize=64)
def _lowered(ref: KernelRef, problem: ProblemItems, device_class: str, mode: Mode) -> tuple[Kernel, Lowered]:
    kernel = _load(ref)
    problem_items: Mapping[str, Any] = dict(problem)
    arguments = kernel.inputs(device="meta", **problem_items)
    return kernel.kind(*arguments), kernel.lower(arguments, target(device_class), mode)


def _load(ref: KernelRef) -> Kernel:
    from tileflow.measure.kernel import load

    # It has every attribute of a kernel that is used here.
    return cast("Kernel", load(ref.loader, ref.reference, ref.sys_path, ref.required_hash))


class _CountingLauncher:
    """Records what would be launched."""

    def __init__(
        self, binary: Binary, launches: list[cost.Launch], scope: FunctionType | None, constants: Mapping[str, int]
    ) -> None:
        from tileflow.build.interpret import symbol_reader

        self.guards = binary.guards
        self._binary, self._launches, self._constants = binary, launches, constants
        names = frozenset[str]().union(*(e.symbols() for e in (binary.guards, *binary.abi.grid)))
        self._readers = {name: symbol_reader(name, scope) for name in names if name not in constants}

    def __call__(self, frame: Mapping[str, Any], begins: tuple[int, ...], ends: tuple[int, ...]) -> bool:
        bounds = {f"begin.{i}": v for i, v in enumerate(begins)} | {f"end.{i}": v for i, v in enumerate(ends)}
        captured = {**frame, **bounds}
        symbols = {**self._constants, **{name: int(read(captured)) for name, read in self._readers.items()}}
        if not self.guards.evaluate(symbols):
            return False
        programs = math.prod(extent.evaluate(symbols) for extent in self._binary.abi.grid)
        blocks = programs * math.prod(self._binary.abi.cluster)
        self._launches.append(cost.Launch(self._binary.resources, blocks))
        return True


def count_launches(
    kernel: Kernel, config: Config, binaries: tuple[Binary, ...], lowered: Lowered
) -> tuple[cost.Launch, ...]:
    """Return what one call launches, in order, by running its host code on the arguments it was lowered from."""
    launches: list[cost.Launch] = []
    by_region: dict[int, list[_CountingLauncher]] = {}
    for binary in binaries:
        launcher = _CountingLauncher(binary, launches, kernel.scope, lowered.target.symbols())
        by_region.setdefault(binary.region, []).append(launcher)
    with host_code_on(lowered.target, lowered.args):
        kernel.bind(config, by_region)(*lowered.args)
    return tuple(launches)


# Devices


class ModelDevice:
    """The cost model in place of a GPU."""

    def __init__(self, device_class: str) -> None:
        self._target = target(device_class)
        self.identity = DeviceIdentity(device_class, socket.gethostname())

    def prepare(self, request: TrialRequest) -> None:
        """Do nothing: a model needs no inputs."""

    def run(self, request: TrialRequest, compiled: Build, binaries: tuple[Binary, ...]) -> Outcome:
        """Return the cost model's outcome for the compiled launches."""
        assert compiled.traffic is not None
        return cost.model(compiled.traffic, compiled.launches, self._target)

    def race(self, request: RaceRequest, candidates: Sequence[tuple[Binary, ...]]) -> Outcome:
        """Raise InternalError: only measured configs meet in a race."""
        raise InternalError("only measured configs meet in a race", got=request.device_class)

    def close(self) -> None:
        """Do nothing: a model holds no resources."""


class GpuDevice:
    """One GPU, behind a measuring child that sees no other: the only visible one, or the one that ``gpu`` names.

    Raises ClusterError where it is of another class.
    """

    def __init__(self, device_class: str, limits: Limits, gpu: str = "") -> None:
        self._limits = limits
        expected = target(device_class)
        variable = VISIBLE[expected.vendor]
        visible = gpu or os.environ.get(variable, "")
        if "," in visible:
            raise ClusterError("a device worker must see exactly one GPU", got=visible, where=socket.gethostname())
        self._process = MeasureProcess(environment={variable: gpu} if gpu else None)
        try:
            info = self._process.identity(limits)
            check_identity(info, expected)
        except ClusterError:
            self._process.close()
            raise
        launched_by = (
            ("driver", driver_version(expected.vendor)),
            ("tileflow", tileflow.__version__),
            ("torch", info.torch),
        )
        self.identity = DeviceIdentity(device_class, socket.gethostname(), info.uuid, launched_by)

    def prepare(self, request: TrialRequest) -> None:
        """Make the problem's inputs and reference in the child before the first config is built."""
        self._process.prepare(self._ask(request, (), seeds=1))

    def run(self, request: TrialRequest, compiled: Build, binaries: tuple[Binary, ...]) -> Outcome:
        """Measure one trial. A trial of the search is checked with one seed; one that goes into a table with two."""
        seeds = SEEDS if request.remeasure else 1
        return self._process.run(self._ask(request, (Candidate(request.config, binaries),), seeds))

    def race(self, request: RaceRequest, candidates: Sequence[tuple[Binary, ...]]) -> Outcome:
        """Race the request's candidates in the child, all checked with two seeds."""
        pairs = zip(request.candidates, candidates, strict=True)
        built = tuple(Candidate(config, binaries) for (_, config), binaries in pairs)
        return self._process.run(replace(self._ask(request, built, SEEDS), repeats=REPEATS, rules=Rules()))

    def _ask(self, request: AnyRequest, candidates: tuple[Candidate, ...], seeds: int) -> MeasureRequest:
        limits = self._limits.within(request.budget_s)
        return MeasureRequest(
            request.kernel.reference,
            request.problem,
            candidates,
            sys_path=request.kernel.sys_path,
            seeds=tuple(range(request.seed, request.seed + seeds)),
            incumbent_us=request.incumbent_us,
            limits=limits.while_others_wait() if request.others_wait else limits,
            loader=request.kernel.loader,
            semantic_hash=request.kernel.required_hash,
        )

    def rest(self) -> None:
        """Let the child forget all problems and the modules of their kernels."""
        self._process.rest(self._limits)

    def close(self) -> None:
        """End the measuring child."""
        self._process.close()


def check_identity(info: DeviceInfo, expected: Target) -> None:
    """Check that the GPU here is of the class that this worker was placed for. Raises ClusterError where it is not."""
    if info.device_class != expected.name:
        raise ClusterError(
            f"a worker for {expected.name} must stand on one",
            got=f"{info.display_name} ({info.device_class}, {info.uuid})",
            where=socket.gethostname(),
            hint="compare the node's tileflow.dev/device-class label with `python -m tileflow_cluster.labels` there",
        )
