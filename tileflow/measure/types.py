"""How a trial ends, and what was measured."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum


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
    """Times of one whole call in microseconds. ``ci95_us``: half-width of the median's 95 % interval."""

    samples_us: tuple[float, ...]
    median_us: float
    p20_us: float
    p80_us: float
    ci95_us: float


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """The card while it measured. None where the driver does not say."""

    gpu_uuid: str = ""
    sm_clock_mhz: int | None = None
    temp_c: int | None = None
    power_w: float | None = None
    throttled: bool | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one measured (or modelled, or interpreted) config.

    ``error_class``, ``error_digest``: the exception's name and the beginning of its message where it failed.
    ``max_err``: the largest error over the outputs, relative to the tolerance's scale (at most 1 passes).
    ``prepare_s``: for the problem's inputs and references, next to nothing where they were kept; ``load_s``: until the
    code is on the device; ``verify_s``, ``bench_s``: checking and timing. ``measured``: False for a modelled time.
    ``places``: of a contest, in the order of its entrants; its own status is then that of the whole.
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
    places: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """One entrant of a contest. ``outcome``: its check, and its times of all rounds.

    ``ratio``: its time over the leader's, the median over the rounds that both played, and the interval of that;
    infinite for an entrant that failed. ``tied``: it was not told apart from the leader (which is tied itself).
    """

    outcome: Outcome
    ratio: float = math.inf
    low: float = math.inf
    high: float = math.inf
    tied: bool = False
