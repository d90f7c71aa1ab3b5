"""A warm child process that serves calls and may be killed at any time.

The child is a fresh interpreter, or comes from a :class:`.forkserver.ForkServer` that has imported already. Its session
and process group are its own, so that a kill reaches the assemblers it started; it dies with its parent
(PR_SET_PDEATHSIG) or at the end of its pipe. A request is ``(module:function, args)``; what may go wrong with the child
is in the answer, not raised: see :data:`Answer`.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from multiprocessing.connection import Pipe
from multiprocessing.reduction import send_handle
from typing import IO, TYPE_CHECKING, Any, Protocol

from ..errors import ClusterError, InternalError, SpecError, TileflowError
from ..locks import Lock
from ..runtime.files import folder_to_start_in, import_paths

if TYPE_CHECKING:
    from .forkserver import ForkServer

START_LIMIT_S = 120.0  # importing torch from a cold disk
_REAP_LIMIT_S = 10.0
_LOOK_S = 0.2
_STDERR_TAIL = 2000


def _thread_that_spawns() -> ThreadPoolExecutor:
    """PR_SET_PDEATHSIG fires when the *thread* that forked ends, not its process; this one lives as long as the
    process."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="tileflow-spawn")


_spawner = _thread_that_spawns()

# Where this process has one, children come from it: see :func:`.forkserver.children_from`.
server: ForkServer | None = None


class Started(Protocol):
    """A process that was started, by whichever means; ``subprocess.Popen`` is one."""

    @property
    def pid(self) -> int:
        """The process id."""

    @property
    def returncode(self) -> int | None:
        """The exit status, once :meth:`poll` or :meth:`wait` has seen the end; else None."""

    def poll(self) -> int | None:
        """The exit status; None while the process runs."""

    def wait(self, timeout: float | None = None) -> int | None:
        """The exit status, after its end or ``timeout`` seconds."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Sent by the child in the middle of a call: ``phase`` begins."""

    phase: str


@dataclass(frozen=True, slots=True)
class Done:
    """The function returned ``value``. ``rss_bytes``: the child's memory afterwards."""

    value: Any
    rss_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Failed:
    """The function raised ``error``."""

    error: TileflowError
    rss_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Died:
    """The child ended by itself. ``exit_code`` is negative for a signal; ``stderr``: the end of what it wrote."""

    exit_code: int
    stderr: str
    phase: str

    def __str__(self) -> str:
        end = f"signal {signal.Signals(-self.exit_code).name}" if self.exit_code < 0 else f"exit code {self.exit_code}"
        return f"{end} while in phase {self.phase!r}\n{self.stderr}".rstrip()


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The child took longer than ``limit_s`` over ``phase``, or its answer was awaited no longer; it was killed with
    its group."""

    limit_s: float
    phase: str


Answer = Done | Failed | Died | TimedOut


class Child:
    """One child process, for one call at a time. Only :meth:`kill` is thread-safe.

    ``warm``: modules that the child imports before it is ready. ``environment``: changes to what it inherits.
    ``unwanted``: asked a few times a second while a call runs; once true, the child is killed as at its limit.
    ``fresh``: an interpreter of its own, wherever other children come from. ``nice``: how far it stands back.
    Raises ClusterError where the system lets none start.
    """

    def __init__(
        self,
        *,
        warm: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
        unwanted: Callable[[], bool] | None = None,
        fresh: bool = False,
        nice: int = 0,
    ) -> None:
        self._unwanted = unwanted
        self._lock = Lock()
        self._owner = os.getpid()
        self._calling = self._killed = self._ready = False
        variables = {**inherited(), "PYTHONPATH": os.pathsep.join(import_paths()), **(environment or {})}
        with ExitStack() as opened:  # what is open already is closed where the rest does not start
            try:
                self._connection, theirs = Pipe()
                opened.enter_context(self._connection)
                with theirs:
                    self._stderr: IO[bytes] = opened.enter_context(tempfile.TemporaryFile())
                    forked = None
                    if server is not None and not fresh:
                        forked = server.fork(theirs.fileno(), self._stderr.fileno(), variables, warm)
                    self._process: Started = forked or _fresh(theirs.fileno(), self._stderr, variables, warm)
            except (OSError, RuntimeError) as error:  # RuntimeError: of a thread that does not start
                raise not_started("a process that compiles and measures", error) from error
            opened.pop_all()
        if nice:
            with suppress(ProcessLookupError):  # it has died already, which its first call tells
                os.setpriority(os.PRIO_PROCESS, self.pid, nice)

    @property
    def pid(self) -> int:
        """The process id of the child."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the child runs, and belongs to this process."""
        return self._owner == os.getpid() and self._process.poll() is None

    def call(
        self,
        function: str,
        args: tuple[Any, ...],
        *,
        limit_s: float,
        phase_limits: Mapping[str, float] | None = None,
        handles: tuple[int, ...] = (),
    ) -> Answer:
        """``function(*args)`` in the child, within ``limit_s`` seconds, not counting the child's start.

        A phase that the function reports begins anew with its own limit out of ``phase_limits``. ``handles``: open
        files that the function takes over, by ``serve.take_handle``. After Died and TimedOut the child is gone. To a
        fork of the process that started it, it has Died: both would write into one pipe. Raises InternalError for a
        call amid another one.
        """
        with self._lock:
            if self._owner != os.getpid():
                return Died(-signal.SIGKILL, "it belongs to the process that this one was forked from", "call")
            if self._calling:
                raise InternalError("a child serves one call at a time", got=f"{function} amid another call")
            if self._killed:
                return Died(self._process.returncode or -signal.SIGKILL, "", "call")
            self._calling = True
        try:
            return self._call(function, args, limit_s, phase_limits or {}, handles)
        finally:
            with self._lock:
                self._calling = False
                if self._killed:
                    self._release()

    def _call(
        self,
        function: str,
        args: tuple[Any, ...],
        limit_s: float,
        phase_limits: Mapping[str, float],
        handles: tuple[int, ...],
    ) -> Answer:
        phase, limit = "start", START_LIMIT_S
        if not self._ready:
            answer = self._receive(phase, limit)
            if not isinstance(answer, Progress):
                return answer
            self._ready = True
        phase, limit = "call", limit_s
        try:
            self._connection.send((function, args))
            for handle in handles:
                send_handle(self._connection, handle, self.pid)
        except (BrokenPipeError, ConnectionResetError):
            return self._died(phase)
        except OSError as error:  # it has half of the request
            self.kill()
            return Died(-signal.SIGKILL, f"it was not given the request's files: {error}", phase)
        while True:
            answer = self._receive(phase, limit)
            if not isinstance(answer, Progress):
                return answer
            phase = answer.phase
            limit = phase_limits.get(phase, limit_s)

    def kill(self) -> None:
        """End the child and everything in its group at once, from any thread. Idempotent.

        A call that another thread has in flight ends as Died, and closes the pipe itself. Closed under its hands, the
        pipe's number may already be that of another file. A fork of the process that started the child lets go of it.
        """
        if self._owner != os.getpid():
            self._killed = True
            self._release()
            return
        with self._lock:
            first, self._killed = not self._killed, True
            if first:  # later the group's number may belong to others
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
        # A process stuck in a driver may not be reaped at once; it must not hold up its parent.
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_REAP_LIMIT_S)
        with self._lock:
            if not self._calling:
                self._release()

    def _release(self) -> None:
        """Close what the child was reached by. The lock is held. Idempotent."""
        self._connection.close()
        self._stderr.close()

    def _receive(self, phase: str, limit_s: float) -> Answer | Progress:
        deadline = time.monotonic() + limit_s
        try:
            while not self._connection.poll(self._patience(deadline)):
                if time.monotonic() >= deadline or (self._unwanted is not None and self._unwanted()):
                    self.kill()
                    return TimedOut(limit_s, phase)
            message: Answer | Progress = self._connection.recv()
        except (EOFError, ConnectionResetError):
            return self._died(phase)
        return message

    def _patience(self, deadline: float) -> float:
        left = max(deadline - time.monotonic(), 0)
        return left if self._unwanted is None else min(left, _LOOK_S)

    def _died(self, phase: str) -> Died:
        # The pipe may end a moment before the process does.
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_REAP_LIMIT_S)
        self._stderr.seek(0)
        tail = self._stderr.read()[-_STDERR_TAIL:].decode(errors="replace")
        died = Died(self._process.returncode or 0, tail, phase)
        self.kill()
        return died


