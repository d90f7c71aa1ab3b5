"""The processes of a search comparison, searches and re-timings, each with caches of its own, and their results."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..process_pool import Command, Ended, Slot
from ..suite.cells import Cell
from .retime import WANTED, configs_to_retime
from .searches import RESULT, TASK, TRACE, Search, collect, results, slug
from .series import at_checkpoints

# Seconds that a search needs at least beyond its tuner's limit: to start, to pick.
LEAST_BESIDES_S = 25.0


class Stage:
    """Makes the commands of searches and re-timings.

    Each has caches of its own in ``work``; its results are kept in ``out``. ``besides_s``: seconds that a search gets
    beyond its tuner's limit.
    """

    def __init__(self, out: Path, work: Path, besides_s: float) -> None:
        self._out = out
        self._work = work
        self._besides_s = besides_s
        self.retime_s = 0.0

    def search(self, search: Search, slot: Slot) -> Command[Search]:
        """Return the command of a search in a slot, with its task written to its folder."""
        folder, work = self._folder("searches", search.name), self._caches(search.name)
        write(folder / TASK, search.to_json())
        environment = caches(work)
        if search.rival == "helion":
            environment |= helion_environment(search, folder, work, len(slot.cores))
        module = f"tileflow_benchmarks.search_comparison.search_{search.rival}"
        words = (sys.executable, "-m", module, str(folder))
        limit_s, least_s = search.limit_s + self._besides_s, search.limit_s + LEAST_BESIDES_S
        return Command(search, words, environment, folder / "log.txt", limit_s, least_s)

    def searched(self, ended: Ended[Search]) -> None:
        """Keep the result of a search that has ended, and print a line about it."""
        search = ended.command.item
        folder = self._folder("searches", search.name)
        result = collect(folder, search, ended.started_at, ended.wall_s, ended.ending, ended.slot.name)
        write(folder / RESULT, result.to_json())
        if search.rival == "tileflow":  # the rival's binaries are used again when it is timed
            shutil.rmtree(self._work / search.name, ignore_errors=True)
        began = "never ready" if result.startup_s is None else f"ready after {result.startup_s:.1f} s"
        done = "picked nothing" if result.done_s is None else f"picked after {result.done_s:.1f} s"
        print(f"{search.name}: {began}, {done}, {len(result.series)} results; {ended.ending or 'ended'}", flush=True)

    def retime(self, cell: Cell, slot: Slot) -> Command[Cell]:
        """Return the command that times the incumbents of a cell's searches again, with their Triton caches linked."""
        folder, work = self._folder("retimed", slug(cell)), self._caches(f"retimed-{slug(cell)}")
        mine = [result for result in results(self._out) if result.search.cell == cell]
        wanted = configs_to_retime(mine, lambda result: at_checkpoints(result.series))
        write(
            folder / WANTED,
            {
                "kernel": cell.kernel,
                "problem": dict(cell.problem),
                "seconds": self.retime_s,
                "entrants": [asdict(candidate) for candidate in wanted],
            },
        )
        environment = caches(work)
        for result in mine:
            gather(Path(caches(self._work / result.search.name)["TRITON_CACHE_DIR"]), work / "triton")
        words = (sys.executable, "-m", "tileflow_benchmarks.search_comparison.retime", str(folder))
        return Command(
            cell, words, environment | {"HELION_CACHE_DIR": str(work / "helion")}, folder / "log.txt", self.retime_s
        )

    def retimed(self, ended: Ended[Cell]) -> None:
        """Print a line about a re-timing that has ended."""
        print(f"{ended.command.item.title}: timed again in {ended.wall_s:.1f} s; {ended.ending or 'ended'}", flush=True)

    def _folder(self, *parts: str) -> Path:
        folder = self._out.joinpath(*parts)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _caches(self, name: str) -> Path:
        folder = self._work / name
        folder.mkdir(exist_ok=True)
        return folder


def caches(work: Path) -> dict[str, str]:
    """Return the variables that put every cache which a search could find warm into an empty folder."""
    return {
        "TRITON_CACHE_DIR": str(work / "triton"),
        "TILEFLOW_CACHE": str(work / "tileflow"),
        "TORCHINDUCTOR_CACHE_DIR": str(work / "inductor"),
        "CUDA_CACHE_PATH": str(work / "cuda"),
    }


def gather(cache: Path, into: Path) -> None:
    """Link the entries of one Triton cache, which are named by their content, into another."""
    into.mkdir(parents=True, exist_ok=True)
    for entry in cache.iterdir() if cache.is_dir() else ():
        if not (into / entry.name).exists():
            (into / entry.name).symlink_to(entry)


def helion_environment(search: Search, folder: Path, work: Path, cores: int) -> dict[str, str]:
    """Return Helion's settings for ``search``. Its log goes to ``folder``, what it compiles to ``work`` and stays
    there.

    By default its tuner would have no limit and start a compiler on each core of the host.
    """
    return {
        "HELION_AUTOTUNE_RANDOM_SEED": str(search.seed),
        "HELION_AUTOTUNE_BUDGET_SECONDS": str(round(search.limit_s)),
        "HELION_AUTOTUNE_PRECOMPILE_JOBS": str(cores),
        "HELION_AUTOTUNE_LOG": str(folder / TRACE.removesuffix(".trace.jsonl")),
        "HELION_AUTOTUNE_LOG_DETAILS": "1",
        "HELION_AUTOTUNE_PROGRESS_BAR": "0",
        "HELION_CACHE_DIR": str(work / "helion"),
        "HELION_KEEP_CACHE": "1",
    }


def write(path: Path, data: Any) -> None:
    """Write JSON and a newline."""
    path.write_text(json.dumps(data) + "\n", encoding="utf-8")
