"""Python's garbage collector, paused while what is made all lives.

A module that is imported and a table that is read make many objects and no garbage. A full collection among them visits
all that torch holds, a hundred milliseconds for nothing, and would come again.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_lock = Lock()
_pauses = [0]  # under way, in all threads
_was_enabled = [False]  # before the first of them


@contextmanager
def paused() -> Iterator[None]:
    """No collection starts by itself inside, in any thread. The collector is left as it was found."""
    with _lock:
        if not _pauses[0]:
            _was_enabled[0] = gc.isenabled()
            gc.disable()
        _pauses[0] += 1
    try:
        yield
    finally:
        with _lock:
            _pauses[0] -= 1
            if not _pauses[0] and _was_enabled[0]:
                gc.enable()
