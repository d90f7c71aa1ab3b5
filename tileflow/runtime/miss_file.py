"""The record of misses on disk, as JSON lines that several processes append to and a sweep can be made of.

A line is one object:

    {"format": 1, "kernel": "module:qualname", "problem": Problem.to_json(), "device": "nvidia-h200" or null,
     "reason": "...", "calls": 3, "first": "2026-11-22T09:30:00Z", "last": "2026-11-22T09:31:07Z"}

A line of recorded calls (:mod:`.recording`) has the reason ``recorded``, and may have ``values``: what is kept of its
integers and booleans. A line of a call whose arguments share memory has ``memory``: for each piece of memory the
parameters, each with the bytes at which it begins. ``calls`` is how many came since this process's line before for the
same problem. A problem's calls are thus the sum over its lines, whoever wrote them: files can be concatenated, cut and
rotated. ``first`` and ``last`` are when the process saw the problem first and last, in UTC.

A problem gets a line when it is new, whenever its count has doubled, and at the end: a process that is killed loses at
most the later half of a count, and a file grows with the problems, not with the calls. One daemon thread writes. A call
that misses sets an event; nothing of a disk that is slow, full or gone reaches it.
"""

from __future__ import annotations

import json
import logging
import os
import re
import stat
import threading
import time
from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from pathlib import Path
from typing import Self

from ..errors import SpecError, TableError, TileflowError
from . import miss_record as misses
from .arguments import all_of
from .at_end import at_end
from .files import is_folder, names_in, require_here
from .metrics import register_counter
from .miss_record import MAX_MISSES, Miss, Missed
from .problem import Problem

FORMAT = 1
MAX_BYTES = 256 << 20  # that one process appends; a million problems
_GATHER_S = 1.0  # after a miss, so that a burst is one opening of the file
_LOOK_S = 60.0  # for warm calls, which tell nobody
_PATIENCE_S = 5.0  # at exit, with a disk that does not answer

_FIELDS: dict[str, tuple[type, ...]] = {
    "kernel": (str,),
    "problem": (dict,),
    "device": (str, type(None)),
    "reason": (str,),
    "calls": (int,),
    "first": (str,),
    "last": (str,),
}
_OPTIONAL = {"values": dict, "memory": list}
_PLACEHOLDERS = ("pid", "host", "rank")
_BRACED = re.compile(r"\{([^{}/]*)\}")
_HINT = "the file is something else, or was written by a newer tileflow"

_log = logging.getLogger("tileflow.runtime")


class _Totals:
    """What all recorders of this process did, for the scraper."""

    lines = 0
    errors = 0
    dropped = 0


