"""The test's side of :mod:`cells`: processes that share the device, a job each, replaced when one dies."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Self

from tile_testing.runs.cells import Cell, Job
from tileflow.build.process import Answer, Child, Died, Done, Failed, TimedOut

CONFIG_LIMIT_S = 120.0  # one config: compiling, launching, checking


def is_shared_out() -> bool:
    """Whether pytest-xdist runs the tests, in processes of its own: fifteen crews of sixteen do not fit a GPU's
    memory."""
    return "PYTEST_XDIST_WORKER" in os.environ


class Crew:
    """``size`` processes that each compile and launch, so that compiling, which takes the time, goes in parallel.

    ``device``: ``"cuda"``, or ``"cpu"`` with ``TRITON_INTERPRET=1`` in ``environment``. ``gpus``: names for
    ``CUDA_VISIBLE_DEVICES``, which the processes share out.
    """

    def __init__(
        self,
        size: int,
        device: str,
        environment: Mapping[str, str],
        warm: tuple[str, ...] = (),
        gpus: Sequence[str] = (),
    ) -> None:
        self._device, self._gpus = device, itertools.cycle(gpus)
        self._environment, self._warm = environment, ("torch", "triton", "tile_testing.runs.cells", *warm)
        self._pool = ThreadPoolExecutor(size, thread_name_prefix="crew")
        self._idle: SimpleQueue[Child] = SimpleQueue()
        for _ in range(size):
            self._idle.put(self._spawn())

    def cells(self, job: Job) -> Future[list[Cell]]:
        return self._pool.submit(self._cells, job)

    def ask(self, function: str, *args: Any) -> Future[Any]:
        """What ``module:function`` returns for ``args`` and the device; a text where it raises or its process dies."""
        return self._pool.submit(self._ask, function, args)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)
        while not self._idle.empty():
            self._idle.get().kill()

    def _spawn(self) -> Child:
        own = {"CUDA_VISIBLE_DEVICES": gpu} if (gpu := next(self._gpus, None)) else {}
        return Child(warm=self._warm, environment={**self._environment, **own})

    def _call(self, function: str, args: tuple[Any, ...]) -> Answer:
        child = self._idle.get()
        try:
            return child.call(function, args, limit_s=CONFIG_LIMIT_S)
        finally:
            self._idle.put(self._fit(child))

    def _fit(self, child: Child) -> Child:
        """``child``, or another where it died or can use the device no more."""
        if child.alive:
            answer = child.call("tile_testing.runs.cells:is_broken", (self._device,), limit_s=CONFIG_LIMIT_S)
            if isinstance(answer, Done) and not answer.value:
                return child
            child.kill()
        return self._spawn()

    def _ask(self, function: str, args: tuple[Any, ...]) -> Any:
        answer = self._call(function, (*args, self._device))
        return answer.value if isinstance(answer, Done) else _described(answer)

    def _cells(self, job: Job, first: int = 0, last: int | None = None) -> list[Cell]:
        answer = self._call("tile_testing.runs.cells:run", (job, self._device, first, last))
        if isinstance(answer, Done):
            found, count = answer.value
            tried = first + len(found)
            return found if len(found) == count else [*found, *self._cells(job, tried, first + count)]
        failed = Cell(str(job), "", "failed", _described(answer))
        if isinstance(answer, Failed) or not answer.phase.isdigit():
            return [failed]
        # what was found before it is lost with the process, so those run again, without it
        at = int(answer.phase)
        before = self._cells(job, first, at) if at > first else []
        after = self._cells(job, at + 1, last) if last is None or at + 1 < last else []
        return [*before, failed, *after]


def _described(answer: Failed | Died | TimedOut) -> str:
    match answer:
        case Failed(error):
            return str(error)
        case TimedOut(limit, phase):
            return f"no end within {limit:g} s in phase {phase!r}"
    return str(answer)
