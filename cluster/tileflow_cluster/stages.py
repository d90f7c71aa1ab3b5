"""The stages of a trial: compile anywhere, model anywhere, measure on the device.

:class:`Stages` is what an evaluator hands to its workers; it pickles, and opens on each worker what lives there.
:class:`.pipeline.TileflowStages` is the real one; tests put fakes in its place that sleep, fail, hang and die.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tileflow.cost import Launch
from tileflow.ir.traffic import Traffic
from tileflow.measure.types import Outcome
from tileflow.runtime.abi import Binary

from .protocol import Facts, TrialRequest


@dataclass(frozen=True, slots=True)
class CompiledTrial:
    """What compiling found out, without the machine code.

    ``rejected``: the outcome of a config that never reaches a device. ``launches``: what one call launches, in order;
    ``traffic``: what it must move and compute. ``roofline_us``: the roofline's time for it on its device class.
    ``modelled_us``: the cost model's time, also where a device will measure. ``occupancy``: the lowest of all regions,
    0 to 1.
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


@dataclass(frozen=True, slots=True)
class DeviceIdentity:
    """What a device worker stands on. ``gpu_uuid`` is empty for a worker that only models."""

    device_class: str
    host: str = ""
    gpu_uuid: str = ""
    launched_by: Facts = ()


class Compiler(Protocol):
    """Lives on a compile worker, serves every target."""

    @property
    def compiled_by(self) -> Facts: ...

    def compile(self, request: TrialRequest) -> tuple[CompiledTrial, tuple[Binary, ...]]:
        """Returns within the stages' ``compile_limit_s``; a config's failure is in ``CompiledTrial.rejected``.

        Raises a TileflowError that is not retryable where the kernel fails whatever the config.
        """

    def close(self) -> None: ...


class Device(Protocol):
    """Lives on a device worker: one GPU, or a model of one."""

    @property
    def identity(self) -> DeviceIdentity: ...

    def prepare(self, request: TrialRequest) -> None:
        """Make what every trial of the request's kernel and problem needs before its config is built. Raises nothing:
        what fails here fails again, and is told, when the first trial runs."""

    def run(self, request: TrialRequest, compiled: CompiledTrial, binaries: tuple[Binary, ...]) -> Outcome:
        """Measure (or model) one trial. Returns within the stages' ``device_limit_s``; raises as ``compile`` does."""

    def contest(self, request: TrialRequest, entrants: Sequence[tuple[Binary, ...]]) -> Outcome:
        """Hold the request's entrants against each other; ``entrants``: their machine code. Else as :meth:`run`."""

    def close(self) -> None: ...


class Stages(Protocol):
    """Opens compilers and devices on workers. Limits are in seconds and count from the moment a worker starts."""

    @property
    def compile_limit_s(self) -> float: ...

    def device_limit_s(self, request: TrialRequest) -> float: ...

    def open_compiler(self) -> Compiler: ...

    def open_device(self, device_class: str) -> Device:
        """The GPU that this process sees. Raises ClusterError where it is not one GPU of ``device_class``."""

    def open_model(self, device_class: str) -> Device: ...
