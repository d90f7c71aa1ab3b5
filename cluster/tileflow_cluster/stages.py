"""The stages of a trial: compile anywhere, model anywhere, measure on the device.

:class:`Stages` is what an evaluator hands to its workers; it pickles, and opens on each worker what lives there.
:class:`.pipeline.TileflowStages` is the real one; tests put fakes in its place that sleep, fail, hang and die.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tileflow.measure.types import Outcome
from tileflow.runtime.abi import Binary

from .protocol import AnyRequest, RaceRequest, TrialRequest
from .trial import Build, DeviceIdentity, Facts


class Compiler(Protocol):
    """A compiler, which lives on a compile worker and serves every target."""

    @property
    def compiled_by(self) -> Facts:
        """(name, version) of what it compiles with."""

    def compile(self, request: TrialRequest) -> tuple[Build, tuple[Binary, ...]]:
        """Compile one request within the stages' ``compile_limit_s``; a config's failure is in ``Build.rejected``.

        Raises a TileflowError that is not retryable where the kernel fails whatever the config.
        """

    def close(self) -> None:
        """Stop whatever it has running."""


class Device(Protocol):
    """A device, which lives on a device worker: one GPU, or a model of one."""

    @property
    def identity(self) -> DeviceIdentity:
        """The host, GPU and launcher versions that results are recorded with."""

    def prepare(self, request: TrialRequest) -> None:
        """Make what every trial of the request's kernel and problem needs, before its config is built.

        Raises nothing: what fails here fails again, and is reported, when the first trial runs.
        """

    def run(self, request: TrialRequest, compiled: Build, binaries: tuple[Binary, ...]) -> Outcome:
        """Measure (or model) one trial within the stages' ``device_limit_s``. Raises as :meth:`Compiler.compile`
        does."""

    def race(self, request: RaceRequest, candidates: Sequence[tuple[Binary, ...]]) -> Outcome:
        """Race the request's candidates; ``candidates``: their machine code. Limit and errors are those of
        :meth:`run`."""

    def close(self) -> None:
        """Stop whatever it has running."""


class Stages(Protocol):
    """Opens compilers and devices on workers. Limits are in seconds and count from the moment a worker starts."""

    @property
    def compile_limit_s(self) -> float:
        """Seconds after which a compile must have ended itself."""

    def device_limit_s(self, request: AnyRequest) -> float:
        """Return the seconds after which the request's run on a device must have ended itself."""

    def open_compiler(self) -> Compiler:
        """Open a compiler in this process."""

    def open_device(self, device_class: str, gpu: str = "") -> Device:
        """Open the one visible GPU; of several the one that ``gpu`` names, as CUDA_VISIBLE_DEVICES does.

        Raises ClusterError where it is not one GPU of ``device_class``.
        """

    def open_model(self, device_class: str) -> Device:
        """Open a model of ``device_class`` in place of a GPU."""
