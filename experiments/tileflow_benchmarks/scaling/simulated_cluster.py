"""Where a sweep's driver saturates: the real driver, strategy, policy and trial queue over a simulated cluster.

``python -m tileflow_benchmarks.scaling.simulated_cluster configs/throughput.yaml --gpus 8 64 512 --per-s 7 30``
searches in virtual time. Compilers and GPUs take the times of :mod:`.simulated_stages`, scaled so that a GPU that never
waits measures that many a second; there are as many compilers as keep them busy. The processor time of the driver's own
thread is added to the virtual clock as it passes. So is what Ray takes: ``--call-us`` for each call of a worker and
``--carried-us`` for each trial in it. Calls carry as many trials as on a real cluster, by
:mod:`tileflow_cluster.batches`. A row gives the share of the rate that was reached in the middle of the search, and the
driver's time per trial.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import math
import random
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from tileflow_cluster.batches import BatchSizes, fair_size
from tileflow_cluster.fair_share import SweepEntry, fair_shares
from tileflow_cluster.protocol import (
    AnyRequest,
    Counters,
    DeviceClass,
    Ordered,
    SchedulingPolicy,
    TrialRequest,
    source_hash,
    trial_id,
)
from tileflow_cluster.replay import VirtualClock
from tileflow_cluster.trial import Build, DeviceIdentity, TrialResult
from tileflow_cluster.trial_queue import Lease, Phase, TrialQueue
from tileflow_cluster.worker_pool import MOST_DECLINED
from tileflow_experiments import spec as specs
from tileflow_experiments.driver import Driver
from tileflow_experiments.journal import Lines
from tileflow_experiments.journal_writer import Journal, Writer
from tileflow_experiments.open_studies import open_studies, study_keys
from tileflow_experiments.schedulers import Relay, SweepPart, parts
from tileflow_experiments.tuning_task import TuningTask, prepare

from tileflow import cost
from tileflow.cost import Launch
from tileflow.errors import ClusterError
from tileflow.measure.types import Measurement, Outcome, Status
from tileflow.runtime.abi import Binary, Resources
from tileflow.target import target

from .figures import keep
from .simulated_stages import TRAFFIC, Pace

DEPTH = 2
AHEAD = 2
# Processor time of all threads of a driver, as ``scaling.soak --ray`` finds them on two cores.
CALL_US = 750.0  # a call of an actor, and its answer
CARRIED_US = 250.0  # each trial of a call: its request, its answer, its machine code's reference
_PHASES: tuple[tuple[Phase, bool], ...] = (("device", True), ("compile", False))
STEADY = (0.25, 0.9)  # of a search's trials: between its beginning, which waits for compilers, and its end
MEAN_OF_SCATTER = math.sinh(1)  # of e to a power between -1 and 1


@dataclass(frozen=True, slots=True)
class RayCost:
    """Microseconds of a driver's processor time that Ray takes for a call of a worker, and for each trial in it."""

    call_us: float = CALL_US
    carried_us: float = CARRIED_US

    def seconds(self, trials: int) -> float:
        """Return the seconds of a call that carries so many trials."""
        return (self.call_us + trials * self.carried_us) / 1e6


