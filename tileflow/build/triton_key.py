"""Triton's key, made aside: before its first compile Triton reads and hashes all of its own files.

That takes 0.4 s from memory and longer from a disk, mostly without the interpreter lock: a thread does it while another
imports and lowers. Triton keeps the key, and children by fork have it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .compat import make_key


@contextmanager
def made_aside() -> Iterator[None]:
    """Make the key in a thread while the block runs; the thread has ended after it, since a fork takes none along."""
    thread = threading.Thread(target=make_key, name="tileflow-triton-key", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()
