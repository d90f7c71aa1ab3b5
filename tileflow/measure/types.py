"""How a trial ends, and what was measured."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING

from ..errors import InternalError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def require_finite(value: DataclassInstance) -> None:
    """Raise InternalError where a number in a field of ``value``, or of a tuple there, is infinite or not a number.

    The parts of a trial's record call it as they are made: its journal takes no other numbers, and a mistake is found
    where it is made.
    """
    for name in _names(type(value)):
        found = getattr(value, name)
        if found is None or type(found) is int or (type(found) is float and math.isfinite(found)):
            continue  # nearly all of them, five records a trial
        for number in found if type(found) is tuple else (found,):
            if isinstance(number, float) and not math.isfinite(number):
                where = f"{type(value).__name__}.{name}"
                raise InternalError("a number of a trial's record must be finite", got=number, where=where)


@functools.cache
def _names(kind: type[DataclassInstance]) -> tuple[str, ...]:
    """The fields of a class that have numbers, by their annotations: asked for every record of a journal, many times
    each."""
    return tuple(each.name for each in fields(kind) if any(number in str(each.type) for number in ("int", "float")))


class Status(StrEnum):
    """The end of a trial. Failure is data: all but the last three say something about the config."""

    OK = "ok"
    INVALID_STATIC = "invalid_static"
    COMPILE_ERROR = "compile_error"
    COMPILE_TIMEOUT = "compile_timeout"
    OUT_OF_RESOURCES = "out_of_resources"
    OOM = "oom"
    ILLEGAL_ACCESS = "illegal_access"
    INCORRECT = "incorrect"
    NONFINITE = "nonfinite"
    BENCH_TIMEOUT = "bench_timeout"
    WORKER_LOST = "worker_lost"
    DEVICE_LOST = "device_lost"
    CANCELLED = "cancelled"

    @property
    def is_infrastructure(self) -> bool:
        """The config is not to blame; the trial is tried again."""
        return self in (Status.WORKER_LOST, Status.DEVICE_LOST, Status.CANCELLED)


@dataclass(frozen=True, slots=True)
class Measurement:
    """Times of one whole call in microseconds, all finite, the median above 0.

    ``ci95_us``: half-width of the median's 95 % interval.
    """

    samples_us: tuple[float, ...]
    median_us: float
    p20_us: float
    p80_us: float
    ci95_us: float

    def __post_init__(self) -> None:
        require_finite(self)
        if self.median_us <= 0:
            raise InternalError("the time of a call must be above 0", got=self.median_us)


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """The card while it measured. None where the driver does not say.

    ``throttled``: held down by heat or by its board, for the reasons in ``throttle_reasons``, which name the ordinary
    power cap too. ``foreign_processes``: that compute on it beside the measuring one. ``canary_ratio``: the time of a
    fixed piece of work just after, over its usual time; ``noise_retries``: how often the measurement was repeated.
    """

    gpu_uuid: str = ""
    sm_clock_mhz: int | None = None
    temp_c: int | None = None
    power_w: float | None = None
    throttled: bool | None = None
    mem_clock_mhz: int | None = None
    throttle_reasons: tuple[str, ...] = ()
    foreign_processes: int | None = None
    canary_ratio: float | None = None
    noise_retries: int | None = None

    def __post_init__(self) -> None:
        require_finite(self)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one measured (or modelled, or interpreted) config.

    ``error_class``, ``error_digest``: the exception's name and the beginning of its message where it failed.
    ``max_err``: the largest error over the outputs, relative to the tolerance's scale (at most 1 passes). None where
    nothing was compared, and where no number says how far off it is (a wrong shape, a NaN): the status says which.
    ``prepare_s``: for the problem's inputs and references, next to nothing where they were kept; ``load_s``: until the
    code is on the device; ``verify_s``, ``bench_s``: checking and timing. ``measured``: False for a modelled time.
    ``reference``: how what it was checked against was made, where not on the device: ``cpu``.
    ``ranked``: of a race, in the order of its candidates; its own status is then that of the whole.
    """

    status: Status
    measurement: Measurement | None = None
    error_class: str = ""
    error_digest: str = ""
    max_err: float | None = None
    prepare_s: float = 0.0
    load_s: float = 0.0
    verify_s: float = 0.0
    bench_s: float = 0.0
    device: DeviceFacts = field(default_factory=DeviceFacts)
    measured: bool = True
    reference: str = ""
    ranked: tuple[RankedResult, ...] = ()

    def __post_init__(self) -> None:
        require_finite(self)


@dataclass(frozen=True, slots=True)
class RankedResult:
    """One candidate of a race. ``outcome``: its check, and its times of all rounds.

    ``ratio``: its time over the leader's, the median over the rounds that both played, and the interval of that;
    None for a candidate that failed. ``tied``: it was not told apart from the leader (which is tied itself).
    """

    outcome: Outcome
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    tied: bool = False

    def __post_init__(self) -> None:
        require_finite(self)
