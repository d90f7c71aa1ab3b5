"""The two actors: a compile worker on each CPU, a device worker on each GPU (or beside a model of one).

A compile worker has one call in flight. A device worker has another one queued, so that its GPU stays busy while the
driver is. A call carries one request or several (:mod:`.batches`). Neither worker restarts itself nor retries: only the
evaluator knows which request is to blame.
"""

from __future__ import annotations

import functools
import os
import pickle
import resource
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import ray

import tileflow
from tileflow.measure.types import Outcome, Status
from tileflow.runtime.abi import Binary

from .labels import DEVICE_CLASS
from .protocol import RaceRequest, TrialRequest
from .stages import Compiler, Device, Stages
from .trial import Build, DeviceIdentity, Facts

Made = tuple[Build, tuple[Binary, ...]]  # by a compile worker, for a device worker
Done = TypeVar("Done")
Asked = TypeVar("Asked")
NICE = 10
NO_GPU = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "ROCR_VISIBLE_DEVICES": ""}


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """The facts of a worker that is ready. ``toolchain``: what it compiles with, or launches with. ``version``: of
    tileflow there."""

    host: str
    pid: int
    node_id: str
    toolchain: Facts
    identity: DeviceIdentity | None = None
    version: str = tileflow.__version__


def hide_gpus() -> None:
    """Let this process and its children see no GPU. No driver is loaded before a stage is opened.

    An environment of Ray's would do the same, and start each worker a second or more later.
    """
    os.environ.update(NO_GPU)


@dataclass(frozen=True, slots=True)
class Answer(Generic[Done]):
    """What became of one request of a call: ``done``, or the error that its stage ``raised``. ``seconds``: it took."""

    done: Done | None
    seconds: float
    raised: Exception | None = None


@dataclass(frozen=True, slots=True)
class Answers(Generic[Done]):
    """A worker's answers to the first requests of a call; the others were not begun. ``rss_mb``: its peak memory."""

    each: tuple[Answer[Done], ...]
    rss_mb: float


def pack(requests: Sequence[Any]) -> bytes:
    """Pickle what a call asks, in a quarter of the time that Ray's own pickler takes for values of plain modules."""
    return pickle.dumps(requests, pickle.HIGHEST_PROTOCOL)


def _answer_all(
    asked: Sequence[Asked], slice_s: float, answer: Callable[[Asked], Done], broken: Callable[[Done], bool]
) -> Answers[Done]:
    """Answer one request after the other; begin none once ``slice_s`` seconds have passed, or an answer is
    ``broken``."""
    answers: list[Answer[Done]] = []
    until = time.perf_counter() + slice_s
    for each in asked:
        began = time.perf_counter()
        if answers and began >= until:
            break
        try:
            done = answer(each)
        except Exception as error:  # the stage's own, which the evaluator judges
            answers.append(Answer(None, time.perf_counter() - began, _portable(error)))
            continue
        answers.append(Answer(done, time.perf_counter() - began))
        if broken(done):
            break
    return Answers(tuple(answers), peak_rss_mb())


def _portable(error: Exception) -> Exception:
    """Return ``error``, or its text where it does not pickle."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # whatever its class does
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def peak_rss_mb() -> float:
    """Return the most memory that this process ever held, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def _facts(toolchain: Facts, identity: DeviceIdentity | None = None) -> WorkerFacts:
    node = ray.get_runtime_context().get_node_id()
    return WorkerFacts(socket.gethostname(), os.getpid(), node, toolchain, identity, tileflow.__version__)


class CompileWorker:
    """Compiles for every target; sees no GPU.

    There is one per core, at a lower priority than the driver and the processes that feed GPUs.
    """

    def __init__(self, stages: Stages) -> None:
        hide_gpus()
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

    def compile(self, asked: bytes, slice_s: float) -> tuple[Answers[Build] | Made, ...]:
        """Compile the :func:`packed <pack>` requests. Returns the answers, then what was made of each request.

        What was made stays in the object store until a device worker takes it.
        """
        requests: Sequence[TrialRequest] = pickle.loads(asked)
        made = _answer_all(requests, slice_s, self._compiler.compile, lambda _: False)
        builds = [Answer(a.done[0] if a.done else None, a.seconds, a.raised) for a in made.each]
        nothing = Build(""), ()
        left = len(requests) - len(made.each)
        return Answers(tuple(builds), made.rss_mb), *(a.done or nothing for a in made.each), *[nothing] * left

    def close(self) -> None:
        """Close the compiler where it was opened."""
        if self._opened is not None:
            self._opened.close()


class DeviceWorker:
    """Runs trials of one device class, one at a time, in the order in which it was called."""

    def __init__(self, stages: Stages, device_class: str, measured: bool) -> None:
        if not measured:
            hide_gpus()
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

    def run(self, asked: bytes, slice_s: float, *made: Made) -> Answers[Outcome]:
        """Run the :func:`packed <pack>` requests. ``made`` of them comes out of Ray's object store.

        Nothing more is begun on a device that is lost.
        """
        requests: Sequence[TrialRequest] = pickle.loads(asked)

        def run(each: tuple[TrialRequest, Made]) -> Outcome:
            request, (built, binaries) = each
            return self._device.run(request, built, binaries)

        def is_lost(outcome: Outcome) -> bool:
            return outcome.status is Status.DEVICE_LOST

        return _answer_all(list(zip(requests, made, strict=True)), slice_s, run, is_lost)

    def race(self, request: RaceRequest, *candidates: Made) -> Answers[Outcome]:
        """Race the candidates, as :meth:`run`."""
        code = [binaries for _, binaries in candidates]
        return _answer_all([request], 0.0, lambda race: self._device.race(race, code), lambda _: False)

    def close(self) -> None:
        """Close the device where it was opened."""
        if self._opened is not None:
            self._opened.close()


_actor = functools.cache(ray.remote)  # Ray uploads a class to its cluster once per wrapping


def start_compiler(stages: Stages) -> ray.actor.ActorHandle:
    """Start a compile worker on one CPU, without a GPU; Ray spreads these over the nodes."""
    return (
        _actor(CompileWorker)
        .options(num_cpus=1, max_restarts=0, max_task_retries=0, scheduling_strategy="SPREAD")
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
        _actor(DeviceWorker).options(num_cpus=0, max_restarts=0, max_task_retries=0).remote(stages, device_class, False)
    )
