"""Attention's two schedules beside torch's own attention, checked and timed in one run: what a warp-specialised kernel
is worth before any default takes it.

    python -m tileflow_benchmarks.ratios.attention --out DIR [--only WORDS] [--seconds N]   on a GPU
    python -m tileflow_benchmarks.ratios.attention --out DIR --dry-run                     builds only, without one

All is built first, on all processors. The configs of a case then run in one process, since what is compared is timed in
turns, in a new order each round. A protocol fault is a deadlock: a process that says nothing for so long is killed, its
config named beside ``bench_timeout``, and the case begun anew without it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F

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
_ROUNDS = 24
_KEYS, _STAGES = (64, 128), (2, 3)


@dataclass(frozen=True, slots=True)
class AttentionCase:
    """One call of attention."""

    name: str
    batch: int
    heads: int
    m: int
    d: int
    causal: bool = False

    def args(self, device: str) -> tuple[Any, ...]:
        sizes = {"batch": self.batch, "heads": self.heads, "m": self.m, "d": self.d, "causal": self.causal}
        return attention().inputs(device=device, **sizes)

    @property
    def flops(self) -> float:
        """Of both products; a causal call needs half."""
        return 4.0 * self.batch * self.heads * self.m**2 * self.d * (0.5 if self.causal else 1.0)


def attention() -> Kernel:
    return load_kernel("examples.attention:attention")


CASES = (
    AttentionCase("D = 128, full", 4, 32, 4096, 128),
    AttentionCase("D = 128, causal", 4, 32, 4096, 128, causal=True),
    AttentionCase("D = 128, 16k keys", 1, 16, 16384, 128),
    AttentionCase("D = 64, full", 4, 48, 8192, 64),
    AttentionCase("D = 64, causal", 4, 48, 8192, 64, causal=True),
    AttentionCase("D = 80, odd length, causal", 2, 16, 4000, 80, causal=True),
    AttentionCase("D = 96, full", 2, 16, 4096, 96),
    AttentionCase("D = 192, causal", 2, 16, 4096, 192, causal=True),
    AttentionCase("D = 256, causal", 2, 16, 4096, 256, causal=True),
)


def configs(lowered: Lowered) -> dict[str, Config]:
    """The default, and every warp-specialised config of two groups that is valid, by what it differs in."""
    found = {"default": lowered.default}
    wanted = [(k, s, p, w) for k in _KEYS for s in _STAGES for p in (True, False) for w in (0, 1)]
    for keys, stages, ping_pong, walks in wanted:
        choices: dict[str, Choice] = {
            "schedule": "warp_specialised",
            "block:tile_m": 128,
            "block:block_n": keys,
            "num_stages": stages,
            "ping_pong": ping_pong,
            "persistent": walks,
            "descending": "descending" in lowered.default.to_dict(),
        }
        known = {k.name for k in lowered.space.knobs}
        config = lowered.space.complete({n: c for n, c in choices.items() if n in known})
        if "schedule" in known and lowered.space.is_valid(config):
            name = (
                f"{keys} keys, {stages} stages" + (", ping-pong" if ping_pong else "") + (", walking" if walks else "")
            )
            found[name] = lowered.space.normalise(config)
    return found


def built(lowered: Lowered, config: Config) -> dict[str, Any]:
    """What a config's binary takes of the device."""
    (binary,) = (build(source, lowered.target) for source in lowered.emit(config)[:1])
    taken = binary.resources
    return {"registers": taken.registers, "spills": taken.spills, "shared": taken.shared, "threads": taken.threads}


def checked(case: AttentionCase, lowered: Lowered, config: Config) -> tuple[dict[str, Any], Callable[..., Any] | None]:
    """What a config's result is worth, and the call where it is right."""
    args = case.args("cuda")
    call = attention().compile(lowered, config, "cuda")
    verdict = check_call(call, args, make_reference(attention().reference, args), repeats=3)
    if not verdict.ok:
        return {"status": verdict.status.value, "reason": verdict.reason}, None
    return {"status": "ok", "max_err": verdict.max_err}, call


def timed(case: AttentionCase, calls: Mapping[str, Callable[..., Any]]) -> dict[str, dict[str, Any]]:
    """The time of each config's call beside torch's and the default's, all in turns."""
    args = case.args("cuda")
    samplers = {name: DeviceSampler(run, args) for name, run in {**calls, "sdpa": _sdpa}.items()}
    us = _in_turns(samplers)
    return {
        name: {
            "us": us[name],
            "tflops": round(case.flops / us[name] / 1e6, 1),
            "of_sdpa": round(us["sdpa"] / us[name], 4),
            "of_default": round(us["default"] / us[name], 4) if "default" in us else None,
        }
        for name in us
    }


def _sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, with_lse: bool) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal)


def _in_turns(samplers: Mapping[str, DeviceSampler]) -> dict[str, float]:
    """The median time of each, in microseconds."""
    found: dict[str, list[float]] = {name: [] for name in samplers}
    shuffled = random.Random(0)
    for _ in range(_ROUNDS):
        order = shuffled.sample(list(samplers), len(samplers))
        for name, us in zip(order, sample_in_turn([samplers[n] for n in order]), strict=True):
            found[name].append(us)
    return {name: round(median(times), 2) for name, times in found.items()}


