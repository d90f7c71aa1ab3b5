"""The calls in flight: which worker owes which answer, and by when. Only ``ray.wait`` scans all of them."""

from __future__ import annotations

import heapq
import itertools
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import ray

from .trial_queue import Lease
from .worker_pool import Worker

MOST_AT_ONCE = 1000


@dataclass(slots=True, eq=False)
class Call:
    """One call in flight. ``leases`` is empty while a worker describes itself. ``deadline``: on the monotonic clock.

    ``payloads``: the machine code of each lease, what a compile worker is to make too.
    """

    worker: Worker
    answer: Any
    deadline: float
    leases: Sequence[Lease[Any]] = ()
    payloads: Sequence[Any] = ()


class Calls:
    """All calls of one evaluator."""

    def __init__(self) -> None:
        self._by_answer: dict[Any, Call] = {}
        self._of: dict[Worker, deque[Call]] = {}
        self._deadlines: list[tuple[float, int, Call]] = []
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._by_answer)

    def add(
        self,
        worker: Worker,
        answer: Any,
        limit_s: float,
        leases: Sequence[Lease[Any]] = (),
        payloads: Sequence[Any] = (),
    ) -> None:
        """Record a call, which has ``limit_s`` seconds from now. One queued behind another has them from that one's
        deadline on."""
        mine = self._of.setdefault(worker, deque())
        begins = mine[-1].deadline if mine else 0.0
        call = Call(worker, answer, max(time.monotonic(), begins) + limit_s, leases, payloads)
        mine.append(call)
        self._by_answer[answer] = call
        heapq.heappush(self._deadlines, (call.deadline, next(self._numbers), call))

    def answered(self, timeout_s: float) -> Iterator[Call]:
        """Yield the calls that are answered, each once; wait up to ``timeout_s`` seconds for a first one."""
        if not self._by_answer:
            time.sleep(timeout_s)
            return
        answers = list(self._by_answer)
        ready, _ = ray.wait(answers, num_returns=1, timeout=timeout_s, fetch_local=False)
        if ready:
            ready, _ = ray.wait(answers, num_returns=min(len(answers), MOST_AT_ONCE), timeout=0, fetch_local=False)
        for answer in ready:
            call = self._by_answer.pop(answer, None)
            if call is not None:  # its worker was not given up just before
                self._of[call.worker].remove(call)
                yield call

    def overdue(self) -> Iterator[Call]:
        """Yield the calls past their deadline. They stay in flight."""
        now = time.monotonic()
        while self._deadlines and self._deadlines[0][0] < now:
            _, _, call = heapq.heappop(self._deadlines)
            if self._by_answer.get(call.answer) is call and call.deadline < now:
                yield call

    def extend(self, call: Call, more_s: float) -> None:
        """Move the call's deadline to ``more_s`` seconds from now, for a delay that is not the worker's fault."""
        call.deadline = time.monotonic() + more_s
        heapq.heappush(self._deadlines, (call.deadline, next(self._numbers), call))

    def drop(self, worker: Worker) -> list[Call]:
        """Forget the calls of ``worker`` and return them, oldest first."""
        dropped = list(self._of.pop(worker, ()))
        for call in dropped:
            del self._by_answer[call.answer]
        return dropped
