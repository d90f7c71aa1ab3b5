"""A process pool over devices: jobs from one queue, one at a time in each slot, isolated from each other.

A job runs in a worker, which serves its slot as long as it lives (:class:`Workers`), or is a command, a process of its
own (:class:`Commands`). Both are pinned to their slot's device and cores, and lead a session that is killed as a whole.
A process that dies or outlives its limit costs at most its own job.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

J = TypeVar("J")
J_contra = TypeVar("J_contra", contravariant=True)
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Work = Callable[[Any, Callable[[str], None]], Any]  # (job, tell) -> result

LOOK_S = 1.0  # the longest wait between two checks of deadlines
GRACE_S = 8.0  # seconds from SIGTERM to SIGKILL, in which a search writes its table
_JOIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Slot:
    """One device and the cores that go with it.

    ``name``: the device's; empty for none. ``environment``: the variables that select it for a process. ``cores``: what
    a process may use.
    """

    name: str
    environment: tuple[tuple[str, str], ...] = ()
    cores: tuple[int, ...] = ()


def even_slots(devices: Sequence[str], variable: str, cores: Sequence[int]) -> list[Slot]:
    """Return one slot per device, with an equal share of the cores (at least one) and as many threads for libraries."""
    share = max(len(cores) // len(devices), 1)
    found = []
    for n, device in enumerate(devices):
        own = tuple(cores[n * share : (n + 1) * share]) or tuple(cores[-1:])
        threads = str(max(len(own), 1))
        environment = ((variable, device), ("TORCHINDUCTOR_COMPILE_THREADS", threads), ("OMP_NUM_THREADS", threads))
        found.append(Slot(device, environment, own))
    return found


def gpu_slots(gpus: Sequence[str], cores: Sequence[int], cores_each: int) -> list[Slot]:
    """Return as many slots as there are GPUs and cores for; at least one, with the cores there are."""
    count = max(min(len(gpus), len(cores) // cores_each), 1)
    names = [gpus[i] if gpus else "" for i in range(count)]
    own = [tuple(cores[i * cores_each : (i + 1) * cores_each]) for i in range(count)]
    return [Slot(n, (("CUDA_VISIBLE_DEVICES", n),), c) for n, c in zip(names, own, strict=True)]


@dataclass(frozen=True, slots=True)
class Retry(Generic[J]):
    """Says that a lost job goes back into the queue as ``job``."""

    job: J


class Running(Protocol[R_co]):
    """A job at work. ``is_done`` once its slot is free. ``deadline``: of ``time.monotonic``."""

    @property
    def is_done(self) -> bool:
        """Whether the job's slot is free."""

    @property
    def deadline(self) -> float:
        """When the job is to be ended, on the monotonic clock."""

    @property
    def event(self) -> Any:
        """What becomes readable when the job has something to report."""

    def hear(self) -> Iterator[R_co | Retry[Any]]:
        """Yield the result, if it is there."""

    def expire(self) -> Iterator[R_co | Retry[Any]]:
        """End what has passed its deadline, and yield its result if that ends the job."""


class Runner(Protocol[J_contra, R_co]):
    """Starts jobs."""

    def start(self, job: J_contra, slot: Slot) -> Running[R_co] | None:
        """Start a job in a slot; None where it is not worth starting any more."""

    def close(self) -> None:
        """Kill all that still runs."""


