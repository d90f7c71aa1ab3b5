"""Products' two schedules beside torch's own product, checked and timed in one run: what a warp-specialised kernel is
worth before any default takes it.

    python -m tileflow_benchmarks.ratios.products --out DIR [--only WORDS] [--seconds N]   on a GPU
    python -m tileflow_benchmarks.ratios.products --out DIR --dry-run                     builds only, without one

All configs are built first, several at a time, into Triton's cache. One process then checks and times them; it says
which config it is about to run, since a protocol fault is a deadlock: that config is named beside ``bench_timeout``,
and another process goes on without it. Within a case all configs and torch are timed in turns, in a new order each
round.
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

from tileflow.api import Kernel, load_kernel
from tileflow.build.compile import build
from tileflow.config import Choice, Config
from tileflow.errors import TileflowError
from tileflow.lowered import Lowered
from tileflow.measure.check import check_call, make_reference
from tileflow.measure.device import identity
from tileflow.measure.timing import DeviceSampler, sample_in_turn
from tileflow.target import Target, target

DRY_DEVICE = "nvidia-h200"
_ROUNDS = 16
_MOST_FAULTS = 3
Shape = tuple[int, int, int, int, bool, int, int]
# by name: rows and columns of a tile, stages, consumer groups, whether they have tiles of their own, tiles in a band,
# and how many times 128 bytes a turn sums over
_WIDE: Mapping[str, Shape] = {
    "128x256, rows shared, bands of 8": (128, 256, 4, 2, False, 8, 1),
    "128x256, rows shared, bands of 16": (128, 256, 4, 2, False, 16, 1),
    "128x256, rows shared, bands of 16, twice the depth": (128, 256, 2, 2, False, 16, 2),
    "256x128, rows shared, bands of 8": (256, 128, 4, 2, False, 8, 1),
    "128x128, ping-pong, bands of 2": (128, 128, 6, 2, True, 2, 1),
    "128x128, ping-pong, bands of 4": (128, 128, 6, 2, True, 4, 1),
    "128x128, ping-pong, bands of 8": (128, 128, 6, 2, True, 8, 1),
    "128x128, ping-pong, bands of 8, twice the depth": (128, 128, 3, 2, True, 8, 2),
}
_FLAT: Mapping[str, Shape] = {
    "64x64 alone": (64, 64, 6, 1, False, 1, 1),
    "64x64 alone, twice the depth": (64, 64, 6, 1, False, 1, 2),
    "64x64 alone, twice the depth, 4 stages": (64, 64, 4, 1, False, 1, 2),
    "64x128 alone, twice the depth": (64, 128, 4, 1, False, 1, 2),
}


@dataclass(frozen=True, slots=True)
class ProductCase:
    """One product. ``kernel``: where it is; ``turned``: the second operand is a transposed view, as nn.Linear's is."""

    name: str
    kernel: str
    m: int
    n: int
    k: int
    turned: bool = False

    @property
    def loaded(self) -> Kernel:
        return load_kernel(self.kernel)

    def args(self, device: str) -> tuple[Any, ...]:
        x, y, *others = self.loaded.inputs(m=self.m, n=self.n, k=self.k, device=device)
        return (x, y.T.contiguous().T if self.turned else y, *others)

    @property
    def flops(self) -> float:
        return 2.0 * self.m * self.n * self.k


_PLAIN, _SCALED = "examples.matmul:matmul", "examples.fp8_matmul:fp8_matmul"
CASES = (
    ProductCase("4096^3", _PLAIN, 4096, 4096, 4096),
    ProductCase("4096^3 as nn.Linear", _PLAIN, 4096, 4096, 4096, turned=True),
    ProductCase("8192^3", _PLAIN, 8192, 8192, 8192),
    ProductCase("1024x12288x1024", _PLAIN, 1024, 12288, 1024),
    ProductCase("4224x4352x4096", _PLAIN, 4224, 4352, 4096),
    ProductCase("64x8192x8192", _PLAIN, 64, 8192, 8192),
    ProductCase("fp8 4096^3", _SCALED, 4096, 4096, 4096),
    ProductCase("fp8 8192^3", _SCALED, 8192, 8192, 8192),
    ProductCase("fp8 64x8192x8192", _SCALED, 64, 8192, 8192),
)


