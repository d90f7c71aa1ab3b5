"""The comparison on the GPUs at hand, and its report: ``python -m tileflow_benchmarks.search_comparison run|report``.

Run from the folder that the kernels are imported from, with ``helion`` on PYTHONPATH.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

from ..process_pool import Command, Commands, Ended, ProcessPool, Slot, gpu_slots
from . import report
from .searches import DEFAULT_CELLS, RIVALS, Rival, cells, plan
from .stage import Stage, write

# Seconds that a search needs beyond its tuner's limit: to start, to finish what is in flight, to pick.
BESIDES_S = 75.0
T = TypeVar("T")


def main() -> int:
    """Run the command. Exit code 2 without a GPU, 1 where a search or a re-timing failed."""
    options = _options()
    if options.command == "run" and not _run(options):
        print("a search comparison needs a GPU that torch sees", file=sys.stderr)
        return 2
    for path in report.write(options.out):
        print(path)
    print((options.out / "duel.md").read_text(encoding="utf-8"))
    return int(any(run.result.ending for comparison in report.comparisons(options.out) for run in comparison.runs))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tileflow_benchmarks.search_comparison", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    again = commands.add_parser("report", help="write the report of a comparison's folder again")
    run = commands.add_parser("run", help="search, time the incumbents again, report")
    for command in (run, again):
        command.add_argument(
            "--out", type=lambda text: Path(text).absolute(), required=True, help="the comparison's folder"
        )
    run.add_argument("--cells", default=";".join(DEFAULT_CELLS), help="beginnings of the suite's titles, parted by ';'")
    run.add_argument("--rivals", default=",".join(RIVALS))
    run.add_argument("--seeds", type=int, default=3)
    run.add_argument("--limit", type=float, default=60.0, help="seconds that a tuner is given")
    run.add_argument("--limits", default="", help="the same for cells of their own: 'TITLE=SECONDS;...'")
    run.add_argument("--besides", type=float, default=BESIDES_S, help="seconds beyond the limit before it is ended")
    run.add_argument("--seconds", type=float, default=1800.0, help="for everything; what does not fit is not started")
    run.add_argument("--retime", type=float, default=110.0, help="of them, for timing the incumbents again")
    run.add_argument("--cores", type=int, default=16, help="of each search")
    return parser.parse_args()


def _run(options: argparse.Namespace) -> bool:
    """Search, time again, and keep everything in the folder. Returns False without a GPU."""
    begun = time.monotonic()
    from tileflow_cluster.devices import visible_gpus

    gpus = visible_gpus()
    if not gpus:
        return False
    named = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    places = named.split(",") if named else [str(i) for i in range(len(gpus))]
    slots = gpu_slots(places, sorted(os.sched_getaffinity(0)), options.cores)
    wanted = cells(title for title in options.cells.split(";") if title)
    limits = {title: float(s) for title, _, s in (item.rpartition("=") for item in options.limits.split(";") if item)}
    searches = plan(wanted, _rivals(options.rivals), options.seeds, limits, options.limit)
    options.out.mkdir(parents=True, exist_ok=True)
    write(options.out / report.HEADER, _header(gpus[0].name, len(slots), options.cores))
    with tempfile.TemporaryDirectory(prefix="search-comparison", ignore_cleanup_errors=True) as work:
        stage = Stage(options.out, Path(work), options.besides)
        until = begun + options.seconds - options.retime
        left = _run_all(searches, slots, stage.search, stage.searched, until)
        write(options.out / report.UNSTARTED, [search.name for search in left])
        stage.retime_s = begun + options.seconds - time.monotonic()
        if len(wanted) > len(slots):
            stage.retime_s /= -(-len(wanted) // len(slots))
        until = begun + options.seconds + 1.0
        late = _run_all(wanted, slots, stage.retime, stage.retimed, until)
        for cell in late:
            print(f"{cell.title}: no time was left to time again", flush=True)
    return True


def _run_all(
    jobs: Sequence[T],
    slots: Sequence[Slot],
    prepare: Callable[[T, Slot], Command[T]],
    finish: Callable[[Ended[T]], None],
    until: float,
) -> list[T]:
    """Run the commands of ``jobs`` in order, one at a time in each slot. Returns those that were not started."""
    pool: ProcessPool[T, Ended[T]] = ProcessPool(slots, Commands(prepare, until))
    with closing(pool.run(jobs)) as ended:
        for one in ended:
            finish(one)
    return pool.left


def _rivals(text: str) -> Sequence[Rival]:
    return [rival for rival in RIVALS if rival in text.split(",")]


def _header(device: str, count: int, cores: int) -> dict[str, Any]:
    installed = {d.metadata["Name"].lower(): d.version for d in importlib.metadata.distributions()}
    named = [name for name in ("torch", "triton", "helion", "ray") if name in installed]
    return {
        "command": "python -m tileflow_benchmarks.search_comparison " + shlex.join(sys.argv[1:]),
        "date": datetime.date.today().isoformat(),
        "device": device,
        "cores": cores,
        "streams": count,
        "versions": ", ".join(f"{name} {installed[name]}" for name in named),
    }


if __name__ == "__main__":
    sys.exit(main())
