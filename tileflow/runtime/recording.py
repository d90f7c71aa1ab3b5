"""What a running program calls, written for a sweep: ``with tileflow.record("calls"):`` or ``TILEFLOW_RECORD=calls``.

A file has the format of the misses (:mod:`.miss_file`), a line a problem with how often it was called, and with what
is kept of integers, of booleans and of memory that arguments share (:mod:`.recorded`). ``tileflow sweep run calls``
searches for all of them.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from ..errors import SpecError, TileflowError
from .argtree import is_traced, tensors
from .at_end import at_end
from .describe import check_memory, device_class
from .files import require_folder
from .miss_file import Appended, line_of, place_of, resolve, unusable
from .miss_record import Miss, sharing
from .problem import Problem
from .recorded import bound, memory_of, values_of

VARIABLE = "TILEFLOW_RECORD"
REASON = "recorded"

_GATHER_S = 1.0  # after a new problem, so that those that come together are one opening of the file
_LOOK_S = 60.0  # for calls of known problems, which tell nobody

_log = logging.getLogger("tileflow.runtime")


class Recorder:
    """Counts calls by kernel, problem and device, for :meth:`write`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """``path``: of the file, a new one for each process where it is a folder. Raises SpecError where nothing can be
        appended there."""
        self._path = _path_of_calls(path)
        self._restart()
        file = resolve(self._path)
        try:
            Appended(file).close()
        except OSError as error:
            raise unusable("recorded calls", file, error) from error

    def _restart(self) -> None:
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._found: dict[tuple[str, str, str | None, Hashable], _Recorded] = {}
        self._thread: threading.Thread | None = None
        self._is_new = threading.Event()
        self._stopped = threading.Event()
        self._has_failed = False
        self._uncounted: set[str] = set()  # kernels of which that was said

    after_fork = _restart  # what was counted before is the parent's to write

    def called(self, kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Count a call that is about to run, its integers as they are before it.

        Nothing is raised: a recording changes no program. What is wrong with the call the call says; what else keeps it
        from being counted is logged once for each kernel.
        """
        try:
            self._count(kernel, args, kwargs)
        except TileflowError:
            return
        except Exception as error:  # of torch, or of a class of the program's own
            with self._lock:
                is_new = kernel.name not in self._uncounted
                self._uncounted.add(kernel.name)
            if is_new:
                said = str(error).partition("\n")[0]
                _log.warning("calls of %s are not recorded: %s: %s", kernel.name, type(error).__name__, said)

    def _count(self, kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given = tensors((*args, *kwargs.values()))
        if any(map(is_traced, given)):
            return
        arguments = bound(kernel.host.signature, kernel.name, args, kwargs)
        check_memory(kernel.name, arguments)
        problem = kernel.describe(*args, **kwargs)
        on = next((tensor.device for tensor in given), None)
        device = device_class(on) if on is not None and on.type == "cuda" else None
        shared = memory_of(arguments)
        memory = json.dumps(shared) if shared else ""
        key = (kernel.name, problem.key, device, sharing(memory))
        with self._lock:
            found = self._found.get(key)
            if found is not None:
                found.count()
                return
        values = values_of(arguments)
        with self._lock:
            self._found.setdefault(key, _Recorded(problem, values, memory)).count()
            self._start()
        self._is_new.set()

    def _start(self) -> None:
        if self._thread is not None or self._stopped.is_set():
            return
        thread = threading.Thread(target=self._run, name="tileflow-record", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # no more threads, or the interpreter is ending: the next problem tries again
            self._fail(f"no thread to write with: {error}")
        else:
            self._thread = thread

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._is_new.wait(_LOOK_S)
            if self._stopped.wait(_GATHER_S):
                return
            self._is_new.clear()
            self._append_due()

    def _append_due(self) -> None:
        """Append the problems that were called as often again as their lines say. Calls go on meanwhile."""
        with self._writing:
            with self._lock:
                due = [(key, found, found.calls) for key, found in self._found.items() if found.is_due()]
            try:
                file = resolve(self._path)
                with Appended(file) if due else nullcontext() as lines:
                    for key, found, calls in due:
                        if (data := found.line(key[0], key[2], calls)) and lines is not None:
                            lines.line(data)
                        found.written = calls
            except (OSError, SpecError) as error:
                self._fail(str(error))

    def _fail(self, what: str) -> None:
        if not self._has_failed:
            self._has_failed = True
            _log.warning("calls are kept until the end, not written to %s | %s | said once", self._path, what)

    def stop(self) -> None:
        """No longer write by itself."""
        self._stopped.set()
        self._is_new.set()

    @property
    def calls(self) -> int:
        """How many were counted since the last writing."""
        with self._lock:
            return sum(found.calls - found.written for found in self._found.values())

    def write(self, path: str | os.PathLike[str] | None = None) -> Path:
        """Append what was called since the last time to its file, or to that of another ``path``; the file.

        Raises SpecError where it takes none; what it did not take is kept for another path.
        """
        file = resolve(self._path if path is None else _path_of_calls(path))
        with self._writing, self._lock:
            try:
                with Appended(file) as lines:
                    for key, found in sorted(self._found.items(), key=lambda item: -item[1].calls):
                        if found.calls > found.written and (data := found.line(key[0], key[2], found.calls)):
                            lines.line(data)
                        del self._found[key]
            except OSError as error:
                raise unusable("recorded calls", file, error) from error
        return Path(file)


def _path_of_calls(path: str | os.PathLike[str]) -> str:
    """``path``, or that of a process's file in the folder that it is, made here. Raises SpecError where it cannot."""
    text = place_of("recorded calls", path)
    if text.endswith(".jsonl"):
        return text
    require_folder(text)
    try:
        os.makedirs(text, exist_ok=True)
    except OSError as error:
        raise unusable("recorded calls", text, error) from error
    return os.path.join(text, "calls-{host}-{pid}.jsonl")


class _Recorded:
    def __init__(self, problem: Problem, values: dict[str, dict[str, Any]], memory: str) -> None:
        self.problem, self.values, self.memory = problem, values, memory
        self.calls = self.written = 0
        self.first = self.last = time.time()

    def count(self) -> None:
        """Count a call."""
        self.calls += 1
        self.last = time.time()

    def is_due(self) -> bool:
        """Whether it was called as often again as its lines say."""
        return self.calls > self.written and self.calls - self.written >= self.written

    def line(self, kernel: str, device: str | None, calls: int) -> bytes:
        """A line of a file with the calls up to ``calls`` that none has; empty for a call that no sweep can be made of,
        which is said."""
        new = calls - self.written
        if kernel.startswith("__main__:"):
            _log.warning("%s was called %d times; a sweep finds kernels of modules alone", kernel, new)
        first, last = (time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(t)) for t in (self.first, self.last))
        values = json.dumps(self.values) if self.values else ""
        try:
            return line_of(Miss(kernel, self.problem, device, REASON, new, first, last, values, self.memory))
        except (TileflowError, TypeError, ValueError) as error:
            _log.warning("%d calls of %s are not recorded: %s", new, kernel, error)
            return b""


