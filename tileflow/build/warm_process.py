"""WarmProcess: a warm child, and another in its place when it has ended or grown. What building and measuring share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from .process import Answer, Child, Died, TimedOut


class WarmProcess:
    """A warm child for one call at a time. Only :meth:`close` is thread-safe.

    ``recycle_after``: calls that count, and ``max_rss_bytes``: memory, after which a fresh child takes over.
    ``unwanted``: once true, a call that runs ends as at its limit. ``nice``: how far the child stands back.
    ``has_spare``: a further child waits to take over, from :meth:`_keep_spare` or the first replacement on.
    """

    def __init__(
        self,
        *,
        warm: tuple[str, ...],
        environment: Mapping[str, str] | None = None,
        unwanted: Callable[[], bool] | None = None,
        nice: int = 0,
        recycle_after: int | None = None,
        max_rss_bytes: int | None = None,
        has_spare: bool = False,
    ) -> None:
        self._warm = warm
        self._environment = environment
        self._unwanted = unwanted
        self._nice = nice
        self._recycle_after = recycle_after
        self._max_rss_bytes = max_rss_bytes
        self._has_spare = has_spare
        self._served = 0
        self._closed = False
        self._child = self._spawn()
        self._spare: Child | None = None

    @property
    def pid(self) -> int:
        """The process id of the child that there is now."""
        return self._child.pid

    def close(self) -> None:
        """End the child, also in the middle of a call of another thread's, which fails; none comes after it."""
        self._closed = True
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(
        self,
        function: str,
        args: tuple[Any, ...],
        limit_s: float,
        phase_limits: Mapping[str, float] | None = None,
    ) -> Answer:
        """The child's answer; where it has ended, another is in its place."""
        answer = self._child.call(function, args, limit_s=limit_s, phase_limits=phase_limits)
        if isinstance(answer, Died | TimedOut):
            self._replace()
        return answer

    def _count(self, rss_bytes: int) -> None:
        """The child has served once more, and has so much memory; it is replaced where that is due."""
        self._served += 1
        is_old = self._recycle_after is not None and self._served >= self._recycle_after
        if is_old or (self._max_rss_bytes is not None and rss_bytes > self._max_rss_bytes):
            self._replace()

    def _replace(self) -> None:
        self._child.kill()
        self._served = 0
        if not self._closed:
            self._child = self._spare or self._spawn()
            self._spare = self._spawn() if self._has_spare else None
        self._end_if_closed()

    def _keep_spare(self) -> None:
        """Begin to warm up the spare, if there is none yet."""
        if self._has_spare and self._spare is None and not self._closed:
            self._spare = self._spawn()
            self._end_if_closed()

    def _end_if_closed(self) -> None:
        if self._closed:  # meanwhile, by another thread
            self._end()

    def _end(self) -> None:
        self._child.kill()
        if self._spare is not None:
            self._spare.kill()

    def _spawn(self) -> Child:
        return Child(warm=self._warm, environment=self._environment, unwanted=self._unwanted, nice=self._nice)
