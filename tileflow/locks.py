"""Locks of a process that may be forked, and properties without one: in the child none is held by a thread that is not
there.

A fork copies every lock as it is, and of the threads only the one that forks. What another thread held at that moment
nobody would ever release in the child, whose next call waited for it for good.

Python holds a lock for each module that is being imported, which nothing public makes free again, and the child would
have half of the module. So a fork waits until no other thread imports what tileflow needs: a kernel's first call
imports the compiler, and what that imports of torch, Triton and the standard library.
"""

from __future__ import annotations

import functools
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any
from weakref import WeakMethod, WeakSet

MOST_WAIT_S = 60.0  # of a fork for imports: what they wait for may be the thread that forks
_LOOK_S = 0.002
_IMPORTLIB = "<frozen importlib._bootstrap>"

_log = logging.getLogger("tileflow")
_locks: WeakSet[Lock] = WeakSet()


class Lock:
    """``with lock: ...`` is one thread's at a time, which may enter again.

    ``lost``: a method that is called in a child whose parent had another thread inside: what that thread left half
    done is in the child's memory too.
    """

    __slots__ = ("__weakref__", "_held", "_lost")

    def __init__(self, lost: Callable[[], object] | None = None) -> None:
        self._held = threading.RLock()
        self._lost = None if lost is None else WeakMethod(lost)
        _locks.add(self)

    def __enter__(self) -> None:
        self._held.acquire()

    def __exit__(self, *_: object) -> None:
        self._held.release()

    def after_fork(self) -> None:
        """Be free, unless the thread that forked is inside."""
        if self._held.acquire(blocking=False):
            self._held.release()
            return
        self._held = threading.RLock()
        lost = None if self._lost is None else self._lost()
        if lost is not None:
            lost()


def _after_fork() -> None:
    for lock in list(_locks):
        lock.after_fork()


def _imports_for_us(frame: FrameType | None) -> bool:
    """Whether a thread, of which this is the innermost frame, is inside of an import that tileflow asked for."""
    is_importing = False
    while frame is not None:
        is_importing = is_importing or frame.f_code.co_filename == _IMPORTLIB
        if is_importing and str(frame.f_globals.get("__name__")).startswith("tileflow"):
            return True
        frame = frame.f_back
    return False


def _await_imports() -> None:
    """Wait until no other thread imports for tileflow, or so long that it may never end."""
    me, deadline = threading.get_ident(), time.monotonic() + MOST_WAIT_S
    while True:
        # Who has just got the interpreter keeps it for a while: no other thread begins an import before the fork.
        time.sleep(0)
        if not any(_imports_for_us(frame) for thread, frame in sys._current_frames().items() if thread != me):
            return
        if time.monotonic() > deadline:
            _log.warning(
                "a fork waited %g s for another thread's import, and waits no longer: the child may hang where it "
                "imports the same module; fork before kernels are called first, or start children by spawn",
                MOST_WAIT_S,
            )
            return
        time.sleep(_LOOK_S)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_await_imports, after_in_child=_after_fork)


if TYPE_CHECKING:
    from functools import cached_property as cached_property  # noqa: TID251 -- to type checkers it is the very same
else:

    class cached_property(functools.cached_property):  # noqa: TID251
        """The standard library's, without the lock that Python 3.11 gives each: one that a thread held at a fork was
        held in the child for good, and one object's value made those of all others wait. Where two threads make a
        value at once, both go on with the one that was there first."""

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            return instance.__dict__.setdefault(self.attrname, self.func(instance))
