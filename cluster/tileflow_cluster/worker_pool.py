"""The worker pool starts workers to a plan, replaces dead and worn ones, and parks those that must not be used."""

from __future__ import annotations

import itertools
import logging
import time
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Literal

import ray

import tileflow
from tileflow.errors import ClusterError

from .placement import PlacementPlan
from .protocol import DeviceClass
from .stages import Stages
from .trial import Facts
from .trial_queue import Phase
from .workers import WorkerFacts, start_compiler, start_device, start_model

log = logging.getLogger("tileflow.cluster")

State = Literal["waiting", "starting", "ready", "parked"]
PHASES: tuple[Phase, ...] = ("compile", "device")
MAX_FALSE_STARTS = 3
REASON_CHARS = 1000
STAGGERED = 8  # neighbouring workers that are replaced one after the other
MOST_DECLINED = 16  # workers of a class that may be offered work in one round without taking any


@dataclass(frozen=True, slots=True)
class Recycling:
    """A worker is replaced after ``trials`` trials or more, or once its process has held ``rss_mb`` MB."""

    trials: int = 1000
    rss_mb: float = 4096.0

    def trials_of(self, number: int) -> int:
        """How many trials the worker of that number serves. Workers begin together and serve alike: with one limit all
        would be replaced at once, and a host's GPUs wait together for new processes (10 of a sweep's 102 s)."""
        return self.trials + self.trials * (number % STAGGERED) // STAGGERED


class WorkerKind(Enum):
    """What a worker is for."""

    COMPILE = "compile"
    DEVICE = "device"
    MODEL = "model"

    @property
    def phase(self) -> Phase:
        """The phase whose requests the worker serves."""
        return "compile" if self is WorkerKind.COMPILE else "device"

    @property
    def depth(self) -> int:
        """How many calls a worker may have at once; it runs one, the others are queued."""
        return 1 if self is WorkerKind.COMPILE else 2


@dataclass(slots=True, eq=False)
class Worker:
    """One actor. ``device_class`` is empty for a compile worker, ``facts`` None until it is ready.

    It waits until Ray has found a place for it, however long others hold them, and starts from then on. ``calls``: how
    many it has not answered yet. ``alone``: it gets none beside that one. ``most``: trials after which it is replaced.
    ``worn``: it gets no more. ``busy_s``: seconds spent on the answered ones. ``why_parked``: why it must not be used.
    ``lacks``: the kernel for which it was parked, since its host's files are not the driver's.
    ``twin``: who has its GPU.
    """

    name: str
    kind: WorkerKind
    device_class: str
    actor: ray.actor.ActorHandle
    most: int
    state: State = "waiting"
    node_id: str = ""
    facts: WorkerFacts | None = None
    served: int = 0
    calls: int = 0
    alone: bool = False
    worn: bool = False
    why_parked: str = ""
    lacks: str = ""
    twin: Worker | None = None
    ready_at: float = 0.0
    busy_s: float = 0.0

    @property
    def phase(self) -> Phase:
        """The phase whose requests the worker serves."""
        return self.kind.phase

    @property
    def placed(self) -> bool:
        """Whether it has its place, and works or is about to."""
        return self.state in ("starting", "ready")

    @property
    def gpu_uuid(self) -> str:
        """The id of its GPU; empty for a compile worker, a model, or one that is not ready."""
        return self.facts.identity.gpu_uuid if self.facts and self.facts.identity else ""

    def __str__(self) -> str:
        where = f"{self.facts.host}, pid {self.facts.pid}" if self.facts else "not ready"
        return f"{self.name} ({where})"


