"""How long ``kernel.tune(*args)`` takes in a fresh process: to its first trial, and to within 2 % of the best known.

    python -m tileflow_benchmarks.tuning.first_trial --out DIR [--budget 12] [--seeds 2]     on a GPU
    python -m tileflow_benchmarks.tuning.first_trial --out DIR --dry-run                     modelled, without one

It runs from the repository's root, over a few kernels of the gallery. Times are the journal's: an attempt ends its
phases' seconds after it was asked for. DIR/first_trial.json has a row per run; a kernel's best known is the best of all
its runs. A row's timeline says when, in seconds after the call, each step of the start had ended.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "rms_norm": ("examples.rms_norm:rms_norm", {"m": 4096, "n": 4096}),
    "softmax": ("examples.softmax:softmax", {"m": 4096, "n": 4096}),
    "matmul": ("examples.matmul:matmul", {"m": 2048, "n": 2048, "k": 2048}),
    "geglu": ("examples.geglu:geglu", {"m": 4096, "n": 4096}),
}
DRY_DEVICE = "nvidia-h200"
DRY_SIZE = 256
PHASES = ("queue_s", "compile_s", "built_s", "device_s")
DEVICE_PHASES = ("prepare_s", "load_s", "verify_s", "bench_s")  # parts of device_s
RUN_LIMIT_S = 300.0
NEAR = 1.02

Row = dict[str, Any]


def one(name: str, options: argparse.Namespace) -> Row:
    """Time one call in this process; with ``--again`` twice, the second with the workers of the first."""
    from tileflow.api import load_kernel

    sys.path.insert(0, str(Path.cwd()))
    reference, problem = CASES[name]
    kernel = load_kernel(reference)
    if options.dry_run:
        problem = dict.fromkeys(problem, DRY_SIZE)
    args = kernel.inputs(device="cpu" if options.dry_run else "cuda", **problem)
    dry: Any = {"device_class": DRY_DEVICE} if options.dry_run else {}
    rows = []
    for turn in range(2 if options.again else 1):
        folder = Path(os.environ["TILEFLOW_TUNINGS"])
        before = set(folder.glob("tileflow-*/journal.jsonl"))
        begun = time.time()
        kernel.tune(*args, budget_s=options.budget, seed=options.seed, tables=folder / "tables", **dry)
        whole = time.time() - begun
        (path,) = set(folder.glob("tileflow-*/journal.jsonl")) - before
        times = {"ends": ends(path, begun), "first": phases_of_first(path, begun), "timeline": timeline(path, begun)}
        rows.append({"kernel": name, "turn": turn, "whole_s": whole, **times})
    return {"rows": rows}


def phases_of_first(journal: Path, begun: float) -> dict[str, float]:
    """Return the seconds of each phase of the first trial with a time: from the call until it was asked for, then for a
    compiler, compiling, for a device, on the device, of which the last four are parts."""
    lines = [line for line in map(json.loads, journal.read_text().splitlines()) if line.get("kind") == "trial"]
    good = [line for line in lines if line.get("median_us") is not None]
    if not good:
        return {}
    first = min(good, key=ended_at)
    asked = {"asked_s": first["started_at"] - begun}
    asked |= {phase: first.get(phase) or 0.0 for phase in (*PHASES, *DEVICE_PHASES)}
    return {phase: round(seconds, 3) for phase, seconds in asked.items()}


def ended_at(trial: Row) -> float:
    """Return when an attempt's answer was taken in, in seconds since the epoch: its phases add up to that."""
    return float(trial["started_at"] + sum(trial.get(phase) or 0.0 for phase in PHASES))


def ends(journal: Path, begun: float) -> list[tuple[float, float | None]]:
    """Return (seconds after the call, microseconds) of each trial, in the order in which they ended."""
    found = []
    for line in map(json.loads, journal.read_text().splitlines()):
        if line.get("kind") == "trial":
            found.append((round(ended_at(line) - begun, 3), line.get("median_us")))
    return sorted(found, key=lambda pair: pair[0])


