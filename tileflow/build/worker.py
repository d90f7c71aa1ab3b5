"""BuildProcess: lowering, emitting and compiling in a child that is killed at a limit and recycled before it grows."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from ..errors import BuildError, BuildTimeout
from .process import Child, Died, Done, Failed, TimedOut

# A child that compiles must not touch a device, whatever its parent may see.
_NO_DEVICE = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "ROCR_VISIBLE_DEVICES": ""}


class BuildProcess:
    """A warm child for compiling. Not thread-safe; one call at a time.

    ``recycle_after``: calls, and ``max_rss_bytes``: memory, after which the next call gets a fresh child (compilers
    keep what they compiled). ``environment``: further variables, a ``TRITON_CACHE_DIR`` of its own for example.
    ``unwanted``: once true, a call that runs ends as at its limit. ``nice``: how far it stands back, at least.
    """

    def __init__(
        self,
        *,
        recycle_after: int = 500,
        max_rss_bytes: int = 4 << 30,
        environment: Mapping[str, str] | None = None,
        warm: tuple[str, ...] = ("triton", "triton.compiler", "tileflow.build.compile"),
        unwanted: Callable[[], bool] | None = None,
        nice: int = 0,
    ) -> None:
        self._unwanted = unwanted
        self._nice = nice and max(nice, os.getpriority(os.PRIO_PROCESS, 0))
        self._recycle_after = recycle_after
        self._max_rss_bytes = max_rss_bytes
        self._environment = {**(environment or {}), **_NO_DEVICE}
        self._warm = warm
        self._calls = 0
        self._closed = False
        self._child = self._spawn()

    @property
    def pid(self) -> int:
        return self._child.pid

    def call(self, function: str, args: tuple[Any, ...], limit_s: float) -> Any:
        """``function(*args)`` in the child; ``function`` is ``module:qualname``; both ways everything is pickled.

        Raises what the function raises, BuildTimeout past ``limit_s`` seconds (the child's start not counted), and
        BuildError where the child died: a compiler that crashes.
        """
        match self._child.call(function, args, limit_s=limit_s):
            case Done(value, rss_bytes):
                self._count(rss_bytes)
                return value
            case Failed(error, rss_bytes):
                self._count(rss_bytes)
                raise error
            case TimedOut(limit, phase):
                self._replace()
                raise BuildTimeout(f"a build must end within {limit:g} s", got=f"no end in phase {phase!r}")
            case Died() as died:
                self._replace()
                raise BuildError("a compiler must not crash", got=died)

    def close(self) -> None:
        """End the child, also in the middle of a call of another thread's, which fails; none comes after it."""
        self._closed = True
        self._child.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _count(self, rss_bytes: int) -> None:
        self._calls += 1
        if self._calls >= self._recycle_after or rss_bytes > self._max_rss_bytes:
            self._replace()

    def _replace(self) -> None:
        self._child.kill()
        self._calls = 0
        if not self._closed:
            self._child = self._spawn()
        if self._closed:  # meanwhile, by another thread
            self._child.kill()

    def _spawn(self) -> Child:
        return Child(warm=self._warm, environment=self._environment, unwanted=self._unwanted, nice=self._nice)
