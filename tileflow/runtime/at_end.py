"""What runs when a process ends: also a forked worker of multiprocessing, which runs nothing of ``atexit``."""

from __future__ import annotations

import atexit
from collections.abc import Callable


def at_end(callback: Callable[[], None]) -> None:
    """Call ``callback``, a function of a module, when this process ends, and when one forked from it does.

    It may be called more than once, and is not where a process is killed or left by ``os._exit``.
    """
    from multiprocessing import util

    atexit.register(callback)  # also of a process of os.fork
    _at_the_end_of_a_worker(callback)
    util.register_after_fork(callback, _at_the_end_of_a_worker)


def _at_the_end_of_a_worker(callback: Callable[[], None]) -> None:
    from multiprocessing import util

    util.Finalize(None, callback, exitpriority=0)