def timeline(journal: Path, begun: float) -> dict[str, float | None]:
    """Return when each step had ended first, in seconds after ``begun``; None for one that was not there or that a
    worker of an earlier call had done.

    ``lowered``: the caller had imported what searches, and the search space. ``asked``: a config was asked for.
    ``compiler``, ``device``: such a worker was ready. ``data``: the inputs and the reference. ``built``: a config, and
    ``measured``: one had its verdict. ``searched``: the search was over; ``raced``, ``checked``: the best configs were,
    ``closed``: all but the tables were done.
    """
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    events = {line["event"]: line for line in lines if line.get("kind") == "event"}
    trials = [line for line in lines if line.get("kind") == "trial"]
    built = [
        trial["started_at"] + trial["queue_s"] + trial["compile_s"]
        for trial in trials
        if trial.get("median_us") is not None
    ]  # its answer's way back to the driver is a part of queue_s
    counters = events["counters"]
    phases = {line["phase"]: line["at"] for line in lines if line.get("event") == "phase"}
    found = {
        "lowered": lines[0]["created_at"],
        "asked": min((trial["started_at"] for trial in trials), default=None),
        "compiler": counters["compiler_ready_at"],
        "device": counters["device_ready_at"],
        "data": counters["data_ready_at"],
        "built": min(built, default=None),
        "measured": min((begun + end for end, us in ends(journal, begun) if us is not None), default=None),
        "searched": phases["portfolios"],
        "raced": phases.get("check"),
        "checked": phases.get("build"),
        "closed": events["closed"]["at"],
    }
    return {name: round(at - begun, 3) if at is not None and at >= begun else None for name, at in found.items()}


def digest(rows: list[Row]) -> Row:
    """Return the medians over the runs."""
    best: dict[str, float] = {}
    for row in rows:
        times = [us for _, us in row["ends"] if us is not None]
        best[row["kernel"]] = min([*times, best.get(row["kernel"], float("inf"))])
    for row in rows:
        good = [(end, us) for end, us in row["ends"] if us is not None]
        row["trials"] = len(row["ends"])
        row["first_s"] = good[0][0] if good else None
        near = [end for end, us in good if us <= NEAR * best[row["kernel"]]]
        row["near_s"] = near[0] if near else None
    found: Row = {}
    for turn in sorted({row["turn"] for row in rows}):
        mine = [row for row in rows if row["turn"] == turn]
        firsts = [row["first_s"] for row in mine if row["first_s"] is not None]
        nears = [row["near_s"] if row["near_s"] is not None else float("inf") for row in mine]
        found[f"turn {turn}"] = {
            "runs": len(mine),
            "first_s": median(firsts) if firsts else None,
            "near_s": str(median(nears)) if nears else None,
            "whole_s": median(row["whole_s"] for row in mine),
            "first": {row["kernel"]: row["first"] for row in mine},
            "timeline": {step: _median_of([row["timeline"][step] for row in mine]) for step in mine[0]["timeline"]},
        }
    return found


def _median_of(times: list[float | None]) -> float | None:
    there = [time_s for time_s in times if time_s is not None]
    return median(there) if there else None


def main() -> int:
    """Run every case. Exit code 1 where a run failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for first_trial.json")
    parser.add_argument("--only", default="", help="kernels, by semicolons")
    parser.add_argument("--seeds", type=int, default=2, help="runs of each kernel")
    parser.add_argument("--budget", type=float, default=12.0, help="seconds of each call of tune")
    parser.add_argument("--again", action="store_true", help="a second call in each process")
    parser.add_argument("--dry-run", action="store_true", help=f"modelled for {DRY_DEVICE}; needs no GPU")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.one, options)))
        return 0
    out = options.out.absolute()
    rows: list[Row] = []
    failed: list[str] = []
    for name in [word for word in options.only.split(";") if word] or list(CASES):
        for seed in range(options.seeds):
            folder = out / f"{name}-{seed}"
            folder.mkdir(parents=True, exist_ok=True)
            command = [
                sys.executable,
                "-m",
                "tileflow_benchmarks.tuning.first_trial",
                "--one",
                name,
                "--seed",
                str(seed),
            ]
            command += ["--out", str(out), "--budget", str(options.budget)]
            command += [word for word in ("--again", "--dry-run") if getattr(options, word[2:].replace("-", "_"))]
            environment = {**os.environ, "TILEFLOW_TUNINGS": str(folder), "TILEFLOW_TABLES": ""}
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False
            )
            lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
            if done.returncode or not lines:
                failed.append(f"{name} {seed}: {done.stderr[-600:]}")
                continue
            rows += json.loads(lines[-1])["rows"]
            found = {"summary": digest(rows), "failed": failed, "rows": rows}
            (out / "first_trial.json").write_text(json.dumps(found, indent=1))
    print(json.dumps({"summary": digest(rows), "failed": failed}, indent=1))
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
