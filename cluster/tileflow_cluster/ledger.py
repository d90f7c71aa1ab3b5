"""The ledger: which request waits for what, who holds its lease, which outcomes are known.

Every evaluator moves its requests through one; it knows no worker, no Ray and no clock but the one it is given. A
request waits to be compiled, is leased to a compile worker, waits for its device class, is leased to a device worker,
and ends in exactly one final result. Nothing is lost, because a request leaves the ledger only with that result;
nothing comes twice, because an answer counts only while its lease is the current one.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Generic, Literal, TypeVar

from tileflow import cost
from tileflow.errors import InternalError, TileflowError
from tileflow.measure.failure import MESSAGE_CHARS
from tileflow.measure.types import Outcome, Status
from tileflow.target import target

from .protocol import Counters, Judge, TrialRequest, config_trial_id
from .trial import Build, DeviceIdentity, Phases, TrialResult

Payload = TypeVar("Payload")
Phase = Literal["compile", "device"]

MAX_ATTEMPTS = 5
POISON_KILLS = 2
PRUNED = "Pruned"  # the error class of a config that was built and judged not worth measuring


@dataclass(frozen=True, slots=True)
class Lease(Generic[Payload]):
    """A worker's right to answer for a request. ``compiled``, ``payload``: what a device worker needs; for a race it
    is ``candidates``, the payload of each."""

    request: TrialRequest
    phase: Phase
    worker: str
    compiled: Build | None = None
    payload: Payload | None = None
    candidates: tuple[Payload, ...] = ()


@dataclass(slots=True)
class _Queue:
    """What waits for one kind of worker: all of it, oldest first; what goes before all else; and by what is searched,
    what a judge chooses among. Adding and removing look at nothing else."""

    order: dict[str, None] = field(default_factory=dict)
    first: dict[str, None] = field(default_factory=dict)
    judged: dict[object, dict[str, TrialRequest]] = field(default_factory=dict)

    def add(self, request: TrialRequest, whose: object, *, judged: bool) -> None:
        self.order[request.request_id] = None
        if judged:
            self.judged.setdefault(whose, {})[request.request_id] = request
        else:
            self.first[request.request_id] = None

    def remove(self, request_id: str, whose: object) -> None:
        if request_id not in self.order:
            return
        del self.order[request_id]
        if request_id in self.first:
            del self.first[request_id]
            return
        group = self.judged[whose]
        del group[request_id]
        if not group:
            del self.judged[whose]


@dataclass(slots=True)
class _Entry(Generic[Payload]):
    request: TrialRequest
    whose: object
    key: str
    phase: Phase
    since: float  # it waits, or is leased
    queue_s: float = 0.0
    built_s: float = 0.0
    device_s: float = 0.0
    compiled: Build | None = None
    payload: Payload | None = None
    candidates: tuple[Payload, ...] = ()
    lease: Lease[Payload] | None = None
    leases: int = 0
    leads: str = ""
    killed: list[str] = field(default_factory=list)


class Ledger(Generic[Payload]):
    """``Payload``: how binaries travel; a tuple of them in one process, an object reference under Ray."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started = clock()
        self._entries: dict[str, _Entry[Payload]] = {}
        self._waiting: dict[str, _Queue] = {}
        self._in_flight: Counter[str] = Counter()
        self._results: list[TrialResult] = []
        self._known: dict[str, TrialResult] = {}
        self._trial_of_key: dict[str, str] = {}
        self._leaders: dict[str, str] = {}
        self._followers: dict[str, list[str]] = {}
        self._counts: Counter[str] = Counter()
        self._compile_s = 0.0
        self._judge: Judge | None = None

    # What the driver does

    def heed(self, judge: Judge) -> None:
        self._judge = judge

    def submit(self, request: TrialRequest, candidates: tuple[Payload, ...] = ()) -> None:
        """Queue ``request`` for compiling, a race with the payloads of its ``candidates`` for its device; one whose
        outcome is known is answered at once."""
        if request.request_id in self._entries:
            raise InternalError("a pending request's id must be unique", got=request.request_id)
        entry = _Entry[Payload](request, _whose(request), request.key, "compile", self._clock())
        self._entries[request.request_id] = entry
        self._in_flight[request.device_class] += 1
        if request.candidates:
            first, _ = request.candidates[0]
            entry.phase, entry.compiled, entry.candidates = "device", Build(first), candidates
        known = self._known.get(self._trial_of_key.get(entry.key, ""))
        if known is not None and not request.remeasure:
            self._repeat(entry, known)
        else:
            self._queue(entry)

    def start_clock(self) -> None:
        """What counters call elapsed begins now."""
        self._started = self._clock()

    def take_results(self) -> list[TrialResult]:
        results, self._results = self._results, []
        return results

    @property
    def pending(self) -> int:
        """Requests without a final result, and results that nobody took yet."""
        return len(self._entries) + sum(result.final for result in self._results)

    def in_flight(self, device_class: str) -> int:
        """Requests for ``device_class`` without a final result."""
        return self._in_flight[device_class]

    def compiling(self, device_class: str) -> list[TrialRequest]:
        """Requests on their way to a device of the class, the oldest first."""
        entries = [e for e in self._entries.values() if e.phase == "compile"]
        return [entry.request for entry in entries if entry.request.device_class == device_class]

    def waiting(self, phase: Phase, device_class: str = "") -> int:
        queue = self._waiting.get(_queue_name(phase, device_class))
        return len(queue.order) if queue is not None else 0

    # What workers do

    def lease(self, phase: Phase, worker: str, device_class: str = "") -> Lease[Payload] | None:
        """The request that has waited longest for this kind of worker, of those for a device the one that the judge
        takes; None where none waits."""
        queue = self._waiting.get(_queue_name(phase, device_class))
        if queue is None or not queue.order:
            return None
        taken = next(iter(queue.order)) if phase == "compile" else self._chosen(queue, worker)
        if taken is None:
            return None
        entry = self._entries[taken]
        queue.remove(taken, entry.whose)
        now = self._clock()
        if phase == "compile":
            entry.queue_s += now - entry.since
        else:
            entry.built_s += now - entry.since
        entry.since = now
        entry.leases += 1
        if entry.leases > 1:
            entry.request = replace(entry.request, epoch=entry.request.epoch + 1)
        entry.lease = Lease(entry.request, phase, worker, entry.compiled, entry.payload, entry.candidates)
        return entry.lease

    def _chosen(self, queue: _Queue, worker: str) -> str | None:
        """Ends what the judge drops. What is measured once more, and what was tried before, is not judged."""
        if queue.first or self._judge is None:
            return next(iter(queue.first or queue.order))
        choice = self._judge.choose(queue.judged, worker)
        for request_id in choice.drop:
            digest = "built, and judged not worth measuring by its static facts and what is known of others"
            self._end(self._entries[request_id], Outcome(Status.INVALID_STATIC, None, PRUNED, digest, measured=False))
        if choice.take is not None and choice.incumbent_us is not None:
            entry = self._entries[choice.take]
            entry.request = replace(entry.request, incumbent_us=choice.incumbent_us)
        return choice.take

    def _judged(self, entry: _Entry[Payload]) -> bool:
        compiled, request = entry.compiled, entry.request
        return not request.remeasure and request.attempt == 1 and compiled is not None and compiled.traffic is not None

    def compiled(self, lease: Lease[Payload], compiled: Build, payload: Payload | None) -> None:
        """A compile worker answered: reject, recognise as a known trial, or queue for the device class."""
        entry = self._answered(lease)
        if entry is None:
            return
        entry.compiled, entry.payload = compiled, payload
        self._compile_s += compiled.compile_s
        request = entry.request
        self._trial_of_key[entry.key] = compiled.trial_id
        known = self._known.get(compiled.trial_id)
        if known is not None and not request.remeasure:
            self._repeat(entry, known)
        elif compiled.rejected is not None:
            self._end(entry, compiled.rejected)
        else:
            self._await_device(entry)

    def finish(self, lease: Lease[Payload], outcome: Outcome, on: DeviceIdentity, device_s: float = 0.0) -> None:
        """A device worker answered, after ``device_s`` seconds. A measuring process or a device that was lost under it
        counts as :meth:`lost`."""
        entry = self._answered(lease)
        if entry is None:
            return
        entry.device_s = device_s
        if outcome.status.is_infrastructure:
            self._lose(entry, lease, outcome, blame=outcome.status is not Status.CANCELLED, on=on)
        else:
            self._end(entry, outcome, on)

    def lost(self, lease: Lease[Payload], outcome: Outcome, *, blame: bool, recompile: bool = False) -> None:
        """The worker will not answer. ``blame``: the config may have killed it, and is blocklisted the second time.

        ``recompile``: the binaries are gone with their node.
        """
        entry = self._release(lease)
        if entry is None:
            return
        if recompile:
            entry.phase, entry.compiled, entry.payload = "compile", None, None
            self._stop_leading(entry, None)
        self._lose(entry, lease, outcome, blame=blame)

    def fail_kernel(self, lease: Lease[Payload], error: TileflowError) -> None:
        """The stage raised ``error``, as it would for every request for this kernel and problem: all of them end."""
        failed = self._release(lease)
        if failed is None:
            return
        whose = failed.whose
        for entry in [e for e in self._entries.values() if e.whose == whose]:
            self._end(entry, Outcome(Status.CANCELLED, measured=False), kernel_error=error)

    def stage_raised(self, lease: Lease[Payload], error: BaseException) -> None:
        """What the kernel's author must mend ends every request for that kernel and problem; a mistake of the stage, or
        of its worker's environment, is tried again, once."""
        if isinstance(error, TileflowError) and not error.retryable:
            self.fail_kernel(lease, error)
            return
        status = Status.COMPILE_ERROR if lease.phase == "compile" else Status.WORKER_LOST
        digest = f"the {lease.phase} worker raised {type(error).__name__}: {error}"[:MESSAGE_CHARS]
        self.lost(lease, Outcome(status, None, type(error).__name__, digest), blame=True)

    def returned(self, lease: Lease[Payload]) -> None:
        """The worker never began with it."""
        entry = self._release(lease)
        if entry is not None:
            self._queue(entry)

    def withdraw(self, request_id: str) -> None:
        """End a request as cancelled if it is not compiled yet."""
        entry = self._entries.get(request_id)
        if entry is not None and entry.phase == "compile":
            self._end(entry, Outcome(Status.CANCELLED, measured=False))

    def cancel(self, *, also_on_devices: bool) -> None:
        """End all that is not leased to a device worker as cancelled; ``also_on_devices``: that too."""
        for entry in list(self._entries.values()):
            if also_on_devices or entry.lease is None or entry.phase == "compile":
                self._end(entry, Outcome(Status.CANCELLED, measured=False))

    def fail_class(self, device_class: str, outcome: Outcome) -> None:
        """End every request for a device class that nothing serves any more."""
        for entry in [e for e in self._entries.values() if e.request.device_class == device_class]:
            self._end(entry, outcome)

    def forget_modelled(self, device_class: str) -> None:
        """What the cost model said of the class is known no more: it is measured from now on."""
        for trial_id in [
            known.trial_id
            for known in self._known.values()
            if known.modelled and known.device is not None and known.device.device_class == device_class
        ]:
            del self._known[trial_id]

    def counters(self) -> Counters:
        """All but the share of idle time, which only the owner of the workers knows."""
        return Counters(
            elapsed_s=self._clock() - self._started,
            considered=self._counts["considered"],
            measured=self._counts["measured"],
            modelled=self._counts["modelled"],
            duplicates=self._counts["duplicates"],
            retried=self._counts["retried"],
            dropped=self._counts["dropped"],
            compile_s=self._compile_s,
        )

    # The moves

    def _answered(self, lease: Lease[Payload]) -> _Entry[Payload] | None:
        """The entry that ``lease`` may answer for; None, counted, where the lease is an old one."""
        entry = self._release(lease)
        self._counts["dropped"] += entry is None
        return entry

    def _release(self, lease: Lease[Payload]) -> _Entry[Payload] | None:
        entry = self._entries.get(lease.request.request_id)
        if entry is None or entry.lease is not lease:
            return None
        entry.lease = None
        return entry

    def _queue(self, entry: _Entry[Payload]) -> None:
        entry.since = self._clock()
        name = _queue_name(entry.phase, entry.request.device_class)
        judged = entry.phase == "device" and self._judged(entry)
        self._waiting.setdefault(name, _Queue()).add(entry.request, entry.whose, judged=judged)

    def _await_device(self, entry: _Entry[Payload]) -> None:
        assert entry.compiled is not None
        entry.phase = "device"
        if entry.request.remeasure:
            self._queue(entry)
            return
        leader = self._leaders.setdefault(entry.compiled.trial_id, entry.request.request_id)
        if leader == entry.request.request_id:
            entry.leads = entry.compiled.trial_id
            self._queue(entry)
            self._say_built(entry, entry.compiled)
        else:
            self._followers.setdefault(leader, []).append(entry.request.request_id)

    def _say_built(self, entry: _Entry[Payload], compiled: Build) -> None:
        if self._judge is not None and self._judged(entry) and compiled.traffic is not None:
            device = target(entry.request.device_class)
            self._judge.built(entry.request, cost.static_facts(compiled.traffic, compiled.launches, device))

    def _lose(
        self,
        entry: _Entry[Payload],
        lease: Lease[Payload],
        outcome: Outcome,
        *,
        blame: bool,
        on: DeviceIdentity | None = None,
    ) -> None:
        """Try again, unless this config has done it before or nothing helps."""
        if blame:
            entry.killed.append(lease.worker)
        lost = outcome if outcome.status.is_infrastructure else replace(outcome, status=Status.WORKER_LOST)
        if len(entry.killed) >= POISON_KILLS:
            reason = f"{outcome.error_digest or outcome.status}, twice: {', '.join(entry.killed)}"
            self._end(entry, outcome, on, blocklisted=reason)
        elif entry.request.attempt < MAX_ATTEMPTS:
            self._again(entry, lost, on)
        else:
            self._end(entry, lost, on)

    def _again(self, entry: _Entry[Payload], outcome: Outcome, on: DeviceIdentity | None = None) -> None:
        self._counts["retried"] += 1
        self._results.append(self._result(entry, outcome, on, retried=True))
        entry.request = replace(entry.request, attempt=entry.request.attempt + 1)
        entry.queue_s = entry.built_s = entry.device_s = 0.0
        self._queue(entry)

    def _forget(self, entry: _Entry[Payload]) -> None:
        del self._entries[entry.request.request_id]
        self._in_flight[entry.request.device_class] -= 1

    def _repeat(self, entry: _Entry[Payload], known: TrialResult) -> None:
        self._forget(entry)
        self._counts["considered"] += 1
        self._counts["duplicates"] += 1
        assert known.build is not None  # a verdict's trial is known
        compile_s = entry.compiled.compile_s if entry.compiled else 0.0
        request = entry.request
        self._results.append(
            replace(
                known,
                request_id=request.request_id,
                attempt=request.attempt,
                epoch=request.epoch,
                duplicate_of=known.request_id,
                build=replace(known.build, compile_s=compile_s),
                phases=Phases(queue_s=entry.queue_s),
            )
        )

    def _end(
        self,
        entry: _Entry[Payload],
        outcome: Outcome,
        on: DeviceIdentity | None = None,
        *,
        blocklisted: str = "",
        kernel_error: TileflowError | None = None,
    ) -> None:
        result = self._result(entry, outcome, on, blocklisted=blocklisted, kernel_error=kernel_error)
        request_id = entry.request.request_id
        self._forget(entry)
        queue = self._waiting.get(_queue_name(entry.phase, entry.request.device_class))
        if queue is not None:
            queue.remove(request_id, entry.whose)
        self._counts["considered"] += not entry.request.candidates
        if outcome.measurement is not None:
            self._counts["measured" if outcome.measured else "modelled"] += 1
        self._results.append(result)
        if result.blames_config and not entry.request.candidates:
            self._known.setdefault(result.trial_id, result)
            self._trial_of_key.setdefault(entry.key, result.trial_id)
        self._stop_leading(entry, result)

    def _stop_leading(self, entry: _Entry[Payload], result: TrialResult | None) -> None:
        """Those that gave the same binary hear its outcome; where there is none, the first of them leads."""
        if not entry.leads:
            return
        del self._leaders[entry.leads]
        entry.leads = ""
        followers = self._followers.pop(entry.request.request_id, [])
        for follower in [self._entries[f] for f in followers if f in self._entries]:
            if result is not None and result.blames_config:
                self._repeat(follower, result)
            else:
                self._await_device(follower)

    def _result(
        self,
        entry: _Entry[Payload],
        outcome: Outcome,
        on: DeviceIdentity | None,
        *,
        retried: bool = False,
        blocklisted: str = "",
        kernel_error: TileflowError | None = None,
    ) -> TrialResult:
        request = entry.request
        result = TrialResult(
            request_id=request.request_id,
            attempt=request.attempt,
            epoch=request.epoch,
            build=entry.compiled,
            outcome=outcome,
            phases=Phases(entry.queue_s, entry.built_s, entry.device_s),
            device=on,
            binaries_kept=entry.payload is not None,
            retried=retried,
            blocklisted=blocklisted,
            kernel_error=kernel_error,
        )
        if result.build is None and result.blames_config:  # it killed every compiler: no source will ever name it
            return replace(result, build=Build(config_trial_id(request)))
        return result


def unanswered(lease: Lease[Payload]) -> Outcome:
    """The worker of ``lease`` should have ended this itself: it hangs, or is cut off."""
    status = Status.COMPILE_TIMEOUT if lease.phase == "compile" else Status.BENCH_TIMEOUT
    return Outcome(status, None, "LeaseExpired", f"the {lease.phase} worker did not answer within its limit")


class OverLedger(Generic[Payload]):
    """What evaluators that move their requests through a ledger have in common of their protocol."""

    _ledger: Ledger[Payload]
    _draining: bool

    def pending(self) -> int:
        return self._ledger.pending

    def heed(self, judge: Judge) -> None:
        self._ledger.heed(judge)

    def withdraw(self, request_id: str) -> None:
        self._ledger.withdraw(request_id)

    @property
    def draining(self) -> bool:
        return self._draining


def _whose(request: TrialRequest) -> tuple[object, ...]:
    """What a fault of the kernel is a fault of: all of a request but its config."""
    return request.kernel, request.problem, request.device_class, request.mode


def _queue_name(phase: Phase, device_class: str) -> str:
    return phase if phase == "compile" else f"{phase}:{device_class}"
