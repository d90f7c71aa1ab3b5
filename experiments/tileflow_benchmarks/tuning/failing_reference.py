"""What a failing reference costs the nine other studies of a search: their trials a second, with it and without.

    python -m tileflow_benchmarks.tuning.failing_reference --out DIR [--budget 5] [--rounds 1] [--only WAYS]    on a GPU
    python -m tileflow_benchmarks.tuning.failing_reference --out DIR --dry-run                     modelled, without one

It runs from the repository's root. ``tileflow.tune`` gets nine calls of the gallery, alone and with a tenth whose
reference raises, asks for more memory than any card has, or never returns; each search is a process of its own, in
turns. The others' trials count from the beginning of the search until the last of them had ended, however long they
waited. DIR/failing_reference.json has a row per search, and ``slower``: the others' seconds a trial by those of the
nine alone, medians over the rounds. A modelled search makes no references, so that ``--dry-run`` only shows that
everything runs.
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
from tileflow_benchmarks.tuning.first_trial import DRY_DEVICE, ended_at

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
    folder = Path(os.environ["TMPDIR"])
    dry: Any = {"device_class": DRY_DEVICE} if options.dry_run else {}
    tileflow.tune(calls, budget_s=options.budget, tables=folder / "tables", **dry)
    (journal,) = folder.glob("tileflow-*/journal.jsonl")
    return {"way": way, **trials_of(journal)}


def trials_of(journal: Path) -> Row:
    """Return how many trials of the others have a time, over how many seconds, and how many attempts the failing one
    took."""
    written = [json.loads(line) for line in journal.read_text().splitlines()]
    searched_at = next(line["at"] for line in written if line.get("phase") == "search")
    lines = [line for line in written if line.get("kind") == "trial"]
    others = [line for line in lines if not line["kernel"].endswith(_doubled.__name__)]
    timed = [line for line in others if line.get("median_us") is not None]
    seconds = max(ended_at(line) for line in timed) - searched_at
    return {
        "trials": len(timed),
        "seconds": round(seconds, 3),
        "seconds_a_trial": seconds / len(timed),
        "attempts_of_the_failing": len(lines) - len(others),
    }


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
                env={**os.environ, "TMPDIR": str(folder), "TILEFLOW_TABLES": ""},
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