recorders: list[Recorder] = []  # those that count now; every call asks whether there is one


@contextmanager
def record(path: str | os.PathLike[str]) -> Iterator[Recorder]:
    """Inside, count the calls of kernels in all threads; at the end write them to ``path``, a ``.jsonl`` file or a
    folder, which ``tileflow sweep run`` takes. Values of integers and booleans are written with them, all of a tensor
    of few; values of floats are not. Calls inside what torch.compile made are not seen.

    Workers that are forked inside write their own calls when they end. Raises SpecError, at the beginning where the
    path is known to take nothing. Of a block that raises, the calls are written as well, and what is wrong with them is
    logged.
    """
    recorder = Recorder(path)
    recorders.append(recorder)
    try:
        yield recorder
    except BaseException:
        recorders.remove(recorder)
        recorder.stop()
        _write_or_say(recorder)
        raise
    recorders.remove(recorder)
    recorder.stop()
    recorder.write()


def record_as_the_environment_says() -> None:
    """Record the whole process where ``TILEFLOW_RECORD`` names a path. Raises SpecError where that takes nothing."""
    path = os.environ.get(VARIABLE, "")
    if path:
        recorders.append(Recorder(path))


def _write_or_say(recorder: Recorder) -> None:
    try:
        recorder.write()
    except SpecError as error:
        _log.warning("calls are lost: %s", error)


def _write_at_end() -> None:
    for recorder in tuple(recorders):
        if recorder.calls:  # a worker that called nothing has no file
            _write_or_say(recorder)


def _after_fork() -> None:
    for recorder in recorders:
        recorder.after_fork()


at_end(_write_at_end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
