"""Triton's key, made ahead: before its first compile Triton reads and hashes all of its own files.

That takes 0.4 s from memory and longer from a disk, and needs no interpreter lock: a thread makes it while another
imports torch. Triton keeps the key, and children by fork have it.
"""

from __future__ import annotations

import threading

from .compat import make_key

_thread: threading.Thread | None = None


def begin() -> None:
    """Make the key in a thread. Idempotent."""
    global _thread
    if _thread is None:
        _thread = threading.Thread(target=make_key, name="tileflow-triton-key", daemon=True)
        _thread.start()


def await_it() -> None:
    """Return once the thread of :func:`begin` has ended."""
    if _thread is not None:
        _thread.join()