_LIMITS = {
    errno.EMFILE: "let this process open more files: ulimit -n 1024",
    errno.ENFILE: "let this machine open more files: sysctl fs.file-max",
    errno.EAGAIN: "let this user start more processes and threads: ulimit -u, or the container's limit of pids",
    errno.ENOMEM: "give this process more memory, or lift its limit: ulimit -v",
}


def not_started(what: str, error: OSError | RuntimeError) -> ClusterError:
    """The error where the system starts no process or thread, with what to do about it."""
    if "shutdown" in str(error):
        hint = "the program's main thread has ended: wait there for the thread that tunes, and tune in no exit handler"
    elif isinstance(error, OSError) and error.errno not in _LIMITS:
        hint = "make room in the temporary directory, or name another: TMPDIR=/a/folder"
    else:
        hint = _LIMITS[(isinstance(error, OSError) and error.errno) or errno.EAGAIN]
    return ClusterError(f"{what} must start", got=error, hint=hint)


def inherited() -> dict[str, str]:
    """The variables of this process that its children have too. That it interprets is no reason for those that compile
    and measure to: who wants a child that does says so."""
    return {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}


def _fresh(descriptor: int, output: IO[bytes], variables: Mapping[str, str], warm: tuple[str, ...]) -> Started:
    """An interpreter that serves the pipe at ``descriptor``. Raises SpecError where this process names none."""
    if not sys.executable:
        raise SpecError(
            "a process that compiles and measures in others must name the Python that they run",
            got="an empty sys.executable",
            hint="a program that embeds Python sets it before it tunes: sys.executable = '/usr/bin/python3'",
        )
    return _spawner.submit(
        subprocess.Popen,
        [sys.executable, "-m", "tileflow.build.serve", str(descriptor), str(os.getpid()), *warm],
        env=variables,
        cwd=folder_to_start_in(),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        pass_fds=(descriptor,),
        start_new_session=True,
    ).result()


def _after_fork() -> None:
    """Spawn from a thread of this process: that of the parent is not here, and nothing that it is given would begin."""
    global _spawner
    _spawner = _thread_that_spawns()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
