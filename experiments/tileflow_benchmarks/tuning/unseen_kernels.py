"""Kernels of others on this machine's GPU: the default config's time beside a short tuning's best, values checked.

    python -m tileflow_benchmarks.tuning.unseen_kernels --out DIR [--only WORDS] [--seconds 240] [--budget 3] on a GPU
    python -m tileflow_benchmarks.tuning.unseen_kernels --out DIR --dry-run [--only WORDS]               without one

By several GPUs, each with its share of a sample, and the best of three long searches of each kernel:

    CUDA_VISIBLE_DEVICES=I python -m tileflow_benchmarks.tuning.unseen_kernels --out DIR/I --share I/4 --sample 20
        --seeds 3 --budget 120 --seconds 3600

Where a run may not take that long, one for each seed, and their best afterwards:

    python -m tileflow_benchmarks.tuning.unseen_kernels --out DIR/seed1 --seed 1 --sample 8 --budget 120 --seconds 560
    python -m tileflow_benchmarks.tuning.unseen_kernels --out DIR --pool DIR/seed0 DIR/seed1 DIR/seed2

It runs from the repository's root. The kernels are those of ``tests/tile_testing/strangers``, without anything for the
tuner in them. Each is called as it is and its result compared with plain torch; then a group of them is tuned with all
defaults, and called again. DIR/strangers.json has a row per kernel with what the best config changes, the
geometric mean and the worst of ``best / default``.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import json
import math
import os
import sys
import time
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import torch

from tileflow.build.compile import build
from tileflow.runtime.argtree import tensors
from tileflow.runtime.table import Entry
from tileflow.target import target

from ..ratios.command import named, share

DRY_DEVICE = "nvidia-h200"
RESULT = "strangers.json"
GROUP = 10  # kernels tuned at once: some build while another is measured
PER_CALL_S = 4.0  # seconds beyond the budget: references, races
TOLERANCE = {
    torch.float64: 1e-9,
    torch.float32: 2e-3,
    torch.bfloat16: 2e-2,
    torch.float16: 5e-3,
    torch.float8_e4m3fn: 0.13,
}
MISMATCHES = 1e-3  # share of integers and of float8 that rounding may move

Row = dict[str, Any]


def load_kernels() -> dict[str, Any]:
    """Import the kernels of ``tests/tile_testing/strangers``, by name."""
    sys.path.insert(0, str(Path("tests").absolute()))
    from tile_testing.strangers import ALL  # type: ignore[import-not-found]  # below tests/, which no wheel holds

    return dict(ALL)


def sampled(names: Iterable[str], count: int) -> list[str]:
    """Return so many of the names, sorted; all of them for 0. A name that comes later takes one place at most, so that
    runs of months are of one sample."""
    by_chance = sorted(names, key=lambda name: hashlib.sha256(name.encode()).digest())
    return sorted(by_chance[: count or None])


def wrong(got: Any, wanted: Any) -> str:
    """Return what differs by more than rounding; empty where nothing does. What is wanted may have more digits."""
    found = []
    for n, (left, right) in enumerate(zip(tensors([got]), tensors([wanted]), strict=True)):
        is_finer = left.is_floating_point() and right.is_floating_point() and right.itemsize > left.itemsize
        if left.shape != right.shape or not (left.dtype == right.dtype or is_finer):
            found.append(f"{n}: {left.dtype}{list(left.shape)}, not {right.dtype}{list(right.shape)}")
            continue
        x, y = left.double(), right.double()
        tolerance = TOLERANCE.get(left.dtype, 0.0)
        off = ~((x - y).abs() <= tolerance * (y.abs() + _scale(y))) & ~((x == y) | (x.isnan() & y.isnan()))
        share = float(off.double().mean()) if off.numel() else 0.0
        if share > (MISMATCHES if left.dtype not in TOLERANCE or left.dtype.itemsize == 1 else 0.0):
            found.append(f"{n}: {share:.2e} of {off.numel()} differ, by {float((x - y)[off].abs().max()):.3g}")
    return "; ".join(found)


def _scale(y: torch.Tensor) -> torch.Tensor:
    """The size of a result's numbers: of all, or of their own row where that one's are larger, as the first rows' of
    causal attention are, means of few."""
    squares = torch.where(y.isfinite(), y, 0.0).square()
    whole = squares.mean().sqrt() if y.numel() else y.new_zeros(())
    return torch.maximum(whole, squares.mean(-1, keepdim=True).sqrt()) if y.dim() > 1 else whole


def compiled(name: str, one: Any) -> Row:
    """Lower the small call and build its default config. Returns the size of its space and the build's facts."""
    lowered = one.kernel.lower(one.arguments("small"), target(DRY_DEVICE))
    spills = [build(source, lowered.target).resources.spills for source in lowered.emit(lowered.default)]
    return {"kernel": name, "status": "built", "space": lowered.space.size, "spills": max(spills, default=0)}


