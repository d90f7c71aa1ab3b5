"""The watch over a child process that measures configs which may hang or crash it.

A protocol fault of a kernel is a deadlock. The child reports which config it is about to run and then its result, as a
line of JSON each. One that is silent for too long is killed; its config is recorded with ``bench_timeout``, or
``crashed`` where the child ended by itself, and another child continues with what is left.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Job = tuple[int, str]  # the number of a case, and the name of a config


# ---- in the child ----------------------------------------------------------------------------------------------------


def say_begins(what: str) -> None:
    """Report that something other than a config's run begins; the watch then waits for as long again."""
    _say({"begins": what})


def say_about(job: Job) -> None:
    """Report that the config is about to run: a fault from now on is attributed to it."""
    _say({"about": job})


def say_found(job: Job, found: Mapping[str, Any]) -> None:
    """Report the result of a job."""
    _say({"job": job, "found": found})


def _say(what: Mapping[str, Any]) -> None:
    print(json.dumps(what), flush=True)


# ---- in its parent ---------------------------------------------------------------------------------------------------


def measure_apart(
    command: Sequence[str],
    jobs: Sequence[Job],
    keep: Callable[[Job, Mapping[str, Any]], None],
    *,
    seconds: float,
    of_all: frozenset[str],
    most_faults: int | None = None,
) -> None:
    """Measure ``jobs`` in children started by ``command`` and a file with them; ``keep`` is called with each result.

    ``seconds``: the longest that a child may be silent. ``of_all``: names that stand for all configs of a case: a fault
    during one of them ends the case. After ``most_faults`` no further child is started, and the remaining jobs are kept
    as left out. Raises RuntimeError where a child ends before its first config, which no config explains.
    """
    left, faults = list(jobs), 0
    while left and (most_faults is None or faults < most_faults):
        about: Job | None = None
        with (
            tempfile.NamedTemporaryFile("w", suffix=".json") as file,  # an argument of thousands of jobs is too long
            subprocess.Popen([*command, _written(file, left)], stdout=subprocess.PIPE) as child,
        ):
            for said in _lines(child, seconds):
                if "about" in said:
                    about = _job(said["about"])
                elif "job" in said:
                    keep(_job(said["job"]), said["found"])
        if child.returncode == 0:
            return
        if about is None:
            raise RuntimeError("measuring ended before its first config: its own words stand above")
        keep(about, {"status": "bench_timeout" if child.returncode < 0 else "crashed"})
        faults += 1
        left = [job for job in left if job[0] > about[0] or (job[0] == about[0] and about[1] not in {job[1], *of_all})]
    for job in left:
        keep(job, {"status": "left out", "reason": f"after {faults} faults"})


def _written(file: Any, jobs: Sequence[Job]) -> str:
    json.dump(jobs, file)
    file.flush()
    return str(file.name)


def measuring(module: str) -> list[str]:
    """Return the command of the child that ``python -m module --measure FILE`` is."""
    return [sys.executable, "-m", module, "--measure"]


def jobs_of(file: str) -> list[Job]:
    """Read the jobs that a child was given."""
    return [_job(job) for job in json.loads(Path(file).read_text())]


def _job(pair: Sequence[Any]) -> Job:
    number, name = pair
    return number, name


def _lines(child: subprocess.Popen[bytes], seconds: float) -> Iterator[dict[str, Any]]:
    """Yield what a process reports, line by line; kill it where it is silent for ``seconds``."""
    assert child.stdout is not None
    pending = b""
    while True:
        ready, _, _ = select.select([child.stdout], [], [], seconds)
        if not ready:
            child.kill()
            return
        more = os.read(child.stdout.fileno(), 65536)
        if not more:
            return
        *lines, pending = (pending + more).split(b"\n")
        yield from (json.loads(line) for line in lines if line.startswith(b"{"))
