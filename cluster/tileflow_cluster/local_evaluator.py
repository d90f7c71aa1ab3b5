"""The evaluator of one machine without Ray: the same trial queue, stages, limits and retries, over threads.

What may crash, hang or run out of memory is a child process of a stage (:mod:`.pipeline`). The stage ends the child and
reports that as an outcome. A worker here is therefore never lost, and its outcomes mean what they mean under Ray.
"""

from __future__ import annotations

import functools
import logging
import math
import os
import queue
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tileflow.errors import ClusterError
from tileflow.measure.types import Outcome, Status
from tileflow.runtime.abi import Binary

from .binary_cache import BinaryCache
from .devices import VisibleGpu, selectors, visible_gpus
from .local_pool import Answer, Answers, LocalPool, LocalWorker, pool_here
from .protocol import AnyRequest, Counters, DeviceClass, Ordered, RaceRequest, TrialRequest
from .queued_evaluator import QueuedEvaluator, no_worker
from .stages import Compiler, Device, Stages
from .trial import DeviceIdentity, TrialResult
from .trial_queue import Lease, Phase, TrialQueue, unanswered

log = logging.getLogger("tileflow.cluster")

AHEAD = 2
IN_HAND = 3  # jobs of a device worker, so that it stays busy while the driver is
FALSE_STARTS = 3
TICK_S = 0.1
DRAIN_S = 1.5
ANSWER_S = 10.0  # seconds that a stage may exceed its own limit by

Binaries = tuple[Binary, ...]


@dataclass(slots=True)
class _WorkerGroup:
    """The workers of one device class; the compile workers where ``name`` is empty.

    ``wanted``: the selector of the GPU of each worker that there should be.
    """

    name: str
    measured: bool
    wanted: list[str]
    workers: dict[LocalWorker[Any], str] = field(default_factory=dict)
    false_starts: int = 0
    reason: str = ""
    busy_s: float = 0.0

    @property
    def depth(self) -> int:
        return IN_HAND if self.name else 1

    @property
    def usable(self) -> int:
        return sum(worker.state in ("starting", "ready") for worker in self.workers)

    def free(self) -> list[LocalWorker[Any]]:
        """Return the workers that take another job, idle ones first."""
        ready = [w for w in self.workers if w.state == "ready" and w.calls < self.depth]
        return sorted(ready, key=lambda worker: worker.calls)


@dataclass(slots=True, eq=False)
class _Job:
    """A lease that a worker has. ``deadline``: on the monotonic clock, from when it began."""

    group: _WorkerGroup
    worker: LocalWorker[Any]
    lease: Lease[Binaries]
    limit_s: float
    deadline: float = math.inf


