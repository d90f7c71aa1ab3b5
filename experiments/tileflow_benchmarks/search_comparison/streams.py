"""Processes on several GPUs at once, each with one GPU and cores of its own. What one does harms no other."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

POLL_S = 0.1
GRACE_S = 8.0  # from SIGTERM, on which our search still writes its table, to SIGKILL
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Slot:
    """One stream: a GPU as ``CUDA_VISIBLE_DEVICES`` names it (empty: none), and the cores it may use."""

    gpu: str
    cores: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ProcessJob(Generic[T]):
    """A process to start. ``limit_s``: seconds after which it is ended; ``least_s``: without as many it is not worth
    starting. ``log``: the file for what it prints."""

    item: T
    command: tuple[str, ...]
    environment: dict[str, str]
    log: Path
    limit_s: float
    least_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Ended(Generic[T]):
    """``started_at``: seconds since 1970. ``ending``: empty for exit code 0."""

    job: ProcessJob[T]
    slot: Slot
    started_at: float
    wall_s: float
    ending: str


@dataclass(slots=True)
class _Running(Generic[T]):
    job: ProcessJob[T]
    slot: Slot
    process: subprocess.Popen[bytes]
    started_at: float
    deadline: float
    terminated: bool = False


def slots(gpus: Sequence[str], cores: Sequence[int], cores_each: int) -> list[Slot]:
    """As many streams as there are GPUs and cores for; at least one, with the cores there are."""
    count = max(min(len(gpus), len(cores) // cores_each), 1)
    return [Slot(gpus[i] if gpus else "", tuple(cores[i * cores_each : (i + 1) * cores_each])) for i in range(count)]


def run(
    jobs: Sequence[T],
    slots: Sequence[Slot],
    prepare: Callable[[T, Slot], ProcessJob[T]],
    finish: Callable[[Ended[T]], None],
    until: float,
) -> list[T]:
    """ScoredSearch ``jobs`` in their order, one at a time in each slot; returns those that were not started.

    None runs on after ``until`` (on the monotonic clock); one that has less than its ``least_s`` is not started.
    ``finish`` is called as each one ends. All processes are ended where this one is interrupted.
    """
    waiting, running, left = deque(jobs), dict[Slot, _Running[T]](), list[T]()
    try:
        while waiting or running:
            for slot in slots:
                while waiting and slot not in running:
                    job = prepare(waiting[0], slot)
                    if time.monotonic() + job.least_s > until:
                        left.append(waiting.popleft())
                        continue
                    waiting.popleft()
                    running[slot] = _start(job, slot, until)
            for slot, one in list(running.items()):
                ended = _look(one)
                if ended is not None:
                    del running[slot]
                    finish(ended)
            time.sleep(POLL_S)
    finally:
        for one in running.values():
            _kill(one.process)
    return left


def _start(job: ProcessJob[T], slot: Slot, until: float) -> _Running[T]:
    cores = set(slot.cores) & os.sched_getaffinity(0)
    with job.log.open("wb") as log:
        process = subprocess.Popen(
            job.command,
            env={**os.environ, **job.environment, "CUDA_VISIBLE_DEVICES": slot.gpu},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )
    return _Running(job, slot, process, time.time(), min(time.monotonic() + job.limit_s, until))


def _look(one: _Running[T]) -> Ended[T] | None:
    """How it ended, if it did; one past its limit is asked to end, then made to."""
    code = one.process.poll()
    if code is None:
        late = time.monotonic() - one.deadline
        if late > 0 and not one.terminated:
            one.process.terminate()
            one.terminated = True
        elif late > GRACE_S:
            _kill(one.process)
        return None
    _kill(one.process)  # what it started, in its session
    wall_s = time.time() - one.started_at
    ending = "" if code == 0 else f"exit code {code}"
    if one.terminated:
        ending = f"ended after {wall_s:.0f} s"
    return Ended(one.job, one.slot, one.started_at, wall_s, ending)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
