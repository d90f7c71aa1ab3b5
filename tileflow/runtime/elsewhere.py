"""Whether a thread's calls of kernels are anything but calls: none asks while ``contexts`` is 0, as it mostly is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

from ..locks import Lock

contexts = [0]  # that are open in any thread, in which calls are interpreted, or their host code has no data
# The type of the device on which tensors really are that tell host code that they are on a GPU; empty where all of them
# tell the truth.
really_on: ContextVar[str] = ContextVar("tileflow_really_on", default="")
_lock = Lock()


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
