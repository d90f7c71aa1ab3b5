"""The evaluator on Ray: a pool of compilers, a worker on each GPU, models for classes without a GPU.

Workers pull: each is given its next requests when it has answered the last (a device worker has another call queued).
So the compiling of one trial overlaps the measuring of another, and a straggler delays only what it has. A call carries
several trials where they take little time (:mod:`.batches`). Machine code goes from worker to worker through the object
store; this process sees facts only. The trial queue (:mod:`.trial_queue`)
tracks requests, the worker pool (:mod:`.worker_pool`) workers.
"""

from __future__ import annotations

import logging
import math
import secrets
import signal
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

import ray
from ray import exceptions

from tileflow.errors import ClusterError, OtherFiles
from tileflow.measure.failure import MESSAGE_CHARS
from tileflow.measure.types import Outcome, Status
from tileflow.runtime.abi import Binary

from .absences import Absences
from .batches import BatchSizes, fair_size
from .binary_cache import BinaryCache
from .calls import Call, Calls
from .cluster_monitor import ClusterMonitor
from .fair_share import SweepEntry
from .placement import Node, capped, gpus_of, live_nodes, plan, replan, unlabelled
from .protocol import AnyRequest, Counters, DeviceClass, Ordered, RaceRequest, TrialRequest
from .queued_evaluator import QueuedEvaluator, no_worker
from .ray_connection import connect, shut_down_ray
from .ray_errors import ErrorAction, cluster_must_answer, error_action, told
from .stages import Stages
from .sweep_registry import RegistryClient
from .trial import Build, DeviceIdentity, TrialResult
from .trial_queue import Lease, Phase, TrialQueue, unanswered
from .worker_pool import MOST_DECLINED, Recycling, Worker, WorkerKind, WorkerPool
from .workers import Answers, Made, pack

log = logging.getLogger("tileflow.cluster")