class SimulatedCluster:
    """An evaluator without workers: whoever polls waits in virtual time, and its own computing counts."""

    def __init__(self, device_class: str, gpus: int, per_s: float, compile_s: float, ray: RayCost) -> None:
        self.clock = VirtualClock()
        self._class, self._gpus = device_class, gpus
        self._device_s, self._compile_s, self._ray = 1 / per_s, compile_s, ray
        self._batches = BatchSizes()
        self.compilers = math.ceil(gpus * per_s * compile_s * MEAN_OF_SCATTER * 1.25)
        self._queue: TrialQueue[str] = TrialQueue(self.clock)
        self._free: dict[str, deque[str]] = {
            "compile": deque(f"compile-{n}" for n in range(self.compilers)),
            # A worker has several requests in hand, of which it works on one.
            "device": deque(f"{device_class}-{n}" for _ in range(DEPTH) for n in range(gpus)),
        }
        self._busy_until = dict.fromkeys(self._free["device"], 0.0)
        self._events: list[tuple[float, int, list[Lease[str]]]] = []
        self._numbers = itertools.count()
        self._roofline_us = cost.roofline_us(TRAFFIC, target(device_class))
        self._charged = time.thread_time()
        self.measured_at: list[float] = []
        self.driver_s = self.ray_s = self._simulating_s = 0.0

    def start(self) -> None:
        """Start charging: what the thread has used until now is not counted."""
        self._charged = time.thread_time()

    def _charge(self) -> None:
        """Add the thread's processor time since the last charge to the clock, without the simulation's own."""
        now = time.thread_time()
        spent = max(now - self._charged - self._simulating_s, 0.0)
        self._charged, self._simulating_s = now, 0.0
        self.driver_s += spent
        self.clock.now += spent

    def poll(self, timeout_s: float) -> list[TrialResult]:
        """Advance the clock from event to event until results are there or ``timeout_s`` virtual seconds have
        passed."""
        self._charge()
        until = self.clock.now + timeout_s
        while True:
            self._assign()
            self._answer()
            self._assign()
            results = self._queue.take_results()
            self._charge()
            if results or self.clock.now >= until or not self._queue.pending:
                return results
            self.clock.now = max(min(until, self._events[0][0] if self._events else until), self.clock.now)

    def _assign(self) -> None:
        given: list[tuple[float, list[Lease[str]]]] = []
        for phase, name in _PHASES:
            device_class = self._class if name else ""
            free, size = self._free[phase], self._size(device_class)
            workers = self._gpus if name else self.compilers
            declined = 0
            for _ in range(len(free)):
                waiting = self._queue.waiting(phase, self._class)
                if declined == MOST_DECLINED or not waiting:
                    break
                worker = free.popleft()
                leases = self._queue.lease_batch(phase, worker, self._class, fair_size(size, waiting, workers))
                if not leases:
                    free.append(worker)
                    declined += 1
                    continue
                call_s = self._ray.seconds(len(leases))
                self.clock.now += call_s
                self.ray_s += call_s
                given.append((self.clock.now, leases))
        with self._simulating():
            for at, leases in given:
                self._begin(at, leases)

    def _size(self, device_class: str) -> int:
        return self._batches.size(device_class, self._gpus + self.compilers)

    def _begin(self, at: float, leases: list[Lease[str]]) -> None:
        compiling, worker = leases[0].phase == "compile", leases[0].worker
        ends = at if compiling else max(at, self._busy_until[worker])
        for lease in leases:
            chance = random.Random(f"{lease.phase} {lease.request.request_id}")
            scatter = math.exp(chance.uniform(-1, 1)) / MEAN_OF_SCATTER
            took_s = scatter * (self._compile_s * MEAN_OF_SCATTER if compiling else self._device_s)
            self._batches.took("" if compiling else self._class, took_s)
            ends += took_s
        if not compiling:
            self._busy_until[worker] = ends
        heapq.heappush(self._events, (ends, next(self._numbers), leases))

    def _answer(self) -> None:
        """Handle the answers of all workers whose time has come."""
        with self._simulating():
            ended: list[tuple[Lease[str], Build | Outcome]] = []
            while self._events and self._events[0][0] <= self.clock.now:
                ended_at, _, leases = heapq.heappop(self._events)
                self._free[leases[0].phase].append(leases[0].worker)
                for lease in leases:
                    if lease.phase == "compile":
                        ended.append((lease, self._built(lease.trial)))
                    else:
                        self.measured_at.append(ended_at)
                        ended.append((lease, self._measured(lease.trial)))
        for lease, what in ended:
            if isinstance(what, Build):
                self._queue.compiled(lease, what, "code")
            else:
                on = DeviceIdentity(self._class, "simulated", lease.worker)
                self._queue.finish(lease, what, on, self._device_s)

    def _built(self, request: TrialRequest) -> Build:
        chance = random.Random(request.config.key)
        source = source_hash([request.config.key])
        identity = trial_id(request, source, "")
        used = Resources(chance.randrange(32, 255), 0, chance.randrange(0, 200_000), 128)
        return Build(
            identity,
            source,
            (),
            self._compile_s,
            "simulated",
            None,
            (Launch(used, 1000),),
            TRAFFIC,
            self._roofline_us,
            self._roofline_us,
            0.5,
        )

    def _measured(self, request: TrialRequest) -> Outcome:
        time_us = 100.0 * (1 + random.Random(request.config.key).random())
        return Outcome(Status.OK, Measurement((time_us,) * 10, time_us, time_us, time_us, 0.1), bench_s=self._device_s)

    @contextmanager
    def _simulating(self) -> Iterator[None]:
        """Exclude the block's time, which is the simulation's own, from what is charged."""
        began = time.thread_time()
        yield
        self._simulating_s += time.thread_time() - began

    # The rest of the protocol

    def device_classes(self) -> tuple[DeviceClass, ...]:
        """Return the one class with all of its GPUs."""
        return (DeviceClass(self._class, True, self._gpus),)

    def capacity(self, device_class: str) -> int:
        """Return how many more requests keep the GPUs and compilers busy."""
        wanted = AHEAD * (self._gpus * self._size(self._class) + self.compilers * self._size(""))
        return max(wanted - self._queue.in_flight(device_class), 0)

    def away(self, device_class: str) -> str:
        """Return no reason to wait: simulated GPUs do not leave."""
        return ""

    def unused(self) -> Sequence[str]:
        """Return nothing: every simulated GPU is used."""
        return ()

    @property
    def ordered(self) -> Ordered:
        """No order: there is no registry."""
        return ""

    def announce(self, status: Mapping[str, Any]) -> None:
        """Do nothing: nobody asks."""

    def submit(self, request: AnyRequest) -> None:
        """Queue one request."""
        self._queue.submit(request)

    def pending(self) -> int:
        """Return how many requests have no result polled yet."""
        return self._queue.pending

    def fetch_binaries(self, trial_id: str) -> tuple[Binary, ...]:
        """Raise ClusterError: nothing was compiled."""
        raise ClusterError("a simulated cluster has no binaries", got=trial_id)

    def keeps(self, trial_id: str) -> bool:
        """Return False: nothing was compiled."""
        return False

    def set_policy(self, policy: SchedulingPolicy) -> None:
        """Let ``policy`` select what runs next on a device."""
        self._queue.set_policy(policy)

    def cancel(self, request_id: str) -> None:
        """Cancel a request that is not compiled yet."""
        self._queue.cancel(request_id)

    def drain(self) -> None:
        """Cancel every request."""
        self._queue.cancel_all(also_on_devices=True)

    @property
    def draining(self) -> bool:
        """Return False: a simulated search ends by its trials."""
        return False

    def counters(self) -> Counters:
        """Return the queue's counters, in virtual time."""
        return self._queue.counters()

    def close(self) -> None:
        """Do nothing: there are no workers."""