def built_ahead(item: tuple[int, str, str]) -> dict[str, Any]:
    """One config of one case built for a device class, in this process; Triton's cache keeps it."""
    number, name, device = item
    lowered = attention().lower(CASES[number].args("meta"), target(device))
    found = {"case": CASES[number].name, "config": name, "device": device}
    try:
        return found | {"status": "built"} | built(lowered, configs(lowered)[name])
    except TileflowError as error:
        return found | {"status": type(error).__name__, "reason": str(error)}


def in_this_process(number: int, without: frozenset[str]) -> None:
    """All configs of a case but some: a line when one begins and one when its result is known, times at the end."""
    case = CASES[number]
    lowered = attention().lower(case.args("meta"), _device())
    calls: dict[str, Callable[..., Any]] = {}
    for name, config in configs(lowered).items():
        if name in without:
            continue
        print(json.dumps({"begins": name}), flush=True)
        try:
            said, call = checked(case, lowered, config)
        except TileflowError as error:
            said, call = {"status": type(error).__name__, "reason": str(error)}, None
        print(json.dumps({"config": name, **said}), flush=True)
        if call is not None:
            calls[name] = call
    print(json.dumps({"begins": "times"}), flush=True)
    print(json.dumps({"times": timed(case, calls)}), flush=True)


def _device() -> Target:
    return target(identity().device_class)


def in_a_child(number: int, seconds: float) -> dict[str, dict[str, Any]]:
    """The same in a process of its own, begun anew without the config that hung or crashed."""
    found: dict[str, dict[str, Any]] = {}
    while True:
        lost = [name for name, said in found.items() if said["status"] in ("bench_timeout", "crashed")]
        words = [sys.executable, "-m", "tileflow_benchmarks.ratios.attention", "--one", str(number), *lost]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
            begun, why = _listen(child, seconds, found)
        if begun is None or begun == "times" or begun in lost:
            return found
        found[begun] = {"status": why}


def _listen(child: subprocess.Popen[str], seconds: float, found: dict[str, dict[str, Any]]) -> tuple[str | None, str]:
    """Take in what a child says until it ends, or says nothing for so long. Returns what it had begun and not ended,
    and how it went."""
    assert child.stdout is not None
    begun: str | None = None
    while True:
        timer = threading.Timer(seconds, child.kill)
        timer.start()
        line = child.stdout.readline()
        timer.cancel()
        if not line:
            return begun, "bench_timeout" if child.wait() == -signal.SIGKILL else "crashed"
        print(line, end="", file=sys.stderr, flush=True)
        said = json.loads(line) if line.startswith("{") else {}
        if "begins" in said:
            begun = said["begins"]
        elif "config" in said:
            found.setdefault(said["config"], {}).update(said)
        for name, times in said.get("times", {}).items():
            found.setdefault(name, {"status": "ok"}).update(times)
            begun = None


def main() -> int:
    """Exit code 1 where a config was wrong, hung or spilled."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="folder for attention_ratio.json")
    parser.add_argument("--only", default="", help="cases whose name holds one of these words, by semicolons")
    parser.add_argument("--seconds", type=float, default=90.0, help="the longest that a config may take")
    parser.add_argument("--dry-run", action="store_true", help=f"build for {DRY_DEVICE}; needs no GPU")
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        in_this_process(int(options.one[0]), frozenset(options.one[1:]))
        return 0
    if options.out is None:
        parser.error("--out is needed")
    device = target(DRY_DEVICE) if options.dry_run else _device()
    words = [w for w in options.only.split(";") if w]
    numbers = [n for n, case in enumerate(CASES) if not words or any(w in case.name for w in words)]
    found = _ahead(numbers, device)
    options.out.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        if not options.dry_run:
            measured = in_a_child(number, options.seconds)
            case = CASES[number].name
            found[case] = {name: found[case].get(name, {}) | said for name, said in measured.items()}
        for name, said in found[CASES[number].name].items():
            print(CASES[number].name, "|", name, "|", json.dumps(said), flush=True)
        (options.out / "attention_ratio.json").write_text(json.dumps({"device": device.name, "cases": found}, indent=1))
    every = [said for of_case in found.values() for said in of_case.values()]
    return int(any(said["status"] not in ("ok", "built") or said.get("spills") for said in every))


def _ahead(numbers: Sequence[int], device: Target) -> dict[str, dict[str, dict[str, Any]]]:
    """Every config of these cases built, as many at once as there are processors."""
    items = [
        (number, name, device.name)
        for number in numbers
        for name in configs(attention().lower(CASES[number].args("meta"), device))
    ]
    found: dict[str, dict[str, dict[str, Any]]] = {CASES[number].name: {} for number in numbers}
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), get_context("spawn")) as pool:
        for said in pool.map(built_ahead, items):
            found[said["case"]][said["config"]] = said
    return found


if __name__ == "__main__":
    sys.exit(main())
