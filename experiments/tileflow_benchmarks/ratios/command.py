"""The command of a comparison of schedules: builds all configs ahead, has a child measure them, writes a row each."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.pool import AsyncResult
from pathlib import Path
from typing import Any, Protocol

import torch

from tileflow.api import Kernel
from tileflow.build.compile import build
from tileflow.config import Config
from tileflow.errors import TileflowError
from tileflow.lowered import Lowered
from tileflow.measure.device import identity
from tileflow.target import Target, target

from .watched import Job, jobs_of, measure_apart, measuring, say_begins

DRY_DEVICE = "nvidia-h200"
MOST_FAULTS = 3
BUILD_SECONDS = 180.0
_START_SECONDS = 60.0  # of a worker, whose first job imports torch and Triton
Built = Callable[[int, str, str], dict[str, Any]]  # a case's number, a config's name, a device class -> a row


class NamedCase(Protocol):
    """A case with a name."""

    @property
    def name(self) -> str:
        """The case's name, which ``--only`` selects by."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A command's parts.

    ``module``: whose command it is. ``configs``: the names of a case's configs on a device. ``built``: what a config's
    binaries take, by the number of its case, its name and the device class; pickled. ``measure``: run in the child.
    ``of_all``: see :func:`.watched.measure_apart`. ``result``: the file with the rows. ``is_right``: whether a row is.
    ``at_once``: the cases that one child measures, while those after them are built; all of them by None.
    ``build_seconds``: the longest that a build may take.
    """

    module: str
    description: str | None
    cases: Sequence[NamedCase]
    configs: Callable[[int, Target], Iterable[str]]
    built: Built
    measure: Callable[[list[Job]], None]
    of_all: frozenset[str]
    result: str
    seconds: float
    is_right: Callable[[Mapping[str, Any]], bool]
    at_once: int | None = None
    build_seconds: float = BUILD_SECONDS

    def main(self) -> int:
        """Run the command. Exit code 1 where a row is not right."""
        options = self._options()
        if options.measure:
            self.measure(jobs_of(options.measure))
            return 0
        device, numbers = device_of(options.dry_run), chosen(self.cases, options.only)[options.share]
        rows = _Rows(options.out / self.result, {n: self.cases[n].name for n in numbers})
        at_once, command = self.at_once or max(len(numbers), 1), measuring(self.module)
        jobs = ((n, name) for n in numbers for name in self.configs(n, device))
        with rows, building(self.built, jobs, device.name, self.build_seconds) as builds:
            for some in (numbers[first : first + at_once] for first in range(0, len(numbers), at_once)):
                built = dict(builds.take(some))
                for job, what in built.items():
                    rows.keep(job, what)
                able = [job for job, what in built.items() if what["status"] == "built"]
                if able and not options.dry_run:
                    measure_apart(
                        command, able, rows.keep, seconds=options.seconds, of_all=self.of_all, most_faults=MOST_FAULTS
                    )
        return int(not all(self.is_right(row) for row in rows.found.values()))

    def _options(self) -> argparse.Namespace:
        parser = argparse.ArgumentParser(
            description=self.description, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        parser.add_argument("--out", type=Path, help=f"folder for {self.result}")
        parser.add_argument("--only", default="", help="cases whose name holds one of these words, by semicolons")
        parser.add_argument("--seconds", type=float, default=self.seconds, help="the longest that a config may take")
        parser.add_argument(
            "--share", type=share, default="0/1", help="of so many processes, this one's cases: 1/4 for the second of 4"
        )
        parser.add_argument("--dry-run", action="store_true", help=f"build for {DRY_DEVICE}; needs no GPU")
        parser.add_argument("--measure", help=argparse.SUPPRESS)
        options = parser.parse_args()
        if options.out is None and not options.measure:
            parser.error("--out is needed")
        return options


class _Rows:
    """The rows of a comparison, which a file has too: it is written every second, and in the end."""

    def __init__(self, file: Path, names: Mapping[int, str]) -> None:
        self.found: dict[Job, dict[str, Any]] = {}
        self._file, self._names, self._written = file, names, 0.0
        file.parent.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> _Rows:
        return self

    def __exit__(self, *raised: object) -> None:
        self._write()

    def keep(self, job: Job, what: Mapping[str, Any]) -> None:
        """Add what became known of a job to its row."""
        row = self.found.setdefault(job, {"case": self._names[job[0]], "config": job[1], "status": "ok"})
        row.update(what)
        print(json.dumps(row), flush=True)
        if time.monotonic() - self._written > 1.0:
            self._write()

    def _write(self) -> None:
        self._file.write_text(json.dumps([self.found[job] for job in sorted(self.found)], indent=1))
        self._written = time.monotonic()


class KernelCase(NamedCase, Protocol):
    """A case of one kernel's call."""

    @property
    def loaded(self) -> Kernel:
        """The kernel, imported."""

    def args(self, device: str) -> tuple[Any, ...]:
        """The call's arguments on ``device``."""


