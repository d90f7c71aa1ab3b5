"""Linear layers with chains behind them, windows and middle dimensions under their default configs, beside torch.

    python -m tileflow_benchmarks.ratios.modules --out DIR [--only WORDS] [--seconds N] [--tune N]   on a GPU
    python -m tileflow_benchmarks.ratios.modules --out DIR --dry-run                                 without one

All binaries are built first, on all cores, ours and torch.compile's (in its default mode, whose results its cache on
disk keeps). Then each case's values are checked against torch in higher precision, and its times taken in turns in one
process, with a cold L2. ``of_best`` of chains is against torch.compile, of windows against the better of eager torch
and torch.compile. ``--tune`` searches for N seconds in each case and times what was found as well. Float32 is without
TF32, as torch has it by default. No case begins after ``--seconds``; those left are listed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import torch

from tileflow.build.compile import build
from tileflow.measure.check import check_call, make_reference
from tileflow.target import Target, target

from .command import DRY_DEVICE, chosen, device_of
from .module_cases import CASES, ModuleCase
from .serving import Call, compared, run

_MOST_COMPILING = 12  # processes with a context on the GPU
_OWN = {"ours": "", "tuned": "_tuned"}  # our calls in a comparison, and the ends of their ratios' names


def built(number: int, device: str, is_dry: bool) -> dict[str, Any]:
    """Build a case's default config for a device class, and what torch.compile makes of it unless it is a dry run,
    which calls the kernel as plain Python on small arguments instead. Returns what ours takes of the device."""
    case = CASES[number]
    lowered = case.loaded.lower(case.args("meta"), target(device))
    taken = [build(source, lowered.target).resources for source in lowered.emit(lowered.default)]
    found = {
        "registers": [t.registers for t in taken],
        "spills": max(t.spills for t in taken),
        "shared": max(t.shared for t in taken),
        "config": lowered.default.to_dict(),
    }
    if is_dry:
        return found | checked_small(case)
    peer = run(partial(_compile_peer, case))
    return found | {"status": "built"} | ({} if peer["status"] == "built" else {"peer": peer})


def _compile_peer(case: ModuleCase) -> dict[str, Any]:
    with torch.no_grad():
        torch.compile(case.torch, dynamic=False)(*case.args("cuda"))
    return {"status": "built"}


def checked_small(case: ModuleCase) -> dict[str, Any]:
    """Compare the kernel as plain Python with torch, at sizes that leave tails."""
    args = case.args("cpu", is_small=True)
    verdict = check_call(case.loaded.run_eagerly, args, make_reference(case.torch, args))
    return {"status": "built"} if verdict.ok else {"status": verdict.status.value, "reason": verdict.reason}


def built_ahead(numbers: Sequence[int], device: str, is_dry: bool) -> dict[int, dict[str, Any]]:
    """Build all cases in several processes, which leave the binaries in the caches of Triton and Inductor."""
    found: dict[int, dict[str, Any]] = {}
    begin, processes = time.monotonic(), min(len(os.sched_getaffinity(0)), _MOST_COMPILING)
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # the processes are as many as the cores already
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        under_way = {pool.submit(run, partial(built, number, device, is_dry)): number for number in numbers}
        for done in as_completed(under_way):
            number = under_way[done]
            found[number] = done.result()
            print(f"{time.monotonic() - begin:.0f} s", CASES[number].name, _brief(found[number]), flush=True)
    return found


def measured(case: ModuleCase, device: Target, tune_s: float, tables: Path) -> dict[str, Any]:
    """Check a case's values, then time it beside torch's, and once more after a search if it has any seconds."""
    kernel, args = case.loaded, case.args("cuda")
    lowered = kernel.lower(args, device)
    calls: dict[str, Call] = {"ours": kernel.compile(lowered, lowered.default, "cuda")}
    reference = make_reference(case.torch, args)
    verdict = check_call(calls["ours"], args, reference)
    if not verdict.ok:
        return {"status": verdict.status.value, "reason": verdict.reason}
    if tune_s:
        kernel.tune(*args, budget_s=tune_s, tables=tables)
        tuned = check_call(kernel, args, reference)
        if not tuned.ok:
            return {"status": tuned.status.value, "reason": f"tuned: {tuned.reason}"}
        calls["tuned"] = kernel
    peers = {"eager": case.torch, "compile": torch.compile(case.torch, dynamic=False)}
    with torch.no_grad():
        found = compared({**calls, **peers}, args)
    return {"status": "ok", "max_err": verdict.max_err, **against(case, found)}


def against(case: ModuleCase, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return a comparison with its ratios to what counts for the case: torch.compile for chains, the better of both for
    windows."""
    us: Mapping[str, float] = found["us"]
    counted = [name for name in (("compile",) if case.module == "chains" else ("eager", "compile")) if name in us]
    best = min(counted or ["eager"], key=us.__getitem__)
    ratios = {f"of_best{end}": round(us[best] / us[name], 3) for name, end in _OWN.items() if name in us}
    return {**found, "best": best, **ratios}


def means(rows: Iterable[Mapping[str, Any]], key: str = "of_best") -> dict[str, str]:
    """Return the geometric mean of each group of rows with its number and its least, by module and dtype."""
    groups: dict[str, list[float]] = {}
    for row in rows:
        if row.get(key):
            groups.setdefault(" ".join(row["case"].split()[::2][:2]), []).append(row[key])
    return {name: f"{geometric_mean(r):.3f} of {len(r)}, least {min(r):.3f}" for name, r in groups.items()}


def _brief(row: Mapping[str, Any]) -> str:
    return json.dumps({name: value for name, value in row.items() if name not in ("config", "captured", "ratio")})


def main() -> int:
    """Run all cases. Exit code 1 where a case was wrong or failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for module_ratio.json")
    parser.add_argument("--only", default="", help="cases whose name holds one of these words, by semicolons")
    parser.add_argument("--seconds", type=float, default=600.0, help="no case begins after so many")
    parser.add_argument("--tune", type=float, default=0.0, help="seconds of search in each case")
    parser.add_argument("--dry-run", action="store_true", help=f"build for {DRY_DEVICE}; needs no GPU")
    options = parser.parse_args()
    begin = time.monotonic()
    device, numbers = device_of(options.dry_run), chosen(CASES, options.only)
    options.out.mkdir(parents=True, exist_ok=True)
    found = built_ahead(numbers, device.name, options.dry_run)
    rows = {n: {"case": CASES[n].name, "device": device.name, **found[n]} for n in numbers}
    for n in numbers if not options.dry_run else ():
        if rows[n]["status"] != "built":
            continue
        is_late = time.monotonic() - begin > options.seconds
        job = partial(measured, CASES[n], device, options.tune, options.out / "tables")
        rows[n] |= {"status": "no_time"} if is_late else run(job)
        print(f"{time.monotonic() - begin:.0f} s", _brief(rows[n]), flush=True)
        write(options.out, rows)
        torch.compiler.reset()
        torch.cuda.empty_cache()
    write(options.out, rows)
    for key in ("of_best", "of_best_tuned"):
        print(key, json.dumps(means(rows.values(), key), indent=1))
    return int(any(r["status"] not in ("ok", "built", "no_time") for r in rows.values()))


def write(out: Path, rows: Mapping[int, Mapping[str, Any]]) -> None:
    """Write the rows so far."""
    (out / "module_ratio.json").write_text(json.dumps([*rows.values()], indent=1))


if __name__ == "__main__":
    sys.exit(main())