def tasks_of(spec: specs.SweepSpec, copies: int) -> list[TuningTask]:
    """Return the spec's tasks, each ``copies`` times under kernels of different names."""
    found = []
    for task in [prepare(key, "static") for key in study_keys(spec)]:
        for copy in range(copies):
            ref = replace(task.kernel, semantic_hash=f"{task.kernel.semantic_hash}-{copy}")
            key = replace(task.key, kernel=f"{task.key.kernel}_{copy}")
            found.append(replace(task, key=key, kernel=ref))
    return found


class _TimedRelay(Relay):
    """Records on the virtual clock when each message to the driver was sent."""

    def __init__(self, path: Path, connection: Connection, clock: Callable[[], float]) -> None:
        super().__init__(path, 1, connection)
        self._clock = clock
        self.sent_at: list[float] = []

    def say(self, what: str, value: Any) -> None:
        super().say(what, value)
        self.sent_at.append(self._clock())


Sent = list[tuple[float, bytes]]  # when, and the lines


def _schedule(
    spec: specs.SweepSpec, part: SweepPart, tasks: Sequence[TuningTask], cluster: SimulatedCluster, folder: Path
) -> tuple[int, Sent]:
    """Run one scheduler's search in this thread. Its messages go through a real pipe, which another thread empties.

    Returns how many trials were completed, and what was sent.
    """
    near, far = Pipe()
    contents: list[bytes] = []

    def empty() -> None:
        with suppress(EOFError):
            while True:
                what, value = far.recv()
                contents.append(value if what == "lines" else b"")

    emptying = threading.Thread(target=empty)
    emptying.start()
    path = folder / "journal.jsonl"
    path.touch()
    relay = _TimedRelay(path, near, cluster.clock)
    own = set(part.keys)
    studies = open_studies(spec, _Unwritten(relay), [s for s in tasks if s.key in own])
    driver = Driver(
        "simulated",
        studies,
        cluster,
        relay,
        seed=spec.strategy.seed,
        whole=False,
        progress=lambda _: relay.sync_when_due(),
    )
    cluster.start()
    driver.search()
    relay.flush()
    near.close()
    emptying.join()
    return sum(len(study.completed) for study in studies), list(zip(relay.sent_at, contents, strict=True))


class _Unwritten(Writer):
    """A new journal: it is empty, and the lines that open it are not counted."""

    def __init__(self, relay: Relay) -> None:
        super().__init__(relay.path)

    @property
    def lines(self) -> Lines:
        return Lines()

    def write(self, content: bytes) -> None: ...


def _merge(sent: Sent, folder: Path) -> tuple[list[float], float]:
    """Run the driver's side for real on the messages, in the order in which they were sent.

    Returns when each trial was in the journal by the driver's own clock, and the processor time in all.
    """
    journal = Journal.create(folder / "merged.jsonl", {"sweep_id": "simulated"})
    near, far = Pipe()
    merged_at: list[float] = []
    clock = total = 0.0
    for at, content in sorted(sent, key=lambda message: message[0]):
        feeding = threading.Thread(target=near.send, args=(("lines", content),))
        feeding.start()
        wait([far])
        began = time.thread_time()
        wait([far], 0)
        _, value = far.recv()
        journal.write(value)
        took = time.thread_time() - began
        feeding.join()
        clock = max(clock, at) + took
        total += took
        merged_at += [clock] * content.count(b'{"kind":"trial"')
    journal.close()
    return merged_at, total