@dataclass(frozen=True, slots=True)
class DefaultsBeside:
    """The parts of a command that times the default configs of calls beside torch's, case after case in one process.

    ``configs``: of a call, by name, the default among them. ``built``, ``result``: as :class:`Comparison` has them.
    ``measured``: a case's row on a device class. ``say``: prints what the rows come to.
    """

    description: str | None
    cases: Sequence[KernelCase]
    configs: Callable[[Lowered], Iterable[str]]
    built: Built
    measured: Callable[[Any, str], dict[str, Any]]
    result: str
    say: Callable[[list[dict[str, Any]]], None]

    def main(self) -> int:
        """Run the command. Exit code 1 where a result was wrong."""
        parser = argparse.ArgumentParser(
            description=self.description, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        parser.add_argument("--out", type=Path, required=True, help=f"folder for {self.result}")
        parser.add_argument("--only", default="", help="cases whose name holds one of these words, by semicolons")
        parser.add_argument("--dry-run", action="store_true", help="builds only; needs no GPU")
        options = parser.parse_args()
        device = device_of(options.dry_run)
        numbers = chosen(self.cases, options.only)
        jobs = [(n, name) for n in numbers for name in self.configs(_lowered(self.cases[n], device))]
        rows = list(build_ahead(self.built, jobs, device.name).values())
        if not options.dry_run:
            rows = []
            for case in (self.cases[n] for n in numbers):
                rows.append(self.measured(case, device.name))
                print(case.name, {k: v for k, v in rows[-1].items() if k not in ("case", "config")}, flush=True)
            self.say([row for row in rows if row["status"] == "ok"])
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / self.result).write_text(json.dumps({"device": device.name, "rows": rows}, indent=1))
        return int(any(row["status"] not in ("ok", "built") for row in rows))


def _lowered(case: KernelCase, device: Target) -> Lowered:
    return case.loaded.lower(case.args("meta"), device)


def device_of(is_dry: bool) -> Target:
    """Return the device class of this machine's GPU, or the one that a dry run builds for."""
    return target(DRY_DEVICE) if is_dry else target(identity().device_class)


def share(text: str) -> slice:
    """Parse ``1/4``, the second of four processes, as the slice of all cases that is its own."""
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if found is None or not int(found[1]) < int(found[2]):
        raise argparse.ArgumentTypeError(f"a share is I/N, from 0/N to N-1/N, not {text!r}")
    return slice(int(found[1]), None, int(found[2]))


def chosen(cases: Sequence[NamedCase], only: str) -> list[int]:
    """Return the numbers of the cases whose name holds one of the words in ``only``, separated by semicolons; all
    for none. Raises SystemExit where a word is in no name."""
    return named([case.name for case in cases], only)


