"""What the knob ``ctas`` is worth on a GPU: long rows that blocks of a cluster hold, beside the same kernel without.

    python -m tileflow_benchmarks.clusters.knob --out DIR              on a GPU with clusters
    python -m tileflow_benchmarks.clusters.knob --only softmax         those cases alone
    python -m tileflow_benchmarks.clusters.knob --dry-run              compiles only, without a GPU

A case is a kernel and a shape. Each config is checked against the reference first, several times, since races need not
show at once. What was right is timed in turns: the default without clusters, clusters of several sizes, the reference
as it stands and by ``torch.compile``. The ratio is the time without clusters over the best one with them; a star marks
what the default config is. Cases that the time does not suffice for are named and left.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tileflow.api import Kernel, load_kernel
from tileflow.build.compile import build
from tileflow.config import Choice, Config
from tileflow.lowered import Lowered
from tileflow.measure.check import check_call, make_reference
from tileflow.target import Target

from ..ratios.command import device_of
from ..ratios.in_turns import medians

SOFTMAX, RMS, LAYER = "examples.softmax:softmax", "examples.rms_norm:rms_norm", "examples.layer_norm:layer_norm"
LOSS = "tileflow_benchmarks.clusters.soft_labels:soft_cross_entropy"
# what the default depends on first: the time may not suffice for all
CASES = (
    (SOFTMAX, 4096, 131072, "float32"),
    (SOFTMAX, 4096, 65536, "bfloat16"),
    (SOFTMAX, 4096, 100003, "float32"),
    (RMS, 4096, 131072, "float32"),
    (RMS, 4096, 65536, "bfloat16"),
    (LAYER, 4096, 65536, "bfloat16"),
    (LAYER, 4096, 131072, "float32"),
    (LOSS, 2048, 131072, "float32"),
    (LOSS, 4096, 65536, "bfloat16"),
    (SOFTMAX, 8192, 65536, "float32"),
    (SOFTMAX, 8192, 131072, "bfloat16"),
    (RMS, 4096, 100003, "float32"),
    (LAYER, 8192, 32768, "float32"),
    (SOFTMAX, 4096, 100003, "bfloat16"),
)
CLUSTERS = ((8, 8), (4, 16))  # blocks, warps a block
PLAIN = "ctas 1"
LIMIT_S = 75  # after which no case begins
CHECK_ROWS = 300  # more than two waves of clusters
REPEATS = 4
ROUNDS = 9


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel on a matrix of rows."""

    kernel: str
    m: int
    n: int
    dtype: str

    @property
    def name(self) -> str:
        """The case in words."""
        return f"{self.kernel.partition(':')[2]} {self.m}x{self.n} {self.dtype}"

    def args(self, kernel: Kernel, device: str, m: int) -> tuple[Any, ...]:
        """Arguments of so many rows."""
        return kernel.inputs(device=device, m=m, n=self.n, dtype=getattr(torch, self.dtype))


def configs(lowered: Lowered) -> Iterator[tuple[str, Config]]:
    """What is compared, by name: the default without clusters, and one row a program with each of CLUSTERS."""
    yield PLAIN, lowered.default_pipelined
    rows: dict[str, Choice] = {k.name: 0 for k in lowered.space.knobs if k.role == "reduction"}
    rows |= {k.name: 1 for k in lowered.space.knobs if k.role == "block"}
    for blocks, warps in CLUSTERS:
        config = lowered.space.complete({**rows, "ctas": blocks, "num_warps": warps})
        if lowered.space.is_valid(config):
            yield f"ctas {blocks} of {warps} warps", config


def chosen(lowered: Lowered) -> str:
    """The name of the default config, itself where it is none of those compared."""
    names = {config: name for name, config in configs(lowered)}
    return names.get(lowered.default, str(lowered.default))


def compiled(case: Case, device: Target) -> Iterator[str]:
    """Compile a case, and say what its blocks take."""
    kernel = load_kernel(case.kernel)
    lowered = kernel.lower(case.args(kernel, "meta", case.m), device)
    for name, config in configs(lowered):
        star = "*" if name == chosen(lowered) else ""
        for source in lowered.emit(config):
            taken = build(source, device).resources
            yield f"{name}{star}: {taken.registers} registers, {taken.spills} bytes spilled"


def measured(case: Case, device: Target) -> dict[str, Any]:
    """Check a case, then time it: microseconds by config, ``torch`` and ``torch.compile``."""
    from tileflow.measure.timing import DeviceSampler

    kernel = load_kernel(case.kernel)
    few = case.args(kernel, "cuda", CHECK_ROWS)
    expected, wrong = make_reference(kernel.reference, few), {}
    lowered = kernel.lower(few, device)
    for name, config in configs(lowered):
        verdict = check_call(kernel.compile(lowered, config, "cuda"), few, expected, repeats=REPEATS)
        if not verdict.ok:
            wrong[name] = verdict.reason
    args = case.args(kernel, "cuda", case.m)
    lowered = kernel.lower(args, device)
    calls: dict[str, Callable[..., Any]] = {
        name: kernel.compile(lowered, config, "cuda") for name, config in configs(lowered) if name not in wrong
    }
    torch.compiler.reset()  # or it gives up compiling after eight cases, and runs torch
    calls |= {"torch": kernel.reference, "torch.compile": torch.compile(kernel.reference, dynamic=False)}
    us = medians({name: DeviceSampler(call, args) for name, call in calls.items()}, ROUNDS)
    return {"case": case.name, "default": chosen(lowered), "wrong": wrong, "us": us}


def line(found: dict[str, Any]) -> str:
    """One case's row."""
    us = found["us"]
    times = "  ".join(f"{name}{'*' if name == found['default'] else ''}: {took:.0f}" for name, took in us.items())
    held = [took for name, took in us.items() if name.startswith("ctas") and name != PLAIN]
    ratio = f"  {us[PLAIN] / min(held):.2f}x" if held and PLAIN in us else ""
    return f"{found['case']}, us  {times}{ratio}  {found['wrong'] or 'all right'}"


def measure_all(wanted: list[Case], device: Target, limit_s: float) -> dict[str, Any]:
    """Measure case after case for so many seconds; returns their rows, and the names of those left."""
    begun, found, left = time.monotonic(), [], []
    for case in wanted:
        if time.monotonic() - begun > limit_s:
            left.append(case.name)
            continue
        found.append(measured(case, device))
        print(line(found[-1]), flush=True)
        torch.cuda.empty_cache()
    if left:
        print(f"no time for: {', '.join(left)} (--limit)", flush=True)
    return {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "cases": found, "left": left}


def main() -> int:
    """Check and time every case. Exit code 1 where one is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default="", help="part of the names of the cases")
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds after which no case begins")
    parser.add_argument("--dry-run", action="store_true")
    asked = parser.parse_args()
    device = device_of(asked.dry_run)
    wanted = [case for case in (Case(*each) for each in CASES) if asked.only in case.name]
    if asked.dry_run:
        for case in wanted:
            for text in compiled(case, device):
                print(f"{case.name}, {text}", flush=True)
        return 0
    result = measure_all(wanted, device, asked.limit)
    if asked.out is not None:
        asked.out.mkdir(parents=True, exist_ok=True)
        (asked.out / "knob.json").write_text(json.dumps(result, indent=1))
    return 1 if any(row["wrong"] for row in result["cases"]) else 0


if __name__ == "__main__":
    sys.exit(main())
