"""Attention's two schedules beside torch's own attention, checked and timed in one run.

It shows what a warp-specialised kernel gains before any default uses it.

    python -m tileflow_benchmarks.ratios.attention --out DIR [--only WORDS] [--seconds N]   on a GPU
    python -m tileflow_benchmarks.ratios.attention --out DIR --dry-run                     builds only, without one

All is built first, on all processors. The configs of a case then run in one process, where they are timed in turns, in
a new order each round. A protocol fault is a deadlock: a process that is silent for too long is killed, its config is
recorded with ``bench_timeout``, and the case is started again without it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.nn.functional as F

from tileflow.api import Kernel, load_kernel
from tileflow.build.compile import build
from tileflow.config import Choice, Config
from tileflow.errors import TileflowError
from tileflow.lowered import Lowered
from tileflow.measure.check import check_call, make_reference
from tileflow.measure.timing import DeviceSampler
from tileflow.target import target

from .command import DRY_DEVICE, build_ahead, chosen, device_of
from .in_turns import medians
from .watched import Job, jobs_of, measure_apart, measuring, say_about, say_begins, say_found

_ROUNDS = 24
_TIMES = "times"
_ROWS, _MORE_ROWS, _KEYS, _STAGES = 128, (192, 256), (64, 128), (2, 3)


@dataclass(frozen=True, slots=True)
class AttentionCase:
    """One call of a kernel of attention: ``products`` of 2 * m * m * d operations a head. ``shared``: the heads of
    queries that share one of keys and values."""

    kernel: ClassVar[str] = "examples.attention:attention"
    products: ClassVar[int] = 2

    name: str
    batch: int
    heads: int
    m: int
    d: int
    causal: bool = False
    shared: int = 1

    def args(self, device: str) -> tuple[Any, ...]:
        """Return the kernel's arguments for the case on ``device``."""
        sizes = {"batch": self.batch, "heads": self.heads, "m": self.m, "d": self.d, "causal": self.causal}
        q, k, v, *others = self.loaded.inputs(device=device, **sizes)
        return (q, *(x[:, : self.heads // self.shared].contiguous() for x in (k, v)), *others)

    @property
    def loaded(self) -> Kernel:
        """The gallery's kernel, imported."""
        return load_kernel(self.kernel)

    @property
    def flops(self) -> float:
        """The floating-point operations that the result needs; a causal call needs half."""
        return 2.0 * self.products * self.batch * self.heads * self.m**2 * self.d * (0.5 if self.causal else 1.0)


CASES = (
    AttentionCase("D = 128, full", 4, 32, 4096, 128),
    AttentionCase("D = 128, causal", 4, 32, 4096, 128, causal=True),
    AttentionCase("D = 128, 16k keys", 1, 16, 16384, 128),
    AttentionCase("D = 64, full", 4, 48, 8192, 64),
    AttentionCase("D = 64, causal", 4, 48, 8192, 64, causal=True),
    AttentionCase("D = 64, 4000 rows, causal", 4, 32, 4000, 64, causal=True),
    AttentionCase("D = 64, 4096 rows, causal", 4, 32, 4096, 64, causal=True),
    AttentionCase("D = 64, 2048 rows, causal", 4, 32, 2048, 64, causal=True),
    AttentionCase("D = 128, 2048 rows, causal", 4, 32, 2048, 128, causal=True),
    AttentionCase("D = 128, 1024 rows, causal", 4, 32, 1024, 128, causal=True),
    AttentionCase("D = 32, causal", 4, 32, 4096, 32, causal=True),
    AttentionCase("D = 32, full", 4, 32, 4096, 32),
    AttentionCase("D = 80, odd length, causal", 2, 16, 4000, 80, causal=True),
    AttentionCase("D = 96, full", 2, 16, 4096, 96),
    AttentionCase("D = 192, causal", 2, 16, 4096, 192, causal=True),
    AttentionCase("D = 256, causal", 2, 16, 4096, 256, causal=True),
)


def configs(lowered: Lowered) -> dict[str, Config]:
    """Return the default, every valid warp-specialised config of two groups, and of more without ping-pong, by what it
    differs in."""
    found = {"default": lowered.default}
    wanted = [(_ROWS, k, s, p, w) for k in _KEYS for s in _STAGES for p in (True, False) for w in (0, 1)]
    wanted += [(r, k, s, False, w) for r in _MORE_ROWS for k in _KEYS for s in _STAGES for w in (0, 1)]
    for rows, keys, stages, ping_pong, walks in wanted:
        choices: dict[str, Choice] = {
            "schedule": "warp_specialised",
            "block:tile_m": rows,
            "block:block_n": keys,
            "num_stages": stages,
            "ping_pong": ping_pong,
            "persistent": walks,
            "descending": "descending" in lowered.default.to_dict(),
        }
        known = {k.name for k in lowered.space.knobs}
        config = lowered.space.complete({n: c for n, c in choices.items() if n in known})
        if "schedule" in known and lowered.space.is_valid(config):
            name = f"{rows} rows, " * (rows != _ROWS) + f"{keys} keys, {stages} stages"
            name += ", ping-pong" * ping_pong + ", walking" * walks
            found[name] = lowered.space.normalise(config)
    return found


def built(lowered: Lowered, config: Config) -> dict[str, Any]:
    """Build the config and return what its binary takes of the device."""
    (binary,) = (build(source, lowered.target) for source in lowered.emit(config)[:1])
    taken = binary.resources
    return {"registers": taken.registers, "spills": taken.spills, "shared": taken.shared, "threads": taken.threads}


def checked(case: AttentionCase, lowered: Lowered, config: Config) -> tuple[dict[str, Any], Callable[..., Any] | None]:
    """Check a config's result. Returns the figures, and the call where the result is right."""
    args = case.args("cuda")
    call = case.loaded.compile(lowered, config, "cuda")
    verdict = check_call(call, args, make_reference(case.loaded.reference, args), repeats=3)
    if not verdict.ok:
        return {"status": verdict.status.value, "reason": verdict.reason}, None
    return {"status": "ok", "max_err": verdict.max_err}, call


def timed(case: AttentionCase, calls: Mapping[str, Callable[..., Any]]) -> dict[str, dict[str, Any]]:
    """Time each config's call beside torch's and the default's, in turns."""
    args = case.args("cuda")
    samplers = {name: DeviceSampler(run, args) for name, run in {**calls, "sdpa": sdpa}.items()}
    us = medians(samplers, _ROUNDS)
    return {
        name: {
            "us": us[name],
            "tflops": round(case.flops / us[name] / 1e6, 1),
            "of_sdpa": round(us["sdpa"] / us[name], 4),
            "of_default": round(us["default"] / us[name], 4) if "default" in us else None,
        }
        for name in us
    }


def sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, with_lse: bool) -> torch.Tensor:
    """Torch's own attention, by the arguments of ours."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.size(1) != k.size(1))


def built_ahead(number: int, name: str, device: str) -> dict[str, Any]:
    """Build one config of one case for a device class in this process; Triton's cache keeps it."""
    lowered = CASES[number].loaded.lower(CASES[number].args("meta"), target(device))
    found = {"case": CASES[number].name, "config": name, "device": device}
    try:
        return found | {"status": "built"} | built(lowered, configs(lowered)[name])
    except TileflowError as error:
        return found | {"status": type(error).__name__, "reason": str(error)}


def measure(jobs: list[Job]) -> None:
    """Check configs of one case in this process, then time them in turns."""
    number = jobs[0][0]
    case = CASES[number]
    say_begins(case.name)
    lowered = case.loaded.lower(case.args("meta"), device_of(is_dry=False))
    known = configs(lowered)
    calls: dict[str, Callable[..., Any]] = {}
    for _, name in jobs:
        say_about((number, name))
        try:
            said, call = checked(case, lowered, known[name])
        except TileflowError as error:
            said, call = {"status": type(error).__name__, "reason": str(error)}, None
        say_found((number, name), said)
        if call is not None:
            calls[name] = call
    say_about((number, _TIMES))
    for name, times in timed(case, calls).items():
        say_found((number, name), times)


def _measured(number: int, names: Iterable[str], seconds: float) -> dict[str, dict[str, Any]]:
    """Measure the configs of a case in a child, restarted without a config that hung or crashed."""
    found: dict[str, dict[str, Any]] = {}

    def keep(job: Job, what: Mapping[str, Any]) -> None:
        print(CASES[number].name, "|", job[1], "|", json.dumps(what), file=sys.stderr, flush=True)
        found.setdefault(job[1], {"status": "ok"}).update(what)

    command = measuring("tileflow_benchmarks.ratios.attention")
    jobs = [(number, name) for name in names]
    measure_apart(command, jobs, keep, seconds=seconds, of_all=frozenset({_TIMES}))
    return found


def main() -> int:
    """Run the comparison. Exit code 1 where a config was wrong, hung or spilled."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="folder for attention_ratio.json")
    parser.add_argument("--only", default="", help="cases whose name holds one of these words, by semicolons")
    parser.add_argument("--seconds", type=float, default=90.0, help="the longest that a config may take")
    parser.add_argument("--dry-run", action="store_true", help=f"build for {DRY_DEVICE}; needs no GPU")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(jobs_of(options.measure))
        return 0
    if options.out is None:
        parser.error("--out is needed")
    device = device_of(options.dry_run)
    numbers = chosen(CASES, options.only)
    jobs = [(n, name) for n in numbers for name in configs(CASES[n].loaded.lower(CASES[n].args("meta"), device))]
    ahead = build_ahead(built_ahead, jobs, device.name)
    found = {CASES[number].name: {name: ahead[n, name] for n, name in jobs if n == number} for number in numbers}
    options.out.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        case = CASES[number].name
        if not options.dry_run:
            measured = _measured(number, found[case], options.seconds)
            found[case] = {name: found[case].get(name, {}) | said for name, said in measured.items()}
        for name, said in found[case].items():
            print(case, "|", name, "|", json.dumps(said), flush=True)
        (options.out / "attention_ratio.json").write_text(json.dumps({"device": device.name, "cases": found}, indent=1))
    every = [said for of_case in found.values() for said in of_case.values()]
    return int(any(said["status"] not in ("ok", "built") or said.get("spills") for said in every))


if __name__ == "__main__":
    sys.exit(main())
