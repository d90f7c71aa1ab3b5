"""Locks of a process that may be forked: in the child none is held by a thread that is not there.

A fork copies every lock as it is, and of the threads only the one that forks. What another thread held at that moment
nobody would ever release in the child, whose next call waited for it for good.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from weakref import WeakMethod, WeakSet

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


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