class ProcessPool(Generic[J, R]):
    """Runs jobs in slots. ``deadline``: of ``time.monotonic``, at which running jobs are killed.

    :attr:`left`: the jobs that were not done by then, or not worth starting.
    """

    def __init__(self, slots: Sequence[Slot], runner: Runner[J, R], deadline: float = float("inf")) -> None:
        self._slots, self._runner, self._deadline = slots, runner, deadline
        self._queue: deque[J] = deque()
        self._running: dict[Slot, tuple[J, Running[R]]] = {}
        self.left: list[J] = []

    def run(self, jobs: Sequence[J]) -> Generator[R, None, None]:
        """Yield results as they come. All processes are gone when this ends, however it does."""
        self._queue.extend(jobs)
        try:
            while time.monotonic() < self._deadline:
                self._fill()
                if not self._running:
                    break
                yield from self._turn()
        finally:
            self.left += [job for job, _ in self._running.values()] + list(self._queue)
            self._runner.close()

    def _fill(self) -> None:
        """Give each free slot a job."""
        for slot in self._slots:
            while self._queue and slot not in self._running:
                job = self._queue.popleft()
                started = self._runner.start(job, slot)
                if started is None:
                    self.left.append(job)
                else:
                    self._running[slot] = job, started

    def _turn(self) -> Iterator[R]:
        """Yield what is reported within :data:`LOOK_S` seconds."""
        now = time.monotonic()
        nearest = min(one.deadline for _, one in self._running.values())
        ready = wait([one.event for _, one in self._running.values()], min(max(nearest - now, 0.0), LOOK_S))
        for slot, (_, one) in list(self._running.items()):
            if one.event in ready:
                answers = one.hear()
            elif time.monotonic() > one.deadline:
                answers = one.expire()
            else:
                continue
            for answer in list(answers):
                if one.is_done:
                    self._running.pop(slot, None)
                if isinstance(answer, Retry):
                    self._queue.appendleft(answer.job)
                else:
                    yield answer


# ---- workers that stay -----------------------------------------------------------------------------------------------


class Workers(Generic[J, R]):
    """Runs jobs in processes that stay; ``make(settings, slot)`` is called in each and gives the function that does
    jobs.

    ``lost(job, phase, why)``: the result of a job whose process ended, or :class:`Retry`; a fresh process then takes
    the slot. ``limit_s``: the longest that a job may take.
    """

    def __init__(
        self,
        make: Callable[[Any, Slot], Work],
        settings: Any,
        lost: Callable[[J, str, str], R | Retry[J]],
        limit_s: float,
    ) -> None:
        self._make, self._settings, self._lost, self._limit_s = make, settings, lost, limit_s
        self._workers: dict[Slot, _Worker] = {}

    def start(self, job: J, slot: Slot) -> _AtWork[J, R]:
        """Send the job to the slot's worker, which is started where there is none."""
        if slot not in self._workers:
            self._workers[slot] = _Worker.start(slot, self._make, self._settings)
        worker = self._workers[slot]
        # a process that is gone shows as the end of its pipe when we listen
        with contextlib.suppress(BrokenPipeError):
            worker.pipe.send(job)
        return _AtWork(job, worker, self, time.monotonic() + self._limit_s)

    def close(self) -> None:
        """End all workers and their sessions."""
        for worker in self._workers.values():
            _end(worker.process)

    def lose(self, job: J, worker: _Worker, phase: str, why: str) -> R | Retry[J]:
        """Drop a worker that is gone or overdue. Returns its job's result, or the retry."""
        _end(worker.process)
        del self._workers[worker.slot]
        return self._lost(job, phase, why)

    @property
    def limit_s(self) -> float:
        """The longest that a job may take, in seconds."""
        return self._limit_s


@dataclass(slots=True)
class _Worker:
    slot: Slot
    process: SpawnProcess
    pipe: Connection

    @staticmethod
    def start(slot: Slot, make: Callable[[Any, Slot], Work], settings: Any) -> _Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, slot, make, settings))
        with _environment(slot.environment):  # before the process imports anything that reads it
            process.start()
        theirs.close()
        return _Worker(slot, process, ours)


@dataclass(slots=True)
class _AtWork(Generic[J, R]):
    """A worker's job."""

    job: J
    worker: _Worker
    owner: Workers[J, R]
    deadline: float
    phase: str = "start"
    is_done: bool = False

    @property
    def event(self) -> Connection:
        return self.worker.pipe

    def hear(self) -> Iterator[R | Retry[J]]:
        try:
            kind, value = self.worker.pipe.recv()
        except (EOFError, ConnectionError):
            self.worker.process.join(_JOIN_S)
            yield self._lose(f"its process ended with {self.worker.process.exitcode}")
            return
        if kind == "phase":
            self.phase = value
            return
        self.is_done = True
        yield value

    def expire(self) -> Iterator[R | Retry[J]]:
        yield self._lose(f"it took longer than {self.owner.limit_s:g} s")

    def _lose(self, why: str) -> R | Retry[J]:
        self.is_done = True
        return self.owner.lose(self.job, self.worker, self.phase, why)


