"""The schedules of attention's gradients beside torch's own gradient of attention, checked and timed in one run.

It shows what the warp-specialised kernels gain before any default uses them.

    python -m tileflow_benchmarks.ratios.gradients --out DIR [--only WORDS] [--seconds N]   on a GPU
    python -m tileflow_benchmarks.ratios.gradients --out DIR --dry-run                     builds only, without one

A call has three launches: what both others read, the gradients of keys and values, that of queries. Each config gives
one of the last two another schedule than the default, so that its time shows that launch's gain. The best of each are
then timed together. All configs are built first, several at a time, into Triton's cache. A process of its own checks
and times the configs of a case in turns, in a new order each round. It reports which config it is about to run, since a
protocol fault is a deadlock: that config is recorded with ``bench_timeout``, and another process continues without it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

import torch

from tileflow.build.compile import build
from tileflow.config import Config
from tileflow.errors import TileflowError
from tileflow.lowered import Lowered
from tileflow.measure.check import check_call, make_reference
from tileflow.measure.timing import DeviceSampler
from tileflow.space.knobs import FULL_BLOCKS
from tileflow.target import Target, target

from ..suite.eager import attention_backward
from .attention import AttentionCase
from .command import Comparison, device_of
from .in_turns import medians
from .watched import Job, say_about, say_begins, say_found

_ROUNDS = 16
_TORCH = "torch"
_MASKED = "default, masks in each turn"
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
    (2, 192, 64, 2),
    (2, 192, 64, 3),
)


class GradientCase(AttentionCase):
    """One call of attention's gradients, which need five products."""

    kernel = "examples.attention:attention_backward"
    products = 5


CASES = (
    GradientCase("D = 128, causal", 4, 32, 4096, 128, causal=True),
    GradientCase("D = 64, causal", 4, 32, 4096, 64, causal=True),
    GradientCase("D = 128, full", 4, 32, 4096, 128),
    GradientCase("D = 64, 4000 rows, causal", 4, 32, 4000, 64, causal=True),
    GradientCase("D = 64, 4000 rows, full", 4, 32, 4000, 64),
    GradientCase("D = 128, 4000 rows, causal", 4, 32, 4000, 128, causal=True),
    GradientCase("D = 80, odd length, causal", 2, 16, 2000, 80, causal=True),
)


def configs(lowered: Lowered) -> dict[str, Config]:
    """Return the default and the valid configs that warp-specialise one launch, by what they differ in."""
    found = {"default": lowered.default}
    known = {k.name for k in lowered.space.knobs}
    branches = [name for name, choice in lowered.default.items if FULL_BLOCKS.matches(name) and choice]
    if branches:
        found[_MASKED] = lowered.space.normalise(lowered.default.with_(dict.fromkeys(branches, False)))
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
    """Return the fastest configs of both launches combined, where there are two."""
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
    """Build a config and return what its launches' binaries take of the device."""
    start, found = time.monotonic(), {"case": CASES[number].name, "config": name, "device": device}
    try:
        lowered = CASES[number].loaded.lower(CASES[number].args("meta"), target(device))
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


# ---- measuring, in a process of its own ----------------------------------------------------------------------


def measure(jobs: list[Job]) -> None:
    """Check the configs, then time each case's in turns. Prints a line per result, and before each config that runs."""
    say_begins("device")
    device = device_of(is_dry=False)
    for number in dict.fromkeys(n for n, _ in jobs):
        say_begins(CASES[number].name)
        _measure_case(number, [name for n, name in jobs if n == number], device)
        torch.cuda.empty_cache()


def _measure_case(number: int, names: list[str], device: Target) -> None:
    case = CASES[number]
    args, lowered = case.args("cuda"), case.loaded.lower(case.args("meta"), device)
    reference = make_reference(case.loaded.reference, args)
    known, samplers = configs(lowered), dict[str, DeviceSampler]()

    def add(name: str, config: Config) -> None:
        say_about((number, name))
        call = case.loaded.compile(lowered, config, "cuda")
        verdict = check_call(call, args, reference, repeats=3)
        if verdict.ok:
            samplers[name] = DeviceSampler(call, args)
        found = {
            "status": "ok" if verdict.ok else verdict.status.value,
            "max_err": verdict.max_err,
            "reason": verdict.reason,
        }
        say_found((number, name), found)

    for name in names:
        add(name, known[name])
    both = _both(lowered, medians(samplers, _ROUNDS)) if samplers else None
    if both is not None:
        add(_BOTH, both)
    say_about((number, _TORCH))
    torchs = attention_backward(args)
    samplers[_TORCH] = DeviceSampler(torchs.call, args, capture=torchs.capture)
    times = medians(samplers, _ROUNDS)
    for name, us in times.items():
        found = {"us": us, "tflops": round(case.flops / us / 1e6, 1), "of_torch": round(times[_TORCH] / us, 3)}
        if "default" in times:
            found["of_default"] = round(times["default"] / us, 3)
        say_found((number, name), found)


def main() -> int:
    """Run the comparison. Exit code 1 where a config was wrong, hung or could not be built."""
    return Comparison(
        "tileflow_benchmarks.ratios.gradients",
        __doc__,
        CASES,
        lambda number, device: configs(CASES[number].loaded.lower(CASES[number].args("meta"), device)),
        built,
        measure,
        frozenset({_TORCH, _BOTH}),
        "gradient_ratio.json",
        seconds=40.0,
        is_right=lambda row: row["status"] in ("ok", "built"),
    ).main()


if __name__ == "__main__":
    sys.exit(main())
