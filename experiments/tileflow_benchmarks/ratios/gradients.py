"""The schedules of attention's gradients beside torch's own gradient of attention, checked and timed in one run: what
the warp-specialised kernels are worth before any default takes them.

    python -m tileflow_benchmarks.ratios.gradients --out DIR [--only WORDS] [--seconds N]   on a GPU
    python -m tileflow_benchmarks.ratios.gradients --out DIR --dry-run                     builds only, without one

A call has three launches: what both others read, the gradients of keys and values, that of queries. Each config gives
one of the last two another schedule than the default, so that its time says what that launch gained; the best of each
are then timed together. All configs are built first, several at a time, into Triton's cache. A process of its own
checks and times those of a case, in turns, in a new order each round. It says which config it is about to run, since a
protocol fault is a deadlock: that config is named beside ``bench_timeout``, and another process goes on without it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

from tileflow.api import Kernel, load_kernel
from tileflow.build.compile import build
from tileflow.config import Config
from tileflow.errors import TileflowError
from tileflow.lowered import Lowered
from tileflow.measure.check import check_call, make_reference
from tileflow.measure.device import identity
from tileflow.measure.timing import DeviceSampler, sample_in_turn
from tileflow.target import Target, target

from ..suite.eager import attention_backward

DRY_DEVICE = "nvidia-h200"
_ROUNDS = 16
_MOST_FAULTS = 3
_BOTH = "both, the best of each"
# by launch: the knobs of its tile of rows and of its turns
_BLOCKS = {1: ("block:tile_n@1", "block:block_m"), 2: ("block:tile_m@2", "block:block_n")}
_RESULTS = {1: "keys and values", 2: "queries"}
_TRIED = (
    (1, 128, 64, 2),
    (1, 128, 64, 3),
    (1, 128, 32, 4),
    (1, 128, 128, 2),
    (1, 64, 64, 2),
    (2, 128, 128, 2),
    (2, 128, 64, 2),
    (2, 128, 64, 4),
    (2, 64, 64, 2),
)


@dataclass(frozen=True, slots=True)
class GradientCase:
    """One call of attention's gradients."""

    name: str
    batch: int
    heads: int
    m: int
    d: int
    causal: bool = False

    def args(self, device: str) -> tuple[Any, ...]:
        sizes = {"batch": self.batch, "heads": self.heads, "m": self.m, "d": self.d, "causal": self.causal}
        return gradients().inputs(device=device, **sizes)

    @property
    def flops(self) -> float:
        """Of the five products that gradients need at least; a causal call needs half."""
        return 10.0 * self.batch * self.heads * self.m**2 * self.d * (0.5 if self.causal else 1.0)


def gradients() -> Kernel:
    return load_kernel("examples.attention:attention_backward")


CASES = (
    GradientCase("D = 128, causal", 4, 32, 4096, 128, causal=True),
    GradientCase("D = 64, causal", 4, 32, 4096, 64, causal=True),
    GradientCase("D = 128, full", 4, 32, 4096, 128),
    GradientCase("D = 80, odd length, causal", 2, 16, 2000, 80, causal=True),
)


def configs(lowered: Lowered) -> dict[str, Config]:
    """The default, and the valid ones of the warp-specialised configs of one launch, by what they differ in."""
    found = {"default": lowered.default}
    known = {k.name for k in lowered.space.knobs}
    for launch, rows, columns, stages in _TRIED:
        tile, turn = _BLOCKS[launch]
        if f"schedule@{launch}" not in known:
            continue
        config = lowered.default.with_(
            {
                f"schedule@{launch}": "warp_specialised",
                tile: rows,
                turn: columns,
                f"num_stages@{launch}": stages,
            }
        )
        config = lowered.space.normalise(config)
        if lowered.space.is_valid(config):
            found[f"{_RESULTS[launch]}: {rows} rows, {columns} a turn, {stages} stages"] = config
    return found


