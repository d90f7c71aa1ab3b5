"""Workers of this machine: threads around compilers and devices, whose child processes do the work.

The children come from one fork server, which has imported torch and Triton and built a kernel, so that all but the
first start in milliseconds. Devices take seconds to open and stay for the next evaluator of this process. Compilers are
made anew, since the user's modules that they import may have changed. All of it ends with this process, however that
ends.
"""

from __future__ import annotations

import atexit
import functools
import itertools
import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar, runtime_checkable

from tileflow.build.forkserver import ForkServer, children_from
from tileflow.build.process import not_started
from tileflow.errors import TileflowError

if TYPE_CHECKING:  # the rest of the cluster takes a while to import, and the server starts before it
    from .stages import Compiler, Device, Stages

Opened = TypeVar("Opened", "Compiler", "Device")
State = Literal["starting", "ready", "failed", "gone"]

WARM = ("torch", "tileflow.measure.child")  # nothing that only compilers need: devices are forked first
WARM_LIMIT_S = 120.0
FIRST_S = 10.0  # seconds that compilers wait for devices to start

log = logging.getLogger("tileflow.cluster")


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of ``job``, which was given to ``worker``: a value, or the exception it raised."""

    worker: LocalWorker[Any]
    job: Any
    value: Any = None
    error: Exception | None = None
    spent_s: float = 0.0


Answers = queue.SimpleQueue[Answer | None]


class LocalWorker(Generic[Opened]):
    """One thread, which opens a compiler or a device and runs jobs in the order given.

    ``error``: why it failed to open. ``calls``: how many jobs are not answered yet.
    """

    def __init__(self, name: str, open_it: Callable[[], Opened]) -> None:
        self.name = name
        self.state: State = "starting"
        self.error: Exception | None = None
        self.opened: Opened | None = None
        self.ready_at = 0.0
        self.calls = 0
        self._open: Callable[[], Opened] = open_it
        self._jobs: queue.SimpleQueue[tuple[Any, Callable[[Opened], Any], Answers] | None] = queue.SimpleQueue()
        self._listener: Answers | None = None
        self._thread = threading.Thread(target=self._work, name=f"tileflow-{name}", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            self.error, self.state = not_started(f"the thread of {self.name}", error), "failed"

    def __str__(self) -> str:
        return self.name

    def told_to(self, answers: Answers) -> None:
        """Put a None in ``answers`` once the worker is ready or has failed, at once where it already is."""
        self._listener = answers
        if self.state != "starting":
            answers.put(None)

    def ask(self, job: Any, work: Callable[[Opened], Any], answers: Answers) -> None:
        """Queue ``work``; its result goes to ``answers`` as that of ``job``."""
        self.calls += 1
        self._jobs.put((job, work, answers))

    def end(self) -> None:
        """Give the worker nothing more and cut off what it runs: its children end."""
        self.state = "gone"
        self._jobs.put(None)
        if self.opened is not None:
            self.opened.close()

    def _work(self) -> None:
        try:
            self.opened = self._open()
        except Exception as error:  # the evaluator handles it
            self.error = error
            self.state = "failed"
        else:
            self.ready_at = time.monotonic()
            if self.state == "gone":  # while it was opening
                self.opened.close()
            else:
                self.state = "ready"
        if self._listener is not None:
            self._listener.put(None)
        while self.opened is not None and (asked := self._jobs.get()) is not None:
            job, work, answers = asked
            started = time.monotonic()
            try:
                answer = Answer(self, job, work(self.opened), None, time.monotonic() - started)
            except Exception as error:
                answer = Answer(self, job, None, error, time.monotonic() - started)
            answers.put(answer)


@runtime_checkable
class ReusableDevice(Protocol):
    """A device that may stay open for the next evaluator."""

    def rest(self) -> None:
        """Forget all problems and free their memory."""


class LocalPool:
    """The workers of one process, for use by one thread at a time; any may begin. ``forks``: their children come from a
    fork server."""

    def __init__(self, *, forks: bool = True) -> None:
        self._forks = forks
        self._owner = os.getpid()
        self._server: ForkServer | None = None
        self._beginning = threading.Lock()
        self._warm: threading.Thread | None = None
        self._devices: dict[tuple[Stages, str, str], LocalWorker[Device]] = {}
        self._numbers = itertools.count()
        self._first = 0  # device children, which the server starts before all others

    def begin(self) -> None:
        """Start the fork server and what takes longest, and return at once."""
        with self._beginning:
            if self._forks and (self._server is None or not self._server.alive):
                self._server = ForkServer(warm=WARM)
                children_from(self._server)
                self._warm, self._first = None, 0

    def warm_compilers(self) -> None:
        """Let the server import what compilers need, once the children that need none of it have started."""
        if self._warm is None and self._server is not None:
            asked = (self._server, self._first)
            self._warm = threading.Thread(target=_warm_up, args=asked, name="tileflow-warm", daemon=True)
            self._warm.start()

    def compiler(self, stages: Stages) -> LocalWorker[Compiler]:
        """Return a new compile worker, whose child starts once the server has imported what it needs."""
        warm = self._warm

        def opened() -> Compiler:
            if warm is not None:
                warm.join()
            return stages.open_compiler()

        return LocalWorker(f"compile-{next(self._numbers)}", opened)

    def device(self, stages: Stages, device_class: str, gpu: str) -> LocalWorker[Device]:
        """Return the resting worker of this GPU, or a new one. ``gpu``: as for :meth:`.stages.Stages.open_device`."""
        resting = self._devices.pop((stages, device_class, gpu), None)
        if resting is not None and resting.state == "ready":
            return resting
        if self._server is not None:
            self._first = max(self._first, self._server.forks) + 1
        opens = functools.partial(stages.open_device, device_class, gpu)
        return LocalWorker(f"{device_class}-{next(self._numbers)}", opens)

    def model(self, stages: Stages, device_class: str) -> LocalWorker[Device]:
        """Return a new worker that models the device class."""
        opens = functools.partial(stages.open_model, device_class)
        return LocalWorker(f"{device_class}-model-{next(self._numbers)}", opens)

    def keep(self, worker: LocalWorker[Device], stages: Stages, device_class: str, gpu: str) -> None:
        """Keep an idle device for the next evaluator, without its problems and their memory."""
        opened, place = worker.opened, (stages, device_class, gpu)
        if not isinstance(opened, ReusableDevice) or worker.state != "ready" or worker.calls or place in self._devices:
            worker.end()
            return
        self._devices[place] = worker
        worker.ask(None, lambda device: opened.rest(), queue.SimpleQueue())
        worker.calls = 0

    def close(self) -> None:
        """End the resting workers and the server. In a fork of the process that owns them, do nothing."""
        if self._owner != os.getpid():
            return
        for worker in self._devices.values():
            worker.end()
        self._devices.clear()
        if self._server is not None:
            children_from(None)
            self._server.close()
            self._server = None


def _warm_up(server: ForkServer, first: int) -> None:
    """Import in the server once ``first`` children were started: a device's context takes longer than a compiler's
    first kernel."""
    until = time.monotonic() + FIRST_S
    while server.alive and server.forks < first and time.monotonic() < until:
        time.sleep(0.01)
    try:
        server.call("tileflow_cluster.pipeline:warm_up", (), WARM_LIMIT_S)
    except TileflowError as error:  # each compiler's child repeats it and reports the error
        if not server.closed:
            log.warning("the compilers' common start failed: %s", error)


def pool_here() -> LocalPool:
    """Return this process's pool, which ends with it. A fork has another: threads and pipes do not survive a fork."""
    return _pool_of(os.getpid())


@functools.cache
def _pool_of(process: int) -> LocalPool:
    made = LocalPool()
    atexit.register(made.close)
    return made


def begin_here() -> None:
    """Start this process's workers in the background, which takes seconds."""
    pool_here().begin()
