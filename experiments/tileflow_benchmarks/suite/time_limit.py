"""A limit on the time of a block of code."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def time_limit(seconds: float, what: str) -> Iterator[None]:
    """Raise TimeoutError in the block after ``seconds``.

    It uses a signal, so it works in the main thread only; code that never returns to Python is not interrupted.
    """
    assert threading.current_thread() is threading.main_thread(), "signals go to the main thread"

    def stop(signum: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"{what} took longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
