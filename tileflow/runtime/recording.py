"""What a running program calls, written for a sweep: ``with tileflow.record("calls"):`` or ``TILEFLOW_RECORD=calls``.

A file has the format of the misses (:mod:`.miss_file`), a line a problem with how often it was called, and with what
is kept of integers and booleans (:mod:`.recorded`). ``tileflow sweep run calls`` searches for all of them.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import SpecError, TileflowError
from .argtree import is_traced, tensors
from .describe import device_class
from .miss_file import line_of, open_to_append, resolve
from .miss_record import Miss
from .problem import Problem
from .recorded import bound, values_of

VARIABLE = "TILEFLOW_RECORD"
REASON = "recorded"

_log = logging.getLogger("tileflow.runtime")


class Recorder:
    """Counts calls by kernel, problem and device, until :meth:`write`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[tuple[str, str, str | None], _Recorded] = {}

    def called(self, kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Count a call that is about to run, its integers as they are before it; what is wrong with it the call
        says."""
        given = tensors((*args, *kwargs.values()))
        if any(map(is_traced, given)):
            return
        try:
            problem = kernel.describe(*args, **kwargs)
        except TileflowError:
            return
        on = next((tensor.device for tensor in given), None)
        device = device_class(on) if on is not None and on.type == "cuda" else None
        key = (kernel.name, problem.key, device)
        with self._lock:
            found = self._found.get(key)
        if found is None:
            values = values_of(bound(kernel.host.signature, kernel.name, args, kwargs))
            with self._lock:
                found = self._found.setdefault(key, _Recorded(problem, values))
        found.calls += 1
        found.last = time.time()

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Append what was called to a file, a new one for this process where ``path`` is a folder; the file. Raises
        SpecError where it takes none."""
        text = os.fspath(path)
        if not text.endswith(".jsonl"):
            os.makedirs(text, exist_ok=True)
            text = os.path.join(text, "calls-{host}-{pid}.jsonl")
        file = resolve(text)
        try:
            descriptor = open_to_append(file)
        except OSError as error:
            raise SpecError(
                "the file of recorded calls must be one that can be appended to",
                got=str(error),
                where=file,
                hint="name a folder, or a .jsonl file in one",
            ) from error
        try:
            for (kernel, _, device), found in sorted(self._found.items(), key=lambda item: -item[1].calls):
                if kernel.startswith("__main__:"):
                    _log.warning("%s was called %d times; a sweep finds kernels of modules alone", kernel, found.calls)
                os.write(descriptor, line_of(found.line(kernel, device)))
        finally:
            os.close(descriptor)
        return Path(file)


class _Recorded:
    def __init__(self, problem: Problem, values: dict[str, dict[str, Any]]) -> None:
        self.problem, self.values = problem, values
        self.calls = 0
        self.first = self.last = time.time()

    def line(self, kernel: str, device: str | None) -> Miss:
        first, last = (time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(t)) for t in (self.first, self.last))
        return Miss(
            kernel,
            self.problem,
            device,
            REASON,
            self.calls,
            first,
            last,
            json.dumps(self.values) if self.values else "",
        )


recorders: list[Recorder] = []  # those that count now; every call asks whether there is one


@contextmanager
def record(path: str | os.PathLike[str]) -> Iterator[Recorder]:
    """Inside, count the calls of kernels in all threads; at the end write them to ``path``, a ``.jsonl`` file or a
    folder, which ``tileflow sweep run`` takes. Calls inside what torch.compile made are not seen. Raises SpecError."""
    recorder = Recorder()
    recorders.append(recorder)
    try:
        yield recorder
    finally:
        recorders.remove(recorder)
        recorder.write(path)


def record_as_the_environment_says() -> None:
    """Record the whole process where ``TILEFLOW_RECORD`` names a path."""
    path = os.environ.get(VARIABLE, "")
    if path:
        recorder = Recorder()
        recorders.append(recorder)
        atexit.register(recorder.write, path)
