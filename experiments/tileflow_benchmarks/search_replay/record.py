"""``python -m tileflow_benchmarks.search_replay record``: compile on all cores, measure on one GPU, keep everything."""

from __future__ import annotations

import heapq
import os
import re
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue

from tileflow_cluster.protocol import TrialRequest
from tileflow_cluster.stages import Compiler, Device, Stages
from tileflow_cluster.trial import Build
from tileflow_experiments.records import StudyKey
from tileflow_experiments.spec import SweepSpec
from tileflow_experiments.tuning_task import Prepare, TuningTask, prepare

from tileflow import cost
from tileflow.config import Config
from tileflow.measure.types import Status
from tileflow.runtime.abi import Binary
from tileflow.target import target

from .plan import Part, plan
from .recording import Header, Recording, Row, write

AHEAD = 2  # configs in flight per core: enough to keep the GPU busy, few to discard at the end
LEADERS = 5

Built = tuple[Build, tuple[Binary, ...]]


def record(
    spec: SweepSpec, out: Path, seconds: float, stages: Stages, *, cores: int = 0, prepare: Prepare = prepare
) -> list[Path]:
    """Record every problem of ``spec`` on its first device class, ``seconds`` in all, divided evenly.

    ``cores``: compile processes, as many as this process may use where 0. Writes a file per problem into ``out`` as
    soon as it is done, and returns their paths. Raises ClusterError where the GPU is not of the class.
    """
    cores = cores or len(os.sched_getaffinity(0))
    keys = [StudyKey(k.kernel, problem, spec.device_classes[0]) for k in spec.kernels for problem in k.problems]
    out.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    with Compilers(stages, cores) as compilers:
        compilers.start(_some_request(prepare(keys[0], "static")))
        started = time.monotonic()
        device = stages.open_device(spec.device_classes[0])
        try:
            for left, key in zip(range(len(keys), 0, -1), keys, strict=True):
                share = max(seconds - (time.monotonic() - started), 0.0) / left
                task = prepare(key, "static")
                recording = _Session(task, compilers, device, spec.strategy.seed).run(share)
                paths.append(out / file_name(key))
                write(recording, paths[-1])
                print(_summary(recording, paths[-1]), flush=True)
        finally:
            device.close()
    return paths


def _some_request(task: TuningTask) -> TrialRequest:
    config = next(task.space.neighbours(task.default), task.default)  # so the default's own compile finds no cache
    return TrialRequest("record-start", task.kernel, task.key.problem, task.key.device_class, config)


def file_name(key: StudyKey) -> str:
    """Return ``softmax-m8192-n8192-bfloat16.parquet``."""
    parts = [f"{'' if isinstance(value, str) else name}{value}" for name, value in key.problem]
    return re.sub("[^A-Za-z0-9_.-]", "-", "-".join([key.kernel.rpartition(":")[2], *parts])) + ".parquet"


class Compilers:
    """Compile processes, one for each of ``cores`` threads."""

    def __init__(self, stages: Stages, cores: int) -> None:
        self.cores = cores
        self._threads = ThreadPoolExecutor(cores)
        self._all: list[Compiler] = list(self._threads.map(lambda _: stages.open_compiler(), range(cores)))
        self._idle: SimpleQueue[Compiler] = SimpleQueue()
        for compiler in self._all:
            self._idle.put(compiler)

    def start(self, request: TrialRequest) -> None:
        """Compile ``request`` in every process at once: the first compile of each imports the compiler."""
        wait([self.submit(request) for _ in range(self.cores)])

    def submit(self, request: TrialRequest) -> Future[Built]:
        """Compile a request in the next free process."""
        return self._threads.submit(self._compile, request)

    def _compile(self, request: TrialRequest) -> Built:
        compiler = self._idle.get()
        try:
            return compiler.compile(request)
        finally:
            self._idle.put(compiler)

    def __enter__(self) -> Compilers:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(cancel_futures=True)
        for compiler in self._all:
            compiler.close()