def _serve(pipe: Connection, slot: Slot, make: Callable[[Any, Slot], Work], settings: Any) -> None:
    """Run a worker's process: jobs in, phases and results out, until the pipe ends."""
    os.setsid()  # so that its own children end with it
    if slot.cores:
        os.sched_setaffinity(0, slot.cores)
    work = make(settings, slot)
    while True:
        try:
            job = pipe.recv()
        except (EOFError, ConnectionError):
            sys.exit(0)
        pipe.send(("result", work(job, lambda phase: pipe.send(("phase", phase)))))


def _end(process: SpawnProcess) -> None:
    assert process.pid is not None
    _kill_session(process.pid)
    process.kill()
    process.join(_JOIN_S)


# ---- commands, each a process of its own -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Command(Generic[J]):
    """A process to start for ``item``.

    ``limit_s``: seconds after which it is ended. ``least_s``: with fewer seconds left it is not started. ``log``: the
    file for what it prints.
    """

    item: J
    words: tuple[str, ...]
    environment: dict[str, str]
    log: Path
    limit_s: float
    least_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Ended(Generic[J]):
    """A command that has ended. ``started_at``: seconds since 1970. ``ending``: how it failed, empty for exit code
    0."""

    command: Command[J]
    slot: Slot
    started_at: float
    wall_s: float
    ending: str


class Commands(Generic[J]):
    """Runs each job as a process. ``prepare``: gives the command of a job in a slot.

    None runs past ``until`` (on the monotonic clock), and one with less than its ``least_s`` left is not started. A
    command past its limit gets SIGTERM, then SIGKILL.
    """

    def __init__(self, prepare: Callable[[J, Slot], Command[J]], until: float) -> None:
        self._prepare, self._until = prepare, until
        self._started: list[_Started[J]] = []

    def start(self, job: J, slot: Slot) -> _Started[J] | None:
        """Start the job's process in a session of its own on the slot's cores; None where too little time is left."""
        command = self._prepare(job, slot)
        if time.monotonic() + command.least_s > self._until:
            return None
        cores = set(slot.cores) & os.sched_getaffinity(0)
        with command.log.open("wb") as log:
            process = subprocess.Popen(
                command.words,
                env={**os.environ, **command.environment, **dict(slot.environment)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: os.sched_setaffinity(0, cores),
            )
        deadline = min(time.monotonic() + command.limit_s, self._until)
        started = _Started(command, slot, process, deadline, os.pidfd_open(process.pid))
        self._started.append(started)
        return started

    def close(self) -> None:
        """Kill the processes that still run, and their sessions."""
        for started in self._started:
            if not started.is_done:
                started.end()


@dataclass(slots=True)
class _Started(Generic[J]):
    command: Command[J]
    slot: Slot
    process: subprocess.Popen[bytes]
    deadline: float
    event: int  # readable once the process has ended
    started_at: float = field(default_factory=time.time)
    is_terminated: bool = False
    is_done: bool = False

    def hear(self) -> Iterator[Ended[J]]:
        self.end()  # with what it started, in its session
        wall_s = time.time() - self.started_at
        code = self.process.returncode
        ending = "" if code == 0 else f"exit code {code}"
        if self.is_terminated:
            ending = f"ended after {wall_s:.0f} s"
        yield Ended(self.command, self.slot, self.started_at, wall_s, ending)

    def expire(self) -> Iterator[Ended[J]]:
        if self.is_terminated:
            _kill_session(self.process.pid)
        else:
            self.process.terminate()
            self.is_terminated = True
        self.deadline = time.monotonic() + GRACE_S
        yield from ()

    def end(self) -> None:
        """Kill the process and its session."""
        self.is_done = True
        _kill_session(self.process.pid)
        self.process.wait()
        os.close(self.event)


def _kill_session(leader: int) -> None:
    """Kill the processes of a session, also where its leader has ended; none where it has not become one yet."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


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
