"""The record of a trial: what building found, how it ended, where its time went.

A :class:`TrialResult` is made once, by the trial queue, and carried whole from there to the journal, which flattens it.
All of its numbers are finite, or None where there is none: a journal refuses others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tileflow.cost import Launch
from tileflow.errors import TileflowError
from tileflow.ir.traffic import Traffic
from tileflow.measure.types import Measurement, Outcome, require_finite
from tileflow.runtime.abi import Resources

Facts = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Build:
    """What compiling found out, without the machine code.

    ``trial_id``: identifies the trial; ``source_hash``: of all launches' sources together. ``compiled_by``: (name,
    version) pairs. ``compile_s``: seconds. ``rejected``: the outcome of a config that never reaches a device.
    ``launches``: what one call launches, in order; ``traffic``: what it must move and compute. ``roofline_us``: the
    roofline's time on its device class. ``modelled_us``: the cost model's time, also where a device will measure.
    ``occupancy``: the lowest of all launches, 0 to 1.
    """

    trial_id: str
    source_hash: str = ""
    compiled_by: Facts = ()
    compile_s: float = 0.0
    host: str = ""
    rejected: Outcome | None = None
    launches: tuple[Launch, ...] = ()
    traffic: Traffic | None = None
    roofline_us: float | None = None
    modelled_us: float | None = None
    occupancy: float | None = None

    def __post_init__(self) -> None:
        require_finite(self)

    @property
    def most_used(self) -> Resources | None:
        """The most registers, spilled bytes, shared bytes and threads that a launch has; None without launches."""
        used = [launch.resources for launch in self.launches]
        if not used:
            return None
        return Resources(*(max(column) for column in zip(*map(_counts, used), strict=True)))


def _counts(used: Resources) -> Sequence[int]:
    return used.registers, used.spills, used.shared, used.threads


@dataclass(frozen=True, slots=True)
class DeviceIdentity:
    """The host, GPU and launcher versions of a device worker. ``gpu_uuid`` is empty for one that only models."""

    device_class: str
    host: str = ""
    gpu_uuid: str = ""
    launched_by: Facts = ()


@dataclass(frozen=True, slots=True)
class Phases:
    """Seconds of an attempt beside those of its build and its outcome.

    ``queue_s``: waiting for a compile worker. ``built_s``: waiting, built, for a device. ``device_s``: on the device.
    Waiting counts until a worker begins, also behind what it was given before, and until the answer is taken in.
    """

    queue_s: float = 0.0
    built_s: float = 0.0
    device_s: float = 0.0

    def __post_init__(self) -> None:
        require_finite(self)


@dataclass(frozen=True, slots=True)
class TrialResult:
    """How one attempt ended.

    ``build``: None where no compile worker answered, so that the trial is unknown; a verdict always has one.
    ``device``: where it ran; None where it reached no device. ``retried``: infrastructure failed and the evaluator has
    queued the request again; another result follows. ``blocklisted``: why the config will not be run again (it killed
    workers); empty otherwise. ``kernel_error``: what the kernel's author must mend, because the kernel fails whatever
    the config: it cannot be imported or lowered, its inputs or its reference raise. Every request for the same kernel,
    problem, device class and mode ends with it, as cancelled: nothing is known of their configs. ``duplicate_of``: the
    request whose binary was the same; its outcome is repeated here, nothing was measured. ``binaries_kept``:
    :meth:`Evaluator.fetch_binaries` can still return the machine code.
    """

    request_id: str
    attempt: int
    epoch: int
    build: Build | None
    outcome: Outcome
    phases: Phases = field(default_factory=Phases)
    device: DeviceIdentity | None = None
    binaries_kept: bool = False
    duplicate_of: str = ""
    retried: bool = False
    blocklisted: str = ""
    kernel_error: TileflowError | None = None

    @property
    def trial_id(self) -> str:
        """The build's trial id, empty where no build is known."""
        return self.build.trial_id if self.build is not None else ""

    @property
    def measurement(self) -> Measurement | None:
        """The outcome's measurement, None where nothing was timed."""
        return self.outcome.measurement

    @property
    def modelled(self) -> bool:
        """Whether its time is the cost model's."""
        return self.measurement is not None and not self.outcome.measured

    @property
    def roofline_frac(self) -> float | None:
        """The roofline's time over the measured (or modelled) one."""
        roofline_us = self.build.roofline_us if self.build is not None else None
        return roofline_us / self.measurement.median_us if roofline_us and self.measurement else None

    @property
    def gpu_uuid(self) -> str:
        """The GPU's id as the worker reports it, else as the measuring process did."""
        return (self.device.gpu_uuid if self.device is not None else "") or self.outcome.device.gpu_uuid

    @property
    def final(self) -> bool:
        """Whether no further result follows for this request."""
        return not self.retried

    @property
    def blames_config(self) -> bool:
        """Whether the outcome says something about the config, so that a strategy may be told."""
        return self.final and (bool(self.blocklisted) or not self.outcome.status.is_infrastructure)
