"""Locks of a process that may be forked, and properties without one: in the child none is held by a thread that is not
there.

A fork copies every lock as it is, and of the threads only the one that forks. What another thread held at that moment
nobody would ever release in the child, whose next call waited for it for good.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
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
