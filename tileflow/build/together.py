"""Contexts of the whole process: those that threads are in together, and those that they are in one after another.

What a process has once, its standard output among it, must not be put back by one thread under another that still
changes it: whoever leaves last would put back what the other had made of it. Where all threads want the same of it,
the first enters and the last leaves (:class:`Together`); where each changes it for itself, the next one waits
(:class:`InTurn`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager


class Together:
    """``with together(): ...`` in any number of threads is in one context that ``make`` gives."""

    def __init__(self, make: Callable[[], AbstractContextManager[object]]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._inside: list[int] = []  # threads, by their identifiers
        self._left = ExitStack()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    def _after_fork(self) -> None:
        """The other threads that were inside are not here; the one that forked leaves when it is done."""
        self._lock = threading.Lock()
        self._inside = [thread for thread in self._inside if thread == threading.get_ident()]
        if not self._inside:
            self._left.close()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Be inside; raises what entering the context raises."""
        with self._lock:
            if not self._inside:
                self._left.enter_context(self._make())
            self._inside.append(threading.get_ident())
        try:
            yield
        finally:
            with self._lock:
                self._inside.remove(threading.get_ident())
                if not self._inside:
                    self._left.close()


class InTurn:
    """``with in_turn(): ...`` is one thread's at a time. That thread may enter again: a finalizer may, at any line."""

    def __init__(self) -> None:
        self._restart()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._restart)  # the thread that was inside may not be here

    def _restart(self) -> None:
        self._lock = threading.RLock()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Be inside, once no other thread is."""
        with self._lock:
            yield
