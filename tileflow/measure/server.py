"""MeasureProcess: the parent of a measuring child. Nothing that a kernel does reaches this process."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..build.process import Answer, Died, Done, Failed, TimedOut
from ..build.warm_process import WarmProcess
from ..errors import ClusterError, KernelError, SlowProblem, SpecError, TileflowError
from .device import DeviceInfo
from .failure import NO_ROOM, NO_TIME, failed, no_room, no_time, slow_problem
from .input_cache import Key, key
from .request import PROBLEMS, Limits, MeasureRequest, ReferenceOn
from .types import Outcome, Status

log = logging.getLogger(__name__)

_FURTHER: Mapping[ReferenceOn, ReferenceOn] = {"device": "cpu", "cpu": "witnesses"}
_MADE: Mapping[ReferenceOn, str] = {
    "cpu": "is made on the CPU",
    "witnesses": "is the default config's output; a second config and the interpreter are its witnesses",
}
_CALL_LIMIT_S = 60.0  # between the start of a call and its first phase
_SPOILT = (Status.ILLEGAL_ACCESS, Status.DEVICE_LOST)
_RUNS = "tileflow.measure.child:run"
_PREPARES = "tileflow.measure.child:prepare"
_RESTS = "tileflow.measure.child:rest"
_IDENTIFIES = "tileflow.measure.child:identify"
_IS_HEALTHY = "tileflow.measure.child:is_healthy"


class MeasureProcess(WarmProcess):
    """A warm child on one card, and, once that one works, a spare beside it that has imported everything but opened no
    device.

    ``device_index``: among the cards that this process sees. ``recycle_after``: trials, and ``max_rss_bytes``: host
    memory, after which the spare takes over. Not thread-safe; one request at a time.
    """

    def __init__(
        self,
        device_index: int = 0,
        *,
        recycle_after: int = 2000,
        max_rss_bytes: int = 16 << 30,
        environment: Mapping[str, str] | None = None,
        warm: tuple[str, ...] = ("torch", "tileflow.measure.child"),
        runs: str = _RUNS,
    ) -> None:
        super().__init__(
            warm=warm,
            environment=environment,
            recycle_after=recycle_after,
            max_rss_bytes=max_rss_bytes,
            has_spare=True,
        )
        self._device_index = device_index
        self._runs = runs
        self._slow: dict[Key, tuple[float, SlowProblem]] = {}  # by problems: the limit in which it was not made
        self._interrupted: set[Key] = set()  # problems whose author's functions were, and whose process was kept
        self._raised: dict[Key, TileflowError] = {}  # by problems whose author or caller must mend something
        self._no_room_beside: dict[Key, SlowProblem] = {}  # by problems that have no room beside others' data
        self._reference_on: dict[Key, ReferenceOn] = {}  # of problems whose reference the card has no room for

    def identity(self, limits: Limits | None = None) -> DeviceInfo:
        """What the child stands on. Raises ClusterError where it cannot open the card."""
        answer = self._call(_IDENTIFIES, (self._device_index,), (limits or Limits()).phases(None))
        if isinstance(answer, Done) and isinstance(answer.value, DeviceInfo):
            return answer.value
        raise ClusterError(
            f"a measuring process must be able to open device {self._device_index}",
            got=answer.error if isinstance(answer, Failed) else answer,
            hint="is it visible, free, and does torch have its backend?",
        )

    def prepare(self, request: MeasureRequest) -> None:
        """Let the child make the request's data ahead, and load what a first trial needs. What goes wrong is told by
        :meth:`run`, which meets it again, or knows it where it is the author's doing."""
        request = self._placed(request)
        answer = self._call(_PREPARES, (request, self._device_index), request.limits.phases(None))
        if isinstance(answer, Done) and isinstance(answer.value, Outcome):  # of the kernel's own text: others are quick
            self._moved_on(request, answer.value)
        if isinstance(answer, TimedOut) and answer.phase == "text":
            self._moved_on(request, _no_text(answer))
        if isinstance(answer, Failed):
            self._note_raised(request, answer.error, kept=isinstance(answer.error, SpecError | KernelError))
        if isinstance(answer, TimedOut) and answer.phase in PROBLEMS:
            self._note_slow(request, slow_problem(request, answer.limit_s))

    def run(self, request: MeasureRequest) -> Outcome:
        """Measure one config, or hold several against each other; whatever the kernel does, an Outcome.

        Memory that is short is tried once more in a clean process, alone on the card, unless others wait for it. A
        reference that has no room there is made on the CPU, and by witnesses where it cannot be made there, or takes
        too long anywhere, for all further requests as well. A kernel's own text, which stands for a reference that
        nobody wrote, has a limit of its own, whoever waits.
        Raises what the kernel's author or the caller must mend: an unknown kernel, inputs or a reference that raise,
        witnesses that disagree, inputs that do not fit the card even then, and SlowProblem for those that are not made
        in time or, while others wait, have no room. It is decided once for all configs, and raised again without asking
        the child: each of them would cost the others' data, which the child has.
        """
        request = self._placed(request)
        if key(request) in self._raised:
            raise self._raised[key(request)].with_traceback(None)
        if key(request) in self._no_room_beside and request.limits.others_wait:
            raise self._no_room_beside[key(request)].with_traceback(None)
        if self._is_slow(request) and request.reference_on in _FURTHER and not request.limits.others_wait:
            request = self._moved_on(request, no_time("they took longer when they were made ahead"))
        self._require_quick(request)
        self._keep_spare()
        outcome = self._run(request)
        if outcome.error_class == NO_ROOM and request.limits.others_wait:
            self._no_room_beside[key(request)] = SlowProblem(
                "a problem for which others wait must fit the card beside their data, or go last",
                got=outcome.error_digest,
                where=f"{request.kernel} {dict(request.problem)}",
                hint="it has the card, and then the CPU, to itself where no other problem waits",
            )
            raise self._no_room_beside[key(request)]
        if outcome.status is Status.OOM:
            self._replace()
            outcome = self._run(request)
        while outcome.error_class in (NO_ROOM, NO_TIME) and request.reference_on in _FURTHER:
            request = self._moved_on(request, outcome)
            outcome = self._run(request)
        if outcome.error_class == NO_ROOM:
            raise SpecError(
                "a problem's inputs must fit the card",
                got=outcome.error_digest,
                where=f"{request.kernel} {dict(request.problem)}",
                hint="take smaller sizes; is another process on the card?",
            )
        return outcome

    def _moved_on(self, request: MeasureRequest, outcome: Outcome) -> MeasureRequest:
        """The request with its reference made where it is tried next, in a process with all memory to itself if that
        was short. It is said once."""
        further = "witnesses" if outcome.error_class == NO_TIME else _FURTHER[request.reference_on]
        self._reference_on[key(request)] = further
        self._slow.pop(key(request), None)
        problem = dict(request.problem)
        log.warning("the reference of %s %s %s: %s", request.kernel, problem, _MADE[further], outcome.error_digest)
        if outcome.error_class == NO_ROOM:
            self._replace()
        return self._placed(request)

    def rest(self, limits: Limits | None = None) -> None:
        """Let the child forget what it keeps for problems: no more of them are expected soon."""
        self._slow.clear()
        self._interrupted.clear()
        self._raised.clear()
        self._no_room_beside.clear()
        self._reference_on.clear()
        if isinstance(self._call(_RESTS, (), (limits or Limits()).phases(None)), Failed):
            self._replace()

    def _run(self, request: MeasureRequest) -> Outcome:
        answer = self._call(self._runs, (request, self._device_index), request.limits.phases(request.incumbent_us))
        match answer:
            case Done(value, rss_bytes):
                assert isinstance(value, Outcome)
                if value.status in _SPOILT:
                    self._replace()
                else:
                    self._count(rss_bytes)
                return value
            case Failed(SlowProblem() as error):
                self._note_raised(request, error, kept=False)
                if _may_have_witnesses(request):
                    return no_time(str(error).partition("\n")[0])
                raise error
            case Failed(error):
                if key(request) in self._interrupted and request.reference_on != "witnesses":
                    # What it raises may come of that.
                    self._interrupted.discard(key(request))
                    self._replace()
                    return self._run(request)
                self._note_raised(request, error, kept=not error.retryable)
                raise error
            case TimedOut(limit, phase):
                if phase == "text":
                    return _no_text(answer)
                text = f"phase {phase!r} took longer than {limit:g} s"
                if phase in PROBLEMS and _may_have_witnesses(request):
                    return no_time(text)
                if phase in PROBLEMS:
                    self._note_slow(request, slow_problem(request, limit))
                self._require_quick(request)
                return failed(_timed_out(phase), text)
            case Died() as died:
                if died.phase == "prepare" and request.reference_on == "cpu":  # by the host's memory, as a rule
                    return no_room(str(died))
                return failed(Status.WORKER_LOST, str(died))

    def _placed(self, request: MeasureRequest) -> MeasureRequest:
        return replace(request, reference_on=self._reference_on.get(key(request), request.reference_on))

    def _note_slow(self, request: MeasureRequest, error: SlowProblem) -> None:
        if not self._is_slow(request):
            self._slow[key(request)] = request.limits.prepare, error

    def _note_raised(self, request: MeasureRequest, error: TileflowError, *, kept: bool) -> None:
        """Keep the child, and for the problem's other configs the error, unless the device went with it."""
        if isinstance(error, SlowProblem):
            self._note_slow(request, error)
        phases = request.limits.phases(None)
        # It waits for what the function had asked of the device.
        phases["device"] = min(phases["device"], phases["prepare"])
        answer = self._call(_IS_HEALTHY, (self._device_index,), phases)
        if isinstance(answer, Failed) or (isinstance(answer, Done) and not answer.value):
            self._replace()
        elif isinstance(answer, Done) and isinstance(error, SlowProblem):
            self._interrupted.add(key(request))
        elif isinstance(answer, Done) and kept:
            self._raised[key(request)] = error

    def _is_slow(self, request: MeasureRequest) -> bool:
        return key(request) in self._slow and self._slow[key(request)][0] >= request.limits.prepare

    def _require_quick(self, request: MeasureRequest) -> None:
        """Raises SlowProblem where a problem was not made in as much time as the request gives it."""
        if self._is_slow(request):
            raise self._slow[key(request)][1].with_traceback(None)

    def _call(self, function: str, args: tuple[Any, ...], phases: Mapping[str, float]) -> Answer:
        return self._ask(function, args, _CALL_LIMIT_S, phases)


def _may_have_witnesses(request: MeasureRequest) -> bool:
    """Whether witnesses, which need no reference, are tried for a problem that is not made in time."""
    return request.reference_on in _FURTHER and not request.limits.others_wait


def _no_text(ended: TimedOut) -> Outcome:
    return no_time(f"a call of torch in the kernel's own text as plain Python took longer than {ended.limit_s:g} s")


def _timed_out(phase: str) -> Status:
    match phase:
        case "check" | "time":
            return Status.BENCH_TIMEOUT
        case "device":
            return Status.DEVICE_LOST
    return Status.WORKER_LOST
