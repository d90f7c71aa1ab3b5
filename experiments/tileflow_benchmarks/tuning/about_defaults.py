"""Random configs about a kernel's default, built on one machine and timed in turns on another: what a default leaves.

    python -m tileflow_benchmarks.tuning.about_defaults --build DIR [--device CLASS] [--only WORDS] [--configs 60]
    python -m tileflow_benchmarks.tuning.about_defaults --time DIR --out DIR [--only WORDS]                on a GPU

It runs from the repository's root, over the kernels of ``tests/tile_testing/strangers`` (:mod:`.unseen_kernels`).
Builds need no GPU, and times neither Triton nor a compiler: a card does a dozen configs a second. A config is
the default that a call runs (:mod:`tileflow.settled`) with one to three knobs changed, numbers by one or two steps.
DIR/about_defaults.json has a row per config, with its time over the default's and what is wrong with its values.
"""

from __future__ import annotations

import argparse
import copy
import functools
import json
import lzma
import os
import pickle
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tileflow.build.compile import build
from tileflow.config import Choice, Config, ConfigSpace, Knob
from tileflow.errors import TileflowError
from tileflow.lowered import Lowered
from tileflow.runtime.abi import Binary
from tileflow.runtime.launch import launcher_for
from tileflow.settled import settled_default
from tileflow.target import Target, target

from ..ratios.command import DRY_DEVICE, building, chosen, measure_each
from ..ratios.watched import Job, jobs_of, measure_apart, measuring, say_about, say_found
from .default_neighbours import CASES, DEFAULT, time_beside
from .unseen_kernels import load_kernels, wrong

RESULT = "about_defaults.json"
_TRIES = 40  # draws for each config that is wanted
_MOST_CHANGES = 3
_STEPS = (-2, -1, -1, -1, 1, 1, 1, 2)  # of a number's choices
_RARE = {"access": 0.1, "order": 0.3, "group": 0.3}  # how often a role is drawn: loads have knobs by the dozen
_BUILD_SECONDS, _SETTLED_SECONDS = 30.0, 60.0
_SILENT_SECONDS = 40.0
_MOST_FAULTS = 8
_TOP = 5  # configs of a kernel that are printed


def about(space: ConfigSpace, default: Config, count: int, seed: int) -> dict[str, Config]:
    """Return the default and up to ``count`` valid configs about it, by what they change; the same for a seed."""
    rng, found = random.Random(seed), {DEFAULT: default}
    by_role: dict[str, list[Knob]] = {}
    for knob in space.knobs:
        if len(knob.choices) > 1:
            by_role.setdefault(knob.role, []).append(knob)
    weights = [_RARE.get(role, 1.0) * min(len(own), 3) for role, own in by_role.items()]
    for _ in range(_TRIES * count if by_role else 0):
        roles = rng.choices(list(by_role), weights, k=rng.randint(1, _MOST_CHANGES))
        some = {knob.name: knob for knob in (rng.choice(by_role[role]) for role in roles)}
        near = space.normalise(default.with_({name: _moved(knob, default, rng) for name, knob in some.items()}))
        if space.is_valid(near) and near not in found.values():
            found[label(default, near)] = near
        if len(found) > count:
            break
    return found


def _moved(knob: Knob, config: Config, rng: random.Random) -> Choice:
    if not knob.ordered:
        return rng.choice(knob.choices)
    place = knob.choices.index(config[knob.name]) + rng.choice(_STEPS)
    return knob.choices[min(max(place, 0), len(knob.choices) - 1)]


def label(default: Config, config: Config) -> str:
    """Return what a config changes of the default."""
    return ", ".join(f"{knob}={choice}" for knob, choice in config.items if default.get(knob, "") != choice)


# ---- builds, without a GPU -------------------------------------------------------------------------------------------


def settled(number: int, name: str, device: str) -> dict[str, Any]:
    """Find the default that a call runs, which takes builds of its neighbours. Returns its choices, or how it
    failed."""
    try:
        lowered, kernel = CASES[number].lowered(target(device)), load_kernels()[CASES[number].name].kernel
        default = settled_default(lowered, kernel.semantic_hash, lambda source: build(source, lowered.target).resources)
    except TileflowError as error:
        return {"status": type(error).__name__, "reason": str(error)}
    return {"status": "built", "config": default}


@functools.lru_cache(maxsize=2)
def _configs(number: int, device: str, default: Config, count: int) -> tuple[Lowered, dict[str, Config]]:
    """A case lowered, and its configs."""
    lowered = CASES[number].lowered(target(device))
    return lowered, about(lowered.space, default, count, seed=0)


def built(count: int, defaults: Mapping[int, Config], number: int, nth: str, device: str) -> dict[str, Any]:
    """Build the ``nth`` of ``count`` configs. Returns its label, its choices and its binaries, or how it failed."""
    try:
        lowered, configs = _configs(number, device, defaults[number], count)
        if int(nth) >= len(configs):  # there are no more
            return {"status": "none"}
        name, config = list(configs.items())[int(nth)]
        binaries = [build(source, lowered.target) for source in lowered.emit(config)]
    except TileflowError as error:
        return {"status": type(error).__name__, "reason": str(error)}
    return {"status": "built", "name": name, "config": config, "binaries": binaries}