def configs(case: ProductCase, lowered: Lowered) -> dict[str, Config]:
    """The default, and the valid ones of the warp-specialised configs by name."""
    found = {"default": lowered.default}
    depth = 128 // case.args("meta")[0].element_size()
    known = {k.name for k in lowered.space.knobs}
    for name, (m, n, stages, consumers, ping_pong, band, deep) in (_FLAT if case.m <= 64 else _WIDE).items():
        choices: dict[str, Choice] = {
            "schedule": "warp_specialised",
            "block:tile_m": m,
            "block:tile_n": n,
            "block:tile_k": depth * deep,
            "num_stages": stages,
            "consumers": consumers,
            "ping_pong": ping_pong,
            "group": band,
        }
        config = lowered.space.complete({n: c for n, c in choices.items() if n in known})
        if "schedule" in known and lowered.space.is_valid(config):
            found[name] = lowered.space.normalise(config)
    return found


def _lowered(case: ProductCase, device: Target) -> Lowered:
    return case.loaded.lower(case.args("meta"), device)


def _device(is_dry: bool) -> Target:
    return target(DRY_DEVICE) if is_dry else target(identity().device_class)


# ---- building ------------------------------------------------------------------------------------------------


def built(number: int, name: str, device: str) -> dict[str, Any]:
    """What a config's binary takes of the device."""
    case, start = CASES[number], time.monotonic()
    found: dict[str, Any] = {"case": case.name, "config": name, "device": device}
    try:
        lowered = _lowered(case, target(device))
        (binary,) = (build(source, lowered.target) for source in lowered.emit(configs(case, lowered)[name])[:1])
    except TileflowError as error:
        return found | {"status": type(error).__name__, "reason": str(error)}
    taken = binary.resources
    return found | {
        "status": "built",
        "registers": taken.registers,
        "spills": taken.spills,
        "shared": taken.shared,
        "threads": taken.threads,
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
        case = CASES[number]
        _say({"begins": case.name})
        args, lowered = case.args("cuda"), _lowered(case, device)
        known, samplers = configs(case, lowered), dict[str, DeviceSampler]()
        reference = make_reference(case.loaded.reference, args)
        for name in (name for n, name in jobs if n == number):
            _say({"about": [number, name]})
            call = case.loaded.compile(lowered, known[name], "cuda")
            verdict = check_call(call, args, reference, repeats=3)
            if verdict.ok:
                samplers[name] = DeviceSampler(call, args)
            found = {
                "status": "ok" if verdict.ok else verdict.status.value,
                "max_err": verdict.max_err,
                "reason": verdict.reason,
            }
            _say({"job": [number, name], "found": found})
        _say({"about": [number, "torch"]})
        samplers["torch"] = DeviceSampler(case.loaded.reference, args)
        times = _in_turns(samplers)
        for name in samplers:
            found = {
                "us": times[name],
                "tflops": round(case.flops / times[name] / 1e6, 1),
                "of_torch": round(times["torch"] / times[name], 3),
            }
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
        words = [sys.executable, "-m", "tileflow_benchmarks.ratios.products", "--measure", json.dumps(left)]
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
        left = [job for job in left if job[0] > about[0] or (job[0] == about[0] and about[1] not in (job[1], "torch"))]
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


def main() -> int:
    """Exit code 1 where a config was wrong, hung or spilled."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="folder for product_ratio.json")
    parser.add_argument("--only", default="", help="cases whose name holds one of these words, by semicolons")
    parser.add_argument("--seconds", type=float, default=30.0, help="the longest that a config may take")
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
    jobs = [(n, name) for n in numbers for name in configs(CASES[n], _lowered(CASES[n], device))]
    found = _build_all(jobs, device.name)
    options.out.mkdir(parents=True, exist_ok=True)

    def keep(job: tuple[int, str], what: Mapping[str, Any]) -> None:
        entry = found.setdefault(job, {"case": CASES[job[0]].name, "config": job[1], "status": "ok"})
        entry.update(what)
        print(json.dumps(entry), flush=True)
        write()

    def write() -> None:
        rows = [found[key] for key in sorted(found)]
        (options.out / "product_ratio.json").write_text(json.dumps(rows, indent=1))

    write()
    if not options.dry_run:
        _measured([job for job in jobs if found[job]["status"] == "built"], options.seconds, keep)
    return int(any(r["status"] not in ("ok", "built") or r.get("spills") for r in found.values()))


if __name__ == "__main__":
    sys.exit(main())
