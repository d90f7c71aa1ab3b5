"""What served the calls: one counter for each kernel, step, reason and device, to which every call adds one.

A binding keeps the :class:`Served` of its step and its warm calls do ``served.calls += 1``. That costs 20 to 45 ns and
loses nothing under threads: CPython 3.10 and later switch threads, run signal handlers and collect garbage only where a
function is called or a loop jumps back, and neither lies between the statement's load and its store. A free-threaded
build has no such promise: there the counts are a lower bound.

A scraper reads the counters as :func:`tileflow.runtime.metrics.openmetrics`.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import NamedTuple

# Steps that count what lookups met on their way; all other steps count the calls that they served.
LOOKUP_EVENTS = frozenset({"miss", "constraint", "out_of_resources", "other_version"})

OTHER_REASONS = "other reasons"
MAX_COUNTERS = 10_000
MAX_REASON = 200  # characters: reasons name problems, whose keys can be long

_log = logging.getLogger("tileflow.runtime")


class Served:
    """A counter that all bindings of one kernel, step, reason and device share. Made by :func:`served` only."""

    __slots__ = ("calls", "device", "kernel", "reason", "step")

    def __init__(self, kernel: str, step: str, reason: str, device: str) -> None:
        self.kernel, self.step, self.reason, self.device = kernel, step, reason, device
        self.calls = 0


class CallCount(NamedTuple):
    """A snapshot of a :class:`Served`. ``device``: empty where the class is not known."""

    kernel: str
    step: str
    reason: str
    device: str
    calls: int


_lock = threading.Lock()
_counters: dict[tuple[str, str, str, str], Served] = {}
_said: set[tuple[str, str]] = set()


def served(kernel: str, step: str, reason: str = "", device: str | None = None) -> Served:
    """The counter for calls that ``step`` serves for ``reason``: the same object each time, also after a clear.

    Once there are MAX_COUNTERS, further reasons of a kernel, step and device share one counter.
    """
    key = (kernel, step, reason[:MAX_REASON], device or "")
    found = _counters.get(key)
    if found is not None:
        return found
    with _lock:
        if key not in _counters and len(_counters) >= MAX_COUNTERS:
            key = (kernel, step, OTHER_REASONS, device or "")
        return _counters.setdefault(key, Served(*key))


def count(kernel: str, step: str, reason: str = "", device: str | None = None) -> None:
    """Count one call, or one event of a lookup, of which no binding remembers the counter."""
    served(kernel, step, reason, device).calls += 1


def stats() -> dict[str, int]:
    """How many calls each step served, warm ones included, and how often lookups met each of LOOKUP_EVENTS."""
    totals: dict[str, int] = {}
    for row in counters():
        totals[row.step] = totals.get(row.step, 0) + row.calls
    return totals


def counters() -> tuple[CallCount, ...]:
    """Every counter that is not zero, the largest first."""
    with _lock:
        rows = list(_counters.values())
    read = (CallCount(row.kernel, row.step, row.reason, row.device, row.calls) for row in rows)
    return tuple(sorted((row for row in read if row.calls), key=lambda row: -row.calls))


def clear_counters() -> None:
    """Set every counter to zero, and let :func:`say_once` repeat itself. Bindings go on counting."""
    with _lock:
        for row in _counters.values():
            row.calls = 0
        _said.clear()


def say_once(level: int, kernel: str, about: str, text: str) -> bool:
    """Log ``text`` unless something was logged about this step (or table, or version) of the kernel before.

    Later ones are only counted: which shapes were near hits is what :func:`counters` lists.
    """
    with _lock:
        if (kernel, about) in _said:
            return False
        if len(_said) >= MAX_COUNTERS:
            _said.clear()  # a repeated line is better than memory that grows, or than silence
        _said.add((kernel, about))
    _log.log(level, "%s | %s | %s", kernel, about, text)
    return True


def _after_fork() -> None:
    """Count what this process does. A new lock: a thread of the parent may have held the old one, and is not here."""
    global _lock
    _lock = threading.Lock()
    for row in _counters.values():
        row.calls = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