def called(one: Any, args: Sequence[Any]) -> str:
    """Call the kernel and its reference, each on copies of the arguments: it may store into them. Where the reference
    loops over elements, they are the small ones. Returns what is wrong with the result."""
    if one.loops:
        one.kernel(*copy.deepcopy(args))  # so that the tuning's default is what such a call runs
        args = one.arguments("small", next(tensors(args)).device)
    mine, theirs = copy.deepcopy(args), copy.deepcopy(args)
    return wrong(one.kernel(*mine), one.reference(*theirs))


def group(some: dict[str, Any], options: argparse.Namespace, device: str) -> list[Row]:
    """Tune a few kernels together and return their rows."""
    import tileflow

    rows: dict[str, Row] = {name: {"kernel": name, "status": "ok"} for name in some}
    calls: dict[str, tuple[Any, ...]] = {}
    size = "small" if options.dry_run else "large"
    for name, one in some.items():
        try:
            args = one.arguments(size, device)
            if not options.dry_run:
                rows[name]["default_wrong"] = called(one, args)
            calls[name] = args
        except Exception as error:  # one that fails must not hide the others
            rows[name] |= {"status": f"{type(error).__name__}: {str(error)[:400]}"}
    started = time.monotonic()
    dry: Any = {"device_class": DRY_DEVICE} if options.dry_run else {}
    wanted = [(some[name].kernel, args) for name, args in calls.items()]
    found: list[list[Entry | None]] = []
    try:
        for seed in range(options.seed, options.seed + options.seeds):
            tables = options.out / "tables" / str(seed)  # of its own: none begins with what another one found
            found.append(tileflow.tune(wanted, budget_s=options.budget, tables=tables, seed=seed, **dry))
    except Exception:  # nor must a group
        failed = traceback.format_exc()[-800:]
        return [row | {"status": failed if row["status"] == "ok" else row["status"]} for row in rows.values()]
    spent = time.monotonic() - started
    for (name, args), *of_seeds in zip(calls.items(), *found, strict=True):
        entry = min(of_seeds, key=_share_of_default)
        rows[name] |= _tuned(entry) | {"group_s": round(spent, 1)} | _changed(some[name].kernel, args, entry)
        rows[name]["of_seeds"] = [_tuned(one).get("ratio") for one in of_seeds]
        if not options.dry_run and entry is not None:
            try:
                rows[name]["tuned_wrong"] = called(some[name], args)
            except Exception as error:
                rows[name]["tuned_wrong"] = f"{type(error).__name__}: {str(error)[:400]}"
    return list(rows.values())


def _share_of_default(entry: Entry | None) -> float:
    """Return the best config's time as a share of the default's, which the same search measured."""
    return float(_tuned(entry).get("ratio", math.inf))


def _tuned(entry: Entry | None) -> Row:
    if entry is None or entry.best_us is None:
        return {"status": "no config works"}
    row: Row = {"best_us": entry.best_us, "default_us": entry.default_us, "origin": entry.origin}
    return row | ({"ratio": entry.best_us / entry.default_us} if entry.default_us else {"status": "the default fails"})


def _changed(kernel: Any, args: Sequence[Any], entry: Entry | None) -> Row:
    """Return what the best config changes of the default's: where a rule of the default may be wrong."""
    if entry is None:
        return {}
    default, best = kernel.lower(args, target(entry.device)).default.to_dict(), entry.config.to_dict()
    return {"changed": {k: [default.get(k), best.get(k)] for k in best if best[k] != default.get(k)}}