def _both(lowered: Lowered, times: Mapping[str, float]) -> Config | None:
    """The fastest configs of both launches in one, where there are two."""
    known, chosen = configs(lowered), dict[str, Any]()
    for launch, result in _RESULTS.items():
        names = [name for name in times if name.startswith(result)]
        if not names:
            return None
        best = known[min(names, key=times.__getitem__)].to_dict()
        chosen |= {n: c for n, c in best.items() if n.endswith(f"@{launch}") or n in _BLOCKS[launch]}
    return lowered.space.normalise(lowered.default.with_(chosen))


# ---- building ------------------------------------------------------------------------------------------------


def built(number: int, name: str, device: str) -> dict[str, Any]:
    """What the binaries of a config's launches take of the device."""
    start, found = time.monotonic(), {"case": CASES[number].name, "config": name, "device": device}
    try:
        lowered = gradients().lower(CASES[number].args("meta"), target(device))
        taken = [build(source, lowered.target).resources for source in lowered.emit(configs(lowered)[name])]
    except TileflowError as error:
        return found | {"status": type(error).__name__, "reason": str(error)}
    return found | {
        "status": "built",
        "registers": [t.registers for t in taken],
        "spills": [t.spills for t in taken],
        "shared": [t.shared for t in taken],
        "seconds": round(time.monotonic() - start, 1),
    }


def _build_all(jobs: list[tuple[int, str]], device: str) -> dict[tuple[int, str], dict[str, Any]]:
    """Each in one of several processes, which leave the binaries in Triton's cache."""
    found: dict[tuple[int, str], dict[str, Any]] = {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max(min((os.cpu_count() or 1) - 1, len(jobs)), 1), mp_context=context) as pool:
        under_way = {pool.submit(built, number, name, device): (number, name) for number, name in jobs}
        for done in as_completed(under_way):
            found[under_way[done]] = done.result()
            print(json.dumps(done.result()), flush=True)
    return found


# ---- measuring, in a process of its own ----------------------------------------------------------------------


def measure(jobs: list[tuple[int, str]]) -> None:
    """Check the configs, then time each case's in turns. Each result is a line; so is what is about to run."""
    _say({"begins": "device"})
    device = _device(is_dry=False)
    for number in dict.fromkeys(n for n, _ in jobs):
        _say({"begins": CASES[number].name})
        _measure_case(number, [name for n, name in jobs if n == number], device)
        torch.cuda.empty_cache()


def _measure_case(number: int, names: list[str], device: Target) -> None:
    case = CASES[number]
    args, lowered = case.args("cuda"), gradients().lower(case.args("meta"), device)
    reference = make_reference(gradients().reference, args)
    known, samplers = configs(lowered), dict[str, DeviceSampler]()

    def add(name: str, config: Config) -> None:
        _say({"about": [number, name]})
        call = gradients().compile(lowered, config, "cuda")
        verdict = check_call(call, args, reference, repeats=3)
        if verdict.ok:
            samplers[name] = DeviceSampler(call, args)
        found = {
            "status": "ok" if verdict.ok else verdict.status.value,
            "max_err": verdict.max_err,
            "reason": verdict.reason,
        }
        _say({"job": [number, name], "found": found})

    for name in names:
        add(name, known[name])
    both = _both(lowered, _in_turns(samplers)) if samplers else None
    if both is not None:
        add(_BOTH, both)
    _say({"about": [number, "torch"]})
    torchs = attention_backward(args)
    times = _in_turns({**samplers, "torch": DeviceSampler(torchs.call, args, capture=torchs.capture)})
    for name, us in times.items():
        found = {"us": us, "tflops": round(case.flops / us / 1e6, 1), "of_torch": round(times["torch"] / us, 3)}
        if "default" in times:
            found["of_default"] = round(times["default"] / us, 3)
        _say({"job": [number, name], "found": found})


def _say(what: Mapping[str, Any]) -> None:
    print(json.dumps(what), flush=True)


