"""An end in time for what an author wrote: a reference, inputs, a kernel's own text as plain Python.

In a measuring child an alarm interrupts the main thread wherever Python is, also where an author's function sleeps or
never calls torch. So the child lives on, with the data of all other problems, which takes longer to make anew than one
of them is waited for. One call of a library that takes long is not interrupted: the parent ends the child for that.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable
from functools import cache
from types import FrameType, TracebackType
from typing import Any

from ..build import serve

AGAIN_S = 0.02  # between the alarm's rings, some of which are let pass

_spoilt = False


class OutOfTime(TimeoutError):
    """What :func:`deadline` and :class:`Alarm` raise."""


class NoText(Exception):
    """A kernel's own text as plain Python, which would stand for a reference, has no result here, or not in time."""


class _Rung(BaseException):
    """Passes through an author's ``except Exception``; the alarm that rang takes it."""


class Alarm:
    """A context that ends after so many seconds with :class:`OutOfTime`. In another process than a measuring child, or
    in another thread than the main one, it does not. Not to be nested."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._is_set = False
        self._before: Any = None
        self._state: tuple[Any, ...] = ()

    def __enter__(self) -> None:
        is_main = threading.current_thread() is threading.main_thread()
        self._is_set = is_main and serve.is_child() and math.isfinite(self._seconds)
        if self._is_set:
            self._state = _state_of_torch()
            self._before = signal.signal(signal.SIGALRM, self._ring)
            signal.setitimer(signal.ITIMER_REAL, max(self._seconds, AGAIN_S), AGAIN_S)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        global _spoilt
        if self._is_set:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, self._before)
        if isinstance(error, _Rung):
            _spoilt = _spoilt or _state_of_torch() != self._state
            raise OutOfTime(f"took longer than {self._seconds:.3g} s") from None

    def _ring(self, number: int, frame: FrameType | None) -> None:
        # Between an author's functions nobody would take it; a context, or a module, that is half there stays so.
        if frame is None or frame.f_code.co_filename == __file__ or _must_end(frame):
            return
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        raise _Rung


def _must_end(frame: FrameType) -> bool:
    """Whether what runs is called by a context's ``__enter__`` or ``__exit__``, or imports a module."""
    inner: FrameType | None = frame
    while inner is not None and inner.f_code.co_filename != __file__:
        code = inner.f_code
        if code.co_name in ("__enter__", "__exit__") or code.co_filename.startswith("<frozen importlib"):
            return True
        inner = inner.f_back
    return False


class Allowance:
    """Seconds that several functions have together. ``seconds``: those that are left."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def limited(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """``function``, which an :class:`Alarm` ends where none are left."""

        def within(*args: Any, **options: Any) -> Any:
            began = time.monotonic()
            try:
                with Alarm(self.seconds):
                    return function(*args, **options)
            finally:
                self.seconds -= time.monotonic() - began

        return within


def is_spoilt() -> bool:
    """Whether a function that was interrupted in this process has left torch in another state than it had found."""
    return _spoilt


def _state_of_torch() -> tuple[Any, ...]:
    """What an interrupted function may leave changed, and what is measured afterwards depends on."""
    import torch

    on_card: tuple[Any, ...] = ()
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        on_card = torch.cuda.current_device(), torch.cuda.current_stream(), torch.cuda.is_current_stream_capturing()
    switch: Any = torch.utils.deterministic
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled(),
        torch.get_default_dtype(),
        torch.get_default_device(),
        torch.get_deterministic_debug_mode(),
        switch.fill_uninitialized_memory,
        *on_card,
    )


def deadline(seconds: float) -> Any:
    """A context in which the first call of torch after so many seconds raises :class:`OutOfTime`, and an
    :class:`Alarm` wherever else Python is. A call that is under way is waited for."""
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
            self._alarm = Alarm(seconds)

        def __enter__(self) -> Any:
            entered = super().__enter__()  # type: ignore[no-untyped-call]
            self._alarm.__enter__()
            return entered

        def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
            try:
                self._alarm.__exit__(kind, error, trace)
            finally:
                super().__exit__(kind, error, trace)  # type: ignore[no-untyped-call]

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if time.monotonic() > self._until:
                raise OutOfTime(f"took longer than {self._seconds:g} s")
            return func(*args, **(kwargs or {}))

    return Deadline
