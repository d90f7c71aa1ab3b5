"""Recorded outcomes in place of compilers and GPUs: strategies are tested against them on any machine.

Time is virtual: it advances by what each recorded trial took. A sweep of hours replays in moments, and its counters
read as they would have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tileflow.errors import ClusterError
from tileflow.measure.racing import by_medians
from tileflow.measure.types import Outcome, Status
from tileflow.runtime.abi import Binary

from .inline import InlineEvaluator
from .protocol import AnyRequest, RaceRequest, TrialRequest
from .trial import Build, DeviceIdentity, Facts, TrialResult

BEFORE_THE_DEVICE = (Status.INVALID_STATIC, Status.COMPILE_ERROR, Status.COMPILE_TIMEOUT)


@dataclass(slots=True)
class VirtualClock:
    """A clock whose seconds pass only when ``now`` is advanced."""

    now: float = 0.0

    def __call__(self) -> float:
        """Return the seconds that have passed."""
        return self.now


class ReplayEvaluator(InlineEvaluator):
    """Answers requests with recorded results.

    ``recorded``: final results by ``TrialRequest.key``; ``device_classes``: those that they were measured on.
    :meth:`poll` raises ClusterError for a request that was never recorded.
    """

    def __init__(self, recorded: Mapping[str, TrialResult], device_classes: tuple[str, ...]) -> None:
        clock = VirtualClock()
        super().__init__(_Replay(recorded, clock, DeviceIdentity("")), measured=device_classes, clock=clock)

    def fetch_binaries(self, trial_id: str) -> tuple[Binary, ...]:
        """Raise ClusterError: a replay has no binaries."""
        raise ClusterError("a replay has no binaries", got=trial_id, hint="compile the config with another evaluator")


@dataclass(frozen=True, slots=True)
class _Replay:
    """Stages, compiler and devices at once; each looks the recorded result up."""

    recorded: Mapping[str, TrialResult]
    clock: VirtualClock
    identity: DeviceIdentity
    compiled_by: Facts = ()
    compile_limit_s: float = 0.0

    def device_limit_s(self, request: AnyRequest) -> float:
        return 0.0

    def open_compiler(self) -> _Replay:
        return self

    def open_device(self, device_class: str, gpu: str = "") -> _Replay:
        return _Replay(self.recorded, self.clock, DeviceIdentity(device_class, host="replay"))

    open_model = open_device

    def compile(self, request: TrialRequest) -> tuple[Build, tuple[Binary, ...]]:
        result = self._look_up(request)
        assert result.build is not None, "what is recorded are final results"
        self.clock.now += result.build.compile_s
        rejected = result.outcome if result.outcome.status in BEFORE_THE_DEVICE else None
        return replace(result.build, host="replay", rejected=rejected), ()

    def prepare(self, request: TrialRequest) -> None: ...

    def run(self, request: TrialRequest, compiled: Build, binaries: tuple[Binary, ...]) -> Outcome:
        outcome = self._look_up(request).outcome
        self.clock.now += outcome.verify_s + outcome.bench_s
        return outcome

    def race(self, request: RaceRequest, candidates: Sequence[tuple[Binary, ...]]) -> Outcome:
        known = [self._look_up(request.alone(config)) for _, config in request.candidates]
        return Outcome(Status.OK, ranked=by_medians([result.outcome for result in known]))

    def close(self) -> None: ...

    def _look_up(self, request: TrialRequest) -> TrialResult:
        try:
            return self.recorded[request.key]
        except KeyError:
            raise ClusterError(
                "a replayed request must have been recorded",
                got=f"{request.kernel.name} {dict(request.problem)} {request.device_class}: {request.config}",
            ) from None
