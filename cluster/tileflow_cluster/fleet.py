"""The workers that run now: started to plan, replaced when they die or wear out, parked when they must not be used."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import ray

from tileflow.errors import ClusterError

from .ledger import Phase
from .placement import Plan
from .protocol import DeviceClass
from .stages import Stages
from .trial import Facts
from .workers import WorkerFacts, start_compiler, start_device, start_model

log = logging.getLogger("tileflow.cluster")

State = Literal["starting", "ready", "parked"]
DEPTH: dict[Phase, int] = {"compile": 1, "device": 3}  # calls in flight, one of which is being worked on
MAX_FALSE_STARTS = 3
REASON_CHARS = 1000


@dataclass(frozen=True, slots=True)
class Recycling:
    """A worker is replaced after ``trials`` trials, or once its process has held ``rss_mb`` MB."""

    trials: int = 1000
    rss_mb: float = 4096.0


@dataclass(slots=True, eq=False)
class Worker:
    """One actor. ``device_class`` is empty for a compile worker, ``facts`` None until it is ready.

    ``calls``: how many it was given and has not answered; ``worn``: it gets no more. ``busy_s``: seconds spent on
    those that it answered. ``primed``: a device worker was told its first problem.
    """

    name: str
    phase: Phase
    device_class: str
    actor: ray.actor.ActorHandle
    state: State = "starting"
    facts: WorkerFacts | None = None
    served: int = 0
    calls: int = 0
    worn: bool = False
    primed: bool = False
    ready_at: float = 0.0
    busy_s: float = 0.0

    @property
    def gpu_uuid(self) -> str:
        return self.facts.identity.gpu_uuid if self.facts and self.facts.identity else ""

    def __str__(self) -> str:
        where = f"{self.facts.host}, pid {self.facts.pid}" if self.facts else "not ready"
        return f"{self.name} ({where})"


class Fleet:
    """All workers of one evaluator."""

    def __init__(self, stages: Stages, recycling: Recycling) -> None:
        self._stages = stages
        self._recycling = recycling
        self._workers: list[Worker] = []
        self._numbers = itertools.count()
        self._wanted = Plan(0, ())
        self._false_starts: dict[str, int] = {}
        self._reasons: dict[str, str] = {}
        self._quarantined: set[str] = set()
        self._toolchains: dict[str, Facts] = {}
        self._retired_busy_s: dict[Phase, float] = dict.fromkeys(DEPTH, 0.0)
        self._retired_ready_s: dict[Phase, float] = dict.fromkeys(DEPTH, 0.0)

    def follow(self, plan: Plan) -> Iterator[Worker]:
        """Start what is missing from ``plan``, device workers first, which take longest to be ready; workers that wait
        in vain for a place that is gone are stopped.

        Yields the started ones, whose ``describe`` tells when they are ready.
        """
        self._wanted = plan
        for served in plan.devices:
            yield from self._fill(served.name, served.workers)
        yield from self._fill("", plan.compilers)

    def _fill(self, device_class: str, wanted: int) -> Iterator[Worker]:
        there = self.of(device_class)
        for worker in [w for w in there if w.state == "starting"][: max(len(there) - wanted, 0)]:
            self.stop(worker)
        if self._false_starts.get(device_class, 0) >= MAX_FALSE_STARTS:
            return
        for _ in range(wanted - len(there)):
            yield self._start(device_class)

    def _start(self, device_class: str) -> Worker:
        number = next(self._numbers)
        if not device_class:
            worker = Worker(f"compile-{number}", "compile", "", start_compiler(self._stages))
        elif self.serves(device_class).measured:
            actor = start_device(self._stages, device_class)
            worker = Worker(f"{device_class}-{number}", "device", device_class, actor)
        else:
            actor = start_model(self._stages, device_class)
            worker = Worker(f"{device_class}-model-{number}", "device", device_class, actor)
        self._workers.append(worker)
        return worker

    # Reading

    def __iter__(self) -> Iterator[Worker]:
        return iter(self._workers)

    def of(self, device_class: str) -> list[Worker]:
        """The workers of a device class, parked ones too; compile workers where it is empty."""
        return [worker for worker in self._workers if worker.device_class == device_class]

    def open(self) -> list[Worker]:
        """Those that take another call, the idle ones first."""
        found = [w for w in self._workers if w.state == "ready" and not w.worn and w.calls < DEPTH[w.phase]]
        return sorted(found, key=lambda worker: worker.calls)

    def usable(self, device_class: str) -> int:
        """Workers that serve the class now or are about to."""
        return sum(worker.state != "parked" for worker in self.of(device_class))

    def served_now(self) -> tuple[DeviceClass, ...]:
        """The planned classes with as many workers as they have at this moment."""
        return tuple(replace(served, workers=self.usable(served.name)) for served in self._wanted.devices)

    def serves(self, device_class: str) -> DeviceClass:
        """Raises ClusterError for a class that is not in the plan."""
        for served in self._wanted.devices:
            if served.name == device_class:
                return served
        known = ", ".join(served.name for served in self._wanted.devices)
        raise ClusterError("a request's device class must be served", got=repr(device_class), hint=f"served: {known}")

    def why_unusable(self, device_class: str) -> str:
        """What became of the class's last worker; empty while it has one, or will have."""
        if self.usable(device_class):
            return ""
        return self._reasons.get(device_class, "no node with its label is left")

    def start_clock(self) -> None:
        """Shares of idle time count from now, however long workers waited for each other before."""
        self._retired_busy_s = dict.fromkeys(DEPTH, 0.0)
        self._retired_ready_s = dict.fromkeys(DEPTH, 0.0)
        for worker in self._workers:
            worker.ready_at, worker.busy_s = time.monotonic(), 0.0

    def idle(self, phase: Phase) -> float:
        """Share of these workers' ready time that passed without a request; what they work on now counts as idle."""
        now = time.monotonic()
        ready = [w for w in self._workers if w.phase == phase and w.facts is not None]
        total = self._retired_ready_s[phase] + sum(now - w.ready_at for w in ready)
        busy = self._retired_busy_s[phase] + sum(w.busy_s for w in ready)
        return max(1 - busy / total, 0.0) if total else 0.0

    # What happens to a worker

    def ready(self, worker: Worker, facts: WorkerFacts) -> None:
        """A worker described itself; it is used, or parked where its GPU or toolchain must not be."""
        worker.facts, worker.state, worker.ready_at = facts, "ready", time.monotonic()
        self._false_starts.pop(worker.device_class, None)
        expected = self._toolchains.setdefault(worker.device_class, _versions(facts.toolchain))
        twins = [w for w in self._workers if w is not worker and w.gpu_uuid and w.gpu_uuid == worker.gpu_uuid]
        if twins:
            self.park(worker, f"it sees GPU {worker.gpu_uuid}, which {twins[0]} has; check CUDA_VISIBLE_DEVICES there")
        elif worker.gpu_uuid in self._quarantined:
            self.park(worker, f"GPU {worker.gpu_uuid} was lost and is quarantined")
        elif _versions(facts.toolchain) != expected:
            self.park(
                worker,
                f"its toolchain is {dict(facts.toolchain)} and that of the others {dict(expected)}; a trial's time "
                "would depend on the node: install the same versions everywhere",
            )

    def give_back(self, worker: Worker, busy_s: float, rss_mb: float) -> None:
        """A worker answered; one that is worn out is stopped once it has no other call."""
        worker.busy_s += busy_s
        worker.calls -= 1
        worker.served += 1
        worker.worn = worker.worn or worker.served >= self._recycling.trials or rss_mb >= self._recycling.rss_mb
        if worker.worn and not worker.calls and worker.state == "ready":
            log.info("recycling %s after %d trials, %.0f MB", worker, worker.served, rss_mb)
            self.stop(worker)

    def park(self, worker: Worker, reason: str) -> None:
        """Keep the worker, so that nothing else takes its GPU, and give it nothing."""
        log.warning("not using %s: %s", worker, reason)
        worker.state = "parked"
        self._reasons[worker.device_class] = reason

    def quarantine(self, worker: Worker, reason: str) -> None:
        """Its GPU is lost: never use it again, under whichever worker."""
        self._quarantined.add(worker.gpu_uuid)
        self.park(worker, f"GPU {worker.gpu_uuid} is quarantined: {reason}")

    def false_start(self, worker: Worker, reason: str) -> None:
        """The worker never became ready; after a few of those its class gets no more."""
        count = self._false_starts[worker.device_class] = self._false_starts.get(worker.device_class, 0) + 1
        log.warning("%s did not start (%d of %d tries): %s", worker.name, count, MAX_FALSE_STARTS, reason)
        self._reasons[worker.device_class] = reason.strip()[-REASON_CHARS:]
        self.stop(worker)

    def stop(self, worker: Worker) -> None:
        """Kill the actor; :meth:`follow` starts another where the plan wants one."""
        ray.kill(worker.actor)
        if worker in self._workers:
            self._workers.remove(worker)
            self._retire(worker)

    def _retire(self, worker: Worker) -> None:
        if worker.facts is not None:
            self._retired_ready_s[worker.phase] += time.monotonic() - worker.ready_at
            self._retired_busy_s[worker.phase] += worker.busy_s

    def close(self, grace_s: float) -> None:
        """Ask the ready ones to close, give them ``grace_s``, kill all."""
        closing = [
            worker.actor.close.remote() for worker in self._workers if worker.state != "starting" and not worker.calls
        ]
        if closing:
            ray.wait(closing, num_returns=len(closing), timeout=grace_s)
        for worker in list(self._workers):
            self.stop(worker)


def _versions(toolchain: Facts) -> Facts:
    """A toolchain's versions in one order, so that workers can be compared."""
    return tuple(sorted(toolchain))
