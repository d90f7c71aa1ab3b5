"""Python's garbage collector, paused while what is made all lives.

A module that is imported and a table that is read make many objects and no garbage. A full collection among them visits
all that torch holds, a hundred milliseconds for nothing, and would come again.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident

from .locks import Lock

_lock = Lock()
_pauses: dict[int, int] = {}  # under way, by thread
_was_enabled = [False]  # before the first of them


@contextmanager
def paused() -> Iterator[None]:
    """No collection starts by itself inside, in any thread. The collector is left as it was found."""
    with _lock:
        if not _pauses:
            _was_enabled[0] = gc.isenabled()
            gc.disable()
        _pauses[get_ident()] = _pauses.get(get_ident(), 0) + 1
    try:
        yield
    finally:
        with _lock:
            _pauses[get_ident()] -= 1
            if not _pauses[get_ident()]:
                _end_of(get_ident())


def _end_of(thread: int) -> None:
    """A thread has no pause under way any more: the last one that has lets the collector go on."""
    del _pauses[thread]
    if not _pauses and _was_enabled[0]:
        gc.enable()


def _after_fork() -> None:
    """What the other threads paused nobody would end in the child."""
    for thread in [thread for thread in _pauses if thread != get_ident()]:
        _end_of(thread)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
