"""What a failing reference costs the nine other studies of a search: their trials a second, with it and without.

    python -m tileflow_benchmarks.tuning.failing_reference --out DIR [--budget 5] [--rounds 1] [--only WAYS]    on a GPU
    python -m tileflow_benchmarks.tuning.failing_reference --out DIR --dry-run                     modelled, without one

It runs from the repository's root. ``tileflow.tune`` gets nine calls of the gallery, alone and with a tenth whose
reference raises, asks for more memory than any card has, or never returns; each search is a process of its own, in
turns. The others' trials count from the beginning of the search until the last of them had ended, however long they
waited. DIR/failing_reference.json has a row per search, and ``slower``: the others' seconds a trial by those of the
nine alone, medians over the rounds. A modelled search makes no references, so that ``--dry-run`` only shows that
everything runs.

A row says where the time of its one device went, by the journal. ``ms_a_trial`` adds up to the seconds a trial: each
phase of the device's calls, what these took besides, and what passed between them. ``made`` counts the calls that made
inputs or a reference, ``made_again`` those whose problem had them before. ``compile_s`` and ``built_s`` are medians:
where configs wait built, the compilers keep up. ``held_up`` has each wait of more than 0.2 s, between two calls or for
one, and what was waited for.
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

import torch

import tileflow
import tileflow.language as tfl
from tileflow_benchmarks.tuning.first_trial import DEVICE_PHASES, DRY_DEVICE, ended_at

OTHERS: tuple[tuple[str, dict[str, int]], ...] = (
    ("examples.vector_add:vector_add", {"n": 1 << 22}),
    ("examples.softmax:softmax", {"m": 4096, "n": 4096}),
    ("examples.softmax:softmax", {"m": 1024, "n": 8192}),
    ("examples.layer_norm:layer_norm", {"m": 4096, "n": 4096}),
    ("examples.rms_norm:rms_norm", {"m": 4096, "n": 4096}),
    ("examples.rms_norm:rms_norm", {"m": 2048, "n": 8192}),
    ("examples.geglu:geglu", {"m": 4096, "n": 4096}),
    ("examples.matmul:matmul", {"m": 2048, "n": 2048, "k": 2048}),
    ("examples.matmul:matmul", {"m": 1024, "n": 4096, "k": 1024}),
)
DRY_SIZE = 128
ALONE = "alone"
MORE_THAN_ANY_CARD = 1 << 50  # bytes
GIVEN_UP = ("study_postponed", "study_stopped")
LONG_S = 0.2  # a wait that is told of
MADE_S = 0.005  # of preparing: less is to find what there is
STARTED_S = 120.0  # beyond the budget, for a process to start, race, check and end

Row = dict[str, Any]


def _raises(x: torch.Tensor) -> torch.Tensor:
    raise ValueError("planted: a reference that raises")


def _has_no_room(x: torch.Tensor) -> torch.Tensor:
    return x + torch.empty(MORE_THAN_ANY_CARD, dtype=torch.uint8, device=x.device)[: x.numel()].view_as(x)


def _never_returns(x: torch.Tensor) -> torch.Tensor:
    while True:
        time.sleep(1.0)


def _doubled(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in tfl.tile(x.size(0)):
        out[tile] = x[tile] * 2
    return out


FAILING = {
    "raises": tileflow.kernel(reference=_raises)(_doubled),
    "has_no_room": tileflow.kernel(reference=_has_no_room)(_doubled),
    "never_returns": tileflow.kernel(reference=_never_returns)(_doubled),
}


def one(way: str, options: argparse.Namespace) -> Row:
    """Search in this process; return the others' trials."""
    from tileflow.api import load_kernel

    sys.path.insert(0, str(Path.cwd()))
    device = "cpu" if options.dry_run else "cuda"
    calls: list[tuple[Any, ...]] = []
    for reference, problem in OTHERS:
        kernel = load_kernel(reference)
        sizes = dict.fromkeys(problem, DRY_SIZE) if options.dry_run else problem
        calls.append((kernel, kernel.inputs(device=device, **sizes)))
    if way != ALONE:
        calls.append((FAILING[way], (torch.ones(1 << 20, device=device),)))
    folder = Path(os.environ["TILEFLOW_TUNINGS"])
    before = set(folder.glob("tileflow-*/journal.jsonl"))  # of an earlier run into the same folder
    dry: Any = {"device_class": DRY_DEVICE} if options.dry_run else {}
    tileflow.tune(calls, budget_s=options.budget, tables=folder / "tables", **dry)
    (journal,) = set(folder.glob("tileflow-*/journal.jsonl")) - before
    return {"way": way, **trials_of(journal)}


def trials_of(journal: Path) -> Row:
    """Return how many trials of the others have a time, over how many seconds, how many attempts the failing one
    took, and where the time went."""
    written = [json.loads(line) for line in journal.read_text().splitlines()]
    searched_at = next(line["at"] for line in written if line.get("phase") == "search")
    lines = [line for line in written if line.get("kind") == "trial"]
    others = [line for line in lines if not line["kernel"].endswith(_doubled.__name__)]
    timed = [line for line in others if line.get("median_us") is not None]
    until = max(ended_at(line) for line in timed)
    seconds = until - searched_at
    calls = sorted((line for line in lines if line["device_s"] and ended_at(line) <= until), key=ended_at)
    given_up = [line for line in written if line.get("event") in GIVEN_UP]
    return {
        "trials": len(timed),
        "seconds": round(seconds, 3),
        "seconds_a_trial": seconds / len(timed),
        "attempts_of_the_failing": len(lines) - len(others),
        "ms_a_trial": {phase: round(1e3 * spent / len(timed), 3) for phase, spent in spent_in(calls, seconds).items()},
        **made_in(calls),
        "compile_s": round(median(line["compile_s"] for line in timed), 3),
        "built_s": round(median(line["built_s"] for line in timed), 3),
        "held_up": waits(calls, given_up, searched_at),
    }