class LocalEvaluator(QueuedEvaluator[Binaries]):
    """Evaluates on this machine: a compiler on each core and a worker on each GPU of ``device_classes``.

    Classes without a GPU here are modelled (an error where ``must_measure``). ``compilers``: how many; one per core
    where None. ``pool``: whose workers to use; this process's where None. ``gpus``: the GPUs there are; looked up where
    None. Raises ClusterError where torch cannot list the GPUs.
    """

    def __init__(
        self,
        stages: Stages,
        device_classes: Sequence[str],
        *,
        compilers: int | None = None,
        must_measure: bool = False,
        pool: LocalPool | None = None,
        gpus: Sequence[VisibleGpu] | None = None,
    ) -> None:
        self._stages = stages
        self._pool = pool or pool_here()
        self._pool.begin()
        there = visible_gpus() if gpus is None else gpus
        self._groups = {name: _group_of(name, there) for name in device_classes}
        modelled = [name for name, group in self._groups.items() if not group.measured]
        if must_measure and modelled:
            raise ClusterError(
                "a GPU of each device class must be here",
                got=f"none of {', '.join(modelled)}",
                hint=", ".join(gpu.device_class for gpu in there) or "no GPU is visible",
            )
        cores = len(os.sched_getaffinity(0))
        self._compiling = _WorkerGroup("", False, [""] * max(compilers or cores, 1))
        self._answers: Answers = queue.SimpleQueue()
        self._queue: TrialQueue[Binaries] = TrialQueue()
        self._jobs: dict[LocalWorker[Any], deque[_Job]] = {}
        self._binaries: BinaryCache[Binaries] = BinaryCache()
        self._requests: dict[str, TrialRequest] = {}
        self._primed: Counter[Any] = Counter()
        self._unprimed: list[LocalWorker[Any]] = []
        self._data_ready_at: float | None = None
        self._draining = False
        self._drain_by = math.inf
        self._closed = False
        self._started = time.monotonic()
        self._start_workers()

    # The protocol

    def device_classes(self) -> tuple[DeviceClass, ...]:
        """Return the classes, each with the workers that are ready, starting or to be started."""
        return tuple(DeviceClass(name, group.measured, group.usable) for name, group in self._groups.items())

    def capacity(self, device_class: str) -> int:
        """Return how many more requests keep the class's workers and its part of the compilers busy; 0 while
        draining."""
        group = self._require(device_class)
        if self._draining:
            return 0
        compilers = math.ceil(self._compiling.usable / len(self._groups))
        return max(AHEAD * (group.usable + compilers) - self._queue.in_flight(device_class), 0)

    def away(self, device_class: str) -> str:
        """Return no reason to wait: this machine's devices do not come and go."""
        return ""

    def unused(self) -> Sequence[str]:
        """Return the classes whose workers failed, with the reason."""
        return [f"{name}: {group.reason}" for name, group in self._groups.items() if group.reason]

    @property
    def ordered(self) -> Ordered:
        """No order: no other process knows of this evaluator."""
        return ""

    def announce(self, status: Mapping[str, Any]) -> None:
        """Do nothing: no other process asks."""

    def submit(self, request: AnyRequest) -> None:
        """Queue one request and give it out if a worker is free. Raises ClusterError where nothing serves its class."""
        self._require(request.device_class)
        candidates = request.candidates if isinstance(request, RaceRequest) else ()
        self._queue.submit(request, tuple(self._kept(trial_id) for trial_id, _ in candidates))
        self._assign()

    def poll(self, timeout_s: float) -> list[TrialResult]:
        """Return new results, waiting up to ``timeout_s`` seconds for a first one; meanwhile give out work and watch
        limits."""
        deadline = time.monotonic() + timeout_s
        self._collect(0.0)
        while True:
            self._supervise()
            self._assign()
            self._prime()
            results = self._queue.take_results()
            left = deadline - time.monotonic()
            if results or left <= 0 or not self._queue.pending:
                return results
            self._collect(min(left, TICK_S))

    def fetch_binaries(self, trial_id: str) -> Binaries:
        """Return a trial's binaries, compiled again where the cache has dropped them."""
        kept = self._binaries.get(trial_id)
        if kept is not None:
            return kept
        if trial_id not in self._requests:
            raise ClusterError("binaries are there of trials that were compiled here", got=trial_id)
        return self._compile_again(self._requests[trial_id])

    def keeps(self, trial_id: str) -> bool:
        """Whether the trial's binaries are in the cache."""
        return self._binaries.get(trial_id) is not None

    def drain(self) -> None:
        """Take no more requests; the next :meth:`poll` cancels what is not on a device."""
        self._draining = True

    def counters(self) -> Counters:
        """Return the queue's counters with the idle shares of devices and compilers, 0 to 1, and the start's times."""
        return replace(
            self._queue.counters(),
            device_idle=self._idle(*self._groups.values()),
            compile_idle=self._idle(self._compiling),
            compiler_ready_at=_first_ready_at(self._compiling),
            device_ready_at=_first_ready_at(*self._groups.values()),
            data_ready_at=self._data_ready_at,
        )

    def close(self) -> None:
        """End the compilers. Idle devices stay in the pool for the next evaluator."""
        if self._closed:
            return
        self._closed = True
        for group in (self._compiling, *self._groups.values()):
            for worker, gpu in group.workers.items():
                if group.measured:
                    self._pool.keep(worker, self._stages, group.name, gpu)
                else:
                    worker.end()

    # Giving out and collecting

    def _assign(self) -> None:
        """Give each free worker the request that has waited longest, or the one that the policy selects."""
        for group in (self._compiling, *self._groups.values()):
            phase: Phase = "device" if group.name else "compile"
            for worker in group.free():
                if not self._queue.waiting(phase, group.name):
                    break
                lease = self._queue.lease(phase, str(worker), group.name)
                if lease is not None:
                    self._give(group, worker, lease)

    def _give(self, group: _WorkerGroup, worker: LocalWorker[Any], lease: Lease[Binaries]) -> None:
        limit_s = self._stages.device_limit_s(lease.request) if group.name else self._stages.compile_limit_s
        job = _Job(group, worker, lease, limit_s + ANSWER_S)
        mine = self._jobs.setdefault(worker, deque())
        mine.append(job)
        if len(mine) == 1:
            job.deadline = time.monotonic() + job.limit_s
        worker.ask(job, functools.partial(_run, lease), self._answers)

    def _prime(self) -> None:
        """Let devices prepare a problem's data while the first configs compile, each another problem where there are
        several."""
        for worker in [worker for worker in self._unprimed if worker.state != "starting"]:
            group = next((c for c in self._groups.values() if worker in c.workers), None)
            if group is not None and worker.state == "ready" and not worker.calls:
                coming = self._queue.compiling(group.name)
                if not coming:
                    continue
                request = min(coming, key=lambda r: self._primed[r.kernel.name, r.problem])
                self._primed[request.kernel.name, request.problem] += 1
                worker.ask(None, functools.partial(_prepare, request), self._answers)
            self._unprimed.remove(worker)

    def _collect(self, timeout_s: float) -> None:
        """Take in all answers; wait up to ``timeout_s`` seconds for a first one."""
        try:
            answer = self._answers.get(timeout=timeout_s) if timeout_s else self._answers.get_nowait()
            while True:
                if answer is not None:
                    self._handle_answer(answer)
                answer = self._answers.get_nowait()
        except queue.Empty:
            return

    def _handle_answer(self, answer: Answer) -> None:
        worker, job = answer.worker, answer.job
        worker.calls -= 1
        if job is None:
            self._data_ready_at = self._data_ready_at or time.time()
            return
        if worker not in self._jobs:
            return  # given up before
        mine = self._jobs[worker]
        mine.remove(job)
        if mine:
            mine[0].deadline = time.monotonic() + mine[0].limit_s
        job.group.busy_s += answer.spent_s
        if answer.error is not None:
            self._queue.stage_raised(job.lease, answer.error)
        elif job.lease.phase == "compile":
            compiled, binaries = answer.value
            if compiled.rejected is None:
                self._requests[compiled.trial_id] = job.lease.trial
                self._binaries.put(compiled.trial_id, binaries)
            self._queue.compiled(job.lease, compiled, None if compiled.rejected else binaries)
        else:
            self._measured(job, answer.value, answer.spent_s)

    def _measured(self, job: _Job, outcome: Outcome, spent_s: float) -> None:
        lease, device = job.lease, job.worker.opened
        if outcome.status is Status.DEVICE_LOST:
            job.group.wanted.remove(self._end(job.group, job.worker))
            job.group.reason = f"{job.worker} lost its GPU: {outcome.error_digest}"
        if outcome.measurement is not None and lease.compiled is not None and lease.payload is not None:
            self._binaries.timed(lease.compiled.trial_id, lease.trial, lease.payload, outcome.measurement.median_us)
        identity = device.identity if device is not None else DeviceIdentity(job.group.name)
        self._queue.finish(lease, outcome, identity, spent_s)

    # What goes wrong

    def _supervise(self) -> None:
        """Handle what no answer triggers: workers that failed to open or are overdue, classes without any, draining."""
        now = time.monotonic()
        for job in [mine[0] for mine in self._jobs.values() if mine and mine[0].deadline < now]:
            self._overdue(job)
        for group in (self._compiling, *self._groups.values()):
            for worker in [worker for worker in group.workers if worker.state == "failed"]:
                self._false_start(group, worker)
        self._start_workers()
        for name, group in self._groups.items():
            reason = self._why_unusable(group)
            if reason and self._queue.in_flight(name):
                self._queue.fail_class(name, Outcome(Status.DEVICE_LOST, None, "ClusterError", reason))
        if self._draining:
            self._drain_by = min(self._drain_by, now + DRAIN_S)
            self._queue.cancel_all(also_on_devices=now >= self._drain_by)

    def _overdue(self, job: _Job) -> None:
        """End the worker of a job that its stage should have ended. The jobs behind it are queued again."""
        self._jobs[job.worker].remove(job)
        self._end(job.group, job.worker)
        self._queue.lost(job.lease, unanswered(job.lease.phase), blame=True)

    def _end(self, group: _WorkerGroup, worker: LocalWorker[Any]) -> str:
        """End a worker and queue again what it has not begun. Returns the selector of its GPU."""
        for job in self._jobs.pop(worker, ()):
            self._queue.returned(job.lease)
        worker.end()
        return group.workers.pop(worker)

    def _false_start(self, group: _WorkerGroup, worker: LocalWorker[Any]) -> None:
        group.false_starts += 1
        group.reason = str(worker.error)
        log.warning("%s did not start (%d of %d tries): %s", worker, group.false_starts, FALSE_STARTS, worker.error)
        del group.workers[worker]

    def _why_unusable(self, group: _WorkerGroup) -> str:
        """Return why nothing of the class can be done any more; empty while it can, or may."""
        for each in (self._compiling, group):
            if not each.usable and (each.false_starts >= FALSE_STARTS or not each.wanted):
                return each.reason or "its workers ended"
        return ""

    def _require(self, device_class: str) -> _WorkerGroup:
        group = self._groups.get(device_class)
        if group is None:
            raise ClusterError(
                "a request's device class must be served",
                got=repr(device_class),
                hint=f"served: {', '.join(self._groups)}",
            )
        if reason := self._why_unusable(group):
            raise no_worker(device_class, reason)
        return group

    # Workers

    def _start_workers(self) -> None:
        """Start the missing workers: devices first, which take longest."""
        for group in (*self._groups.values(), self._compiling):
            if group.false_starts >= FALSE_STARTS:
                continue
            if not group.name:
                self._pool.warm_compilers()
            missing = Counter(group.wanted) - Counter(group.workers.values())
            for gpu in missing.elements():
                self._start(group, gpu)

    def _start(self, group: _WorkerGroup, gpu: str) -> None:
        worker: LocalWorker[Any]
        if not group.name:
            worker = self._pool.compiler(self._stages)
        elif group.measured:
            worker = self._pool.device(self._stages, group.name, gpu)
            self._unprimed.append(worker)
        else:
            worker = self._pool.model(self._stages, group.name)
        group.workers[worker] = gpu
        worker.told_to(self._answers)

    def _idle(self, *crews: _WorkerGroup) -> float:
        """Return the share of these workers' time, since each was ready, that passed without a request."""
        now = time.monotonic()
        there = [w for group in crews for w in group.workers if w.state == "ready"]
        total = sum(now - max(worker.ready_at, self._started) for worker in there)
        return max(1 - sum(group.busy_s for group in crews) / total, 0.0) if total > 0 else 0.0

    # Binaries

    def _kept(self, trial_id: str) -> Binaries:
        kept = self._binaries.get(trial_id)
        if kept is None:
            raise ClusterError("a race's candidates must be built", got=trial_id)
        return kept

    def _compile_again(self, request: TrialRequest) -> Binaries:
        ready = [worker for worker in self._compiling.workers if worker.state == "ready"]
        if not ready:
            raise ClusterError("compiling again needs a compile worker", hint=self._compiling.reason)
        answers: Answers = queue.SimpleQueue()
        worker = min(ready, key=lambda worker: worker.calls)
        worker.ask(None, lambda compiler: compiler.compile(request), answers)
        try:
            answer = answers.get(timeout=2 * self._stages.compile_limit_s + ANSWER_S)
        except queue.Empty:
            raise ClusterError("a trial's binaries must compile again", got=request.config, hint="in time") from None
        worker.calls -= 1
        if answer is None or answer.error is not None or answer.value[0].rejected is not None:
            raise ClusterError(
                "a trial's binaries must compile again",
                got=request.config,
                hint=str(answer.error) if answer is not None else "",
            )
        binaries: Binaries = answer.value[1]
        return binaries


