"""Attention's gradients beside torch's own gradient of attention, checked and timed in one run.

    python -m tileflow_benchmarks.ratios.gradients --out DIR [--only WORDS] [--seconds N]   on a GPU
    python -m tileflow_benchmarks.ratios.gradients --out DIR --dry-run                     builds only, without one

One kernel has all three gradients in one launch of five products, beside a launch before and behind it; the other one
has a launch for the gradients of keys and values, and one for that of queries, with seven products. Configs of the
first give its launch other turns, rings and schedules than the default. All are built first, several at a time, into
Triton's cache. A process of its own checks and times the configs of a case in turns, in a new order each round. It
reports which config it is about to run, since a protocol fault is a deadlock: that config is recorded with
``bench_timeout``, and another process continues without it.
"""

from __future__ import annotations

import sys
from typing import Any

from tileflow.api import Kernel, load_kernel
from tileflow.config import Choice, Config
from tileflow.lowered import Lowered
from tileflow.measure.check import check_call, make_reference
from tileflow.measure.timing import DeviceSampler
from tileflow.target import Target, target

from ..suite.eager import attention_backward
from .attention import AttentionCase
from .command import Comparison, build_row, measure_each
from .in_turns import medians
from .watched import Job, say_about, say_found

_ROUNDS = 16
_TORCH = "torch"
_SEVEN = "two launches of seven products"
_SEVEN_KERNEL = "examples.attention:attention_backward"
# rows of keys, queries a turn, stages
_TRIED = ((128, 64, 2), (128, 64, 3), (128, 128, 2), (64, 64, 2), (64, 64, 3))


class GradientCase(AttentionCase):
    """One call of attention's gradients, which need five products."""

    kernel = "examples.attention:attention_backward_fused"
    products = 5


CASES = (
    GradientCase("D = 128, causal", 4, 32, 4096, 128, causal=True),
    GradientCase("D = 64, causal", 4, 32, 4096, 64, causal=True),
    GradientCase("D = 128, full", 4, 32, 4096, 128),
    GradientCase("D = 64, full", 4, 32, 4096, 64),
    GradientCase("D = 64, 4000 rows, causal", 4, 32, 4000, 64, causal=True),
    GradientCase("D = 64, 4000 rows, full", 4, 32, 4000, 64),
    GradientCase("D = 128, 4000 rows, causal", 4, 32, 4000, 128, causal=True),
    GradientCase("D = 80, odd length, causal", 2, 16, 2000, 80, causal=True),
    GradientCase("D = 128, 16k rows, causal", 1, 16, 16384, 128, causal=True),
    GradientCase("D = 128, 1024 rows, causal", 8, 32, 1024, 128, causal=True),
)


def configs(lowered: Lowered) -> dict[str, Config]:
    """Return the default and other valid configs of the one launch, by what they differ in."""
    found = {"default": lowered.default}
    for rows, turn, stages in _TRIED:
        choices: dict[str, Choice] = {
            "schedule@1": "warp_specialised", "block:tile_n@1": rows, "block:block_m": turn, "num_stages@1": stages,
        }  # fmt: skip
        known = {k.name for k in lowered.space.knobs}
        if not choices.keys() <= known:
            continue
        config = lowered.space.normalise(lowered.default.with_(choices))
        if lowered.space.is_valid(config) and config not in found.values():
            found[f"{rows} keys, {turn} a turn, {stages} stages"] = config
    return found


def names_of(number: int, device: Target) -> list[str]:
    """Return the names of a case's contenders, torch left out."""
    return [*configs(CASES[number].loaded.lower(CASES[number].args("meta"), device)), _SEVEN]


def contender(number: int, name: str, device: Target) -> tuple[Kernel, Lowered, Config]:
    """Return the kernel of a name, its lowered call, and its config."""
    case = CASES[number]
    kernel = load_kernel(_SEVEN_KERNEL) if name == _SEVEN else case.loaded
    lowered = kernel.lower(case.args("meta"), device)
    return kernel, lowered, lowered.default if name == _SEVEN else configs(lowered)[name]


# ---- building ------------------------------------------------------------------------------------------------


def built(number: int, name: str, device: str) -> dict[str, Any]:
    """Build a config and return what its launches' binaries take of the device."""
    return build_row(CASES[number].name, name, device, lambda: contender(number, name, target(device))[1:])


# ---- measuring, in a process of its own ----------------------------------------------------------------------


def measure(jobs: list[Job]) -> None:
    """Check the configs, then time each case's in turns. Prints a line per result, and before each config that runs."""
    measure_each(jobs, CASES, _measure_case)


def _measure_case(number: int, names: list[str], device: Target) -> None:
    case = CASES[number]
    args, samplers = case.args("cuda"), dict[str, DeviceSampler]()
    reference = make_reference(case.loaded.reference, args)
    for name in names:
        say_about((number, name))
        kernel, lowered, config = contender(number, name, device)
        call = kernel.compile(lowered, config, "cuda")
        verdict = check_call(call, args, reference, repeats=3)
        if verdict.ok:
            samplers[name] = DeviceSampler(call, args)
        found = {
            "status": "ok" if verdict.ok else verdict.status.value,
            "max_err": verdict.max_err,
            "reason": verdict.reason,
        }
        say_found((number, name), found)
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
        names_of,
        built,
        measure,
        frozenset({_TORCH}),
        "gradient_ratio.json",
        seconds=40.0,
        is_right=lambda row: row["status"] in ("ok", "built"),
    ).main()


if __name__ == "__main__":
    sys.exit(main())
