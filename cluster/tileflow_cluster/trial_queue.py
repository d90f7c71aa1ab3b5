"""The trial queue: which request waits for what, which worker has its lease, which outcomes are known.

Every evaluator moves its requests through one queue, which knows no worker, no Ray and no clock but the given one. A
request waits to be compiled, is leased to a compile worker, waits for its device class, is leased to a device worker,
and ends in exactly one final result. Nothing is lost, because a request leaves the queue only with that result. Nothing
comes twice, because an answer counts only while its lease is the current one.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Literal, TypeVar

from tileflow import cost
from tileflow.errors import ClusterError, InternalError, TileflowError
from tileflow.measure.failure import MESSAGE_CHARS
from tileflow.measure.types import Outcome, Status
from tileflow.target import target

from .protocol import AnyRequest, Counters, RaceRequest, SchedulingPolicy, TrialRequest, config_trial_id
from .trial import Build, DeviceIdentity, Phases, TrialResult
from .waiting_requests import WaitingRequests

Payload = TypeVar("Payload")
Phase = Literal["compile", "device"]

MAX_ATTEMPTS = 5
POISON_KILLS = 2
PRUNED = "Pruned"  # the error class of a config that was built and pruned


@dataclass(frozen=True, slots=True)
class Lease(Generic[Payload]):
    """A worker's right to answer for a request. ``compiled``, ``payload``: what a device worker needs.

    For a race it needs ``candidates``, the payload of each. ``suspect``: it may have cost a worker before, so its
    worker must have nothing else meanwhile: a death is then its own.
    """

    request: AnyRequest
    phase: Phase
    worker: str
    compiled: Build | None = None
    payload: Payload | None = None
    candidates: tuple[Payload, ...] = ()
    suspect: bool = False

    @property
    def trial(self) -> TrialRequest:
        """The request of a lease that is for no race."""
        assert isinstance(self.request, TrialRequest)
        return self.request


@dataclass(slots=True)
class _PendingTrial(Generic[Payload]):
    request: AnyRequest
    whose: object
    key: str
    phase: Phase
    since: float  # the time up to which its waiting is counted
    queue_s: float = 0.0
    built_s: float = 0.0
    device_s: float = 0.0
    compiled: Build | None = None
    payload: Payload | None = None
    candidates: tuple[Payload, ...] = ()
    lease: Lease[Payload] | None = None
    leases: int = 0
    leads: str = ""
    alone: bool = False
    killed: list[str] = field(default_factory=list)

    @property
    def suspect(self) -> bool:
        """Whether it may have cost a worker before."""
        return self.alone or self.request.attempt > 1

    @property
    def lone(self) -> bool:
        """Whether a call must carry nothing else: a race, or a suspect."""
        return self.suspect or isinstance(self.request, RaceRequest)


class TrialQueue(Generic[Payload]):
    """The requests of one evaluator and their states.

    ``Payload``: how binaries travel; a tuple of them in one process, an object reference under Ray.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started = clock()
        self._trials: dict[str, _PendingTrial[Payload]] = {}
        self._waiting: dict[str, WaitingRequests] = {}
        self._in_flight: Counter[str] = Counter()
        self._results: list[TrialResult] = []
        self._known: dict[str, TrialResult] = {}
        self._trial_of_key: dict[str, str] = {}
        self._leaders: dict[str, str] = {}
        self._followers: dict[str, list[str]] = {}
        self._counts: Counter[str] = Counter()
        self._compile_s = 0.0
        self._policy: SchedulingPolicy | None = None

    # What the driver does

    def set_policy(self, policy: SchedulingPolicy) -> None:
        """Let ``policy`` select which built request a device worker gets."""
        self._policy = policy

    def submit(self, request: AnyRequest, candidates: tuple[Payload, ...] = ()) -> None:
        """Queue ``request`` for compiling, or a race, with its candidates' payloads, for its device.

        A request whose outcome is known is answered at once.
        """
        if request.request_id in self._trials:
            raise InternalError("a pending request's id must be unique", got=request.request_id)
        trial = _PendingTrial[Payload](request, _whose(request), request.key, "compile", self._clock())
        self._trials[request.request_id] = trial
        self._in_flight[request.device_class] += 1
        if isinstance(request, RaceRequest):
            first, _ = request.candidates[0]
            trial.phase, trial.compiled, trial.candidates = "device", Build(first), candidates
        known = self._known.get(self._trial_of_key.get(trial.key, ""))
        if known is not None and not request.remeasure:
            self._repeat(trial, known)
        else:
            self._enqueue(trial)

    def start_clock(self) -> None:
        """Start the time that counters report as elapsed."""
        self._started = self._clock()

    def take_results(self) -> list[TrialResult]:
        """Return the results since the last call and forget them."""
        results, self._results = self._results, []
        return results

    @property
    def pending(self) -> int:
        """How many requests have no final result, plus how many results nobody took yet."""
        return len(self._trials) + sum(result.final for result in self._results)

    def in_flight(self, device_class: str) -> int:
        """Return how many requests for ``device_class`` have no final result."""
        return self._in_flight[device_class]

    def compiling(self, device_class: str) -> list[TrialRequest]:
        """Return the requests on their way to a device of the class, the oldest first."""
        requests = [e.request for e in self._trials.values() if e.phase == "compile"]
        return [r for r in requests if isinstance(r, TrialRequest) and r.device_class == device_class]

    def waiting(self, phase: Phase, device_class: str = "") -> int:
        """Return how many requests wait for a worker of this phase and device class."""
        queue = self._waiting.get(_queue_name(phase, device_class))
        return len(queue.order) if queue is not None else 0

    # What workers do

    def lease(self, phase: Phase, worker: str, device_class: str = "") -> Lease[Payload] | None:
        """Lease a worker the request that has waited longest, or for a device the one that the policy selects.

        Returns None where none waits.
        """
        queue = self._waiting.get(_queue_name(phase, device_class))
        if queue is None or not queue.order:
            return None
        taken = next(iter(queue.order)) if phase == "compile" else self._select(queue, worker)
        if taken is None:
            return None
        trial = self._trials[taken]
        queue.remove(taken, trial.whose)
        self._add_wait(trial, phase)
        trial.leases += 1
        if trial.leases > 1:
            trial.request = replace(trial.request, epoch=trial.request.epoch + 1)
        trial.lease = Lease(
            trial.request, phase, worker, trial.compiled, trial.payload, trial.candidates, trial.suspect
        )
        return trial.lease

    def lease_batch(
        self, phase: Phase, worker: str, device_class: str, most: int, *, idle: bool = True
    ) -> list[Lease[Payload]]:
        """Lease a worker up to ``most`` requests for one call. A race goes alone.

        A suspect goes alone too, and to an ``idle`` worker only. Where one is next and the worker is not idle, there
        is nothing for it: it is about to be.
        """
        leases: list[Lease[Payload]] = []
        while len(leases) < most:
            coming = self._next(phase, device_class)
            if coming is not None and ((leases and coming.lone) or (coming.suspect and not idle)):
                break
            lease = self.lease(phase, worker, device_class)
            if lease is None:
                break
            leases.append(lease)
            if self._trials[lease.request.request_id].lone:
                break
        return leases

    def _next(self, phase: Phase, device_class: str) -> _PendingTrial[Payload] | None:
        """Return the request that goes before all others; None where the policy selects."""
        queue = self._waiting.get(_queue_name(phase, device_class))
        if queue is None:
            return None
        coming = next(iter(queue.order if phase == "compile" else queue.first), None)
        return None if coming is None else self._trials[coming]

    def _select(self, queue: WaitingRequests, worker: str) -> str | None:
        """Return the request that the policy selects, and end those that it drops.

        Requests that were tried before, or are remeasured, go before all others and are not selectable.
        """
        if queue.first or self._policy is None:
            return next(iter(queue.first or queue.order))
        selection = self._policy.select(queue.selectable, worker)
        for request_id in selection.drop:
            digest = "built, and judged not worth measuring by its static facts and what is known of others"
            self._end(self._trials[request_id], Outcome(Status.INVALID_STATIC, None, PRUNED, digest, measured=False))
        if selection.take is not None and selection.incumbent_us is not None:
            trial = self._trials[selection.take]
            if trial.request.incumbent_us != selection.incumbent_us:
                trial.request = replace(trial.request, incumbent_us=selection.incumbent_us)
        return selection.take

    def _is_selectable(self, trial: _PendingTrial[Payload]) -> bool:
        compiled = trial.compiled
        return not trial.request.remeasure and not trial.lone and compiled is not None and compiled.traffic is not None

    def compiled(self, lease: Lease[Payload], compiled: Build, payload: Payload | None) -> None:
        """Take in a compile worker's answer: reject, recognise as a known trial, or queue for the device class. Where
        the worker's host let nothing be compiled, that counts as :meth:`lost`."""
        trial = self._answered(lease)
        if trial is None:
            return
        self._add_wait(trial, "compile", compiled.compile_s)
        trial.compiled, trial.payload = compiled, payload
        self._compile_s += compiled.compile_s
        request = trial.request
        self._trial_of_key[trial.key] = compiled.trial_id
        known = self._known.get(compiled.trial_id)
        if known is not None and not request.remeasure:
            self._repeat(trial, known)
        elif compiled.rejected is not None and compiled.rejected.status.is_infrastructure:
            self._lose(trial, lease, compiled.rejected, blame=True)
        elif compiled.rejected is not None:
            self._end(trial, compiled.rejected)
        else:
            self._await_device(trial)

    def finish(self, lease: Lease[Payload], outcome: Outcome, on: DeviceIdentity, device_s: float = 0.0) -> None:
        """Take in a device worker's answer, given after ``device_s`` seconds.

        A measuring process or a device that was lost under it counts as :meth:`lost`.
        """
        trial = self._answered(lease)
        if trial is None:
            return
        self._add_wait(trial, "device", device_s)
        trial.device_s = device_s
        if outcome.status.is_infrastructure:
            self._lose(trial, lease, outcome, blame=outcome.status is not Status.CANCELLED, on=on)
        else:
            self._end(trial, outcome, on)

    def lost(self, lease: Lease[Payload], outcome: Outcome, *, blame: bool, recompile: bool = False) -> None:
        """Take in that the worker will not answer.

        ``blame``: the config may have killed it, and is blocklisted the second time. ``recompile``: the binaries are
        gone with their node.
        """
        trial = self._release(lease)
        if trial is None:
            return
        self._add_wait(trial, lease.phase)
        if recompile:
            trial.phase, trial.compiled, trial.payload = "compile", None, None
            self._stop_leading(trial, None)
        self._lose(trial, lease, outcome, blame=blame)

    def fail_kernel(self, lease: Lease[Payload], error: TileflowError) -> None:
        """End all requests for the lease's kernel and problem: the stage raised ``error``, as it would for each of
        them."""
        failed = self._release(lease)
        if failed is None:
            return
        whose = failed.whose
        for trial in [e for e in self._trials.values() if e.whose == whose]:
            self._end(trial, Outcome(Status.CANCELLED, measured=False), kernel_error=error)

    def stage_raised(self, lease: Lease[Payload], error: BaseException) -> None:
        """Take in an exception of a stage.

        An error that the kernel's author must mend ends every request for that kernel and problem. A mistake of the
        stage, or of its worker's environment, is retried once.
        """
        if isinstance(error, TileflowError) and not error.retryable:
            self.fail_kernel(lease, error)
            return
        is_configs = lease.phase == "compile" and not isinstance(error, ClusterError)
        status = Status.COMPILE_ERROR if is_configs else Status.WORKER_LOST
        digest = f"the {lease.phase} worker raised {type(error).__name__}: {error}"[:MESSAGE_CHARS]
        self.lost(lease, Outcome(status, None, type(error).__name__, digest), blame=True)

    def returned(self, lease: Lease[Payload], *, alone: bool = False) -> None:
        """Queue the lease's request again: the worker did not answer for it. ``alone``: it may be to blame."""
        trial = self._release(lease)
        if trial is not None:
            self._add_wait(trial, lease.phase)
            trial.alone = trial.alone or alone
            self._enqueue(trial)

    def lost_batch(self, leases: Sequence[Lease[Payload]], outcome: Outcome, *, blame: bool) -> None:
        """Take in that a worker will not answer for ``leases``, all that it may have been busy with.

        Nobody knows which of several is to blame, was begun, or had ended and was not answered yet. So none is blamed,
        and each is tried again alone.
        """
        first, *others = leases
        self.lost(first, outcome, blame=blame and not others)
        for lease in others:
            self.returned(lease, alone=True)

    def cancel(self, request_id: str) -> None:
        """End a request as cancelled if it is not compiled yet."""
        trial = self._trials.get(request_id)
        if trial is not None and trial.phase == "compile":
            self._end(trial, Outcome(Status.CANCELLED, measured=False))

    def cancel_all(self, *, also_on_devices: bool) -> None:
        """End as cancelled all that is not leased to a device worker; with ``also_on_devices`` that too."""
        for trial in list(self._trials.values()):
            if also_on_devices or trial.lease is None or trial.phase == "compile":
                self._end(trial, Outcome(Status.CANCELLED, measured=False))

    def fail_class(self, device_class: str, outcome: Outcome) -> None:
        """End with ``outcome`` every request for a device class that nothing serves any more."""
        for trial in [e for e in self._trials.values() if e.request.device_class == device_class]:
            self._end(trial, outcome)

    def forget_modelled(self, device_class: str) -> None:
        """Forget the cost model's outcomes of the class, which is measured from now on."""
        for trial_id in [
            known.trial_id
            for known in self._known.values()
            if known.modelled and known.device is not None and known.device.device_class == device_class
        ]:
            del self._known[trial_id]

    def counters(self) -> Counters:
        """Return the totals without the shares of idle time, which only the owner of the workers knows."""
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

    def _answered(self, lease: Lease[Payload]) -> _PendingTrial[Payload] | None:
        """Return the trial that ``lease`` may answer for; None, counted as dropped, for an old lease."""
        trial = self._release(lease)
        self._counts["dropped"] += trial is None
        return trial

    def _add_wait(self, trial: _PendingTrial[Payload], phase: Phase, spent_s: float = 0.0) -> None:
        """Count as waiting what passed since this was asked last, but for the ``spent_s`` that the trial was worked on:
        its worker had others before it, or its answer was on its way. The phases of an attempt, however it ends, add up
        to the time that it took."""
        now = self._clock()
        waited = max(now - trial.since - spent_s, 0.0)
        trial.since = now
        if phase == "compile":
            trial.queue_s += waited
        else:
            trial.built_s += waited

    def _release(self, lease: Lease[Payload]) -> _PendingTrial[Payload] | None:
        trial = self._trials.get(lease.request.request_id)
        if trial is None or trial.lease is not lease:
            return None
        trial.lease = None
        return trial

    def _enqueue(self, trial: _PendingTrial[Payload]) -> None:
        trial.since = self._clock()
        name = _queue_name(trial.phase, trial.request.device_class)
        selectable = trial.phase == "device" and self._is_selectable(trial)
        self._waiting.setdefault(name, WaitingRequests()).add(trial.request, trial.whose, selectable=selectable)

    def _await_device(self, trial: _PendingTrial[Payload]) -> None:
        assert trial.compiled is not None
        trial.phase = "device"
        if trial.request.remeasure:
            self._enqueue(trial)
            return
        leader = self._leaders.setdefault(trial.compiled.trial_id, trial.request.request_id)
        if leader == trial.request.request_id:
            trial.leads = trial.compiled.trial_id
            self._enqueue(trial)
            self._say_built(trial, trial.compiled)
        else:
            self._followers.setdefault(leader, []).append(trial.request.request_id)

    def _say_built(self, trial: _PendingTrial[Payload], compiled: Build) -> None:
        request = trial.request
        if self._policy is None or not isinstance(request, TrialRequest) or not self._is_selectable(trial):
            return
        if compiled.traffic is not None:
            device = target(request.device_class)
            self._policy.built(request, cost.static_facts(compiled.traffic, compiled.launches, device))

    def _lose(
        self,
        trial: _PendingTrial[Payload],
        lease: Lease[Payload],
        outcome: Outcome,
        *,
        blame: bool,
        on: DeviceIdentity | None = None,
    ) -> None:
        """Queue the trial again, unless its config has killed workers before or it was tried too often."""
        if blame:
            trial.killed.append(lease.worker)
        lost = outcome if outcome.status.is_infrastructure else replace(outcome, status=Status.WORKER_LOST)
        if len(trial.killed) >= POISON_KILLS:
            reason = f"{outcome.error_digest or outcome.status}, twice: {', '.join(trial.killed)}"
            self._end(trial, outcome, on, blocklisted=reason)
        elif trial.request.attempt < MAX_ATTEMPTS:
            self._again(trial, lost, on)
        else:
            self._end(trial, lost, on)

    def _again(self, trial: _PendingTrial[Payload], outcome: Outcome, on: DeviceIdentity | None = None) -> None:
        self._counts["retried"] += 1
        self._results.append(self._result(trial, outcome, on, retried=True))
        trial.request = replace(trial.request, attempt=trial.request.attempt + 1)
        trial.queue_s = trial.built_s = trial.device_s = 0.0
        self._enqueue(trial)

    def _forget(self, trial: _PendingTrial[Payload]) -> None:
        del self._trials[trial.request.request_id]
        self._in_flight[trial.request.device_class] -= 1

    def _repeat(self, trial: _PendingTrial[Payload], known: TrialResult) -> None:
        self._add_wait(trial, trial.phase)
        self._forget(trial)
        self._counts["considered"] += 1
        self._counts["duplicates"] += 1
        assert known.build is not None  # a verdict's trial is known
        compile_s = trial.compiled.compile_s if trial.compiled else 0.0
        request = trial.request
        self._results.append(
            replace(
                known,
                request_id=request.request_id,
                attempt=request.attempt,
                epoch=request.epoch,
                duplicate_of=known.request_id,
                build=replace(known.build, compile_s=compile_s),
                phases=Phases(trial.queue_s, trial.built_s),
            )
        )

    def _end(
        self,
        trial: _PendingTrial[Payload],
        outcome: Outcome,
        on: DeviceIdentity | None = None,
        *,
        blocklisted: str = "",
        kernel_error: TileflowError | None = None,
    ) -> None:
        self._add_wait(trial, trial.phase)
        result = self._result(trial, outcome, on, blocklisted=blocklisted, kernel_error=kernel_error)
        request_id = trial.request.request_id
        self._forget(trial)
        queue = self._waiting.get(_queue_name(trial.phase, trial.request.device_class))
        if queue is not None:
            queue.remove(request_id, trial.whose)
        self._counts["considered"] += isinstance(trial.request, TrialRequest)
        if outcome.measurement is not None:
            self._counts["measured" if outcome.measured else "modelled"] += 1
        self._results.append(result)
        if result.blames_config and isinstance(trial.request, TrialRequest):
            self._known.setdefault(result.trial_id, result)
            self._trial_of_key.setdefault(trial.key, result.trial_id)
        self._stop_leading(trial, result)

    def _stop_leading(self, trial: _PendingTrial[Payload], result: TrialResult | None) -> None:
        """Give the outcome to the trials with the same binary; where there is none, let the first of them lead."""
        if not trial.leads:
            return
        del self._leaders[trial.leads]
        trial.leads = ""
        followers = self._followers.pop(trial.request.request_id, [])
        for follower in [self._trials[f] for f in followers if f in self._trials]:
            if result is not None and result.blames_config:
                self._repeat(follower, result)
            else:
                self._await_device(follower)

    def _result(
        self,
        trial: _PendingTrial[Payload],
        outcome: Outcome,
        on: DeviceIdentity | None,
        *,
        retried: bool = False,
        blocklisted: str = "",
        kernel_error: TileflowError | None = None,
    ) -> TrialResult:
        request = trial.request
        result = TrialResult(
            request_id=request.request_id,
            attempt=request.attempt,
            epoch=request.epoch,
            build=trial.compiled,
            outcome=outcome,
            phases=Phases(trial.queue_s, trial.built_s, trial.device_s),
            device=on,
            binaries_kept=trial.payload is not None,
            retried=retried,
            blocklisted=blocklisted,
            kernel_error=kernel_error,
        )
        # It killed every compiler: no source will ever name it.
        if result.build is None and result.blames_config and isinstance(request, TrialRequest):
            return replace(result, build=Build(config_trial_id(request)))
        return result


def unanswered(phase: Phase) -> Outcome:
    """Return the outcome of a lease whose worker should have ended it: it hangs, or is cut off."""
    status = Status.COMPILE_TIMEOUT if phase == "compile" else Status.BENCH_TIMEOUT
    return Outcome(status, None, "LeaseExpired", f"the {phase} worker did not answer within its limit")


def _whose(request: AnyRequest) -> tuple[object, ...]:
    """Return what a fault of the kernel affects: every field of a request but its config."""
    return request.kernel, request.problem, request.device_class, request.mode


def _queue_name(phase: Phase, device_class: str) -> str:
    return phase if phase == "compile" else f"{phase}:{device_class}"