def summary(rows: Iterable[Row]) -> Row:
    """Return the share of the best that the default reaches."""
    ratios = {row["kernel"]: row["ratio"] for row in rows if "ratio" in row}
    bad = [
        r["kernel"]
        for r in rows
        if r["status"] not in ("ok", "built") or r.get("tuned_wrong") or r.get("default_wrong")
    ]
    worst = min(ratios, key=lambda name: ratios[name], default="")
    return {
        "kernels": len(list(rows)),
        "tuned": len(ratios),
        "bad": bad,
        "geometric_mean": geometric_mean(ratios.values()) if ratios else None,
        "worst": [worst, ratios.get(worst)],
    }


def pooled(runs: Sequence[Sequence[Row]]) -> list[Row]:
    """Return a row for each kernel of several runs: the one with the least ratio, and the ratios of all."""
    by_kernel: dict[str, list[Row]] = {}
    for row in (row for rows in runs for row in rows):
        by_kernel.setdefault(row["kernel"], []).append(row)
    found = []
    for rows in by_kernel.values():
        best = min(rows, key=lambda row: float(row.get("ratio", math.inf)))
        found.append(best | {"of_seeds": [ratio for row in rows for ratio in row.get("of_seeds", [])]})
    return found


def _read(folder: Path) -> list[Row]:
    rows: list[Row] = json.loads((folder / RESULT).read_text())["rows"]
    return rows


def main() -> int:
    """Run all kernels. Exit code 1 where one failed or was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for strangers.json")
    parser.add_argument("--only", default="", help="kernels whose name holds one of these words, by semicolons")
    parser.add_argument("--seconds", type=float, default=240.0, help="after which no further group begins")
    parser.add_argument("--budget", type=float, default=3.0, help="seconds of tuning for each")
    parser.add_argument("--seeds", type=int, default=1, help="searches of each kernel, of which the best one counts")
    parser.add_argument("--seed", type=int, default=0, help="of the first search")
    parser.add_argument("--pool", type=Path, nargs="+", default=[], help="only: take the best of these runs' folders")
    parser.add_argument("--sample", type=int, default=0, help="so many kernels, the same in each run; all of them by 0")
    parser.add_argument(
        "--share", type=share, default="0/1", help="of so many processes, this one's kernels: 1/4 for the second of 4"
    )
    parser.add_argument(
        "--group", type=int, default=GROUP, help="kernels tuned at once; what ends a run loses those of one group"
    )
    parser.add_argument("--dry-run", action="store_true", help=f"model two, build the rest, for {DRY_DEVICE}")
    options = parser.parse_args()
    options.out = options.out.absolute()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.pool:
        return _report(options.out, pooled([_read(folder) for folder in options.pool]))
    os.environ["TILEFLOW_TABLES"] = str(options.out / "none")  # ignore what was tuned here before
    kernels = load_kernels()
    every = list(kernels)
    some = {every[n]: kernels[every[n]] for n in named(every, options.only)}
    begun, rows = time.monotonic(), list[Row]()
    names = sampled(some, options.sample)[options.share]
    if options.dry_run:
        names, built = names[:2], names[2:]
        rows += [_safely(name, some[name]) for name in built]
    for first in range(0, len(names), options.group):
        chosen = names[first : first + options.group]
        left = options.seconds - (time.monotonic() - begun)
        if left < len(chosen) * options.seeds * (options.budget + PER_CALL_S) / 2:
            rows += [{"kernel": name, "status": "no time left"} for name in chosen]
            continue
        rows += group({name: some[name] for name in chosen}, options, "cpu" if options.dry_run else "cuda")
        _write(options.out, rows)
    return _report(options.out, rows)


def _report(out: Path, rows: list[Row]) -> int:
    _write(out, rows)
    print(json.dumps(summary(rows), indent=1))
    return int(bool(summary(rows)["bad"]))


def _safely(name: str, one: Any) -> Row:
    try:
        return compiled(name, one)
    except Exception as error:
        return {"kernel": name, "status": f"{type(error).__name__}: {str(error)[:400]}"}


def _write(out: Path, rows: list[Row]) -> None:
    (out / RESULT).write_text(json.dumps({"summary": summary(rows), "rows": rows}, indent=1))


if __name__ == "__main__":
    sys.exit(main())
