"""The command of a comparison of schedules: builds all configs ahead, has a child measure them, writes a row each."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
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
    """

    module: str
    description: str | None
    cases: Sequence[NamedCase]
    configs: Callable[[int, Target], Iterable[str]]
    built: Callable[[int, str, str], dict[str, Any]]
    measure: Callable[[list[Job]], None]
    of_all: frozenset[str]
    result: str
    seconds: float
    is_right: Callable[[Mapping[str, Any]], bool]

    def main(self) -> int:
        """Run the command. Exit code 1 where a row is not right."""
        options = self._options()
        if options.measure:
            self.measure(jobs_of(options.measure))
            return 0
        device = device_of(options.dry_run)
        jobs = [(n, name) for n in chosen(self.cases, options.only) for name in self.configs(n, device)]
        found = build_ahead(self.built, jobs, device.name)
        options.out.mkdir(parents=True, exist_ok=True)

        def keep(job: Job, what: Mapping[str, Any]) -> None:
            entry = found.setdefault(job, {"case": self.cases[job[0]].name, "config": job[1], "status": "ok"})
            entry.update(what)
            print(json.dumps(entry), flush=True)
            write()

        def write() -> None:
            rows = [found[key] for key in sorted(found)]
            (options.out / self.result).write_text(json.dumps(rows, indent=1))

        write()
        if not options.dry_run:
            able = [job for job in jobs if found[job]["status"] == "built"]
            command = measuring(self.module)
            measure_apart(command, able, keep, seconds=options.seconds, of_all=self.of_all, most_faults=MOST_FAULTS)
        return int(not all(self.is_right(row) for row in found.values()))

    def _options(self) -> argparse.Namespace:
        parser = argparse.ArgumentParser(
            description=self.description, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        parser.add_argument("--out", type=Path, help=f"folder for {self.result}")
        parser.add_argument("--only", default="", help="cases whose name holds one of these words, by semicolons")
        parser.add_argument("--seconds", type=float, default=self.seconds, help="the longest that a config may take")
        parser.add_argument("--dry-run", action="store_true", help=f"build for {DRY_DEVICE}; needs no GPU")
        parser.add_argument("--measure", help=argparse.SUPPRESS)
        options = parser.parse_args()
        if options.out is None and not options.measure:
            parser.error("--out is needed")
        return options


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
    built: Callable[[int, str, str], dict[str, Any]]
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


def chosen(cases: Sequence[NamedCase], only: str) -> list[int]:
    """Return the numbers of the cases whose name holds one of the words in ``only``, separated by semicolons; all
    for none."""
    words = [word for word in only.split(";") if word]
    return [n for n, case in enumerate(cases) if not words or any(word in case.name for word in words)]


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


def build_ahead(
    built: Callable[[int, str, str], dict[str, Any]], jobs: Sequence[Job], device: str
) -> dict[Job, dict[str, Any]]:
    """Run ``built`` for each job in several processes, which leave the binaries in Triton's cache. Returns its
    results."""
    found: dict[Job, dict[str, Any]] = {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max(min((os.cpu_count() or 1) - 1, len(jobs)), 1), mp_context=context) as pool:
        under_way = {pool.submit(built, number, name, device): (number, name) for number, name in jobs}
        for done in as_completed(under_way):
            found[under_way[done]] = done.result()
            print(json.dumps(done.result()), flush=True)
    return found
