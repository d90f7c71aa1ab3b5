"""The commands: run the suite, let peers search, read binaries, write the report again."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tileflow.build.compile import toolchain

from ..process_pool import ProcessPool, Slot, Workers, even_slots
from . import binaries, helion_peer, host, slot_work
from . import misses as missed
from .cells import SUITE, Cell, in_turn
from .report import into, to_markdown
from .results import OURS, CellResult, SuiteRun, Tuned, run_from
from .slot_work import CellJob, Host, HostCalls, Settings, read_configs

MARGIN_S = 8.0  # for the last report, with its plots


def run(options: argparse.Namespace) -> int:
    """Check and time the chosen cells, and write the report. Returns the exit code."""
    began = time.monotonic()
    slots = _slots(options)
    if not slots:
        return _no_gpu()
    asked = [name for name in options.peers.split(",") if name]
    there = host.importable(asked)
    if "helion" in there and options.peer_configs is None:
        print("no --peer-configs: Helion's cells are not timed", file=sys.stderr)
    settings = Settings(
        _absolute(options.tables),
        there,
        _absolute(options.peer_configs),
        0.0 if options.no_compile else options.compile_seconds,
        is_dry=options.dry_run,
    )
    header = {**host.header(options.told, there), "absent": sorted(set(asked) - set(there)), "is_dry": options.dry_run}
    workers: Workers[CellJob | HostCalls, CellResult | Host]
    workers = Workers(slot_work.measuring, settings, slot_work.lost, options.cell_seconds)
    pool: ProcessPool[CellJob | HostCalls, CellResult | Host]
    pool = ProcessPool(slots, workers, began + options.seconds - MARGIN_S)
    cells = _chosen(options)
    results: list[CellResult] = []
    dispatch: Mapping[str, Mapping[str, float | str]] = {}
    options.out.mkdir(parents=True, exist_ok=True)
    with closing(pool.run([HostCalls(), *map(CellJob, cells)])) as arriving:
        for found in arriving:
            if isinstance(found, Host):
                dispatch = found.table
            else:
                results.append(found)
                _say(found)
            _write_json(options.out, SuiteRun(header, results, (), dispatch))  # keep the results if a later cell fails
    unmeasured = [job.cell for job in pool.left if isinstance(job, CellJob)]
    results.sort(key=lambda r: SUITE.index(r.cell))
    done = SuiteRun(header, results, unmeasured, dispatch)
    _write_json(options.out, done)
    _write_page(done, options.out, options.docs, options.peer_configs)
    return int(bool(unmeasured) or any(r.timings[OURS].error for r in results))


def tune_peers(options: argparse.Namespace) -> int:
    """Let Helion search for every chosen cell, writing what it finds after each. Returns the exit code."""
    if not helion_peer.available():
        print("helion is not importable here", file=sys.stderr)
        return 2
    began = time.monotonic()
    slots = _slots(options)
    if not slots:
        return _no_gpu()
    wanted = [name for name in options.kernels.split(",") if name]
    cells = [c for c in _chosen(options) if not wanted or c.name in wanted]
    settings = Settings(tune_s=options.seconds, effort=options.effort, is_dry=options.dry_run)
    # a search finishes its generation when its budget is over
    workers = Workers(slot_work.tuning, settings, slot_work.search_lost, 3 * options.seconds + 120)
    pool: ProcessPool[Cell, tuple[Cell, Tuned | None]]
    pool = ProcessPool(slots, workers, began + options.total_seconds - MARGIN_S)
    found: dict[str, Any] = {}
    facts = {
        **host.header(options.told, ["helion"]),
        "budget_s": options.seconds,
        "lanes": len(slots),
        "cores_a_lane": len(slots[0].cores),
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with closing(pool.run(cells)) as searched:
        for cell, tuned in searched:
            if tuned is not None:
                print(cell.title, f"{tuned.seconds:.0f} s, {tuned.tried} configs", tuned.error, flush=True)
                found[cell.title] = asdict(tuned)
                text = json.dumps({"header": facts, "helion": found}, indent=1, sort_keys=True)
                options.out.write_text(text + "\n")
    for cell in pool.left:
        print(f"not searched, the time was over: {cell.title}")
    return 0


def read_binaries(options: argparse.Namespace) -> int:
    """Write a page of the facts of the chosen cells' binaries. Returns the exit code."""
    cells = sorted(_chosen(options), key=SUITE.index)
    facts = list(binaries.of_suite(cells, options.device, _absolute(options.tables), len(os.sched_getaffinity(0))))
    tools = asdict(toolchain())
    versions = ", ".join(f"{name} {tools[name]}" for name in sorted(tools))
    page = f"`{options.told}`, {versions}.\n\n{binaries.to_markdown(facts)}"
    options.out.write_text(page)
    print(options.out)
    return 0


def report(options: argparse.Namespace) -> int:
    """Write the report of an earlier run again from its JSON. Returns the exit code."""
    options.out.mkdir(parents=True, exist_ok=True)
    _write_page(run_from(json.loads(options.json.read_text())), options.out, options.docs, options.peer_configs)
    return 0


def misses(options: argparse.Namespace) -> int:
    """Write the cells of an earlier run whose default misses its target between the marks of a page."""
    found = run_from(json.loads(options.json.read_text()))
    options.docs.write_text(into(options.docs.read_text(), missed.to_markdown(found)))
    print(options.docs)
    return 0


def _write_json(out: Path, found: SuiteRun) -> None:
    part = out / "bench.json.part"
    part.write_text(json.dumps(found.to_json(), indent=1) + "\n")
    part.replace(out / "bench.json")


def _write_page(found: SuiteRun, out: Path, docs: Path | None, configs: Path | None) -> None:
    """Write ``bench.md`` and its plots in ``out``; the same into ``docs``, plots in ``images/`` beside it."""
    searches = {"Helion": read_configs(configs)} if configs else {}
    (out / "bench.md").write_text(to_markdown(found, _plots(found.results, out), searches))
    if docs is not None:
        images = docs.parent / "images"
        images.mkdir(exist_ok=True)
        plots = [f"images/{name}" for name in _plots(found.results, images)]
        docs.write_text(into(docs.read_text(), to_markdown(found, plots, searches)))
    print(out / "bench.md")


def _plots(results: Sequence[CellResult], folder: Path) -> list[str]:
    try:
        from . import plots

        return plots.draw(results, folder)
    except ImportError as error:
        print(f"no plots ({error}); `scripts/bench report` draws them where matplotlib is", file=sys.stderr)
        return []


def _slots(options: argparse.Namespace) -> list[Slot]:
    cores = sorted(os.sched_getaffinity(0))
    if options.dry_run:
        return even_slots([f"dry run {n}" for n in range(options.gpus or 1)], "TILEFLOW_LANE", cores)
    variable, devices = host.visible_devices()
    devices = devices[: options.gpus]
    return even_slots(devices, variable, cores) if devices else []


def _chosen(options: argparse.Namespace) -> list[Cell]:
    words = options.only.split(",")
    return in_turn([cell for cell in SUITE if any(word in cell.title for word in words)])


def _say(found: CellResult) -> None:
    told = {n: t.error or f"{t.median_us:.1f}" for n, t in found.timings.items()}
    print(found.cell.title, told, flush=True)


def _absolute(path: Path | None) -> Path | None:
    return None if path is None else path.resolve()


def _no_gpu() -> int:
    print("the benchmark needs a GPU that torch sees", file=sys.stderr)
    return 2
