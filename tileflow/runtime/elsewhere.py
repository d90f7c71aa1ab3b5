"""Whether a thread's calls of kernels are anything but calls: none asks while ``contexts`` is 0, as it mostly is."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from ..locks import Lock

contexts = [0]  # that are open in any thread, in which calls are interpreted, or their host code has no data
_lock = Lock()


class _Thread(threading.local):
    real = ""  # the type of the device on which tensors of host code really are that says it is on a GPU; empty in none


thread = _Thread()


@contextlib.contextmanager
def opened() -> Iterator[None]:
    """A context in which calls ask; counted under a lock, since threads open them at once."""
    _count(1)
    try:
        yield
    finally:
        _count(-1)


def _count(change: int) -> None:
    with _lock:
        contexts[0] += change