def _group_of(name: str, gpus: Sequence[VisibleGpu]) -> _WorkerGroup:
    """Return a group with a worker for each GPU of the class; with one model where there is none."""
    vendor = gpus[0].target.vendor if gpus else "nvidia"
    names = selectors(len(gpus), vendor) if len(gpus) > 1 else ("",)
    mine = [selector for gpu, selector in zip(gpus, names, strict=False) if gpu.device_class == name]
    return _WorkerGroup(name, bool(mine), mine or [""])


def _first_ready_at(*groups: _WorkerGroup) -> float | None:
    """Return when the first of the workers was ready, seconds since 1970; None before."""
    ready = [worker.ready_at for group in groups for worker in group.workers if worker.ready_at]
    return time.time() - (time.monotonic() - min(ready)) if ready else None


def _run(lease: Lease[Binaries], opened: Any) -> Any:
    """Run a lease's stage, in a worker's thread."""
    if lease.phase == "compile":
        compiler: Compiler = opened
        return compiler.compile(lease.trial)
    device: Device = opened
    if isinstance(lease.request, RaceRequest):
        return device.race(lease.request, lease.candidates)
    assert lease.compiled is not None and lease.payload is not None
    return device.run(lease.request, lease.compiled, lease.payload)


def _prepare(request: TrialRequest, device: Device) -> None:
    device.prepare(request)
