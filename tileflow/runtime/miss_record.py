"""Which problems no table served: a bounded record of kernel, problem, device and reason, with how often.

It is what a next sweep should tune; :mod:`tileflow.runtime.miss_file` writes it to disk.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable
from typing import NamedTuple, Protocol

from .metrics import register_counter, register_gauge
from .observe import count
from .problem import Problem

MAX_MISSES = 10_000
_SPARED = 16  # how many problems in use are passed over, at most, in the search of one to forget


class Missed:
    """The running count of one missed problem. Whatever serves it from then on counts its warm calls here as well:
    ``missed.calls += 1``."""

    __slots__ = (
        "_dated",
        "_passed",
        "calls",
        "device",
        "first",
        "kernel",
        "last",
        "memory",
        "problem",
        "reason",
        "written",
    )

    def __init__(
        self, kernel: str, problem: Problem, device: str | None, reason: str, now: float, memory: str = ""
    ) -> None:
        self.kernel, self.problem, self.device, self.reason, self.memory = kernel, problem, device, reason, memory
        self.first = self.last = now
        self.calls = 0
        self.written = 0  # of ``calls``, those that a file has
        self._dated = self._passed = 0  # ``calls`` when ``last`` was set, and when it was last looked up or spared

    def look_up(self, now: float) -> None:
        """Count a call that came with a lookup."""
        self.calls += 1
        self.last, self._dated, self._passed = now, self.calls, self.calls

    def date(self, now: float) -> None:
        """Warm calls do not look at the clock: any since the last look count as seen now."""
        if self.calls != self._dated:
            self.last, self._dated = now, self.calls

    def restart(self, now: float) -> None:
        """Count from zero, as a process of its own."""
        self.calls = self.written = self._dated = self._passed = 0
        self.first = self.last = now

    def in_use(self) -> bool:
        """Whether it was called, without a lookup, since it was looked up or asked this the last time."""
        before, self._passed = self._passed, self.calls
        return before != self._passed


class Miss(NamedTuple):
    """A missed problem, or a recorded one. ``first`` and ``last`` are UTC times as ``2026-11-22T09:30:00Z``.
    ``values``: of a recorded call, what :mod:`.recorded` keeps, as JSON; ``memory``: where arguments share memory,
    which and how, as JSON of :func:`.recorded.memory_of`."""

    kernel: str
    problem: Problem
    device: str | None
    reason: str
    calls: int
    first: str
    last: str
    values: str = ""
    memory: str = ""

    @property
    def key(self) -> tuple[Hashable, ...]:
        """What lines of the same calls have in common."""
        return (self.kernel, self.problem.key, self.device, self.reason, sharing(self.memory))


def sharing(memory: str) -> Hashable:
    """Which arguments share memory, wherever they lie in it. ``memory``: as in :class:`Miss`."""
    return tuple(tuple(sorted(group)) for group in json.loads(memory)) if memory else ()


class Listener(Protocol):
    """What keeps misses for longer than the record does. Neither method may block or raise."""

    def missed(self) -> None:
        """Some problem missed."""
        ...

    def forgotten(self, record: Missed) -> None:
        """The record was full, and this one had to go. Called under the record's lock."""
        ...


_lock = threading.Lock()
_records: OrderedDict[tuple[Hashable, ...], Missed] = OrderedDict()
_forgotten = 0
_listener: Listener | None = None


def miss(kernel: str, problem: Problem, device: str | None, reason: str, memory: str = "") -> Missed:
    """Count a lookup that no row served. ``reason``: a short text out of a small set, as "no row fits"; ``memory``: as
    in :class:`Miss`."""
    count(kernel, "miss", reason, device)
    key = (kernel, problem.key, device, reason, sharing(memory))
    now = time.time()
    with _lock:
        found = _records.get(key)
        if found is None:
            if len(_records) >= MAX_MISSES:
                _forget_one()
            found = _records[key] = Missed(kernel, problem, device, reason, now, memory)
        else:
            _records.move_to_end(key)
        found.look_up(now)
        listener = _listener
    if listener is not None:
        listener.missed()
    return found


def misses() -> tuple[Miss, ...]:
    """The missed problems that are remembered, the most often called first."""
    now = time.time()
    found = (snapshot(record, record.calls, now) for record in records())
    return tuple(sorted((m for m in found if m.calls), key=lambda m: -m.calls))


def forgotten() -> int:
    """How many problems were forgotten since the record was full."""
    return _forgotten


def clear_misses() -> None:
    """Forget all. A file gets what it does not have of them yet."""
    global _forgotten
    with _lock:
        if _listener is not None:
            for record in _records.values():
                _listener.forgotten(record)
        _records.clear()
        _forgotten = 0


def records() -> list[Missed]:
    """The running counts, the longest unseen first."""
    with _lock:
        return list(_records.values())


def listen(listener: Listener | None) -> None:
    """Tell ``listener``, and no other, of misses."""
    global _listener
    with _lock:
        _listener = listener


def snapshot(record: Missed, calls: int, now: float) -> Miss:
    """``calls`` of the record's, as a value."""
    record.date(now)
    first, last = (time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(t)) for t in (record.first, record.last))
    return Miss(record.kernel, record.problem, record.device, record.reason, calls, first, last, memory=record.memory)


def _forget_one() -> None:
    """Drop the problem that was longest not looked up, but spare those that warm calls still use."""
    global _forgotten
    for _ in range(_SPARED):
        key = next(iter(_records))
        if not _records[key].in_use():
            break
        _records.move_to_end(key)
    _, record = _records.popitem(last=False)
    _forgotten += 1
    if _listener is not None:
        _listener.forgotten(record)


def _after_fork() -> None:
    """What was counted before the fork is the parent's. Bindings that came along count on in the same objects."""
    global _forgotten, _lock
    _lock, _forgotten = threading.Lock(), 0
    now = time.time()
    for record in _records.values():
        record.restart(now)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

register_gauge("tileflow_missed_problems", "Distinct problems in the record of misses.", lambda: len(_records))
register_counter("tileflow_forgotten_misses", "Missed problems forgotten because the record was full.", forgotten)
