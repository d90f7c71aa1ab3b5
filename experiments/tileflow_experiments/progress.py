"""The progress of a sweep: a live bar on a terminal, a line every few seconds in a log."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol, TextIO

from tileflow.streams import is_terminal, say

from .driver import Driver
from .status import lines
from .study import Study

LINE_EVERY_S = 5.0
BAR_EVERY_S = 0.25

log = logging.getLogger(__name__)


class Line(Protocol):
    """One line that is shown in place of the previous one."""

    def update(self, line: str) -> None:
        """Show ``line`` in place of what was shown."""

    def stop(self) -> None:
        """Leave the last line as it is and restore the terminal."""


class Progress:
    """Called by the driver at every turn. ``stream``: where lines go, stderr where not given; on a terminal a bar
    replaces them. Whoever read them may go away: the sweep goes on, and the log says so once."""

    def __init__(self, budget: str, stream: TextIO | None = None) -> None:
        self._budget = budget
        self._stream = sys.stderr if stream is None else stream
        self._is_given_up = False
        self._started = time.monotonic()
        self._next = self._started
        self._live: Line | None = _live(self._stream) if is_terminal(self._stream) else None

    def __call__(self, driver: Driver) -> None:
        """Show the driver's line where one is due."""
        if self._due():
            self._put(self.line(driver))

    def show(self, status: Mapping[str, Any]) -> None:
        """Show the merged status of several schedulers."""
        if self._due():
            self._put(next(lines("sweep", status)))

    def _due(self) -> bool:
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + (BAR_EVERY_S if self._live else LINE_EVERY_S)
        return True

    def _put(self, line: str) -> None:
        if self._live:
            self._on_terminal(lambda live: live.update(line))
        else:
            self._note(say(line, self._stream))

    def line(self, driver: Driver) -> str:
        """Return `` 12 s 87 trials of 5 tuning tasks (40 trials each), 12 in flight, 5.2/s considered, ...``."""
        counters = driver.evaluator.counters()
        completed = sum(len(study.completed) for study in driver.studies)
        flying = sum(study.in_flight for study in driver.studies)
        done = sum(not study.open for study in driver.studies)
        parts = [
            f"{time.monotonic() - self._started:4.0f} s  {completed} trials",
            f"{done}/{len(driver.studies)} tuning tasks done ({self._budget} each)",
            *([driver.doing] if driver.doing else []),
            f"{flying} in flight",
            f"{counters.considered_per_s:.1f}/s considered, {counters.measured_per_s:.1f}/s measured",
        ]
        if counters.retried:
            parts.append(f"{counters.retried} retried")
        if stopped := sum(bool(study.stopped) for study in driver.studies):
            parts.append(f"{stopped} stopped")
        if driver.stopping:
            parts.append(f"stopping: {driver.stopping}")
        latest = max(driver.studies, key=_last_heard, default=None)
        if latest is not None and latest.best is not None and latest.best.time_us is not None:
            how = "" if latest.best.measured else " (modelled)"
            parts.append(f"{latest.task.key.title}: best {latest.best.time_us:.1f} us{how}")
        return ", ".join(parts)

    def say(self, text: str) -> None:
        """Print a line that stays."""
        self._note(say(text, sys.stdout))

    def close(self) -> None:
        """Leave the terminal as it was."""
        self._on_terminal(lambda live: live.stop())

    def _on_terminal(self, change: Callable[[Line], None]) -> None:
        live = self._live
        if live is None:
            return
        try:
            change(live)
        except (OSError, ValueError) as error:  # the terminal has gone, or lacks a letter
            self._live = None
            self._note(str(error))
            with suppress(OSError, ValueError):
                live.stop()  # which gives the process its streams back

    def _note(self, why: str) -> None:
        if why and not self._is_given_up:
            self._is_given_up = True
            log.warning("nobody reads how the sweep is doing, which goes on: %s", why)


def _last_heard(study: Study) -> float:
    return max((record.started_at for record in study.completed.values()), default=0.0)


def _live(stream: TextIO) -> Line:
    from rich.console import Console
    from rich.live import Live

    class Ours(Console):
        def on_broken_pipe(self) -> None:
            """Let who draws the bar hear of it; Rich would end the process."""
            raise

    return _Refreshing(
        Live("starting", console=Ours(file=stream, markup=False, highlight=False), transient=True, auto_refresh=False)
    )


class _Refreshing:
    """Rich's bar, begun by its first line."""

    def __init__(self, live: Any) -> None:
        self._live = live

    def update(self, line: str) -> None:
        self._live.start()
        self._live.update(line, refresh=True)

    def stop(self) -> None:
        self._live.stop()
