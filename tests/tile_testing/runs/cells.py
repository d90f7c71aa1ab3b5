"""What runs in a process with the device: a call of a kernel under each of its configs, compiled, launched, checked.

A cell is one config of one call. The device is ``"cuda"``, or ``"cpu"`` in a process in which Triton interprets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from tileflow.api import Kernel
from tileflow.build.serve import report
from tileflow.config import Config
from tileflow.errors import OutOfResources, TileflowError
from tileflow.lowered import Lowered
from tileflow.runtime.describe import device_class
from tileflow.target import Target, target


class Job(Protocol):
    """One call of a kernel, and the configs to try it under."""

    mode: str

    @property
    def subject(self) -> Kernel: ...

    def arguments(self, device: str) -> tuple[Any, ...]: ...

    def configs(self, lowered: Lowered) -> Sequence[Config]: ...

    def judge(self, args: tuple[Any, ...], device: str) -> Callable[[Callable[..., Any]], str]:
        """A function that runs the compiled call and says what is wrong; empty where nothing is."""
        ...


@dataclass(frozen=True, slots=True)
class Cell:
    """``status``: ``ok``, ``refused`` (the device has too little for this config) or ``failed``; ``reason``: why."""

    call: str
    config: str
    status: str
    reason: str = ""


def run(job: Job, device: str, first: int = 0, last: int | None = None) -> tuple[list[Cell], int]:
    """The cells of the configs from ``first`` up to ``last``, and how many there are: more, where one broke the device.

    The number of the config that is tried is reported as the phase.
    """
    try:
        args = job.arguments(device)
        lowered = job.subject.lower(args, live_target(device), mode=job.mode)
        configs = job.configs(lowered)[first:last]
        judge = job.judge(args, device)
    except TileflowError as error:
        return [Cell(str(job), "", "failed", str(error))], 1
    cells = []
    for n, config in enumerate(configs, first):
        report(str(n))
        cells.append(tried(job, lowered, config, judge, device))
        if is_broken(device):
            break
    return cells, len(configs)


def tried(job: Job, lowered: Lowered, config: Config, judge: Callable[..., str], device: str) -> Cell:
    try:
        reason = judge(job.subject.compile(lowered, config, device))
    except OutOfResources as error:
        return Cell(str(job), str(config), "refused", str(error))
    except Exception as error:  # whatever a wrong binary or its launch raises is this cell's alone
        return Cell(str(job), str(config), "failed", f"{type(error).__name__}: {error}")
    return Cell(str(job), str(config), "failed" if reason else "ok", reason)


def live_target(device: str) -> Target:
    return target(device_class(device) if device == "cuda" else "nvidia-h200")


def is_broken(device: str) -> bool:
    """Whether a kernel made an illegal access, after which every call fails; if not, gives unused memory back."""
    if device != "cuda":
        return False
    try:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    except RuntimeError:
        return True
    return False