def build_all(folder: Path, device: Target, numbers: Sequence[int], count: int) -> None:
    """Build the configs of some cases, with a file for each in ``folder``. A default is settled once, in whichever
    process, before its neighbours are dealt out."""
    folder.mkdir(parents=True, exist_ok=True)
    jobs: Iterator[Job] = ((n, DEFAULT) for n in numbers)
    with building(settled, jobs, device.name, _SETTLED_SECONDS, os.cpu_count()) as builds:
        found = {number: row for (number, _), row in builds.take()}
    defaults = {number: row["config"] for number, row in found.items() if row["status"] == "built"}
    for number in found.keys() - defaults.keys():
        print(CASES[number].name, found[number], flush=True)
    jobs = ((n, str(nth)) for n in defaults for nth in range(count + 1))
    with building(
        functools.partial(built, count, defaults), jobs, device.name, _BUILD_SECONDS, os.cpu_count()
    ) as builds:
        for number in defaults:
            rows = [row for _, row in builds.take([number])]
            able = {row["name"]: (row["config"], row["binaries"]) for row in rows if row["status"] == "built"}
            failed = [row for row in rows if row["status"] not in ("built", "none")]
            print(CASES[number].name, f"{len(able)} built, {len(failed)} not", failed[:1], flush=True)
            if DEFAULT in able:
                _file(folder, CASES[number].name).write_bytes(lzma.compress(pickle.dumps(able)))


def _file(folder: Path, kernel: str) -> Path:
    return folder / f"{kernel}.pickle.xz"


def _load(folder: Path, kernel: str) -> Mapping[str, tuple[Config, Sequence[Binary]]]:
    found: Mapping[str, tuple[Config, Sequence[Binary]]] = pickle.loads(
        lzma.decompress(_file(folder, kernel).read_bytes())
    )
    return found


# ---- times, on a GPU -------------------------------------------------------------------------------------------------


def measure(folder: Path, jobs: list[Job]) -> None:
    """Compare the values and time each kernel's configs in turns."""
    measure_each(jobs, CASES, lambda number, names, device: _measure_case(folder, number, names))


def _measure_case(folder: Path, number: int, names: list[str]) -> None:
    say_about((number, DEFAULT))  # inputs that cannot be made are a fault of all configs
    one = load_kernels()[CASES[number].name]
    args, known = one.arguments_as_here("cuda"), _load(folder, CASES[number].name)

    def call_of(name: str) -> Any:
        config, binaries = known[name]
        launchers: dict[int, list[Any]] = {}
        for binary in binaries:
            launchers.setdefault(binary.region, []).append(launcher_for(binary, "cuda", one.kernel.scope))
        return one.kernel.bind(config, launchers)

    try:
        wanted = (call_of(DEFAULT) if one.loops else one.reference)(*copy.deepcopy(args))
    except TileflowError as error:
        say_found((number, DEFAULT), {"status": type(error).__name__, "reason": str(error)})
        return
    for name in names:
        say_about((number, name))
        try:
            found = wrong(call_of(name)(*copy.deepcopy(args)), wanted)
        except TileflowError as error:
            found = f"{type(error).__name__}: {error}"
        if found:
            say_found((number, name), {"wrong": found})
    time_beside(number, names, call_of, args)


def time_all(folder: Path, out: Path, numbers: Sequence[int]) -> int:
    """Measure what ``folder`` holds of some cases. Returns 1 where values were wrong or a config hung or crashed."""
    known = {n: list(_load(folder, CASES[n].name)) for n in numbers if _file(folder, CASES[n].name).exists()}
    jobs: list[Job] = [(n, name) for n, names in known.items() for name in names]
    rows: dict[Job, dict[str, Any]] = {}
    measure_apart(
        [*measuring("tileflow_benchmarks.tuning.about_defaults")[:-1], "--built", str(folder), "--measure"],
        jobs,
        lambda job, what: rows.setdefault(job, {"case": CASES[job[0]].name, "config": job[1]}).update(what),
        seconds=_SILENT_SECONDS,
        of_all=frozenset({DEFAULT}),
        most_faults=_MOST_FAULTS,
    )
    out.mkdir(parents=True, exist_ok=True)
    (out / RESULT).write_text(json.dumps(list(rows.values()), indent=1))
    for number in known:
        own = [row for job, row in rows.items() if job[0] == number]
        print(summary(own), flush=True)
    return int(any(row.get("wrong") or row.get("status") != "ok" for row in rows.values()))


def summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a kernel's default and its best configs, and what failed, in a line."""
    timed = sorted((row for row in rows if "of_default" in row), key=lambda row: float(row["of_default"]))
    default = next((row["us"] for row in rows if row["config"] == DEFAULT and "us" in row), None)
    best = "; ".join(f"{row['of_default']} {row['config']}" for row in timed[:_TOP])
    bad = [f"{row['config']}: {row.get('wrong') or row['status']}" for row in rows if row.get("wrong")]
    return f"{rows[0]['case']}: {default} us of {len(timed)}: {best}" + (f" WRONG {bad[:3]}" if bad else "")


def main() -> int:
    """Run the command. Exit code 1 where a config was wrong, hung or crashed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--build", type=Path, metavar="DIR", help="build the configs into DIR; needs no GPU")
    what.add_argument("--time", type=Path, metavar="DIR", help="time what --build left in DIR")
    what.add_argument("--built", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=Path(), help=f"folder for {RESULT}")
    parser.add_argument("--device", default=DRY_DEVICE, help="the device class that --build builds for")
    parser.add_argument("--configs", type=int, default=60, help="of each kernel, beside the default")
    parser.add_argument("--only", default="", help="kernels whose name holds one of these words, by semicolons")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    numbers = chosen(CASES, options.only)
    if options.built:
        measure(options.built, jobs_of(options.measure))
    elif options.build:
        build_all(options.build, target(options.device), numbers, options.configs)
    else:
        return time_all(options.time, options.out, numbers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