class _Recorder:
    """Appends to one path, in a thread of its own that starts with the first miss."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._bytes = 0
        self._said: set[str] = set()
        self._reset()

    def _reset(self) -> None:
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._writing = threading.Lock()
        self._missed = threading.Event()
        self._stopped = threading.Event()
        self._left: deque[Missed] = deque()  # forgotten by the record, not yet written

    after_fork = _reset  # threads and held locks stay behind, and what is left is the parent's to write

    def missed(self) -> None:
        self._missed.set()
        if self._thread is None:
            self._start()

    def forgotten(self, record: Missed) -> None:
        if len(self._left) < MAX_MISSES:
            self._left.append(record)
        else:
            _Totals.dropped += 1

    def stop(self) -> None:
        """Write what is left, unless the disk does not answer in a while."""
        self._stopped.set()
        self._missed.set()
        if self._thread is not None:
            self._thread.join(_PATIENCE_S)
        self.write(final=True)

    def write(self, final: bool = False) -> None:
        """Append a line for every problem that is due one; ``final``: that has any call which is not in the file."""
        if not self._writing.acquire(timeout=_PATIENCE_S):
            self._fail("disk", "the disk does not answer")
            return
        try:
            due = [record for record in _in_stretches(misses.records()) if _is_due(record, final)]
            if due or self._left:
                self._append(due)
        except (OSError, TileflowError) as error:
            self._fail("disk", f"{type(error).__name__}: {error}")
        finally:
            self._writing.release()

    def _append(self, due: list[Missed]) -> None:
        with Appended(resolve(self._path)) as file:
            for record in due:
                self._line(file, record)
            while self._left:
                self._line(file, self._left[0])
                self._left.popleft()

    def _line(self, file: Appended, record: Missed) -> None:
        calls = record.calls
        if calls == record.written:
            return
        try:
            data = line_of(misses.snapshot(record, calls - record.written, time.time()))
        except (TileflowError, TypeError, ValueError) as error:
            self._give_up(record, calls, "line", f"a problem of {record.kernel} cannot be written: {error}")
            return
        if self._bytes + len(data) > MAX_BYTES:
            self._give_up(record, calls, "full", f"{MAX_BYTES} bytes are written: further misses are only counted")
            return
        file.line(data)
        self._bytes += len(data)
        record.written = calls
        _Totals.lines += 1

    def _start(self) -> None:
        with self._starting:
            if self._thread is not None or self._stopped.is_set():
                return
            thread = threading.Thread(target=self._run, name="tileflow-misses", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # no more threads, or the interpreter is ending: the next miss tries again
                self._fail("thread", f"no thread to write with: {error}")
            else:
                self._thread = thread

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._missed.wait(_LOOK_S)
            self._stopped.wait(_GATHER_S)
            self._missed.clear()
            self.write()

    def _fail(self, kind: str, what: str) -> None:
        _Totals.errors += 1
        self._say(kind, what)

    def _give_up(self, record: Missed, calls: int, kind: str, what: str) -> None:
        _Totals.dropped += 1
        record.written = calls
        self._say(kind, what)

    def _say(self, kind: str, what: str) -> None:
        if kind not in self._said:
            self._said.add(kind)
            _log.warning("misses are not recorded in %s | %s | said once", self._path, what)


_recorder: _Recorder | None = None
_exchange = threading.Lock()


def record_misses(path: str | os.PathLike[str] | None) -> None:
    """Append this process's misses to ``path`` from now on, those that it counted before as well; None: no longer.

    ``path``: a file, in which ``{pid}``, ``{rank}`` (the environment's RANK) and ``{host}`` are replaced, or a folder,
    which gets a file a process. Several processes can append to one file, unless it is on NFS. Raises SpecError where
    the path cannot be opened now. What fails later is logged once, counted in the metrics, and tried again.
    """
    global _recorder
    recorder = None
    if path is not None:
        place = place_of("misses", path)
        recorder = _Recorder(place)
        try:
            Appended(resolve(place)).close()
        except OSError as error:
            raise unusable("misses", resolve(place), error) from error
    with _exchange:
        before, _recorder = _recorder, recorder
        misses.listen(recorder)
        if before is not None:
            before.stop()
    if recorder is not None and misses.records():
        recorder.missed()


def read_misses(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> tuple[Miss, ...]:
    """The misses of several files, or of all ``*.jsonl`` in folders, one for each kernel, problem, device, reason
    and way in which arguments share memory.

    The most often called come first. A line that is no JSON was cut off by a full disk or a killed process: it is
    skipped, and logged. Raises TableError, naming the file and line, for JSON that is no miss.
    """
    merged: dict[tuple[Hashable, ...], Miss] = {}
    given = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    for file in _files(all_of(given, (str, os.PathLike), "paths", "a file that record_misses wrote, or its folder")):
        with open(file, "rb") as lines:
            for number, line in enumerate(lines, 1):
                found = _parse(line, f"{file}:{number}")
                if found is not None:
                    known = merged.get(found.key)
                    merged[found.key] = found if known is None else _sum(known, found)
    return tuple(sorted(merged.values(), key=lambda m: -m.calls))


def line_of(found: Miss) -> bytes:
    """A miss as a line of a file. Raises TableError and ValueError where it is none that can be read."""
    fields = {"format": FORMAT, **found._asdict(), "problem": found.problem.to_json()}
    for name in _OPTIONAL:
        text = fields.pop(name)
        if text:
            fields[name] = json.loads(text)
    line = json.dumps(fields, separators=(",", ":"), allow_nan=False).encode() + b"\n"
    _parse(line, found.kernel)
    return line


def place_of(what: str, path: object) -> str:
    """``path`` as a whole one: the program may go to another folder. Raises SpecError for what is none: the empty text,
    which would be the folder that the program is in, and a text that no file can be named by; and for something in
    braces that :func:`resolve` does not replace, since all processes would write to one file of that name."""
    text = os.fsdecode(path) if isinstance(path, (str, bytes, os.PathLike)) else ""
    if not text or "\0" in text:
        raise SpecError(
            f"the place of {what} must be a path",
            got=repr(path),
            hint="name a folder that exists, or a .jsonl file in one",
        )
    unknown = [name for name in _BRACED.findall(text) if name not in _PLACEHOLDERS]
    if unknown:
        raise SpecError(
            f"what the place of {what} has in braces must be known of a process",
            got=", ".join(f"{{{name}}}" for name in unknown),
            where=text,
            hint="{pid}, {host} and {rank} are; a folder gets a file a process by itself",
        )
    require_here(text, f"the place of {what}")
    return os.path.join("" if os.path.isabs(text) else os.getcwd(), text)


def resolve(path: str) -> str:
    """The file that this process appends to. Raises SpecError where a rank is asked for and not known."""
    if path.endswith(os.sep) or os.path.isdir(path):
        path = os.path.join(path, "misses-{host}-{pid}.jsonl")
    if "{rank}" in path:
        rank = os.environ.get("RANK", "")
        if not rank.isdecimal():
            raise SpecError(
                "a path with {rank} needs the environment's RANK",
                got=rank or "none",
                where=path,
                hint="torchrun sets it; {pid} and {host} are always known",
            )
        path = path.replace("{rank}", rank)
    if "{host}" in path:
        import socket

        path = path.replace("{host}", socket.gethostname())
    return path.replace("{pid}", str(os.getpid()))


def unusable(what: str, file: str, error: OSError) -> SpecError:
    """The error of a file that cannot be appended to."""
    return SpecError(
        f"the file of {what} must be one that can be appended to",
        got=str(error),
        where=file,
        hint="name a folder that exists, or a .jsonl file in one",
    )


class Appended:
    """A file of lines, open for more beside those of other processes. Raises OSError; a pipe without a reader does not
    block."""

    def __init__(self, file: str) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0)
        self._descriptor = os.open(file, flags, 0o666)
        try:
            status = os.fstat(self._descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(f"{file} is no regular file")
            self._is_torn = status.st_size > 0 and _last_byte(file) != b"\n"
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close it."""
        os.close(self._descriptor)

    def line(self, data: bytes) -> None:
        """Append a line by one write, at once and whole. Raises OSError where it is not; the next line ends it then."""
        data = b"\n" + data if self._is_torn else data
        written = os.write(self._descriptor, data)
        self._is_torn = written < len(data)
        if self._is_torn:
            raise OSError(f"{written} of a line's {len(data)} bytes were written")


def _last_byte(file: str) -> bytes:
    """None of a file that may be written and not read."""
    try:
        with open(file, "rb") as lines:
            lines.seek(-1, os.SEEK_END)
            return lines.read(1)
    except PermissionError:
        return b"\n"


def _in_stretches(records: Iterable[Missed]) -> Iterator[Missed]:
    """Let other threads run every now and then: nothing else in a look over the records would."""
    for i, record in enumerate(records):
        if i % 256 == 255:
            time.sleep(0.0005)
        yield record


def _is_due(record: Missed, final: bool) -> bool:
    new = record.calls - record.written
    return new > 0 and (final or new >= record.written)


def _files(paths: Iterable[str | os.PathLike[str]]) -> Iterable[Path]:
    for path in map(Path, paths):
        if is_folder(path, "a folder of misses"):
            files = [path / name for name in names_in(path, "a folder of misses") if name.endswith(".jsonl")]
            yield from (file for file in files if file.is_file())
        elif path.is_file():
            yield path
        else:
            raise TableError("misses are read from files and folders", got=str(path), hint="record_misses writes them")


def _parse(line: bytes, where: str) -> Miss | None:
    try:
        data = json.loads(line) if line.strip() else None
    except (ValueError, RecursionError) as error:
        _log.warning("%s is skipped: %s", where, error)
        return None
    if data is None:
        return None
    version = data.pop("format", None) if isinstance(data, dict) else None
    if version != FORMAT:
        raise TableError(f"a line of misses must be of format {FORMAT}", got=repr(version), where=where, hint=_HINT)
    further = {name: data.pop(name, kind()) for name, kind in _OPTIONAL.items()}
    wrong = [name for name, kinds in _FIELDS.items() if type(data.get(name)) not in kinds]
    wrong += [name for name, kind in _OPTIONAL.items() if type(further[name]) is not kind]
    wrong += ["memory"] if not all(isinstance(group, dict) for group in further["memory"]) else []
    if wrong or len(data) != len(_FIELDS) or data["calls"] < 1:
        raise TableError(
            f"a line of misses must have {', '.join(_FIELDS)}, of their types, and a call",
            got=f"{line[:200]!r}",
            where=where,
            hint=_HINT,
        )
    try:
        problem = Problem.from_json(data["problem"])
    except TableError as error:
        raise TableError(error.constraint, got=error.got, where=f"{where}: {error.where}", hint=_HINT) from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TableError(
            "a line of misses must hold a problem", got=f"{line[:200]!r}", where=where, hint=_HINT
        ) from error
    texts = {name: json.dumps(value) if value else "" for name, value in further.items()}
    return Miss(**(data | texts | {"problem": problem}))


def _sum(one: Miss, other: Miss) -> Miss:
    return Miss(
        one.kernel,
        one.problem,
        one.device,
        one.reason,
        one.calls + other.calls,
        min(one.first, other.first),
        max(one.last, other.last),
        one.values or other.values,
        one.memory,
    )


def _stop_at_end() -> None:
    if _recorder is not None:
        _recorder.stop()


def _after_fork() -> None:
    global _exchange
    _exchange = threading.Lock()
    if _recorder is not None:
        _recorder.after_fork()


at_end(_stop_at_end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

register_counter("tileflow_miss_lines", "Lines appended to files of misses.", lambda: _Totals.lines)
register_counter("tileflow_miss_file_errors", "Failed attempts to append misses.", lambda: _Totals.errors)
register_counter(
    "tileflow_dropped_miss_lines", "Lines given up: the file or its queue was full.", lambda: _Totals.dropped
)
