"""A measuring process without a device that runs the child's own code: data is made, kept, checked and lost as on one.

What is timed alone is a stand-in. The file that ``MADE`` names has a line for each time that a problem's inputs were
made: its size and the process.
"""

from __future__ import annotations

import functools
import importlib
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from tileflow.config import Config
from tileflow.errors import SpecError
from tileflow.measure import child, input_cache, warmup
from tileflow.measure.canary import Canary, NoiseGuard
from tileflow.measure.device import DeviceInfo
from tileflow.measure.monitor import NullMonitor
from tileflow.measure.request import Candidate, Limits, MeasureRequest
from tileflow.measure.server import MeasureProcess
from tileflow.measure.types import Outcome
from tileflow.tolerances import UNSAID

MADE = "TILE_TESTING_MADE"
MAKES_S = 0.05  # seconds of a problem's reference, where nothing is wrong with it
LONG_S = 30.0


class Twice:
    """``x * 2``."""

    scope, baseline, tolerances, has_reference = None, None, UNSAID, True

    def inputs(self, *, device: str = "cpu", seed: int = 0, n: int = 64) -> tuple[torch.Tensor]:
        with open(os.environ[MADE], "a") as log:
            log.write(f"{n} {os.getpid()}\n")
        return (torch.randn(n, generator=torch.Generator().manual_seed(seed)),)

    def reference(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(MAKES_S)
        return x * 2

    def run_eagerly(self, *args: Any, config: Any = None) -> Any:
        return self.reference(*args)

    def kind(self, *args: Any) -> Any:
        return self

    def bind(self, config: Config, launchers: Mapping[int, Sequence[Any]]) -> Callable[..., Any]:
        return lambda x: x * 2


class Sleeps(Twice):
    """A reference that never returns, in Python."""

    def reference(self, x: torch.Tensor) -> torch.Tensor:
        while True:
            time.sleep(1.0)


class Insists(Twice):
    """A reference that never returns, and catches what it can."""

    def reference(self, x: torch.Tensor) -> torch.Tensor:
        while True:
            try:
                time.sleep(1.0)
            except Exception:
                continue


class Deaf(Twice):
    """A reference that never returns and that nothing interrupts, as one call of a library."""

    def reference(self, x: torch.Tensor) -> torch.Tensor:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        time.sleep(LONG_S)
        return x * 2


class SlowInputs(Twice):
    """Inputs and a reference that take half a second each."""

    def inputs(self, *, device: str = "cpu", seed: int = 0, n: int = 64) -> tuple[torch.Tensor]:
        time.sleep(0.5)
        return super().inputs(device=device, seed=seed, n=n)

    def reference(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.5)
        return x * 2


class Spoils(Twice):
    """A reference that never returns, and leaves torch in another state than it was."""

    def reference(self, x: torch.Tensor) -> torch.Tensor:
        torch.set_grad_enabled(False)
        time.sleep(LONG_S)
        return x * 2


class Begins(Twice):
    """A reference that takes 2 s, and bears to be begun once a process, as the registration of an operator does."""

    begun = False

    def reference(self, x: torch.Tensor) -> torch.Tensor:
        if Begins.begun:
            raise RuntimeError("planted: it is there already")
        Begins.begun = True
        time.sleep(2.0)
        return x * 2


class Imports(Twice):
    """A reference whose first call imports a module for 2 s, and not a second time."""

    def reference(self, x: torch.Tensor) -> torch.Tensor:
        importlib.import_module("tile_testing.fakes.slow_module")
        return x * 2


class Leaves(Twice):
    """A reference that never returns, and half of the time is leaving a context that puts torch back as it was."""

    def reference(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.85)  # so that it is there when the alarm rings first
        while True:
            with _Without():
                pass
            time.sleep(0.3)


class _Without:
    def __enter__(self) -> None:
        torch.set_grad_enabled(False)

    def __exit__(self, *raised: object) -> None:
        time.sleep(0.3)
        torch.set_grad_enabled(True)


class EndlessText(Twice):
    """No reference, and a text that calls torch in no turn of its loop."""

    has_reference = False

    def reference(self, x: torch.Tensor) -> torch.Tensor:
        while True:
            time.sleep(0.01)


KERNELS = {
    kind.__name__: kind()
    for kind in (Twice, Sleeps, Insists, Deaf, SlowInputs, Spoils, Begins, Imports, Leaves, EndlessText)
}


def load(reference: str) -> Any:
    """The kernel of that name."""
    return KERNELS[reference]


class _Sampler:
    first_us = 10.0

    def __init__(self, *args: Any, **options: Any) -> None: ...

    def __call__(self, count: int) -> list[float]:
        return [10.0] * count


def _no_witnesses(kernel: Any, request: MeasureRequest) -> Any:
    raise SpecError("planted: no witnesses")


@functools.cache
def _without_device() -> None:
    """Put stand-ins in the place of what asks the device."""
    steady = NoiseGuard(Canary(lambda count: [10.0] * count), NullMonitor("GPU-0"))
    stand_ins: dict[str, Any] = {
        "identified_device": lambda index: DeviceInfo("card", "nvidia-h200", "GPU-0", 1, 1, "", ""),
        "noise_guard": lambda index: steady,
        "DeviceSampler": _Sampler,
    }
    for name, value in stand_ins.items():
        setattr(child, name, value)
    warmup._warm_up = lambda dtype: None  # type: ignore[assignment]
    input_cache.make_room = lambda: None
    input_cache.witnesses_on_device = _no_witnesses


def run(request: MeasureRequest, device_index: int) -> Outcome:
    """In the place of ``measure.child.run``."""
    _without_device()
    return child.run(request, device_index)


def measuring(made: Path) -> MeasureProcess:
    """A measuring process that notes in ``made`` what it makes."""
    return MeasureProcess(runs=f"{__name__}:run", environment={MADE: str(made)}, warm=("torch", __name__))


def ask(process: MeasureProcess, kernel: str, n: int, limits: Limits) -> Outcome:
    """Measure a config of the kernel's problem of that size."""
    candidate = Candidate(Config.of({"us": 10}), ())
    return process.run(
        MeasureRequest(kernel, (("n", n),), (candidate,), seeds=(0,), limits=limits, loader=f"{__name__}:load")
    )