def simulate(
    wanted: specs.SweepSpec,
    gpus: int,
    per_s: float,
    trials: int,
    compile_s: float,
    ray: RayCost,
    schedulers: int = 1,
    copies: int = 1,
) -> dict[str, float]:
    """Search until ``trials`` trials are done. Returns the shares reached and the drivers' time per trial, in ms.

    ``schedulers``: each has its part of the GPUs, and a core and a clock of its own, as has the driver, which merges.
    ``copies``: of each kernel, so that there are enough to distribute.
    """
    tasks = tasks_of(wanted, copies)
    keys = [task.key for task in tasks]
    wanted = replace(wanted, budget=replace(wanted.budget, trials=math.ceil(trials / len(keys)), seconds=None))
    dealt = parts(wanted, keys, schedulers)
    name = wanted.device_classes[0]
    entries = [SweepEntry(str(part.number), (name,), gpus, part=part.share) for part in dealt]
    shares = fair_shares(entries, gpus, {name: gpus})
    done, sent, measured = 0, Sent(), list[float]()
    clusters = []
    with tempfile.TemporaryDirectory() as folder:
        for part in dealt:
            cluster = SimulatedCluster(name, shares[str(part.number)].gpus[name], per_s, compile_s, ray)
            completed, said = _schedule(wanted, part, tasks, cluster, Path(folder))
            done, sent = done + completed, sent + said
            measured += cluster.measured_at
            clusters.append(cluster)
        merged_at, merging_s = _merge(sent, Path(folder))
    first, last = (int(len(merged_at) * part) for part in STEADY)  # a strategy may prune some
    rate = (last - first) / (merged_at[last] - merged_at[first]) * len(measured) / len(merged_at)
    return {
        "gpus": gpus,
        "per_s": per_s,
        "schedulers": len(dealt),
        "trials": done,
        "reached": rate / (gpus * per_s),
        "rate": rate,
        "driver_ms": 1e3 * (sum(cluster.driver_s for cluster in clusters) + merging_s) / done,
        "merging_ms": 1e3 * merging_s / done,
        "ray_ms": 1e3 * sum(cluster.ray_s for cluster in clusters) / done,
    }


COLUMNS = {
    "GPUs": "{gpus:.0f}", "a second each": "{per_s:g}", "schedulers": "{schedulers:.0f}", "trials": "{trials:.0f}",
    "share reached": "{reached:.0%}", "trials/s": "{rate:.0f}", "processor time, ms a trial": "{driver_ms:.2f}",
    "of it merging": "{merging_ms:.3f}", "calls of Ray, ms": "{ray_ms:.2f}",
}  # fmt: skip


def main() -> int:
    """Simulate every combination of the arguments and print a row for each. Returns the exit code."""
    parser = argparse.ArgumentParser(description="Where the driver saturates.")
    parser.add_argument("spec", type=Path)
    parser.add_argument("--gpus", type=int, nargs="+", default=[8, 64, 512])
    parser.add_argument("--per-s", type=float, nargs="+", default=[7.0, 30.0], help="of a GPU that never waits")
    parser.add_argument("--trials", type=int, default=4000)
    parser.add_argument("--strategy", help="instead of the spec's")
    parser.add_argument("--compile-s", type=float, default=Pace().compile_s)
    parser.add_argument("--call-us", type=float, default=CALL_US, help="what a call of a worker takes of the driver")
    parser.add_argument("--carried-us", type=float, default=CARRIED_US, help="and each trial that it carries")
    parser.add_argument(
        "--schedulers", type=int, nargs="+", default=[1], help="processes that search, each with a core of its own"
    )
    parser.add_argument("--copies", type=int, default=1, help="of each kernel: a sweep of more kernels")
    parser.add_argument("--out", type=Path, help="a folder: rows are added to its JSON, and the plot drawn of all")
    asked = parser.parse_args()
    sys.path.insert(0, "")
    wanted = specs.read(asked.spec)
    if asked.strategy:
        wanted = replace(wanted, strategy=replace(wanted.strategy, name=asked.strategy))
    print("|", " | ".join(COLUMNS), "|\n|" + "---:|" * len(COLUMNS), flush=True)
    ray = RayCost(asked.call_us, asked.carried_us)
    for gpus, per_s, schedulers in itertools.product(asked.gpus, asked.per_s, asked.schedulers):
        found = simulate(wanted, gpus, per_s, asked.trials, asked.compile_s, ray, schedulers, asked.copies)
        print("|", " | ".join(text.format(**found) for text in COLUMNS.values()), "|", flush=True)
        if asked.out is not None:
            keep([found], asked.out, wanted.strategy.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