def _in_turns(samplers: Mapping[str, DeviceSampler]) -> dict[str, float]:
    """The median time of each, in microseconds."""
    found: dict[str, list[float]] = {name: [] for name in samplers}
    shuffled = random.Random(0)
    for _ in range(_ROUNDS):
        order = shuffled.sample(list(samplers), len(samplers))
        for name, us in zip(order, sample_in_turn([samplers[n] for n in order]), strict=True):
            found[name].append(us)
    return {name: round(median(times), 2) for name, times in found.items()}


# ---- the process that watches it -----------------------------------------------------------------------------


def _measured(jobs: list[tuple[int, str]], seconds: float, keep: Callable[[tuple[int, str], Any], None]) -> None:
    """Measure all jobs, those left out that hung; after several that did, no more."""
    left, faults = list(jobs), 0
    while left and faults < _MOST_FAULTS:
        words = [sys.executable, "-m", "tileflow_benchmarks.ratios.gradients", "--measure", json.dumps(left)]
        about: tuple[int, str] | None = None
        with subprocess.Popen(words, stdout=subprocess.PIPE) as child:
            for said in _lines(child, seconds):
                if "about" in said:
                    about = (said["about"][0], said["about"][1])
                elif "job" in said:
                    keep((said["job"][0], said["job"][1]), said["found"])
        if child.returncode == 0:
            return
        if about is None:
            raise RuntimeError("measuring ended before its first config: its own words stand above")
        keep(about, {"status": "bench_timeout" if child.returncode < 0 else "crashed"})
        faults += 1
        is_of_all = about[1] in ("torch", _BOTH)
        left = [job for job in left if job[0] > about[0] or (job[0] == about[0] and job != about and not is_of_all)]
    for job in left:
        keep(job, {"status": "left out", "reason": f"after {faults} faults"})


def _lines(child: subprocess.Popen[bytes], seconds: float) -> Iterator[dict[str, Any]]:
    """What a process says, line by line; killed where it says nothing for so long."""
    assert child.stdout is not None
    pending = b""
    while True:
        ready, _, _ = select.select([child.stdout], [], [], seconds)
        if not ready:
            child.kill()
            return
        more = os.read(child.stdout.fileno(), 65536)
        if not more:
            return
        *lines, pending = (pending + more).split(b"\n")
        yield from (json.loads(line) for line in lines if line.startswith(b"{"))


def _device(is_dry: bool) -> Target:
    return target(DRY_DEVICE) if is_dry else target(identity().device_class)


def main() -> int:
    """Exit code 1 where a config was wrong, hung or could not be built."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="folder for gradient_ratio.json")
    parser.add_argument("--only", default="", help="cases whose name holds one of these words, by semicolons")
    parser.add_argument("--seconds", type=float, default=40.0, help="the longest that a config may take")
    parser.add_argument("--dry-run", action="store_true", help=f"build for {DRY_DEVICE}; needs no GPU")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure([(number, name) for number, name in json.loads(options.measure)])
        return 0
    if options.out is None:
        parser.error("--out is needed")
    device = _device(options.dry_run)
    words = [w for w in options.only.split(";") if w]
    numbers = [n for n, case in enumerate(CASES) if not words or any(w in case.name for w in words)]
    jobs = [(n, name) for n in numbers for name in configs(gradients().lower(CASES[n].args("meta"), device))]
    found = _build_all(jobs, device.name)
    options.out.mkdir(parents=True, exist_ok=True)

    def keep(job: tuple[int, str], what: Mapping[str, Any]) -> None:
        entry = found.setdefault(job, {"case": CASES[job[0]].name, "config": job[1], "status": "ok"})
        entry.update(what)
        print(json.dumps(entry), flush=True)
        write()

    def write() -> None:
        rows = [found[key] for key in sorted(found)]
        (options.out / "gradient_ratio.json").write_text(json.dumps(rows, indent=1))

    write()
    if not options.dry_run:
        _measured([job for job in jobs if found[job]["status"] == "built"], options.seconds, keep)
    return int(any(r["status"] not in ("ok", "built") for r in found.values()))


if __name__ == "__main__":
    sys.exit(main())
