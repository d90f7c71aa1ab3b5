"""BuildProcess: lowering, emitting and compiling in a child that is killed at a limit and recycled before it grows."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import BuildError, BuildTimeout
from .process import Died, Done, Failed, TimedOut
from .warm_process import WarmProcess

# A child that compiles must not touch a device, whatever its parent may see.
_NO_DEVICE = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "ROCR_VISIBLE_DEVICES": ""}


class BuildProcess(WarmProcess):
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
        super().__init__(
            warm=warm,
            environment={**(environment or {}), **_NO_DEVICE},
            unwanted=unwanted,
            nice=nice and max(nice, os.getpriority(os.PRIO_PROCESS, 0)),
            recycle_after=recycle_after,
            max_rss_bytes=max_rss_bytes,
        )

    def call(self, function: str, args: tuple[Any, ...], limit_s: float) -> Any:
        """``function(*args)`` in the child; ``function`` is ``module:qualname``; both ways everything is pickled.

        Raises what the function raises, BuildTimeout past ``limit_s`` seconds (the child's start not counted), and
        BuildError where the child died: a compiler that crashes.
        """
        match self._ask(function, args, limit_s):
            case Done(value, rss_bytes):
                self._count(rss_bytes)
                return value
            case Failed(error, rss_bytes):
                self._count(rss_bytes)
                raise error
            case TimedOut(limit, phase):
                raise BuildTimeout(f"a build must end within {limit:g} s", got=f"no end in phase {phase!r}")
            case Died() as died:
                raise BuildError("a compiler must not crash", got=died)
