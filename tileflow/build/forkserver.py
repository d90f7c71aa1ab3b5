"""Children by fork: a process that has imported once, and makes further ones in milliseconds.

The server is a :class:`.process.Child` itself, which runs one thread, opens no device, and dies with the process that
started it; its children die with it. They are served as all others are, and killed as all others are.
"""

from __future__ import annotations

import logging
import os
import select
import sys
import traceback
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from ..errors import ClusterError, InternalError
from ..locks import Lock
from . import process, serve
from .process import Child, Done, Failed, Started, inherited

# What libraries read when they are imported; a child for which one of these is another than it was for the server needs
# an interpreter of its own. Those behind are read later.
EARLY = ("TRITON_", "TILEFLOW_", "TORCH_", "PYTORCH_", "PYTHON", "LD_", "CUDA_", "HIP_", "ROCR_", "OMP_", "MKL_")
LATE = frozenset(
    {
        "PYTHONPATH",
        "TRITON_CACHE_DIR",
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
        "CUDA_MODULE_LOADING",
        "HIP_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
    }
)
DEVICES = ("/dev/nvidia", "/dev/kfd")
_FORK_LIMIT_S = 30.0
_REAP_LIMIT_S = 10.0

log = logging.getLogger(__name__)


def children_from(server: ForkServer | None) -> None:
    """Make the children of this process come from ``server`` from now on; None: each is an interpreter of its own."""
    process.server = server


class ForkServer:
    """``warm``: what every child will have imported. Thread-safe. Returns before the server is ready. It serves the
    process that made it; a fork of that one has none. ``forks``: how many were asked for and answered. ``closed``:
    whether its owner ended it."""

    def __init__(self, *, warm: tuple[str, ...] = (), environment: Mapping[str, str] | None = None) -> None:
        self._environment = {**inherited(), **(environment or {})}
        self._child = Child(warm=(__name__, *warm), environment=environment, fresh=True)
        self._lock = Lock()
        self.forks = 0
        self.closed = False
        self._ended = False
        self._owner = os.getpid()

    @property
    def pid(self) -> int:
        """The process id of the server."""
        return self._child.pid

    @property
    def alive(self) -> bool:
        """Whether the server runs and belongs to this process."""
        return self._owner == os.getpid() and not self._ended and self._child.alive

    def call(self, function: str, args: tuple[Any, ...], limit_s: float) -> Any:
        """``function(*args)`` in the server, whose traces every later child has. Raises what the function raises, and
        ClusterError where the server does not answer."""
        answer = self._ask(function, args, limit_s)
        if isinstance(answer, Done):
            return answer.value
        if isinstance(answer, Failed):
            raise answer.error
        raise ClusterError("a fork server must answer", got=answer)

    def fork(
        self, descriptor: int, output: int, environment: Mapping[str, str], warm: tuple[str, ...]
    ) -> Started | None:
        """A forked child that serves the pipe at ``descriptor`` and writes to ``output``. None where it must be an
        interpreter of its own: its environment is another, or the server does not serve any more."""
        if not self.alive or early(environment) != early(self._environment):
            return None
        try:
            answer = self._ask(f"{__name__}:fork", (dict(environment), warm), _FORK_LIMIT_S, (descriptor, output))
        finally:
            self.forks += 1
        if isinstance(answer, Done):
            return Forked(self, answer.value)
        log.warning(
            "children are interpreters of their own from now on: %s",
            answer.error if isinstance(answer, Failed) else answer,
        )
        self._ended = True
        return None

    def close(self) -> None:
        """End the server, and all of its children with it."""
        if self._owner == os.getpid():
            self.closed = self._ended = True
            self._child.kill()

    def _ask(self, function: str, args: tuple[Any, ...], limit_s: float, handles: tuple[int, ...] = ()) -> Any:
        with self._lock:
            return self._child.call(function, args, limit_s=limit_s, handles=handles)


class Forked:
    """A child of the server's. As ``subprocess.Popen``, of what :class:`.process.Started` has."""

    def __init__(self, server: ForkServer, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._server = server
        self._handle = os.pidfd_open(pid)  # nobody has waited for it yet, so the number is its own
        self._lock = Lock()

    def poll(self) -> int | None:
        """The exit status; None while the child runs."""
        return self._ended(0.0)

    def wait(self, timeout: float | None = None) -> int | None:
        """Raises subprocess.TimeoutExpired."""
        import subprocess

        if self._ended(timeout) is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        return self.returncode

    def _ended(self, timeout_s: float | None) -> int | None:
        with self._lock:  # one thread may end what another waits for
            if self.returncode is not None:
                return self.returncode
            watched = select.poll()
            watched.register(self._handle, select.POLLIN)
            if not watched.poll(None if timeout_s is None else 1000 * timeout_s):
                return None
            self.returncode = self._code()
            os.close(self._handle)
            return self.returncode

    def _code(self) -> int:
        try:
            return int(self._server.call(f"{__name__}:reap", (self.pid,), _REAP_LIMIT_S))
        except (ClusterError, OSError):  # the server has gone, which ends its children
            return -9


def early(environment: Mapping[str, str]) -> dict[str, str]:
    """Those variables that are read when something is imported."""
    return {n: value for n, value in environment.items() if n.startswith(EARLY) and n not in LATE}


# ---- in the server ---------------------------------------------------------------------------------------------------


def fork(environment: dict[str, str], warm: tuple[str, ...]) -> int:
    """Fork a child and return its process id once it leads a session of its own: a kill of its group reaches it
    then."""
    descriptor, output = serve.take_handle(), serve.take_handle()
    _require_no_device()
    ready, begun = os.pipe()
    parent = os.getpid()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which numpy has and does not use here
        child = os.fork()
    if child == 0:
        os.close(ready)
        _become(descriptor, output, parent, environment, warm, begun)
    for handle in (begun, descriptor, output):
        os.close(handle)
    os.read(ready, 1)
    os.close(ready)
    return child


def reap(child: int) -> int:
    """The exit code of a child that has ended, negative for a signal."""
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def _become(
    descriptor: int, output: int, parent: int, environment: dict[str, str], warm: Iterable[str], begun: int
) -> NoReturn:
    try:
        os.setsid()
        os.dup2(output, 1)
        os.dup2(output, 2)
        serve.forget_parent()
        os.environ.clear()
        os.environ.update(environment)
        paths = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
        sys.path[:] = [*paths, *(path for path in sys.path if path not in paths)]
        os.write(begun, b"1")
        os.close(begun)
        serve.main(descriptor, parent, list(warm))
    except BaseException:  # nothing may return into the server's own frames
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(1)


def _require_no_device() -> None:
    """A context of CUDA or HIP does not survive a fork. Raises InternalError where this process has one."""
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            target = os.readlink(descriptor)
            if target.startswith(DEVICES):
                raise InternalError("a fork server must open no device", got=target)
