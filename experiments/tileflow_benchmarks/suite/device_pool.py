"""A device pool runs jobs from one queue on several devices at once: a process a device, which may die.

Each lane is one process, pinned to one device and to its share of the cores. A process that dies or outlives a job's
limit costs that job at most: what becomes of it, :class:`Losses` decides; a fresh process takes the lane.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, Generic, TypeVar

J = TypeVar("J")
R = TypeVar("R")
Work = Callable[[Any, Callable[[str], None]], Any]  # (job, tell) -> result


@dataclass(frozen=True, slots=True)
class Lane:
    """``env``: what its process finds in the environment. ``cores``: what it may run on."""

    name: str
    env: tuple[tuple[str, str], ...] = ()
    cores: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Retry(Generic[J]):
    """A lost job goes back into the queue as this one."""

    job: J


def lanes(devices: Sequence[str], variable: str, cores: Sequence[int]) -> list[Lane]:
    """One lane a device, named by it, with an equal share of the cores (at least one)."""
    share = max(len(cores) // len(devices), 1)
    found = []
    for n, device in enumerate(devices):
        own = tuple(cores[n * share : (n + 1) * share]) or tuple(cores[-1:])
        threads = str(max(len(own), 1))
        env = ((variable, device), ("TORCHINDUCTOR_COMPILE_THREADS", threads), ("OMP_NUM_THREADS", threads))
        found.append(Lane(device, env, own))
    return found


@dataclass(slots=True)
class _LaneProcess(Generic[J]):
    lane: Lane
    process: SpawnProcess
    pipe: Connection
    job: J | None = None
    phase: str = "start"
    began: float = field(default_factory=time.monotonic)


class DevicePool(Generic[J, R]):
    """``make(settings, lane)`` is called in each process and gives the function that does jobs there.

    ``lost(job, phase, why)``: the result of a job whose process ended, or :class:`Retry`. ``limit_s``: the longest that
    a job may take. ``deadline``: of ``time.monotonic``; what is not done by then stays in :attr:`left`.
    """

    def __init__(
        self,
        seats: Sequence[Lane],
        make: Callable[[Any, Lane], Work],
        settings: Any,
        lost: Callable[[J, str, str], R | Retry[J]],
        limit_s: float,
        deadline: float = float("inf"),
    ) -> None:
        self._lanes, self._make, self._settings, self._lost = seats, make, settings, lost
        self._limit_s, self._deadline = limit_s, deadline
        self._queue: deque[J] = deque()
        self._seats: list[_LaneProcess[J]] = []
        self.left: list[J] = []

    def run(self, jobs: Sequence[J]) -> Iterator[R]:
        """Results as they come. Processes are gone when this ends, however it does."""
        self._queue.extend(jobs)
        try:
            for lane in self._lanes[: len(jobs)]:
                self._give(self._start(lane))
            while any(seat.job is not None for seat in self._seats) and time.monotonic() < self._deadline:
                yield from self._turn()
        finally:
            self.left = [seat.job for seat in self._seats if seat.job is not None] + list(self._queue)
            for seat in self._seats:
                _end(seat.process)

    def _turn(self) -> Iterator[R]:
        """Hear what there is to hear within a second."""
        ready = wait([seat.pipe for seat in self._seats if seat.job is not None], timeout=1.0)
        for seat in list(self._seats):
            if seat.pipe in ready:
                yield from self._hear(seat)
            elif seat.job is not None and time.monotonic() - seat.began > self._limit_s:
                yield from self._lose(seat, f"it took longer than {self._limit_s:g} s")

    def _hear(self, seat: _LaneProcess[J]) -> Iterator[R]:
        try:
            kind, value = seat.pipe.recv()
        except (EOFError, ConnectionError):
            seat.process.join(10)
            yield from self._lose(seat, f"its process ended with {seat.process.exitcode}")
            return
        if kind == "phase":
            seat.phase = value
            return
        seat.job = None
        yield value
        self._give(seat)

    def _lose(self, seat: _LaneProcess[J], why: str) -> Iterator[R]:
        _end(seat.process)
        self._seats.remove(seat)
        job = seat.job
        assert job is not None
        answer = self._lost(job, seat.phase, why)
        if isinstance(answer, Retry):
            self._queue.appendleft(answer.job)
        else:
            yield answer
        if self._queue:
            self._give(self._start(seat.lane))

    def _give(self, seat: _LaneProcess[J]) -> None:
        if self._queue:
            seat.job, seat.phase, seat.began = self._queue.popleft(), "start", time.monotonic()
            # a process that is gone shows as the end of its pipe when we listen
            with contextlib.suppress(BrokenPipeError):
                seat.pipe.send(seat.job)

    def _start(self, lane: Lane) -> _LaneProcess[J]:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, lane, self._make, self._settings))
        with _environment(lane.env):  # before the process imports anything that reads it
            process.start()
        theirs.close()
        seat: _LaneProcess[J] = _LaneProcess(lane, process, ours)
        self._seats.append(seat)
        return seat


def _serve(pipe: Connection, lane: Lane, make: Callable[[Any, Lane], Work], settings: Any) -> None:
    """A lane's process: jobs in, phases and results out, until the pipe ends."""
    os.setsid()  # so that its own children end with it
    if lane.cores:
        os.sched_setaffinity(0, lane.cores)
    work = make(settings, lane)
    while True:
        try:
            job = pipe.recv()
        except (EOFError, ConnectionError):
            sys.exit(0)
        pipe.send(("result", work(job, lambda phase: pipe.send(("phase", phase)))))


def _end(process: SpawnProcess) -> None:
    """Kill a process and the children that share its session."""
    assert process.pid is not None
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.getpgid(process.pid) == process.pid:
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.join(10)


@contextlib.contextmanager
def _environment(values: Sequence[tuple[str, str]]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name, _ in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