AHEAD = 2
TICK_S = 0.1
FETCH_LIMIT_S = 60.0
CLOSE_GRACE_S = 1.0


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds that the evaluator waits.

    ``answer_s``: for an answer, beyond the worker's own limit. ``start_s``: for a worker to become ready, once it has a
    place. ``drain_s``: for what is on a device when draining begins. ``replan_s``: between looks at the cluster.
    ``silent_s``: for a head that does not answer. ``away_s``: for a node of a device class that has none.
    """

    answer_s: float = 10.0
    start_s: float = 180.0
    drain_s: float = 1.5
    replan_s: float = 1.0
    silent_s: float = 5.0
    away_s: float = 3600.0


class RayEvaluator(QueuedEvaluator[Any]):
    """Evaluates on the Ray cluster that this process is connected to, or starts a local one.

    ``device_classes``: their names; those with a labelled GPU are measured, the others modelled (an error where
    ``must_measure``). ``compilers``: the most compile workers; all CPUs where None. ``address``: as for ``ray.init``;
    ``local`` starts a Ray of its own, labelled with this machine's GPUs, with as many CPUs as ``compilers``. ``quiet``:
    Ray adds no handlers to its loggers. ``name``: what others on a shared cluster see this sweep as. ``priority``: its
    weight when the cluster is shared out. ``part``: its part of the sweep's share, where it is one of several
    schedulers. Raises ClusterError where the workers cannot be placed. Installs a SIGTERM handler that drains.
    """

    def __init__(
        self,
        stages: Stages,
        device_classes: Sequence[str],
        *,
        compilers: int | None = None,
        must_measure: bool = False,
        address: str | None = None,
        recycling: Recycling | None = None,
        timeouts: Timeouts | None = None,
        quiet: bool = False,
        name: str = "sweep",
        priority: int = 1,
        part: float = 1.0,
    ) -> None:
        self._stages = stages
        self._max_compilers = compilers
        self._owns_ray = not ray.is_initialized()
        self._alone = self._owns_ray and address == "local"
        self._timeouts = timeouts or Timeouts()
        if self._alone:  # no node can come back
            self._timeouts = replace(self._timeouts, away_s=0.0)
        if self._owns_ray:
            connect(address, compilers, quiet)
        nodes = live_nodes()
        try:
            self._whole = plan(nodes, device_classes, compilers=compilers, must_measure=must_measure)
        except ClusterError:
            self._disconnect()
            raise
        for node in unlabelled(nodes):
            log.warning("the GPUs of %s carry no device class and stay unused: see tileflow_cluster.labels", node.host)
        self._nodes = nodes
        self._monitor = ClusterMonitor(self._timeouts.replan_s)
        measured = tuple(served.name for served in self._whole.devices if served.measured)
        entry = SweepEntry(f"{name}-{secrets.token_hex(3)}", measured, self._whole.compilers, priority, part=part)
        self._registry = RegistryClient(entry, self._timeouts.replan_s)
        self._status: Mapping[str, Any] = {}
        self._absences = Absences(self._timeouts.away_s)
        self._queue: TrialQueue[Any] = TrialQueue()
        self._pool = WorkerPool(stages, recycling or Recycling())
        self._calls = Calls()
        self._batches = BatchSizes()
        self._requests: dict[str, TrialRequest] = {}
        self._binaries: BinaryCache[Any] = BinaryCache()
        self._primed: Counter[Any] = Counter()
        self._unprimed: list[Worker] = []
        self._draining = False
        self._drain_by = math.inf
        self._closed = False
        self._previous_handler: Any = None
        self._catch_sigterm()
        self._start_workers()

    # The protocol

    def device_classes(self) -> tuple[DeviceClass, ...]:
        """Return the planned classes with the workers that each has now."""
        return self._pool.served_now()

    def await_workers(self) -> None:
        """Wait until every planned worker is ready or none is starting, so that rates exclude the start."""
        while self._coming():
            self._collect(TICK_S)
            self._supervise()
        self._queue.start_clock()
        self._pool.start_clock()

    def capacity(self, device_class: str) -> int:
        """Return how many more requests keep the class's workers and its part of the compilers busy; 0 while draining.

        Raises ClusterError where nothing serves the class any more.
        """
        self._require(device_class)
        if self._draining:
            return 0
        compilers = math.ceil(self._pool.usable("") / len(self._whole.devices))
        on_devices = self._pool.usable(device_class) * self._batch_size(device_class)
        wanted = AHEAD * (on_devices + compilers * self._batch_size(""))
        return max(wanted - self._queue.in_flight(device_class), 0)

    def _batch_size(self, device_class: str) -> int:
        return self._batches.size(device_class, len(self._pool))

    def away(self, device_class: str) -> str:
        """Return why the class cannot be served now: the sweep is paused, or a worker has no node or no place; else
        empty."""
        ordered = self._registry.order
        if ordered == "pause":
            return "paused"
        for name in (device_class, ""):
            if not self._pool.placed(name):
                what = name or "compiling"
                return f"no node for {what}" if name in self._absences else f"waiting for a place for {what}"
        return ""

    def unused(self) -> list[str]:
        """Return the parked workers, each with the reason."""
        return [f"{worker}: {worker.why_parked}" for worker in self._pool if worker.state == "parked"]

    @property
    def ordered(self) -> Ordered:
        """The order that somebody gave this sweep through the registry."""
        return self._registry.order

    def announce(self, status: Mapping[str, Any]) -> None:
        """Keep ``status`` for the next heartbeat to the registry."""
        self._status = status

    def submit(self, request: AnyRequest) -> None:
        """Queue one request; the next :meth:`poll` gives it out, with others. Raises ClusterError where nothing serves
        its class."""
        self._require(request.device_class)
        candidates = request.candidates if isinstance(request, RaceRequest) else ()
        self._queue.submit(request, tuple(self._payload(trial_id) for trial_id, _ in candidates))

    def poll(self, timeout_s: float) -> list[TrialResult]:
        """Return the results since the last call. Raises ClusterError where Ray itself has gone."""
        with cluster_must_answer():
            return self._poll(timeout_s)

    def _poll(self, timeout_s: float) -> list[TrialResult]:
        deadline = time.monotonic() + timeout_s
        while True:
            self._collect(0.0)
            self._supervise()
            self._assign()
            self._prime()
            results = self._queue.take_results()
            left = deadline - time.monotonic()
            idle = not self._queue.pending and not any(self.away(served.name) for served in self._whole.devices)
            if results or left <= 0 or idle:
                return results
            self._collect(min(left, TICK_S))

    def wait_ready(self, limit_s: float) -> None:
        """Wait until no planned worker is starting. Raises ClusterError after ``limit_s`` seconds."""
        deadline = time.monotonic() + limit_s
        while coming := self._coming():
            if time.monotonic() > deadline:
                raise ClusterError(f"every worker must be ready within {limit_s:g} s", got=f"still starting: {coming}")
            self._collect(TICK_S)
            self._supervise()

    def fetch_binaries(self, trial_id: str) -> tuple[Binary, ...]:
        """Return a trial's binaries from the object store, compiled again where they are gone."""
        if trial_id not in self._requests:
            raise ClusterError("binaries are there of trials that were compiled here", got=trial_id)
        payload = self._binaries.get(trial_id)
        try:
            if payload is not None:
                made: Made = ray.get(payload, timeout=FETCH_LIMIT_S)
                return made[1]
        except exceptions.RayError as error:
            log.info("compiling %s again, its binaries are gone: %s", trial_id, type(error).__name__)
        return self._compile_again(self._requests[trial_id])

    def keeps(self, trial_id: str) -> bool:
        """Whether the trial's binaries are in the cache."""
        return self._binaries.get(trial_id) is not None

    def drain(self) -> None:
        """Take no more requests; the next :meth:`poll` cancels what is not on a device."""
        self._draining = True

    def counters(self) -> Counters:
        """Return the queue's counters with the idle shares of device and compile workers, 0 to 1."""
        counters = self._queue.counters()
        return replace(counters, device_idle=self._pool.idle("device"), compile_idle=self._pool.idle("compile"))

    def close(self) -> None:
        """Stop the workers, leave the registry, disconnect and restore the SIGTERM handler. Idempotent.

        Where the head does not answer, Ray's own shutdown is skipped, since it would wait for the head.
        """
        if self._closed:
            return
        self._closed = True
        if self._previous_handler is not None:
            signal.signal(signal.SIGTERM, self._previous_handler)
        self._monitor.close()
        if ray.is_initialized() and not self._monitor.silent_s:
            self._registry.leave()
            self._pool.close(CLOSE_GRACE_S)
            self._disconnect()

    def _disconnect(self) -> None:
        if self._owns_ray:
            shut_down_ray()

    def _coming(self) -> list[str]:
        """Return the workers that are not ready yet."""
        return [worker.name for worker in self._pool if worker.state in ("waiting", "starting")]

    # Giving out and collecting

    def _assign(self) -> None:
        """Give each free worker the requests that have waited longest, or those that the policy selects."""
        for name in ("", *(served.name for served in self._whole.devices)):
            phase: Phase = "device" if name else "compile"
            declined = 0
            for worker in self._pool.open(name):
                waiting = self._queue.waiting(phase, name)
                if declined == MOST_DECLINED or not waiting:
                    break
                most = fair_size(self._batch_size(name), waiting, self._pool.usable(name))
                room = min(most, self._pool.room(worker))
                leases = self._queue.lease_batch(phase, str(worker), name, room, idle=not worker.calls)
                if leases:
                    self._call(worker, leases)
                else:
                    declined += 1
                    self._pool.pass_over(worker)

    def _prime(self) -> None:
        """Let device workers prepare a problem's data while the first configs compile, each another one where there are
        several.

        Nobody waits for the answer: a worker's next call comes after it.
        """
        for worker in [worker for worker in self._unprimed if worker.state == "ready"]:
            if not worker.calls and worker in self._pool:
                coming = self._queue.compiling(worker.device_class)
                if not coming:
                    continue
                request = min(coming, key=lambda r: self._primed[r.kernel.name, r.problem])
                self._primed[request.kernel.name, request.problem] += 1
                worker.actor.prepare.remote(request)
            self._unprimed.remove(worker)

    def _call(self, worker: Worker, leases: Sequence[Lease[Any]]) -> None:
        requests = [lease.request for lease in leases]
        slice_s = self._batches.slice_s(worker.device_class, len(self._pool)) if len(leases) > 1 else 0.0
        payloads: Sequence[Any]
        if worker.kind is WorkerKind.COMPILE:
            limit_s = self._stages.compile_limit_s
            compiling = worker.actor.compile.options(num_returns=1 + len(leases))
            answer, *payloads = compiling.remote(pack(requests), slice_s)
        else:
            limit_s = max(map(self._stages.device_limit_s, requests))
            payloads = [lease.payload for lease in leases]
            if isinstance(requests[0], RaceRequest):
                answer = worker.actor.race.remote(requests[0], *leases[0].candidates)
            else:
                answer = worker.actor.run.remote(pack(requests), slice_s, *payloads)
        self._calls.add(worker, answer, slice_s + limit_s + self._timeouts.answer_s, leases, payloads)
        self._pool.give(worker, alone=leases[0].suspect)

    def _collect(self, timeout_s: float) -> None:
        """Take in all answers; wait up to ``timeout_s`` seconds for a first one."""
        for call in self._calls.answered(timeout_s):
            self._handle_answer(call)

    def _handle_answer(self, call: Call) -> None:
        try:
            value = ray.get(call.answer)
        except exceptions.RayError as error:
            self._failed(call, error)
        else:
            self._answered(call, value)

    def _answered(self, call: Call, value: Any) -> None:
        worker = call.worker
        if not call.leases and worker.state == "waiting":
            self._pool.found_place(worker, value)
            self._calls.add(worker, worker.actor.describe.remote(), self._timeouts.start_s)
            return
        if not call.leases:
            self._pool.ready(worker, value)
            if worker.kind is WorkerKind.DEVICE:
                self._unprimed.append(worker)
            return
        answers: Answers[Any] = value
        busy_s = sum(answer.seconds for answer in answers.each)
        self._pool.give_back(worker, busy_s, answers.rss_mb, len(answers.each))
        begun = len(answers.each)
        for lease, payload, answer in zip(call.leases[:begun], call.payloads, answers.each, strict=False):
            if answer.raised is not None:
                self._stage_raised(worker, lease, answer.raised)
                continue
            assert answer.done is not None
            if not isinstance(lease.request, RaceRequest):
                self._batches.took(worker.device_class, answer.seconds)
            if lease.phase == "compile":
                self._built(lease, answer.done, payload)
            else:
                self._tried(worker, lease, answer.done, payload, answer.seconds)
        for lease in call.leases[begun:]:
            self._queue.returned(lease)
        if worker not in self._pool:  # it was worn out
            self._start_workers()

    def _built(self, lease: Lease[Any], build: Build, payload: Any) -> None:
        if build.rejected is None:
            self._remember(build.trial_id, lease.trial, payload)
        self._queue.compiled(lease, build, payload if build.rejected is None else None)

    def _tried(self, worker: Worker, lease: Lease[Any], outcome: Outcome, payload: Any, device_s: float) -> None:
        if outcome.status is Status.DEVICE_LOST:
            self._pool.quarantine(worker, outcome.error_digest)
        if outcome.measurement is not None and lease.compiled is not None:
            self._binaries.timed(lease.compiled.trial_id, lease.trial, payload, outcome.measurement.median_us)
        identity = worker.facts.identity if worker.facts else None
        self._queue.finish(lease, outcome, identity or DeviceIdentity(worker.device_class), device_s)

    # What goes wrong

    def _stage_raised(self, worker: Worker, lease: Lease[Any], error: Exception) -> None:
        """Handle an exception of a stage. What its worker's host lacks is no fault of the kernel while another worker
        may have it."""
        if isinstance(error, OtherFiles):
            kernel = lease.request.kernel.name
            if worker.lacks == kernel or self._pool.spare(worker, kernel, " ".join(str(error).split())):
                self._queue.returned(lease)
                return
        self._queue.stage_raised(lease, error)

    def _failed(self, call: Call, error: exceptions.RayError) -> None:
        """Handle an error of Ray's, which :mod:`.ray_errors` classifies."""
        what = error_action(error)
        if what is ErrorAction.SWEEP:
            raise error
        if call.worker not in self._pool:
            return
        if not call.leases:
            self._calls.drop(call.worker)
            self._pool.false_start(call.worker, told(error))
            self._start_workers()
        elif what is ErrorAction.REBUILD:
            self._binaries_lost(call, error)
        elif what is ErrorAction.RAISED:
            self._raised(call, error)
        else:
            self._worker_lost(call, error, suspect=what is ErrorAction.SUSPECT)

    def _worker_lost(self, call: Call, error: Exception, *, suspect: bool) -> None:
        """Handle a worker that is gone or useless. ``suspect``: its config may be to blame, if the node still
        stands."""
        worker = call.worker
        alive = {node.node_id for node in self._monitor.nodes} if suspect else set()
        node_stands = worker.facts is not None and worker.facts.node_id in alive
        said = f"the {worker.phase} worker died" if suspect else f"the {worker.phase} worker was lost: {error}"
        outcome = Outcome(Status.WORKER_LOST, None, type(error).__name__, said[:MESSAGE_CHARS])
        calls = self._end(worker, call)
        # The oldest call may have been done: a process that dies takes an answer with it that it was about to send.
        self._queue.lost_batch([lease for each in calls for lease in each.leases], outcome, blame=node_stands)
        self._start_workers()

    def _node_lost(self, worker: Worker) -> None:
        """Handle a worker whose node is gone, before Ray reports each call. No config is to blame."""
        log.warning("%s went with its node", worker)
        calls = self._calls.drop(worker)
        self._pool.stop(worker)
        outcome = Outcome(Status.WORKER_LOST, None, "NodeDiedError", f"the {worker.phase} worker's node has gone")
        for lease in [lease for call in calls for lease in call.leases]:
            self._queue.lost(lease, outcome, blame=False)

    def _end(self, worker: Worker, call: Call) -> list[Call]:
        """Stop ``worker``, and return ``call`` and its other calls in flight, oldest first."""
        calls = sorted({call, *self._calls.drop(worker)}, key=lambda call: call.deadline)
        self._pool.stop(worker)
        return [each for each in calls if each.leases]

    def _binaries_lost(self, call: Call, error: Exception) -> None:
        """Compile again: the node that compiled these trials was lost before their binaries were taken."""
        self._pool.give_back(call.worker, 0.0, 0.0)
        outcome = Outcome(Status.WORKER_LOST, None, type(error).__name__, "the binaries went with their node")
        for lease in call.leases:
            self._queue.lost(lease, outcome, blame=False, recompile=isinstance(lease.request, TrialRequest))

    def _raised(self, call: Call, error: exceptions.RayError) -> None:
        """Handle an error of a call that is no answer of its stage, as of an answer that does not pickle."""
        self._pool.give_back(call.worker, 0.0, 0.0)
        self._start_workers()
        first, *others = call.leases
        if others:
            for lease in call.leases:
                self._queue.returned(lease, alone=True)
            return
        self._queue.stage_raised(first, error.cause if isinstance(error, exceptions.RayTaskError) else error)

    def _overdue(self, call: Call) -> None:
        """Give up a worker that should have ended this call itself: it hangs, or its node is cut off."""
        worker = call.worker
        if not call.leases:
            self._calls.drop(worker)
            self._pool.false_start(worker, f"not ready within {self._timeouts.start_s:g} s")
            return
        oldest, *others = self._end(worker, call)
        self._queue.lost_batch(oldest.leases, unanswered(worker.phase), blame=True)
        for lease in [lease for each in others for lease in each.leases]:
            self._queue.returned(lease)

    # Workers

    def _start_workers(self) -> None:
        share = self._registry.share(sum(node.cpus for node in self._nodes), gpus_of(self._nodes))
        for worker in self._pool.follow(self._whole if self._alone else capped(self._whole, share)):
            self._calls.add(worker, worker.actor.placed.remote(), math.inf)

    def _supervise(self) -> None:
        """Handle what no answer triggers: overdue calls, a silent head, changed nodes and sweeps, draining.

        Raises ClusterError where the cluster is gone.
        """
        self._monitor.require_answer(self._timeouts.silent_s)
        overdue = [call for call in self._calls.overdue() if call.worker in self._pool]
        for call in overdue:
            self._overdue(call)
        joined = not self._alone and self._registry.heartbeat(self._status)
        nodes = self._monitor.nodes
        if overdue or joined or nodes is not self._nodes:
            self._replan(nodes)
        now = time.monotonic()
        for served in self._whole.devices:
            reason = self._why_unusable(served.name)
            if reason and self._queue.in_flight(served.name):
                self._queue.fail_class(served.name, Outcome(Status.DEVICE_LOST, None, "ClusterError", reason))
        if self._draining:
            self._drain_by = min(self._drain_by, now + self._timeouts.drain_s)
            self._queue.cancel_all(also_on_devices=now >= self._drain_by)

    def _replan(self, nodes: tuple[Node, ...]) -> None:
        """Adapt the workers to the nodes and the other sweeps that there are now."""
        changed = nodes != self._nodes
        gone = {node.node_id for node in self._nodes} - {node.node_id for node in nodes}
        self._nodes = nodes
        for worker in self._pool.on(gone):
            self._node_lost(worker)
        if changed:
            before = {served.name: served for served in self._whole.devices}
            self._whole = replan(self._whole, nodes, compilers=self._max_compilers)
            for served in self._whole.devices:
                self._absences.note(served.name, served.workers)
                if served.measured and not before[served.name].measured:
                    log.info("%s has come: it is measured from now on", served.name)
                    self._queue.forget_modelled(served.name)
                    self._registry.add_device_class(served.name)
            self._absences.note("", self._whole.compilers)
        self._start_workers()

    def _why_unusable(self, device_class: str) -> str:
        """Return why nothing of the class can be compiled or run any more; empty while it can, or may again."""
        reasons = (self._absences.why_over(name) or self._pool.why_unusable(name) for name in ("", device_class))
        return next(filter(None, reasons), "")

    def _require(self, device_class: str) -> None:
        self._pool.serves(device_class)
        if reason := self._why_unusable(device_class):
            raise no_worker(device_class, reason)

    def _catch_sigterm(self) -> None:
        """Install the handler after ``ray.init``, which installs its own. Only a main thread may; others call
        :meth:`drain`."""
        if threading.current_thread() is threading.main_thread():
            self._previous_handler = signal.signal(signal.SIGTERM, self._on_sigterm)

    def _on_sigterm(self, signum: int, frame: FrameType | None) -> None:
        log.warning("SIGTERM: draining")
        self.drain()

    # Binaries

    def _remember(self, trial_id: str, request: TrialRequest, payload: Any) -> None:
        """Keep the latest trials' machine code; any other can be compiled again."""
        self._requests[trial_id] = request
        self._binaries.put(trial_id, payload)

    def _payload(self, trial_id: str) -> Any:
        payload = self._binaries.get(trial_id)
        if payload is None:
            raise ClusterError("a race's candidates must be built", got=trial_id)
        return payload

    def _compile_again(self, request: TrialRequest) -> tuple[Binary, ...]:
        ready = [worker for worker in self._pool.of("") if worker.state == "ready"]
        if not ready:
            raise ClusterError("compiling again needs a compile worker", hint=self._pool.why_unusable(""))
        answers, payload = ready[0].actor.compile.options(num_returns=2).remote(pack([request]), 0.0)
        # It may have to wait for the compile that this worker is busy with.
        limit_s = 2 * self._stages.compile_limit_s + self._timeouts.answer_s
        why: Exception | None
        try:
            (answer,) = ray.get(answers, timeout=limit_s).each
            made: Made = ray.get(payload, timeout=FETCH_LIMIT_S)
            why = answer.raised
        except exceptions.RayError as error:
            why = error
        if why is not None:
            raise ClusterError("a trial's binaries must compile again", got=request.config, hint=str(why)) from why
        return made[1]
