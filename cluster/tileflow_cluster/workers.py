"""The two actors: a compile worker on each CPU, a device worker on each GPU (or beside a model of one).

A compile worker has one call in flight. A device worker has a few, all but one queued, so that its GPU stays busy while
the driver is. Neither restarts itself nor retries: only the evaluator knows which request is to blame.
"""

from __future__ import annotations

import functools
import os
import resource
import socket
import sys
import time
from dataclasses import dataclass

import ray

from tileflow.measure.types import Outcome
from tileflow.runtime.abi import Binary

from .labels import DEVICE_CLASS
from .protocol import RaceRequest, TrialRequest
from .stages import Compiler, Device, Stages
from .trial import Build, DeviceIdentity, Facts

Binaries = tuple[Binary, ...]
NICE = 10
NO_GPU = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "ROCR_VISIBLE_DEVICES": ""}


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """The facts of a worker that is ready. ``toolchain``: what it compiles with, or launches with."""

    host: str
    pid: int
    node_id: str
    toolchain: Facts
    identity: DeviceIdentity | None = None


def peak_rss_mb() -> float:
    """Return the most memory that this process ever held, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def _facts(toolchain: Facts, identity: DeviceIdentity | None = None) -> WorkerFacts:
    return WorkerFacts(socket.gethostname(), os.getpid(), ray.get_runtime_context().get_node_id(), toolchain, identity)


class CompileWorker:
    """Compiles for every target; sees no GPU.

    There is one per core, at a lower priority than the driver and the processes that feed GPUs.
    """

    def __init__(self, stages: Stages) -> None:
        os.nice(NICE)
        self._stages = stages
        self._opened: Compiler | None = None

    def placed(self) -> str:
        """Return this node's id as soon as this process runs: waiting for a place is no part of starting."""
        return str(ray.get_runtime_context().get_node_id())

    def describe(self) -> WorkerFacts:
        """Open the compiler and return this worker's facts."""
        return _facts(self._compiler.compiled_by)

    @property
    def _compiler(self) -> Compiler:
        if self._opened is None:
            self._opened = self._stages.open_compiler()
        return self._opened

    def compile(self, request: TrialRequest) -> tuple[tuple[Build, float], Binaries]:
        """Return two values: what the evaluator reads (with this process's peak memory in MB), and the machine code.

        The machine code stays in the object store until a device worker takes it.
        """
        compiled, binaries = self._compiler.compile(request)
        return (compiled, peak_rss_mb()), binaries

    def close(self) -> None:
        """Close the compiler where it was opened."""
        if self._opened is not None:
            self._opened.close()


class DeviceWorker:
    """Runs trials of one device class, one at a time, in the order in which it was called."""

    def __init__(self, stages: Stages, device_class: str, measured: bool) -> None:
        self._open = functools.partial(stages.open_device if measured else stages.open_model, device_class)
        self._opened: Device | None = None

    def placed(self) -> str:
        """Return this node's id as soon as this process runs."""
        return str(ray.get_runtime_context().get_node_id())

    @property
    def _device(self) -> Device:
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def describe(self) -> WorkerFacts:
        """Open the device and return this worker's facts."""
        return _facts(self._device.identity.launched_by, self._device.identity)

    def prepare(self, request: TrialRequest) -> None:
        """Make the data that every trial of the request's problem needs."""
        self._device.prepare(request)

    def run(self, request: TrialRequest, compiled: Build, binaries: Binaries) -> tuple[Outcome, float, float]:
        """Return the outcome, how many seconds it took, and this process's peak memory in MB."""
        started = time.perf_counter()
        outcome = self._device.run(request, compiled, binaries)
        return outcome, time.perf_counter() - started, peak_rss_mb()

    def race(self, request: RaceRequest, *candidates: Binaries) -> tuple[Outcome, float, float]:
        """Race the candidates, as :meth:`run`. Each of ``candidates`` comes out of Ray's object store."""
        started = time.perf_counter()
        outcome = self._device.race(request, candidates)
        return outcome, time.perf_counter() - started, peak_rss_mb()

    def close(self) -> None:
        """Close the device where it was opened."""
        if self._opened is not None:
            self._opened.close()


_actor = functools.cache(ray.remote)  # Ray uploads a class to its cluster once per wrapping


def start_compiler(stages: Stages) -> ray.actor.ActorHandle:
    """Start a compile worker on one CPU, without a GPU; Ray spreads these over the nodes."""
    return (
        _actor(CompileWorker)
        .options(
            num_cpus=1,
            max_restarts=0,
            max_task_retries=0,
            scheduling_strategy="SPREAD",
            runtime_env={"env_vars": NO_GPU},
        )
        .remote(stages)
    )


def start_device(stages: Stages, device_class: str) -> ray.actor.ActorHandle:
    """Start a device worker on one GPU of a node labelled with the device class."""
    return (
        _actor(DeviceWorker)
        .options(
            num_cpus=0, num_gpus=1, max_restarts=0, max_task_retries=0, label_selector={DEVICE_CLASS: device_class}
        )
        .remote(stages, device_class, True)
    )


def start_model(stages: Stages, device_class: str) -> ray.actor.ActorHandle:
    """Start a device worker that models the class and needs neither CPU nor GPU."""
    return (
        _actor(DeviceWorker)
        .options(num_cpus=0, max_restarts=0, max_task_retries=0, runtime_env={"env_vars": NO_GPU})
        .remote(stages, device_class, False)
    )