class WorkerPool:
    """All workers of one evaluator."""

    def __init__(self, stages: Stages, recycling: Recycling) -> None:
        self._stages = stages
        self._recycling = recycling
        self._workers: dict[str, dict[Worker, None]] = {}  # by device class; "" are those that compile
        self._open: dict[str, list[dict[Worker, None]]] = {}  # likewise, and by how many calls each has
        self._states: dict[str, Counter[State]] = {}
        self._numbers = itertools.count()
        self._wanted = PlacementPlan(0, ())
        self._false_starts: dict[str, int] = {}
        self._reasons: dict[str, str] = {}
        self._quarantined: set[str] = set()
        self._toolchains: dict[tuple[str, WorkerKind], Facts] = {}
        self._retired_busy_s: dict[Phase, float] = dict.fromkeys(PHASES, 0.0)
        self._retired_ready_s: dict[Phase, float] = dict.fromkeys(PHASES, 0.0)

    def follow(self, plan: PlacementPlan) -> Iterator[Worker]:
        """Start the workers missing from ``plan`` and dismiss those beyond it.

        Device workers are started first, since they take longest to be ready. A dismissed worker with calls ends after
        these. Yields the started ones: ``placed`` is answered once they have a place, ``describe`` once they are ready.
        """
        for served in plan.devices:
            if served.workers and not self.wanted(served.name):
                self._false_starts.pop(served.name, None)  # a class that is back starts from zero
        self._wanted = plan
        for served in plan.devices:
            kind = WorkerKind.DEVICE if served.measured else WorkerKind.MODEL
            yield from self._fill(served.name, kind, served.workers)
        yield from self._fill("", WorkerKind.COMPILE, plan.compilers)

    def _fill(self, device_class: str, kind: WorkerKind, wanted: int) -> Iterator[Worker]:
        for other in [w for w in self.of(device_class) if w.kind is not kind]:
            self._dismiss(other)
        there = [w for w in self.of(device_class) if w.kind is kind and not w.worn]
        if len(there) > wanted:
            order = {"waiting": 0, "starting": 1, "ready": 2, "parked": 3}
            for worker in sorted(there, key=lambda w: order[w.state])[: len(there) - wanted]:
                self._dismiss(worker)
        if self._false_starts.get(device_class, 0) >= MAX_FALSE_STARTS:
            return
        for _ in range(wanted - len(there)):
            yield self._start(device_class, kind)

    def _dismiss(self, worker: Worker) -> None:
        """Give the worker nothing more; it ends with the calls it has."""
        if worker.calls and worker.state == "ready":
            worker.worn = True
            self._file(worker)
        else:
            self.stop(worker)

    def _start(self, device_class: str, kind: WorkerKind) -> Worker:
        number = next(self._numbers)
        most = self._recycling.trials_of(number)
        match kind:
            case WorkerKind.COMPILE:
                worker = Worker(f"compile-{number}", kind, "", start_compiler(self._stages), most)
            case WorkerKind.DEVICE:
                actor = start_device(self._stages, device_class)
                worker = Worker(f"{device_class}-{number}", kind, device_class, actor, most)
            case WorkerKind.MODEL:
                actor = start_model(self._stages, device_class)
                worker = Worker(f"{device_class}-model-{number}", kind, device_class, actor, most)
        self._workers.setdefault(device_class, {})[worker] = None
        self._states.setdefault(device_class, Counter())[worker.state] += 1
        self._open.setdefault(device_class, [{} for _ in range(kind.depth)])
        return worker

    def _file(self, worker: Worker, state: State | None = None, *, gone: bool = False) -> None:
        """Index the worker by its state and its calls; ``state``: a new one."""
        counts = self._states[worker.device_class]
        if gone or state is not None:
            counts[worker.state] -= 1
        if state is not None:
            worker.state = state
            counts[state] += 1
        for group in self._open[worker.device_class]:
            group.pop(worker, None)
        takes_more = not worker.worn and not worker.alone and worker.calls < worker.kind.depth
        if not gone and worker.state == "ready" and takes_more:
            self._open[worker.device_class][worker.calls][worker] = None

    # Reading

    def __iter__(self) -> Iterator[Worker]:
        return (worker for group in self._workers.values() for worker in group)

    def __len__(self) -> int:
        return sum(counts.total() for counts in self._states.values())

    def __contains__(self, worker: Worker) -> bool:
        return worker in self._workers.get(worker.device_class, ())

    def of(self, device_class: str) -> list[Worker]:
        """Return the workers of a device class, parked ones too; compile workers where it is empty."""
        return list(self._workers.get(device_class, ()))

    def open(self, device_class: str) -> Iterator[Worker]:
        """Yield the class's workers that take another call, idle ones first. A call may be given meanwhile."""
        for group in self._open.get(device_class, ()):
            yield from list(group)

    def on(self, node_ids: Collection[str]) -> list[Worker]:
        """Return the workers placed on one of these nodes."""
        return [worker for worker in self if worker.node_id in node_ids]

    def usable(self, device_class: str) -> int:
        """Return how many workers serve the class now, are about to, or wait for their place."""
        counts = self._states.get(device_class)
        return counts.total() - counts["parked"] if counts else 0

    def placed(self, device_class: str) -> int:
        """Return how many workers serve the class now or are about to."""
        counts = self._states.get(device_class)
        return counts["starting"] + counts["ready"] if counts else 0

    def wanted(self, device_class: str) -> int:
        """Return how many workers the plan has of the class."""
        if not device_class:
            return self._wanted.compilers
        return next((served.workers for served in self._wanted.devices if served.name == device_class), 0)

    def served_now(self) -> tuple[DeviceClass, ...]:
        """Return the planned classes with as many workers as they have at this moment."""
        return tuple(replace(served, workers=self.usable(served.name)) for served in self._wanted.devices)

    def serves(self, device_class: str) -> DeviceClass:
        """Return the plan's entry of the class. Raises ClusterError for one that is not in the plan."""
        for served in self._wanted.devices:
            if served.name == device_class:
                return served
        known = ", ".join(served.name for served in self._wanted.devices)
        raise ClusterError("a request's device class must be served", got=repr(device_class), hint=f"served: {known}")

    def why_unusable(self, device_class: str) -> str:
        """Return why the class's last worker ended; empty while it has one, will have, or may."""
        if self.usable(device_class) or not self.wanted(device_class):
            return ""
        return self._reasons.get(device_class, "its workers ended")

    def start_clock(self) -> None:
        """Count idle time from now, however long workers waited for each other before."""
        self._retired_busy_s = dict.fromkeys(PHASES, 0.0)
        self._retired_ready_s = dict.fromkeys(PHASES, 0.0)
        for worker in self:
            worker.ready_at, worker.busy_s = time.monotonic(), 0.0

    def idle(self, phase: Phase) -> float:
        """Return the share of these workers' ready time without a request; unanswered calls count as idle."""
        now = time.monotonic()
        ready = [w for w in self if w.phase == phase and w.facts is not None]
        total = self._retired_ready_s[phase] + sum(now - w.ready_at for w in ready)
        busy = self._retired_busy_s[phase] + sum(w.busy_s for w in ready)
        return max(1 - busy / total, 0.0) if total else 0.0

    # What happens to a worker

    def found_place(self, worker: Worker, node_id: str) -> None:
        """Record that Ray started the worker's process on a node."""
        worker.node_id = node_id
        self._file(worker, "starting")

    def ready(self, worker: Worker, facts: WorkerFacts) -> None:
        """Take in a worker's facts: it is used, or parked where its GPU or toolchain must not be."""
        worker.facts = facts
        self._false_starts.pop(worker.device_class, None)
        self._use_or_park(worker, facts)

    def _use_or_park(self, worker: Worker, facts: WorkerFacts) -> None:
        worker.ready_at, worker.why_parked, worker.lacks, worker.twin = time.monotonic(), "", "", None
        self._file(worker, "ready")
        if facts.version != tileflow.__version__:
            self.park(
                worker,
                f"tileflow is {facts.version} on {facts.host} and {tileflow.__version__} in the driver, whose search "
                "space and code are others: install the same version everywhere",
            )
            return
        expected = self._toolchains.setdefault((worker.device_class, worker.kind), _versions(facts.toolchain))
        others = (w for w in self.of(worker.device_class) if w is not worker and w.twin is None)
        worker.twin = next((w for w in others if w.gpu_uuid and w.gpu_uuid == worker.gpu_uuid), None)
        if worker.twin is not None:
            self.park(
                worker, f"it sees GPU {worker.gpu_uuid}, which {worker.twin} has; check CUDA_VISIBLE_DEVICES there"
            )
        elif worker.gpu_uuid in self._quarantined:
            self.park(worker, f"GPU {worker.gpu_uuid} was lost and is quarantined")
        elif _versions(facts.toolchain) != expected:
            self.park(
                worker,
                f"its toolchain is {dict(facts.toolchain)} and that of the others {dict(expected)}; a trial's time "
                "would depend on the node: install the same versions everywhere",
            )

    def pass_over(self, worker: Worker) -> None:
        """Move the worker behind the others: nothing that waits is for it now."""
        self._file(worker)

    def room(self, worker: Worker) -> int:
        """Return how many more trials the worker takes before it is worn out, at least 1."""
        return max(worker.most - worker.served, 1)

    def give(self, worker: Worker, *, alone: bool = False) -> None:
        """Count one more call of the worker. ``alone``: it takes no other until this one is answered."""
        worker.calls += 1
        worker.alone = alone
        self._file(worker)

    def give_back(self, worker: Worker, busy_s: float, rss_mb: float, served: int = 1) -> None:
        """Take in the answers of one call; a worn-out worker is stopped once it has no other call."""
        worker.busy_s += busy_s
        worker.calls -= 1
        worker.alone = False
        worker.served += served
        worker.worn = worker.worn or worker.served >= worker.most or rss_mb >= self._recycling.rss_mb
        if worker.worn and not worker.calls and worker.state == "ready":
            log.info("stopping %s after %d trials, %.0f MB", worker, worker.served, rss_mb)
            self.stop(worker)
        elif worker in self:
            self._file(worker)

    def park(self, worker: Worker, reason: str) -> None:
        """Keep the worker, so that nothing else takes its GPU, and give it nothing."""
        log.warning("not using %s: %s", worker, reason)
        worker.why_parked = reason
        self._file(worker, "parked")
        self._reasons[worker.device_class] = reason

    def spare(self, worker: Worker, kernel: str, reason: str) -> bool:
        """Park the worker, whose host has not the driver's version of ``kernel``, where another one of its kind may
        have it. Returns False where none has: those that were parked for the kernel are used again, for others."""
        alike = [w for w in self.of(worker.device_class) if w.kind is worker.kind and w is not worker]
        if any(w.state != "parked" for w in alike):
            worker.lacks = kernel
            self.park(worker, reason)
            return True
        for other in alike:
            if other.lacks == kernel and other.facts is not None:
                self._use_or_park(other, other.facts)
        return False

    def quarantine(self, worker: Worker, reason: str) -> None:
        """Mark the worker's GPU as lost: no worker uses it again."""
        self._quarantined.add(worker.gpu_uuid)
        self.park(worker, f"GPU {worker.gpu_uuid} is quarantined: {reason}")

    def false_start(self, worker: Worker, reason: str) -> None:
        """Count a worker that never became ready; after a few its class gets no more."""
        count = self._false_starts[worker.device_class] = self._false_starts.get(worker.device_class, 0) + 1
        log.warning("%s did not start (%d of %d tries): %s", worker.name, count, MAX_FALSE_STARTS, reason)
        self._reasons[worker.device_class] = reason[:REASON_CHARS]
        self.stop(worker)

    def stop(self, worker: Worker) -> None:
        """Kill the actor; :meth:`follow` starts another where the plan wants one."""
        ray.kill(worker.actor)
        if worker in self:
            self._file(worker, gone=True)
            del self._workers[worker.device_class][worker]
            self._retire(worker)
            self._free_twins(worker)

    def _free_twins(self, gone: Worker) -> None:
        """Judge those again that were parked since ``gone`` had their GPU: after a node is back before its loss was
        noticed, the worker that saw the GPU second is the only one that is left."""
        for worker in self.of(gone.device_class):
            if worker.twin is gone and worker.facts is not None:
                self._use_or_park(worker, worker.facts)
                if worker.state == "ready":
                    log.info("using %s from now on: %s, which had its GPU, has ended", worker, gone)

    def _retire(self, worker: Worker) -> None:
        if worker.facts is not None:
            self._retired_ready_s[worker.phase] += time.monotonic() - worker.ready_at
            self._retired_busy_s[worker.phase] += worker.busy_s

    def close(self, grace_s: float) -> None:
        """Ask the ready workers to close, give them ``grace_s`` seconds, kill all."""
        closing = [
            worker.actor.close.remote() for worker in self if worker.state in ("ready", "parked") and not worker.calls
        ]
        if closing:
            ray.wait(closing, num_returns=len(closing), timeout=grace_s)
        for worker in list(self):
            self.stop(worker)


def _versions(toolchain: Facts) -> Facts:
    """Return a toolchain's versions in one order, so that workers can be compared."""
    return tuple(sorted(toolchain))