class _Session:
    """One problem's recording: compiles run ahead on all cores, and what is built first is measured first."""

    def __init__(self, task: TuningTask, compilers: Compilers, device: Device, seed: int) -> None:
        self._task, self._compilers, self._device, self._seed = task, compilers, device, seed
        self._rows: list[Row] = []
        self._trials: dict[str, Row] = {}
        self._times: dict[Config, float] = {}
        self._built: Build | None = None
        self._prepare_s = 0.0

    def run(self, seconds: float) -> Recording:
        """Record until ``seconds`` have passed (the default is always measured) or the space has no more."""
        started = time.monotonic()
        configs = plan(self._task.space, self._task.default, self._seed, self._leaders)
        flying: dict[Future[Built], tuple[Part, TrialRequest]] = {}
        while True:
            open_ = not self._rows or time.monotonic() - started < seconds
            while open_ and len(flying) < AHEAD * self._compilers.cores:
                item = next(configs, None)
                if item is None:
                    break
                request = self._request(item[1])
                flying[self._compilers.submit(request)] = item[0], request
            if not flying or not open_:
                break
            for future in wait(flying, return_when=FIRST_COMPLETED).done:
                part, request = flying.pop(future)
                self._rows.append(self._row(part, request, *future.result()))
                if time.monotonic() - started >= seconds:
                    break
        for future in flying:
            future.cancel()
        wait(flying)  # the next problem's compiles would wait behind them
        return Recording(self._header(time.monotonic() - started), tuple(self._rows))

    def _leaders(self) -> list[Config]:
        return heapq.nsmallest(LEADERS, self._times, key=self._times.__getitem__)

    def _request(self, config: Config) -> TrialRequest:
        task, best = self._task, min(self._times.values(), default=None)
        return TrialRequest(
            f"record-{config.key}",
            task.kernel,
            task.key.problem,
            task.key.device_class,
            config,
            incumbent_us=best,
            seed=self._seed,
        )

    def _row(self, part: Part, request: TrialRequest, compiled: Build, binaries: tuple[Binary, ...]) -> Row:
        known = self._trials.get(compiled.trial_id)
        row = Row(request.config, part, len(self._trials), Status.OK, compile_s=compiled.compile_s)
        if known is not None:
            return replace(known, config=request.config, part=part, compile_s=compiled.compile_s)
        if compiled.rejected is not None:
            row = replace(row, status=compiled.rejected.status)
        else:
            row = self._measured(row, request, compiled, binaries)
        self._trials[compiled.trial_id] = row
        if row.status is Status.OK:
            self._times[request.config] = row.median_us
        return row

    def _measured(self, row: Row, request: TrialRequest, compiled: Build, binaries: tuple[Binary, ...]) -> Row:
        assert compiled.traffic is not None
        first, self._built = self._built is None, self._built or compiled
        started = time.monotonic()
        outcome = self._device.run(request, compiled, binaries)
        spent = time.monotonic() - started
        if first:  # its time includes the problem's inputs and references
            self._prepare_s = outcome.prepare_s
            spent -= outcome.prepare_s
        facts = cost.static_facts(compiled.traffic, compiled.launches, target(request.device_class))
        row = replace(
            row, status=outcome.status, facts=facts, verify_s=outcome.verify_s, bench_s=outcome.bench_s, measure_s=spent
        )
        if outcome.measurement is None:
            return row
        found = outcome.measurement
        return replace(row, median_us=found.median_us, ci95_us=found.ci95_us, samples=len(found.samples_us))

    def _header(self, seconds: float) -> Header:
        task = self._task
        traffic = self._built.traffic if self._built else None
        versions = dict(self._built.compiled_by if self._built else ()) | dict(self._device.identity.launched_by)
        return Header(
            kernel=task.key.kernel,
            problem=dict(task.key.problem),
            device_class=task.key.device_class,
            semantic_hash=task.kernel.semantic_hash,
            space_fingerprint=task.space.fingerprint,
            space_size=task.space.size,
            knobs=task.space.knobs,
            default=task.default,
            traffic_bytes=traffic.bytes if traffic else 0,
            flops=traffic.flops if traffic else 0,
            roofline_us=cost.roofline_us(traffic, target(task.key.device_class)) if traffic else 0.0,
            seed=self._seed,
            cores=self._compilers.cores,
            seconds=round(seconds, 2),
            prepare_s=round(self._prepare_s, 4),
            versions=versions,
            recorded_on=time.strftime("%Y-%m-%d"),
        )


def _summary(recording: Recording, path: Path) -> str:
    good = [row.median_us for row in recording.rows if row.status is Status.OK]
    best = f"best {min(good):.2f} us" if good else "nothing worked"
    return (
        f"{recording.header.title}: {len(recording.rows)} configs, {len(good)} good, {best}, "
        f"{recording.header.seconds:.0f} s -> {path}"
    )