def spent_in(calls: list[Row], seconds: float) -> dict[str, float]:
    """Return the seconds of each phase of the device's calls, of what they took besides, and between them."""
    spent = {phase.removesuffix("_s"): sum(line.get(phase) or 0.0 for line in calls) for phase in DEVICE_PHASES}
    on_device = sum(line["device_s"] for line in calls)
    return spent | {"besides": on_device - sum(spent.values()), "between": seconds - on_device}


def made_in(calls: list[Row]) -> dict[str, int]:
    """Return how many calls made a problem's data, and how many of these made it anew."""
    made = [(line["kernel"], str(line.get("problem"))) for line in calls if (line.get("prepare_s") or 0.0) > MADE_S]
    return {"made": len(made), "made_again": len(made) - len(set(made))}


def waits(calls: list[Row], given_up: list[Row], searched_at: float) -> list[Row]:
    """Return the long waits between the device's calls and for them, in order, and what was waited for."""
    found: list[Row] = []

    def note(begun_at: float, seconds: float, waited_for: str) -> None:
        if seconds > LONG_S:
            found.append({"at": round(begun_at - searched_at, 3), "seconds": round(seconds, 3), "for": waited_for})

    free_at = searched_at
    for line in calls:
        begun_at = ended_at(line) - line["device_s"]
        note(free_at, begun_at - free_at, _lacked(line, free_at, begun_at, given_up))
        phases = [f"{phase} {line[phase]:.2f}" for phase in DEVICE_PHASES if (line.get(phase) or 0.0) > MADE_S]
        note(begun_at, line["device_s"], " ".join([_title(line), *phases]))
        free_at = max(free_at, ended_at(line))
    return found


def _lacked(line: Row, free_at: float, begun_at: float, given_up: list[Row]) -> str:
    """Return what the device did, or lacked, before the call of ``line``."""
    for event in given_up:
        if free_at <= event["at"] <= begun_at + LONG_S:
            return f"a study that was given up: {event['reason'].partition(chr(10))[0]}"
    built_at = line["started_at"] + line["queue_s"] + line["compile_s"]
    return f"{'a build' if built_at - free_at > LONG_S else 'the device worker'}, before {_title(line)}"


def _title(line: Row) -> str:
    sizes = [str(size) for name, size in (line.get("problem") or {}).items() if name != "call"]
    return f"{line['kernel'].rpartition(':')[2]} {'x'.join(sizes)}"


def slower(rows: list[Row]) -> dict[str, float]:
    """Return each way's seconds a trial to those of the others alone, medians."""
    took = {way: [row["seconds_a_trial"] for row in rows if row["way"] == way] for way in (ALONE, *FAILING)}
    return {way: round(median(took[way]) / median(took[ALONE]), 3) for way in FAILING if took[way] and took[ALONE]}


def main() -> int:
    """Search each way in turns. Exit code 1 where a search failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for failing_reference.json")
    parser.add_argument("--budget", type=float, default=5.0, help="seconds of each call")
    parser.add_argument("--rounds", type=int, default=1, help="searches of each way")
    parser.add_argument("--only", default="", help=f"of {', '.join(FAILING)}, by semicolons; {ALONE} always is")
    parser.add_argument("--dry-run", action="store_true", help=f"modelled for {DRY_DEVICE}; needs no GPU")
    parser.add_argument("--one", choices=(ALONE, *FAILING), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.one, options)))
        return 0
    rows: list[Row] = []
    failed: list[str] = []
    for number in range(options.rounds):
        for way in (ALONE, *[way for way in FAILING if not options.only or way in options.only.split(";")]):
            folder = options.out.absolute() / f"{way}-{number}"
            folder.mkdir(parents=True, exist_ok=True)
            done = subprocess.run(
                [sys.executable, "-m", "tileflow_benchmarks.tuning.failing_reference", *sys.argv[1:], "--one", way],
                env={**os.environ, "TILEFLOW_TUNINGS": str(folder), "TILEFLOW_TABLES": ""},
                capture_output=True, text=True, timeout=options.budget * (len(OTHERS) + 1) + STARTED_S, check=False,
            )  # fmt: skip
            found = [line for line in done.stdout.splitlines() if line.startswith("{")]
            if done.returncode or not found:
                failed.append(f"{way} {number}: {done.stderr[-600:]}")
                continue
            rows.append(json.loads(found[-1]))
            print(json.dumps(rows[-1]), flush=True)
            result = {"slower": slower(rows), "failed": failed, "rows": rows}
            (options.out / "failing_reference.json").write_text(json.dumps(result, indent=1))
    print(json.dumps({"slower": slower(rows), "failed": failed}, indent=1))
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
