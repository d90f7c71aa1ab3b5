"""An end in time for Python that calls torch over and over: a kernel's own text, an author's functions."""

from __future__ import annotations

import time
from functools import cache
from typing import Any


class OutOfTime(TimeoutError):
    """What :func:`deadline` raises."""


class NoText(Exception):
    """A kernel's own text as plain Python, which would stand for a reference, has no result here, or not in time."""


def deadline(seconds: float) -> Any:
    """A context in which the first call of torch after so many seconds raises :class:`OutOfTime`. A call that is under
    way is waited for."""
    return _mode()(seconds)


@cache
def _mode() -> Any:
    """Made late, because it needs torch."""
    from torch.overrides import TorchFunctionMode

    class Deadline(TorchFunctionMode):
        def __init__(self, seconds: float) -> None:
            super().__init__()
            self._until = time.monotonic() + seconds
            self._seconds = seconds

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if time.monotonic() > self._until:
                raise OutOfTime(f"took longer than {self._seconds:g} s")
            return func(*args, **(kwargs or {}))

    return Deadline
