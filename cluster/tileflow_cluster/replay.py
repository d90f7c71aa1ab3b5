"""Recorded outcomes in place of compilers and GPUs: strategies are tested against them on any machine.

Time is virtual: it advances by what each recorded trial took, so that a sweep of hours replays in moments and its
counters read as they would have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tileflow.cost import Launch
from tileflow.errors import ClusterError
from tileflow.ir.traffic import Traffic
from tileflow.measure.contest import by_medians
from tileflow.measure.types import Outcome, Status
from tileflow.runtime.abi import Binary

from .inline import InlineEvaluator
from .protocol import Facts, TrialRequest, TrialResult
from .stages import CompiledTrial, DeviceIdentity

BEFORE_THE_DEVICE = (Status.INVALID_STATIC, Status.COMPILE_ERROR, Status.COMPILE_TIMEOUT)


@dataclass(slots=True)
class VirtualClock:
    """Seconds that pass only when told to."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


class ReplayEvaluator(InlineEvaluator):
    """``recorded``: final results by ``TrialRequest.key``; ``device_classes``: those that they were measured on.

    :meth:`poll` raises ClusterError for a request that was never recorded.
    """

    def __init__(self, recorded: Mapping[str, TrialResult], device_classes: tuple[str, ...]) -> None:
        clock = VirtualClock()
        super().__init__(_Replay(recorded, clock, DeviceIdentity("")), measured=device_classes, clock=clock)

    def fetch_binaries(self, trial_id: str) -> tuple[Binary, ...]:
        raise ClusterError("a replay has no binaries", got=trial_id, hint="compile the config with another evaluator")


@dataclass(frozen=True, slots=True)
class _Replay:
    """Stages, compiler and devices at once: all are look-ups."""

    recorded: Mapping[str, TrialResult]
    clock: VirtualClock
    identity: DeviceIdentity
    compiled_by: Facts = ()
    compile_limit_s: float = 0.0

    def device_limit_s(self, request: TrialRequest) -> float:
        return 0.0

    def open_compiler(self) -> _Replay:
        return self

    def open_device(self, device_class: str) -> _Replay:
        return _Replay(self.recorded, self.clock, DeviceIdentity(device_class, host="replay"))

    open_model = open_device

    def compile(self, request: TrialRequest) -> tuple[CompiledTrial, tuple[Binary, ...]]:
        result = self._look_up(request)
        self.clock.now += result.compile_s
        rejected = result.outcome if result.outcome.status in BEFORE_THE_DEVICE else None
        median = result.outcome.measurement.median_us if result.outcome.measurement else 0.0
        compiled = CompiledTrial(
            trial_id=result.trial_id,
            source_hash=result.source_hash,
            compiled_by=result.compiled_by,
            compile_s=result.compile_s,
            host="replay",
            rejected=rejected,
            launches=tuple(Launch(resources, 0) for resources in result.resources),
            traffic=_traffic(result),
            roofline_us=result.roofline_frac * median if result.roofline_frac else None,
            occupancy=result.occupancy,
        )
        return compiled, ()

    def prepare(self, request: TrialRequest) -> None: ...

    def run(self, request: TrialRequest, compiled: CompiledTrial, binaries: tuple[Binary, ...]) -> Outcome:
        outcome = self._look_up(request).outcome
        self.clock.now += outcome.verify_s + outcome.bench_s
        return outcome

    def contest(self, request: TrialRequest, entrants: Sequence[tuple[Binary, ...]]) -> Outcome:
        known = [self._look_up(replace(request, config=config, entrants=())) for _, config in request.entrants]
        return Outcome(Status.OK, places=by_medians([result.outcome for result in known]))

    def close(self) -> None: ...

    def _look_up(self, request: TrialRequest) -> TrialResult:
        try:
            return self.recorded[request.key]
        except KeyError:
            raise ClusterError(
                "a replayed request must have been recorded",
                got=f"{request.kernel.name} {dict(request.problem)} {request.device_class}: {request.config}",
            ) from None


def _traffic(result: TrialResult) -> Traffic | None:
    """What a result says of it; the operands' type is not recorded."""
    if result.traffic_bytes is None or result.flops is None:
        return None
    return Traffic(result.traffic_bytes, result.flops, "")
