"""Attention's two schedules beside torch's own attention, checked and timed in one run: what a warp-specialised kernel
is worth before any default takes it.

    python -m tileflow_experiments.attention_ratio --out DIR [--only WORDS] [--seconds N]   on a GPU
    python -m tileflow_experiments.attention_ratio --out DIR --dry-run                     builds only, without one

Each config runs in a process of its own with a time limit, since a protocol fault is a deadlock: the config is then
named beside ``bench_timeout``. Within a process all that is compared is timed in turns, in a new order each round.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
class Case:
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
    Case("D = 128, full", 4, 32, 4096, 128),
    Case("D = 128, causal", 4, 32, 4096, 128, causal=True),
    Case("D = 128, 16k keys", 1, 16, 16384, 128),
    Case("D = 64, full", 4, 48, 8192, 64),
    Case("D = 64, causal", 4, 48, 8192, 64, causal=True),
    Case("D = 80, odd length, causal", 2, 16, 4000, 80, causal=True),
    Case("D = 96, full", 2, 16, 4096, 96),
    Case("D = 192, causal", 2, 16, 4096, 192, causal=True),
    Case("D = 256, causal", 2, 16, 4096, 256, causal=True),
)


def configs(lowered: Lowered) -> dict[str, Config]:
    """The default, and every warp-specialised config of two groups that is valid, by what it differs in."""
    found = {"default": lowered.default}
    wanted = [(k, s, p) for k in _KEYS for s in _STAGES for p in (True, False)]
    for keys, stages, ping_pong in wanted:
        choices: dict[str, Choice] = {
            "schedule": "warp_specialised", "block:tile_m": 128, "block:block_n": keys, "num_stages": stages,
            "ping_pong": ping_pong, "descending": "descending" in lowered.default.to_dict(),
        }  # fmt: skip
        known = {k.name for k in lowered.space.knobs}
        config = lowered.space.complete({n: c for n, c in choices.items() if n in known})
        if "schedule" in known and lowered.space.is_valid(config):
            name = f"{keys} keys, {stages} stages" + (", ping-pong" if ping_pong else "")
            found[name] = lowered.space.normalise(config)
    return found


def built(lowered: Lowered, config: Config) -> dict[str, Any]:
    """What a config's binary takes of the device."""
    (binary,) = (build(source, lowered.target) for source in lowered.emit(config)[:1])
    taken = binary.resources
    return {"registers": taken.registers, "spills": taken.spills, "shared": taken.shared, "threads": taken.threads}


def measured(case: Case, lowered: Lowered, config: Config) -> dict[str, Any]:
    """A config's result checked, then its time beside the default's and torch's."""
    args = case.args("cuda")
    call = attention().compile(lowered, config, "cuda")
    verdict = check_call(call, args, make_reference(attention().reference, args), repeats=3)
    if not verdict.ok:
        return {"status": verdict.status.value, "reason": verdict.reason}
    default = attention().compile(lowered, lowered.default, "cuda")
    calls: Mapping[str, Callable[..., Any]] = {"ours": call, "default": default, "sdpa": _sdpa}
    samplers = {name: DeviceSampler(run, args) for name, run in calls.items()}
    times = _in_turns(samplers)
    return {"status": "ok", "max_err": verdict.max_err, "us": times,
            "tflops": {name: case.flops / us / 1e6 for name, us in times.items()},
            "of_sdpa": times["sdpa"] / times["ours"], "of_default": times["default"] / times["ours"]}  # fmt: skip


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


def one(number: int, name: str, is_dry: bool) -> dict[str, Any]:
    """One config of one case, in this process."""
    case = CASES[number]
    device = target(DRY_DEVICE) if is_dry else _device()
    lowered = attention().lower(case.args("meta"), device)
    config = configs(lowered)[name]
    found = {"case": case.name, "config": name, "device": device.name}
    try:
        found |= built(lowered, config)
        return found | ({"status": "built"} if is_dry else measured(case, lowered, config))
    except TileflowError as error:
        return found | {"status": type(error).__name__, "reason": str(error)}


def _device() -> Target:
    return target(identity().device_class)


def _child(number: int, name: str, options: argparse.Namespace) -> dict[str, Any]:
    """The same in a process of its own, which may hang."""
    words = [sys.executable, "-m", "tileflow_experiments.attention_ratio", "--one", str(number), name]
    words += ["--dry-run"] if options.dry_run else []
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=options.seconds, check=False)
    except subprocess.TimeoutExpired:
        return {"case": CASES[number].name, "config": name, "status": "bench_timeout"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        return {"case": CASES[number].name, "config": name, "status": "crashed", "reason": done.stderr[-600:]}
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def main() -> int:
    """Exit code 1 where a config was wrong, hung or spilled."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="folder for attention_ratio.json")
    parser.add_argument("--only", default="", help="cases whose name holds one of these words, by semicolons")
    parser.add_argument("--seconds", type=float, default=90.0, help="the longest that a config may take")
    parser.add_argument("--dry-run", action="store_true", help=f"build for {DRY_DEVICE}; needs no GPU")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(int(options.one[0]), options.one[1], options.dry_run)))
        return 0
    if options.out is None:
        parser.error("--out is needed")
    device = target(DRY_DEVICE) if options.dry_run else _device()
    words = [w for w in options.only.split(";") if w]
    found: list[dict[str, Any]] = []
    options.out.mkdir(parents=True, exist_ok=True)
    for number, case in enumerate(CASES):
        if words and not any(w in case.name for w in words):
            continue
        for name in configs(attention().lower(case.args("meta"), device)):
            found.append(_child(number, name, options))
            print(json.dumps(found[-1]), flush=True)
            (options.out / "attention_ratio.json").write_text(json.dumps(found, indent=1))
    return int(any(r["status"] not in ("ok", "built") or r.get("spills") for r in found))


if __name__ == "__main__":
    sys.exit(main())