def named(names: Sequence[str], only: str) -> list[int]:
    """Return the places of the names that hold one of the words in ``only``, as :func:`chosen` does."""
    words = [word for word in only.split(";") if word]
    if missing := [word for word in words if not any(word in name for name in names)]:
        raise SystemExit(
            f"--only takes words that names of cases hold, separated by semicolons, but got {'; '.join(missing)}\n"
            f"  names are as {', '.join(names[:4])}; there are {len(names)}"
        )
    return [n for n, name in enumerate(names) if not words or any(word in name for word in words)]


def build_row(case: str, config: str, device: str, lower: Callable[[], tuple[Lowered, Config]]) -> dict[str, Any]:
    """Lower and build a config. Returns what the binaries of its launches take of the device, or how it failed."""
    start, found = time.monotonic(), {"case": case, "config": config, "device": device}
    try:
        lowered, chosen = lower()
        taken = [build(source, lowered.target).resources for source in lowered.emit(chosen)]
    except TileflowError as error:
        return found | {"status": type(error).__name__, "reason": str(error)}
    return found | {
        "status": "built",
        "registers": [t.registers for t in taken],
        "spills": [t.spills for t in taken],
        "shared": [t.shared for t in taken],
        "seconds": round(time.monotonic() - start, 1),
    }


def measure_each(
    jobs: Sequence[Job], cases: Sequence[NamedCase], measure_case: Callable[[int, list[str], Target], None]
) -> None:
    """Measure the configs of one case after the other on this machine's GPU, of which each gives its memory back."""
    say_begins("device")
    device = device_of(is_dry=False)
    for number in dict.fromkeys(n for n, _ in jobs):
        say_begins(cases[number].name)
        measure_case(number, [name for n, name in jobs if n == number], device)
        torch.cuda.empty_cache()


class _Builds:
    """Builds that are under way, in the order in which their workers take them."""

    def __init__(self, under_way: Mapping[Job, AsyncResult[dict[str, Any]]], seconds: float) -> None:
        self._under_way, self._seconds = under_way, seconds

    def take(self, cases: Iterable[int] | None = None) -> Iterator[tuple[Job, dict[str, Any]]]:
        """Yield the jobs of some cases, or all, with their results, once they are there. A build that takes longer than
        it may has the status ``build_timeout``."""
        wanted = None if cases is None else frozenset(cases)
        for job, one in self._under_way.items():
            if wanted is None or job[0] in wanted:
                try:  # all before it have ended, so that a worker has it
                    yield job, one.get(self._seconds + _START_SECONDS)
                except multiprocessing.TimeoutError:
                    yield (
                        job,
                        {"config": job[1], "status": "build_timeout", "reason": f"no build after {self._seconds:g} s"},
                    )


@contextmanager
def building(
    built: Built, jobs: Iterable[Job], device: str, seconds: float = BUILD_SECONDS, workers: int | None = None
) -> Iterator[_Builds]:
    """Run ``built`` for each job in several processes, which leave the binaries in Triton's cache; they begin while
    ``jobs`` still yields others. A build that takes longer than ``seconds`` costs a worker, which another one replaces.
    ``workers``: how many processes; by None all cores but one, which measures.
    """
    context = multiprocessing.get_context("spawn")
    count = workers or max((os.cpu_count() or 1) - 1, 1)
    with context.Pool(count) as pool:  # an executor would break with its first worker
        yield _Builds({job: pool.apply_async(_limited, (built, *job, device, seconds)) for job in jobs}, seconds)


def _limited(built: Built, number: int, name: str, device: str, seconds: float) -> dict[str, Any]:
    """Run ``built``; end the process by SIGALRM, as the compiler's own code allows no other end, after ``seconds``."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return built(number, name, device)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def build_ahead(built: Built, jobs: Sequence[Job], device: str) -> dict[Job, dict[str, Any]]:
    """Run ``built`` for each job in several processes (:func:`building`), and wait for all. Returns its results."""
    found: dict[Job, dict[str, Any]] = {}
    with building(built, jobs, device) as builds:
        for job, row in builds.take():
            found[job] = row
            print(json.dumps(row), flush=True)
    return found
